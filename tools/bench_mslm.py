"""Milliseconds a query of `mslm` by matching mode, against Anserini's RM3 and Pyserini's PRCL reranker, in one run.

    python tools/bench_mslm.py --index indexes/cran --topics topics.tsv [--rounds 3] [--queries 40]

Every system answers the same queries one at a time on one thread, in turns, so that a busy machine slows them all alike;
figures are medians over rounds after a round of warming up. CPU time is that of the whole process: on a busy machine it says
more than the clock. `mslm` and PRCL are given the first stage's list and timed from there; RM3 is the whole second search,
Java included. PRCL is Pyserini's own class. Its vectors come from the forward index here (Pyserini fetches them document by
document, which is slower), so its figure is a lower bound.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import kernelsearch
from kernelsearch.console import table
from kernelsearch.kernels.bm25 import idf
from kernelsearch.lucene.models import RM3
from kernelsearch.rerankers.multiscale_lm import MultiScaleReranker
from kernelsearch.trec import read_topics
from kernelsearch.types import Candidates, Query

Run = Callable[[Query, Candidates], Any]
MODES: dict[str, dict[str, Any]] = {
    "mslm (default: local max, JS, scale 8)": {},
    "mslm, local mean": {"mode": "mean"},
    "mslm, global": {"mode": "global"},
    "mslm, interest points (4 levels)": {"mode": "points"},
    "mslm, local max, KL": {"divergence": "kl"},
    "mslm, local max, 5 levels (0, 1, 2, 4, ∞), JS": {"scales": (0, 1, 2, 4, float("inf"))},
    "mslm, local max, 5 levels (0, 1, 2, 4, ∞), KL": {"scales": (0, 1, 2, 4, float("inf")), "divergence": "kl"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True)
    parser.add_argument("--topics", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", type=int, default=40, help="use the first so many topics")
    parser.add_argument("--depths", type=int, nargs="+", default=[100, 1000])
    arguments = parser.parse_args()
    index = kernelsearch.open(arguments.index)
    queries = index.lucene.queries(list(read_topics(arguments.topics).values())[: arguments.queries])
    rerankers = {name: MultiScaleReranker(index, **options) for name, options in MODES.items()}
    begun = time.perf_counter()
    found = index.lucene.search(queries[:1], 100)[0]
    rerankers["mslm (default: local max, JS, scale 8)"].apply(queries[0], found)
    print(f"first call after loading: {1000 * (time.perf_counter() - begun):.0f} ms, the first search included")
    for depth in arguments.depths:
        lists = index.lucene.search(queries, depth)
        systems: dict[str, Run] = {name: reranker.apply for name, reranker in rerankers.items()}
        systems["Anserini RM3, second search"] = lambda query, _, depth=depth: index.lucene.search(
            [query], depth, feedback=RM3()
        )
        prcl = make_prcl(index)
        if prcl is None:
            print("Pyserini isn't installed: PRCL is left out")
        else:
            systems["Pyserini PRCL (LR), vectors from the forward index"] = prcl
        report(systems, queries, lists, arguments.rounds, depth)


def report(systems: dict[str, Run], queries: list[Query], lists: list[Candidates], rounds: int, depth: int) -> None:
    """Prints the medians over rounds of milliseconds a query."""
    usable = [(query, found) for query, found in zip(queries, lists, strict=True) if found.depth > 20]
    clock: dict[str, list[float]] = {name: [] for name in systems}
    used: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(rounds + 1):
        for name, run in systems.items():
            wall, cpu = time.perf_counter(), time.process_time()
            for query, found in usable:
                run(query, found)
            if number:  # the first round warms up
                clock[name].append(1000 * (time.perf_counter() - wall) / len(usable))
                used[name].append(1000 * (time.process_time() - cpu) / len(usable))
    print(f"\n{depth} candidates asked for, {np.mean([found.depth for _, found in usable]):.0f} found on average")
    rows = [(name, f"{statistics.median(clock[name]):.1f}", f"{statistics.median(used[name]):.1f}") for name in systems]
    print(table(("one query at a time, one thread", "median ms", "CPU ms"), rows))


def make_prcl(index: kernelsearch.Index) -> Run | None:
    """Pyserini's classifier reranker with its default r = 10, n = 100, alpha = 0.5, on tf-idf vectors."""
    spec = importlib.util.find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        return None
    # The file is loaded by itself: the package around it needs torch, the class doesn't.
    file = Path(spec.submodule_search_locations[0]) / "search" / "lucene" / "reranker.py"
    own = importlib.util.spec_from_file_location("pyserini_reranker", file)
    if own is None or own.loader is None or not file.exists():
        return None
    module = importlib.util.module_from_spec(own)
    own.loader.exec_module(module)
    forward = index.forward
    weights = idf(forward.df, forward.statistics.documents).astype(np.float64)

    class Vectors:
        def get_vectors(self, docs: list[int]) -> Any:
            from sklearn.preprocessing import normalize

            return normalize(forward.matrix(np.array(docs)).multiply(weights[None, :]).tocsr())

    reranker = module.PseudoRelevanceClassifierReranker.__new__(module.PseudoRelevanceClassifierReranker)
    reranker.alpha, reranker.clf_type, reranker.vectorizer = 0.5, [module.ClassifierType.LR], Vectors()

    def run(query: Query, found: Candidates) -> Any:
        reranker.r, reranker.n = 10, min(100, found.depth - 10)
        return reranker.rerank(found.docs.tolist(), found.scores.tolist())

    return run


if __name__ == "__main__":
    main()
