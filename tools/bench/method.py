"""CPU time per query of a method in its forms, as a ratio to BM25 in the same round of one warm process.

    python -m tools.bench.method all --index indexes/scifact --topics topics.tsv [--rounds 5] [--queries 80] [--only auto mslm]
    python -m tools.bench.method mslm --index indexes/cran --topics topics.tsv --hits 100 --pyserini .venv-pyserini/bin/python
    python -m tools.bench.method vectors --index indexes/scifact --topics topics.tsv --vectors.queries topics.npz

Queries are answered one by one, analysis included. Systems take turns within a round, so that a busy machine slows them all
alike; processor time is that of the whole process, Java included. The table has the median of the ratios over rounds, the
lowest and the highest. "Anserini" is its own SimpleSearcher, which Pyserini calls, in the same process; "Pyserini" are its
classes in a process of their own (--pyserini). `fusion` measures each feature of the default recipe alone, and all together:
`votes` is 0 without training queries.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import kernelsearch
from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.tables import text_table
from kernelsearch.core.types import Query
from kernelsearch.lucene.index import FirstStage
from kernelsearch.lucene.models import BM25PRF, RM3, BM25Model, Feedback, Rocchio
from kernelsearch.lucene.simple import simple_search, simple_searcher
from kernelsearch.rerankers.fusion.features import Features, parse_recipe
from kernelsearch.rerankers.fusion.recipes import auto_weights, available
from kernelsearch.rerankers.fusion.settings import RECIPE, SOURCES
from kernelsearch.trec import read_topics
from tools.bench.speed.measuring import Cost, Peers, cpu_time
from tools.bench.speed.peers import FEW

#: Answers one query.
System = Callable[[Query], Any]
BM25 = "BM25"
INF = float("inf")
FIVE_LEVELS = {"scales": (0, 1, 2, 4, INF)}
#: The forms of each method: {label: (method, options)}.
FORMS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "all": {name: (name, {}) for name in ("klsa", "pert", "mslm", "auto")} | {"mslm, five levels": ("mslm", FIVE_LEVELS)},
    "klsa": {
        "klsa": ("klsa", {}),
        "klsa, nothing added": ("klsa", {"retrieve": 0}),
        "klsa-paper, z 1": ("klsa-paper", {}),
        "klsa-paper, z 50": ("klsa-paper", {"z": 50}),
    },
    "mslm": {
        "mslm": ("mslm", {}),
        "mslm, 5 levels": ("mslm", FIVE_LEVELS),
        **{f"mslm-paper, {mode}": ("mslm-paper", {"mode": mode}) for mode in ("max", "mean", "global", "points")},
        "mslm-paper, max, JS": ("mslm-paper", {"mode": "max", "divergence": "js"}),
    },
    "pert": {"pert": ("pert", {}), "pert, rm3-all": ("pert-paper", {"method": "rm3-all"})},
    "fusion": {},
    "vectors": {
        "dense": ("dense", {"retrieve": 1000}),
        "auto, words alone": ("auto", {"vectors": "none"}),
        "auto with vectors": ("auto", {}),
    },
}


def main() -> None:
    """Measures all systems by turns and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=FORMS, help="the method, or all")
    parser.add_argument("--index", required=True, help="the index to measure on")
    parser.add_argument("--topics", required=True, help="file of topics")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds that aren't counted; Java compiles meanwhile")
    # More queries than a fusion caches tables or votes of, or the second round would measure the cache.
    parser.add_argument("--queries", type=int, default=80, help="number of topics, from the first on")
    parser.add_argument("--hits", type=int, default=1000, help="documents per query of the first stage")
    parser.add_argument("--only", nargs="+", help="only systems whose name has one of these words in it")
    parser.add_argument("--pyserini", type=Path, help="a Python that has the full pyserini, to measure its RM3 and PRCL")
    parser.add_argument("--vectors.queries", dest="vectors", help="file of query vectors with topic ids")
    arguments = parser.parse_args()
    index = kernelsearch.open(arguments.index, vectors={"queries": arguments.vectors} if arguments.vectors else None)
    topics = dict(list(read_topics(arguments.topics).items())[: arguments.queries])
    costs = {
        name: cpu_time(partial(answer_all, system, index, topics), 1000 / len(topics))
        for name, system in make_systems(index, arguments.name, arguments.hits).items()
        if name == BM25 or not arguments.only or any(word in name for word in arguments.only)
    }
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.pyserini is not None:
            costs |= peers(arguments.pyserini, Path(scratch), Path(arguments.index), list(topics.values()))
        rounds = [{name: cost() for name, cost in costs.items()} for _ in range(arguments.warm_up + arguments.rounds)]
    rows = []
    for name in costs:
        times = [measured[name] for measured in rounds[arguments.warm_up :]]
        ratios = [measured[name] / measured[BM25] for measured in rounds[arguments.warm_up :]]
        spread = f"{min(ratios):.1f} to {max(ratios):.1f}"
        rows.append((name, f"{statistics.median(times):.2f}", f"{statistics.median(ratios):.1f}", spread))
    print(f"{index.name}: {len(index.forward)} documents, {len(topics)} queries, {arguments.rounds} rounds")
    print(text_table(("system", "CPU ms per query", "times BM25", "range"), rows))


