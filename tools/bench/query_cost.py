"""CPU time per query of each way to search, as a ratio to BM25 in the same round of one warm process.

    python -m tools.bench.query_cost --index indexes/scifact --topics topics.tsv [--rounds 5] [--queries 80] [--only auto mslm]

Queries are answered one by one, analysis included. Systems take turns within a round, so that a busy machine slows them all
alike; processor time is that of the whole process, Java included. The table has the median of the ratios over rounds, the
lowest and the highest. "Anserini" is its own SimpleSearcher, which Pyserini calls, in the same process. `fusion` is measured
where a model has been trained; "whole recipe" is the sum of all features of fusion's default recipe, which needs no model:
`votes` is 0 without training queries.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import kernelsearch
from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.tables import text_table
from kernelsearch.lucene.index import FirstStage
from kernelsearch.lucene.models import BM25PRF, RM3, BM25Model, Feedback, Rocchio
from kernelsearch.lucene.simple import simple_search, simple_searcher
from kernelsearch.rerankers.fusion.features import Features, parse_recipe
from kernelsearch.rerankers.fusion.recipes import auto_weights, available
from kernelsearch.rerankers.fusion.settings import RECIPE, SOURCES
from kernelsearch.trec import read_topics

#: Answers one query.
System = Callable[[str], object]
BM25 = "BM25"
FIVE_LEVELS = {"scales": (0, 1, 2, 4, float("inf"))}


def main() -> None:
    """Measures all systems by turns and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="the index to measure on")
    parser.add_argument("--topics", required=True, help="file of topics")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds that aren't counted; Java compiles meanwhile")
    # More queries than a fusion caches tables or votes of, or the second round would measure the cache.
    parser.add_argument("--queries", type=int, default=80, help="number of topics, from the first on")
    parser.add_argument("--hits", type=int, default=1000, help="documents per query of the first stage")
    parser.add_argument("--only", nargs="+", help="only systems whose name has one of these words in it")
    arguments = parser.parse_args()
    index = kernelsearch.open(arguments.index)
    texts = list(read_topics(arguments.topics).values())[: arguments.queries]
    systems = {
        name: system
        for name, system in make_systems(index, arguments.hits).items()
        if name == BM25 or not arguments.only or any(word in name for word in arguments.only)
    }
    ratios: dict[str, list[float]] = {name: [] for name in systems}
    milliseconds: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(arguments.warm_up + arguments.rounds):
        measured = {name: cpu_time(system, texts) for name, system in systems.items()}
        if number >= arguments.warm_up:
            for name, value in measured.items():
                milliseconds[name].append(value)
                ratios[name].append(value / measured[BM25])
    rows = [
        (
            name,
            f"{statistics.median(milliseconds[name]):.2f}",
            f"{statistics.median(result):.1f}",
            f"{min(result):.1f} to {max(result):.1f}",
        )
        for name, result in ratios.items()
    ]
    print(f"{index.name}: {len(index.forward)} documents, {len(texts)} queries, {arguments.rounds} rounds")
    print(text_table(("system", "CPU ms per query", "times BM25", "range"), rows))


def make_systems(index: Index, hits: int) -> dict[str, System]:
    """The systems by name, with `hits` documents per query; what `index` has no model for is left out."""

    def search(
        feedback: Feedback | None = None, method: str = "", depth: int = hits, options: dict[str, Any] | None = None
    ) -> System:
        methods = [(method, options or {})] if method else []
        pipeline = Pipeline(index, FirstStage(feedback=feedback, hits=depth), methods)
        return lambda text: pipeline.search([index.query(text)])

    def anserini(feedback: Feedback | None = None) -> System:
        searcher = simple_searcher(index.lucene, BM25Model(), feedback)
        return lambda text: simple_search(searcher, text, hits)

    systems = {
        BM25: search(),
        "RM3": search(RM3()),
        "Rocchio": search(Rocchio()),
        "Rocchio with negatives": search(Rocchio(negative=True, hits=hits)),
        "BM25PRF": search(BM25PRF()),
        "Anserini BM25": anserini(),
        "Anserini RM3": anserini(RM3()),
        "Anserini Rocchio": anserini(Rocchio()),
        "klsa": search(method="klsa"),
        "pert": search(method="pert"),
        "mslm, 1000": search(method="mslm"),
        "mslm, 100": search(method="mslm", depth=100),
        "mslm, five levels, 100": search(method="mslm", depth=100, options=FIVE_LEVELS),
        "auto": search(method="auto"),
        "fusion, whole recipe": whole_recipe(index, hits),
    }
    if (index.artefacts / "fusion" / "meta.json").exists():
        systems["fusion"] = search(method="fusion")
    return systems


def whole_recipe(index: Index, hits: int) -> System:
    """Ranks the candidates of fusion's default sources by the sum of all features of its default recipe, z-scored.

    Each source brings `hits` documents of `index` per query.
    """
    wanted = (*parse_recipe(RECIPE), *auto_weights(index, None))
    offered = available(tuple(dict.fromkeys(wanted)), index, "fusion")
    features = Features(index, tuple(dict.fromkeys(offered.values())), sources=parse_recipe(SOURCES))
    pipeline = Pipeline(index, FirstStage(hits=hits), [])

    def rank(text: str) -> object:
        query = index.query(text)
        (listed,) = pipeline.retrieve([query])
        (pool,) = features.pool([query], [listed], hits)
        (table,) = features.normalised_tables([query], [pool], "z")
        return pool.docs[np.argsort(-table.sum(axis=1), kind="stable")]

    return rank


def cpu_time(system: System, texts: list[str]) -> float:
    """Milliseconds of processor time per query of `texts`, answered one by one by `system`."""
    begun = time.process_time()
    for text in texts:
        system(text)
    return 1000 * (time.process_time() - begun) / len(texts)


if __name__ == "__main__":
    main()
