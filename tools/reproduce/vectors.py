"""Regenerates docs/reproductions/vectors.md: BM25, vectors of MiniLM, plain hybrids of both, kernel LSA over their sum, `auto`
and learned fusion with vectors.

    python -m tools.reproduce.vectors [--collections FOLDER] [--scratch FOLDER]

A collection's folder has minilm/corpus.npz and minilm/topics.npz with `ids` and `vectors`. Indexes, vectors, bases, tables of
features and figures are kept in the scratch folder, so that a run that was interrupted goes on; remove it to measure
everything again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import kernelsearch
from kernelsearch.core.types import Candidates, Query
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.rerankers.fusion.recipes import hybrid_weights
from kernelsearch.vectors import store
from kernelsearch.vectors.readers import open_vectors
from tools import ROOT
from tools.data.datasets import Dataset, Judgements, Topics, add_collections_option, judged_topics
from tools.reproduce.fusion_conditions import compute, fold_rounds, measured_rounds, recipe_of
from tools.reproduce.pages import markdown_table, replace_between, risk, rounded
from tools.reproduce.vectors_learned import FOLDS, feature_tables, learned_lists

PAGE = ROOT / "docs" / "reproductions" / "vectors.md"
BEGIN, END = "<!-- begin figures -->", "<!-- end figures -->"
NAME = "minilm"
MEASURED = {name: Dataset(name) for name in ("cran", "cisi", "cacm", "npl", "nfcorpus", "scifact")}
DEPTH = 1000
#: The constant of reciprocal rank fusion (Cormack, Clarke & Büttcher, SIGIR 2009).
RRF_K = 60
#: Kernel LSA over the sum: weights of the vectors, best documents and shares of the latent score to choose from.
WEIGHTS, BEST, SHARES = (0.5, 1.0), (10,), (0.3, 0.5, 0.7)

#: Rows of learned fusion: without votes, with the default recipe, and the latter where no training topic is related.
PLAIN, DEFAULT, AS_NEW = "without `votes`", "default: with `votes`", "default, topics as new"
LEARNED = "learned fusion with vectors, {}"

Setting = tuple[float, int, float]
S = TypeVar("S", bound=tuple[float, ...])


@dataclass
class Collection:
    """A collection's opened index with its judged queries and BM25's lists for them."""

    index: kernelsearch.Index
    queries: list[Query]
    judged: JudgedRows
    lists: list[Candidates]
    qrels: Judgements

    def precisions(self, lists: Sequence[Candidates]) -> list[float]:
        """The average precision of each query's list of `lists`."""
        return [float(value) for value in self.judged.average_precision(list(lists))]

    def mean(self, lists: Sequence[Candidates]) -> float:
        """The mean average precision of `lists`."""
        return float(np.mean(self.precisions(lists)))

    def run(self, rerank: Mapping[str, Mapping[str, object]]) -> list[Candidates]:
        """The lists of a method with its options: `rerank` is {method: {option: value}}."""
        return self.index.pipeline(rerank, hits=DEPTH).rerank(self.queries, self.lists)


def open_collection(dataset: Dataset, collections: Path, scratch: Path) -> Collection:
    """The collection of `dataset` with its vectors imported; `collections` has its files, `scratch` its index."""
    folder = collections / dataset.folder / "minilm"
    path = scratch / "indexes" / dataset.folder
    built = dataset.open_index(collections, path)
    place = store.place(built.artefacts, NAME)
    if not place.exists():
        store.import_vectors(place, built.forward, open_vectors(folder / "corpus.npz"))
    index = kernelsearch.open(path, vectors={"name": NAME, "queries": str(folder / "topics.npz")})
    topics, qrels = dataset.read(collections)
    qids = judged_topics(topics, qrels)
    queries = index.lucene.queries([topics[qid] for qid in qids], qids)
    judged = JudgedRows(index.forward, qrels, qids)
    return Collection(index, queries, judged, index.lucene.search(queries, DEPTH), qrels)