def answer_all(system: System, index: Index, topics: dict[str, str]) -> None:
    """Answers `topics` one by one by `system`, each analysed by `index`."""
    for qid, text in topics.items():
        system(index.query(text, qid))


def make_systems(index: Index, name: str, hits: int) -> dict[str, System]:
    """The systems that are compared for the method `name`, with `hits` documents per query; BM25 is the first."""

    def search(feedback: Feedback | None = None, method: str = "", options: dict[str, Any] | None = None) -> System:
        pipeline = Pipeline(index, FirstStage(feedback=feedback, hits=hits), [(method, options or {})] if method else [])
        return lambda query: pipeline.search([query])

    def anserini(feedback: Feedback | None = None) -> System:
        searcher = simple_searcher(index.lucene, BM25Model(), feedback)
        return lambda query: simple_search(searcher, query.text, hits)

    systems = {BM25: search(), "RM3": search(RM3()), "Anserini RM3": anserini(RM3())}
    if name in ("all", "pert"):
        systems |= {"Rocchio": search(Rocchio()), "Anserini Rocchio": anserini(Rocchio())}
    if name == "all":
        systems |= {"BM25PRF": search(BM25PRF()), "Anserini BM25": anserini()}
        systems["Rocchio with negatives"] = search(Rocchio(negative=True, hits=hits))
        if (index.artefacts / "fusion" / "meta.json").exists():
            systems["fusion"] = search(method="fusion")
    systems |= {label: search(method=method, options=options) for label, (method, options) in FORMS[name].items()}
    if name in ("all", "fusion"):
        systems |= recipe(index, hits, apart=name == "fusion")
    if name == "vectors":
        systems |= faiss_alone(index, systems[BM25], hits)
    return systems


def recipe(index: Index, hits: int, apart: bool) -> dict[str, System]:
    """Systems that rank by features of fusion's default recipe, z-scored and summed: by all, and `apart` by each alone.

    Each of the default sources brings `hits` documents of `index` per query.
    """
    wanted = dict.fromkeys((*parse_recipe(RECIPE), *auto_weights(index, None)))
    names = tuple(dict.fromkeys(available(tuple(wanted), index)[0].values()))
    pipeline, sources = Pipeline(index, FirstStage(hits=hits), []), parse_recipe(SOURCES)

    def by(features: Features) -> System:
        def rank(query: Query) -> object:
            pool = features.pool([query], pipeline.retrieve([query]), hits)
            (table,) = features.normalised_tables([query], pool, "z")
            return pool[0].docs[np.argsort(-table.sum(axis=1), kind="stable")]

        return rank

    systems = {"fusion, whole recipe": by(Features(index, names, sources=sources))}
    return systems | ({name: by(Features(index, (name,))) for name in names} if apart else {})


def faiss_alone(index: Index, bm25: System, hits: int) -> dict[str, System]:
    """FAISS's flat index over the vectors of `index`, and a plain hybrid: the min-max scores of both lists, added.

    `bm25` gives BM25's list of a query, `hits` is the length of both.
    """
    import faiss

    faiss.omp_set_num_threads(1)
    vectors = index.vectors()
    flat = faiss.IndexFlatIP(vectors.documents.dims)
    flat.add(np.asarray(vectors.documents.matrix, dtype=np.float32))

    def nearest(query: Query) -> tuple[np.ndarray, np.ndarray]:
        vector = vectors.queries.find([query])[0]
        assert vector is not None, f"the topic {query.qid} has no vector"
        scores, docs = flat.search(vector[None], hits)
        return docs[0], scores[0]

    def hybrid(query: Query) -> object:
        (listed,) = bm25(query)
        near, products = nearest(query)
        docs = np.union1d(listed.docs, near)
        total = np.zeros(len(docs))
        for rows, scores in ((listed.docs, np.asarray(listed.scores, dtype=np.float64)), (near, products)):
            if len(rows):
                total[np.searchsorted(docs, rows)] += (scores - scores.min()) / max(float(np.ptp(scores)), 1e-12)
        return docs[np.argsort(-total)][:hits]

    return {
        "nearest documents": lambda query: vectors.nearest([query], hits),
        "FAISS IndexFlatIP": nearest,
        "plain hybrid of BM25 and FAISS": hybrid,
    }


def peers(python: Path, scratch: Path, index: Path, texts: list[str]) -> dict[str, Cost]:
    """Pyserini's RM3 and PRCL in a process of the interpreter `python`; PRCL answers the first FEW of `texts`.

    `scratch` is a folder for what that process reads: the folder of the `index` and the queries.
    """
    (scratch / "index").symlink_to(index.resolve())
    (scratch / "queries.json").write_text(json.dumps(texts), encoding="utf-8")
    process = Peers(python)
    tasks = {"Pyserini, set_rm3": process.task("rm3", scratch, 1000 / len(texts))}
    tasks["Pyserini, PRCL"] = process.task("prcl", scratch, 1000 / FEW)
    for name, reason in process.missing.items():
        print(f"{name}: left out: {reason}")
    return {label: cost for label, cost in tasks.items() if cost is not None}


if __name__ == "__main__":
    main()
