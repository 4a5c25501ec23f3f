"""The settings of an earlier prototype, for the last table of docs/reproductions/mslm.md's section on our setting.

    python -m tools.papers.mslm_card cran --scratch SCRATCH

The first 200 documents of an unclipped query-likelihood run (μ = 1,000) are put in the order of z(BM25) + z(one level at scale
8 on both axes, Jensen-Shannon, no idf, η = .1); the others stay below. Words in more than a tenth of the documents have no
neighbours. What the prototype's notes leave open is varied.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import kernelsearch
from kernelsearch.core.measures import average_precision
from kernelsearch.core.types import Query
from kernelsearch.kernels.pyramid.matching import Matcher
from kernelsearch.kernels.pyramid.query_rows import Scale
from kernelsearch.kernels.semantic.graph import SemanticGraph, cooccurrence_graph
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.papers.mslm.matching import Global, local_score
from kernelsearch.papers.mslm.reranker import PaperMultiScaleLM
from kernelsearch.rerankers.mslm.graph import GraphArtefact
from tools.data.datasets import DATASETS, add_collections_option, judged_topics
from tools.reproduce.pages import rounded

MU, DEPTH, WIDE = 1000.0, 200, Scale(8, 8)
#: What the notes leave open: label, options of the graph, documents put in order, window width (0: two scales to each side).
SETTINGS: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("20 neighbours, window 10, pairs seen 3 times", {}, DEPTH, 0),
    ("12 neighbours", {"neighbours": 12}, DEPTH, 0),
    ("8 neighbours", {"neighbours": 8}, DEPTH, 0),
    ("12 neighbours, window 5", {"neighbours": 12, "window": 5}, DEPTH, 0),
    ("12 neighbours, window 20", {"neighbours": 12, "window": 20}, DEPTH, 0),
    ("12 neighbours, pairs seen 5 times", {"neighbours": 12, "min_count": 5}, DEPTH, 0),
    ("12 neighbours, three scales to each side", {"neighbours": 12}, DEPTH, 49),
    ("20 neighbours, pairs seen once", {"min_count": 1}, DEPTH, 0),
    ("20 neighbours, 100 documents", {}, 100, 0),
)
CELLS = ("word graph, no positions", "local, mean", "local, max", "global")


@dataclass(frozen=True)
class Judged:
    """A query, its documents by query likelihood, their BM25 scores, which are relevant, and how many there are."""

    query: Query
    docs: np.ndarray
    bm25: np.ndarray
    hits: np.ndarray
    relevant: int


def likelihood(index: kernelsearch.Index, query: Query, docs: np.ndarray) -> np.ndarray:
    """Dirichlet-smoothed log likelihood of `query` with exact lengths; -inf for documents without its words.

    `docs` are the documents' rows in `index`.
    """
    forward = index.forward
    terms = forward.term_ids(query.terms)
    known = terms >= 0
    terms, weights = terms[known], np.asarray(query.weights, dtype=np.float64)[known]
    cf = np.asarray(forward.cf, dtype=np.float64)
    counts = forward.term_frequencies(docs, terms)
    lengths = np.asarray(forward.lengths, dtype=np.float64)[docs]
    values = (np.log(counts + MU * cf[terms] / cf.sum()) - np.log(lengths + MU)[:, None]) @ weights
    return np.where(counts.any(axis=1), values, -np.inf)


def judged_queries(name: str, collections: Path, index: kernelsearch.Index) -> list[Judged]:
    """The judged queries of the collection `name` below `collections`, with their documents in `index`."""
    topics, qrels = replace(DATASETS[name], qrels="qrels.txt").read(collections)
    known = judged_topics(topics, qrels)
    queries = index.lucene.queries([topics[qid] for qid in known], known)
    live, out = np.asarray(index.forward.live_docs), []
    for query, ranked in zip(queries, index.lucene.search(queries, len(live)), strict=True):
        values = likelihood(index, query, live)
        order = np.argsort(-values, kind="stable")[: min(1000, int(np.isfinite(values).sum()))]
        scores = np.zeros(len(index.forward))
        scores[ranked.docs] = ranked.scores
        grades = qrels[query.qid]
        hits = np.array([grades.get(docid, 0) > 0 for docid in index.forward.docids.take(live[order])], dtype=bool)
        out.append(Judged(query, live[order], scores[live[order]], hits, sum(grade > 0 for grade in grades.values())))
    return out


def cells(index: kernelsearch.Index, queries: list[Judged], graph: SemanticGraph, depth: int, width: int) -> np.ndarray:
    """MAP over `queries` by cell, in the order of CELLS.

    `graph` is the word graph, `depth` the number of documents per query that are put in order, `width` that of the windows (0:
    two scales to each side).
    """
    options = {"semantic": [WIDE.semantic], "mode": "max", "divergence": "js", "weighting": "none", "width": width, "step": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph"
        GraphArtefact(graph).save(path, {}, index.fingerprint)
        reranker = PaperMultiScaleLM(index, model=str(path), scales=[WIDE.spatial], **options)
    (wide,) = reranker.scales
    bag = Scale(np.inf, WIDE.semantic)
    precisions = []
    for judged in queries:
        if not len(judged.docs):
            precisions.append([0.0] * len(CELLS))
            continue
        rows = reranker.rows(judged.query, (wide, bag))
        texts = reranker.texts(rows, judged.docs[:depth])
        query, columns, places = reranker.matcher.local_similarity(rows, texts, wide)
        values = [
            Matcher((bag,)).scores(rows, texts)[:, 0],
            *(local_score(columns, query.weights, places, mode) for mode in ("mean", "max")),
            Global((wide,)).scores(rows, texts)[:, 0],
        ]
        orders = [np.argsort(-(zscores(level) + zscores(judged.bm25[:depth])), kind="stable") for level in values]
        lists = [np.concatenate([judged.hits[:depth][order], judged.hits[depth:]]) for order in orders]
        precisions.append([average_precision(np.flatnonzero(hits), judged.relevant) for hits in lists])
    return np.mean(precisions, axis=0)


def main() -> None:
    """Prints the table of each collection."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=("cran", "cisi", "cacm"), help="collections to measure")
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, required=True, help="folder for indexes")
    parser.add_argument("--only", help="the setting with this label")
    arguments = parser.parse_args()
    collections = arguments.collections
    for name in arguments.names:
        index = DATASETS[name].open_index(collections, arguments.scratch / "indexes" / name)
        queries = judged_queries(name, collections, index)
        first = float(np.mean([average_precision(np.flatnonzero(judged.hits), judged.relevant) for judged in queries]))
        print(f"{name}: query likelihood {rounded(first)}", flush=True)
        print("| MAP | " + " | ".join(CELLS) + " |\n| --- |" + " ---: |" * len(CELLS))
        for label, options, depth, width in SETTINGS:
            if arguments.only in (None, label):
                graph = cooccurrence_graph(index.forward, common=0.1, **options)
                print(
                    f"| {label} | " + " | ".join(map(rounded, cells(index, queries, graph, depth, width))) + " |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