def fuse(index: kernelsearch.Index, left: Candidates, right: Candidates, kind: str) -> Candidates:
    """Two lists `left` and `right` of `index` as one, from the lists alone: `kind` "rrf" by reciprocal ranks, else by z-scores.

    A document that a list doesn't have gets nothing by ranks, and the list's lowest z-score by scores.
    """
    docs = np.union1d(left.docs, right.docs).astype(np.int32)
    total = np.zeros(len(docs))
    for listed in (left, right):
        if not listed.depth:
            continue
        places = np.searchsorted(docs, listed.docs)
        if kind == "rrf":
            total[places] += 1 / (RRF_K + 1 + np.arange(listed.depth))
        else:
            scores = np.asarray(listed.scores, dtype=np.float64)
            z = (scores - scores.mean()) / (scores.std() or 1.0)
            part = np.full(len(docs), z.min())
            part[places] = z
            total += part
    order = np.lexsort((index.forward.docid_rank[docs], -total))[:DEPTH]
    return Candidates(docs[order], total[order])


def latent_settings(collection: Collection, scratch: Path) -> dict[Setting, list[float]]:
    """Average precisions of kernel LSA over the sum of words and vectors, by weight, best documents and latent share.

    The bases of `collection` are fitted in `scratch`.
    """
    out = {}
    for weight in WEIGHTS:
        basis = scratch / "bases" / f"{collection.index.path.name}-{weight:g}"
        if not basis.exists():
            collection.index.train("klsa", output=basis, kernel=f"bm25(k1=2,b=.75)+{weight}*vectors:{NAME}")
        for best in BEST:
            for share in SHARES:
                options = {"basis": str(basis), "scores": "kernel", "retrieve": DEPTH, "z": best, "lambda": share}
                out[weight, best, share] = collection.precisions(collection.run({"klsa-paper": options}))
    return out


def leave_one_out(tables: Mapping[str, Mapping[S, float]]) -> dict[str, S]:
    """For each collection the setting with the highest geometric mean over the other collections.

    `tables` has a measure by collection and setting.
    """
    chosen = {}
    for name in tables:
        others = [table for other, table in tables.items() if other != name]
        chosen[name] = max(others[0], key=lambda setting: float(np.mean([np.log(table[setting]) for table in others])))
    return chosen


def milliseconds(collection: Collection) -> float:
    """The median time to score 1,000 candidates of `collection` by their vectors, query vector known, in milliseconds."""
    vectors, rows = collection.index.vectors(NAME), np.random.default_rng(0).permutation(len(collection.index.forward))
    docs: NDArray[np.int64] = np.resize(rows, DEPTH)
    times = []
    for query in collection.queries * 3:
        begin = perf_counter()
        vectors.scores(query, docs)
        times.append(1e3 * (perf_counter() - begin))
    return median(times)


