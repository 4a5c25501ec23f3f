"""Settings that an index could choose for itself: klsa's dimensions and retrieval by pseudo-queries from its own documents.

    python -m tools.papers.klsa_settings [--collections FOLDER] [--scratch FOLDER]

A pseudo-query is made from a document whose terms are split into two halves by chance: terms of one half are the query, and the
ten documents that BM25 finds best for the other half are taken for relevant. The settings that pseudo-queries prefer are
compared with what the collection's topics and known items prefer; the section of docs/reproductions/klsa.md is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kernelsearch
from kernelsearch.core.measures import average_precision
from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.klsa.reranker import KernelLSA
from tools import ROOT
from tools.data.datasets import DATASETS, add_collections_option, judged_topics
from tools.data.made_topics import known_items, read_corpus
from tools.reproduce.pages import markdown_table

COLLECTIONS = ("cran", "cacm", "cisi", "npl", "nfcorpus", "scifact")
#: Dimensions (None: all that were fitted) and documents to retrieve.
DIMS, RETRIEVE = (50, 100, 200, None), (0, 200)
PSEUDO, TERMS, GOLD, HITS = 100, 6, 10, 1000
KINDS = ("topics", "known items", "pseudo-queries")

#: Queries, and the rows of the documents that are relevant to each.
Set = tuple[list[Query], list[NDArray[np.integer]]]


def pseudo_queries(index: kernelsearch.Index, seed: int = 0) -> Set:
    """PSEUDO queries of strong terms from one half of a document's terms, and the GOLD best documents for the other half.

    Documents of `index` and their halves are drawn by `seed`.
    """
    forward, chance = index.forward, np.random.default_rng(seed)
    frequency = np.asarray(forward.df)
    idf = np.log(1 + (len(forward.live_docs) - frequency + 0.5) / (frequency + 0.5))
    asked: list[Query] = []
    hidden: list[Query] = []

    def query(terms: NDArray[np.integer], weights: NDArray[np.floating]) -> Query:
        return Query("", tuple(forward.terms.take(terms)), tuple(weights.tolist()), f"p{len(asked)}")

    for document in chance.permutation(forward.live_docs):
        selection = forward.select(np.array([document], dtype=np.int32))
        known = frequency[selection.terms] >= 2
        terms, counts = selection.terms[known], selection.frequencies[known]
        half = chance.random(len(terms)) < 0.5
        if len(terms) < 2 * TERMS + 4 or min(half.sum(), (~half).sum()) < TERMS:
            continue
        best = np.argsort(-(counts * idf[terms])[half])[: 3 * TERMS]
        chosen = chance.choice(best, TERMS, replace=False) if len(best) > TERMS else best
        asked.append(query(terms[half][chosen], np.ones(len(chosen))))
        hidden.append(query(terms[~half], counts[~half].astype(np.float64)))
        if len(asked) == PSEUDO:
            break
    return asked, [listed.docs for listed in index.lucene.search(hidden, GOLD)]


def judged(index: kernelsearch.Index, topics: dict[str, str], qrels: dict[str, dict[str, int]]) -> Set:
    """The judged ones of `topics` as queries, with the rows in `index` of the documents that are relevant by `qrels`."""
    qids = judged_topics(topics, qrels)
    relevant: list[NDArray[np.integer]] = [
        index.forward.rows_of([docid for docid, grade in qrels[qid].items() if grade > 0]) for qid in qids
    ]
    return index.lucene.queries([topics[qid] for qid in qids], qids), relevant


def mean_ap(lists: list[Candidates], relevant: list[NDArray[np.integer]]) -> float:
    """MAP of ranked `lists`; `relevant` has the rows of the relevant documents of each."""
    pairs = zip(lists, relevant, strict=True)
    return float(np.mean([average_precision(np.flatnonzero(np.isin(listed.docs, rows)), len(rows)) for listed, rows in pairs]))


def gains(index: kernelsearch.Index, queries: list[Query], relevant: list[NDArray[np.integer]]) -> dict[str, float]:
    """The change in MAP over BM25, in percent, of each setting "DIMS, RETRIEVE" that the basis of `index` allows.

    `relevant` has the rows of the relevant documents of each of the `queries`.
    """
    first, out = index.lucene.search(queries, HITS), {}
    base, fitted = mean_ap(first, relevant), KernelLSA(index).basis.dims
    for dims in DIMS:
        for retrieve in RETRIEVE:
            if dims is None or dims < fitted:
                reranker = KernelLSA(index, dims=dims, retrieve=retrieve)
                ranked = reranker.apply_batch(queries, first, Context(hits=HITS))
                out[f"{dims or 'all'}, {retrieve}"] = 100 * (mean_ap(ranked, relevant) / base - 1)
    return out


def main() -> None:
    """Measures all settings on the three kinds of queries of each collection and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, default=ROOT / "runs" / "reproduce-klsa-settings", help="folder of indexes")
    arguments = parser.parse_args()
    rows = []
    for name in COLLECTIONS:
        dataset = DATASETS[name]
        index = dataset.open_index(arguments.collections, arguments.scratch / "indexes" / dataset.folder)
        corpus = read_corpus(arguments.collections / dataset.folder / dataset.corpus)
        sets = (
            judged(index, *dataset.read(arguments.collections)),
            judged(index, *known_items(corpus, 80)),
            pseudo_queries(index),
        )
        by_kind = {kind: gains(index, *query_set) for kind, query_set in zip(KINDS, sets, strict=True)}
        chosen = max(by_kind[KINDS[2]], key=lambda setting: by_kind[KINDS[2]][setting])
        for kind in KINDS:
            rows.append([name, kind, *(f"{by_kind[kind].get(setting, np.nan):+.1f}" for setting in by_kind[KINDS[0]]), chosen])
        print(name, "done", flush=True)
    print(markdown_table(("", "gain over BM25 in percent", *by_kind[KINDS[0]], "pseudo-queries choose"), rows))


if __name__ == "__main__":
    main()