@dataclass
class Measured:
    """The figures of one collection: average precisions of its topics by label and by setting of klsa; milliseconds.

    `choices` are what cross-validation chose per fold, by label; `related` is the number of topics to which a training topic is
    related.
    """

    figures: dict[str, list[float]]
    latent: dict[Setting, list[float]]
    milliseconds: float
    choices: dict[str, list[str]]
    related: int

    def save(self, path: Path) -> None:
        """Writes the figures to the file `path` as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        value = {
            "figures": self.figures,
            "latent": [[*setting, precisions] for setting, precisions in self.latent.items()],
            "milliseconds": self.milliseconds,
            "choices": self.choices,
            "related": self.related,
        }
        path.write_text(json.dumps(value), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Measured:
        """Reads the figures that `save` has written to `path`."""
        value = json.loads(path.read_text(encoding="utf-8"))
        latent = {(weight, int(best), share): precisions for weight, best, share, precisions in value["latent"]}
        return cls(value["figures"], latent, value["milliseconds"], value["choices"], value["related"])


def measure(name: str, collections: Path, scratch: Path) -> Measured:
    """Measures the collection `name` below `collections`; indexes and tables are kept in `scratch`."""
    collection = open_collection(MEASURED[name], collections, scratch)
    dense = collection.run({"dense": {"retrieve": DEPTH}})
    pairs = list(zip(collection.lists, dense, strict=True))
    qids = [query.qid for query in collection.queries]
    tables = feature_tables(collection.index, collection.queries, collection.qrels, NAME, scratch / "tables" / f"{name}.npz")
    by_auto = collection.run({"auto": {"vectors": NAME}})
    plain = learned_lists(tables, collection.index, qids, NAME, by_auto)
    voted = learned_with_votes(collection, MEASURED[name].read(collections)[0], scratch / "tables" / f"{name}-votes.npz")
    figures = {
        "BM25": collection.precisions(collection.lists),
        "MiniLM": collection.precisions(dense),
        "MiniLM, BM25's documents only": collection.precisions(collection.run({"dense": {}})),
        "BM25 + MiniLM, RRF": collection.precisions([fuse(collection.index, *pair, "rrf") for pair in pairs]),
        "BM25 + MiniLM, z-scores": collection.precisions([fuse(collection.index, *pair, "z") for pair in pairs]),
        "`auto`, words alone": collection.precisions(collection.run({"auto": {"vectors": "none"}})),
        "`auto` with vectors": collection.precisions(by_auto),
        LEARNED.format(PLAIN): collection.precisions(plain.lists),
        LEARNED.format(DEFAULT): voted["fusion"],
        LEARNED.format(AS_NEW): voted["as new"],
    }
    choices = {PLAIN: plain.choices, DEFAULT: voted["choices"]}
    latent = latent_settings(collection, scratch)
    return Measured(figures, latent, milliseconds(collection), choices, int(sum(voted["related"])))


def learned_with_votes(collection: Collection, topics: Topics, cache: Path) -> dict[str, Any]:
    """What `train --rerank fusion` gives with its defaults, in FOLDS folds over the topics of `collection`.

    `topics` are the texts by topic id; features are kept in the file `cache`. Returns the values of `measured_rounds`.
    """
    index = collection.index
    recipe = recipe_of(hybrid_weights(index, NAME), NAME)
    table = compute(index, topics, collection.qrels, None, cache, recipe)
    return measured_rounds(table, fold_rounds(table, FOLDS), recipe)


def page_text(measured: Mapping[str, Measured]) -> str:
    """The page's tables; `measured` has the figures by collection."""
    latent = leave_one_out({name: _means(result.latent) for name, result in measured.items()})
    rows: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, result in measured.items():
        for label, values in result.figures.items():
            rows.setdefault(label, {})[name] = np.array(values)
            if label == "BM25 + MiniLM, z-scores":
                rows.setdefault("klsa over BM25 + MiniLM", {})[name] = np.array(result.latent[latent[name]])
    table = markdown_table(
        ["AP", *measured], [[label, *(rounded(values.mean()) for values in row.values())] for label, row in rows.items()]
    )
    risks = markdown_table(
        ["topics that lose / gain more than .01 AP, AP lost", *measured],
        [
            [label, *(risk(values - rows["BM25"][name]) for name, values in row.items())]
            for label, row in rows.items()
            if label != "BM25"
        ],
    )
    chosen = markdown_table(
        ["what ranks the five folds", *measured],
        [
            *(
                [LEARNED.format(label), *(counted(result.choices[label]) for result in measured.values())]
                for label in (PLAIN, DEFAULT)
            ),
            ["topics (of which related to a training topic)", *map(topic_counts, measured.values())],
        ],
    )
    settings = [[name, *(f"{value:g}" for value in latent[name])] for name in measured]
    heads = ["chosen on the others", "klsa: weight of the vectors", "z", "λ"]
    slowest = max(result.milliseconds for result in measured.values())
    speed = f"Scores of 1,000 candidates by their vectors, float16: {slowest:.2f} ms (the slowest collection's median)."
    against = "Against BM25, topic by topic:"
    return f"\n{table}\n\n{against}\n\n{risks}\n\n{chosen}\n\n{markdown_table(heads, settings)}\n\n{speed}\n"


def topic_counts(result: Measured) -> str:
    """The number of topics of `result`, and in parentheses of those to which a training topic is related."""
    return f"{len(result.figures['BM25'])} ({result.related})"


def counted(choices: Sequence[str]) -> str:
    """How often each of the `choices` was made, as text: "4 auto; 1 net, penalty 0.01"."""
    return "; ".join(f"{choices.count(name)} {name}" for name in dict.fromkeys(choices))


def _means(precisions: Mapping[S, Sequence[float]]) -> dict[S, float]:
    return {setting: float(np.mean(values)) for setting, values in precisions.items()}


def main() -> None:
    """Measures what the scratch folder lacks and writes the page's tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, default=ROOT / "runs" / "vectors", help="folder of what is kept (%(default)s)")
    arguments = parser.parse_args()
    measured = {}
    for name in MEASURED:
        path = arguments.scratch / "figures" / f"{name}.json"
        if not path.exists():
            measure(name, arguments.collections, arguments.scratch).save(path)
        measured[name] = Measured.load(path)
        print(name, {label: round(float(np.mean(values)), 4) for label, values in measured[name].figures.items()}, flush=True)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replace_between(page, BEGIN, END, page_text(measured)), encoding="utf-8")


if __name__ == "__main__":
    main()
