"""Milliseconds per query of `mslm` by matching mode, against the real pyserini's RM3 and PRCL, in one run.

    python -m tools.bench.mslm --index indexes/cran --topics topics.tsv [--rounds 3] [--queries 40] [--prcl-queries 5]

Every system answers the same queries one at a time on one thread, in turns, so that a busy machine slows them all alike;
figures are medians over rounds after a round of warming up, and the best round. Processor time is that of the whole process,
Java included: on a busy machine it says more than the clock. `mslm` and PRCL are given the first stage's list and timed from
there; RM3 is the whole search with its feedback. PRCL makes every document's vector anew for each query, which takes seconds:
it answers the first few queries only, once as it is and once with vectors that were made before. Train the index's graph first
(`python -m kernelsearch.train --rerank mslm`), or each setting builds one of its own while it is loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import kernelsearch
from kernelsearch.core.tables import text_table
from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.mslm.reranker import MultiScaleLM
from kernelsearch.trec import read_topics
from tools import environment

INF = float("inf")
DEFAULT = "mslm (default: local max, JS, scale 8)"
MODES: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "mslm, local mean": {"mode": "mean"},
    "mslm, global": {"mode": "global"},
    "mslm, interest points (4 levels)": {"mode": "points"},
    "mslm, local max, KL": {"divergence": "kl"},
    "mslm, local max, 5 levels (0, 1, 2, 4, ∞), JS": {"scales": (0, 1, 2, 4, INF)},
    "mslm, local max, 5 levels (0, 1, 2, 4, ∞), KL": {"scales": (0, 1, 2, 4, INF), "divergence": "kl"},
}
PEERS = {
    "pyserini RM3 (a whole search)": "rm3",
    "pyserini PRCL (LR)": "prcl",
    "pyserini PRCL (LR), documents' vectors kept": "prcl-kept",
}
#: A system: runs all queries at a depth and gives milliseconds per query, on the clock and on the processor.
System = Callable[[int], tuple[float, float]]


def main() -> None:
    """Measures all systems at every depth and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="the index to measure on")
    parser.add_argument("--topics", required=True, help="file of topics")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    parser.add_argument("--queries", type=int, default=40, help="number of topics, from the first on")
    parser.add_argument("--prcl-queries", type=int, default=5, help="number of topics that PRCL answers")
    parser.add_argument("--depths", type=int, nargs="+", default=[100, 1000], help="numbers of candidates per query")
    parser.add_argument("--pyserini", default=".venv-pyserini/bin/python", help="the Python that has the full pyserini")
    arguments = parser.parse_args()
    index = kernelsearch.open(arguments.index)
    texts = list(read_topics(arguments.topics).values())[: arguments.queries]
    queries = index.lucene.queries(texts)
    rerankers = {name: MultiScaleLM(index, **options) for name, options in MODES.items()}
    begun = time.perf_counter()
    rerankers[DEFAULT].apply(queries[0], index.lucene.search(queries[:1], 100)[0])
    print(f"first call after loading: {1000 * (time.perf_counter() - begun):.0f} ms, the first search included")
    lists = {depth: index.lucene.search(queries, depth) for depth in arguments.depths}
    systems: dict[str, System] = {name: ours(reranker, queries, lists) for name, reranker in rerankers.items()}
    if Path(arguments.pyserini).exists():
        systems |= peers(arguments.pyserini, arguments.index, texts, arguments.prcl_queries, arguments.depths)
    else:
        print(f"{arguments.pyserini}: not found; make .venv-pyserini/.ready builds it. RM3 and PRCL are left out")
    for depth in arguments.depths:
        print(
            f"\n{depth} candidates asked for, {np.mean([candidates.depth for candidates in lists[depth]]):.0f} found on average"
        )
        report(systems, depth, arguments.rounds)


def ours(reranker: MultiScaleLM, queries: list[Query], lists: dict[int, list[Candidates]]) -> System:
    """A system: `reranker` on the first stage's `lists` (by depth) of `queries`."""

    def run(depth: int) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        for query, result in zip(queries, lists[depth], strict=True):
            reranker.apply(query, result)
        count = len(queries)
        return 1000 * (time.perf_counter() - wall) / count, 1000 * (time.process_time() - cpu) / count

    return run


def peers(python: str, index: str, texts: list[str], few: int, depths: list[int]) -> dict[str, System]:
    """Pyserini's systems by label, in one process, which stays warm from round to round and ends with this one.

    Parameters
    ----------
    python : the interpreter that has the full pyserini
    index : the folder of the index
    texts : the queries
    few : number of queries that PRCL answers
    depths : the lengths of the lists that will be asked for
    """
    module = "tools.bench.mslm_pyserini"
    # Its own messages (a vectorizer's progress, Java's warnings) would hide the tables.
    process = subprocess.Popen(
        [python, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    assert process.stdin is not None and process.stdout is not None
    asked, answers = process.stdin, process.stdout

    def ask(line: str) -> Any:
        asked.write(line + "\n")
        asked.flush()
        answer = answers.readline()
        if not answer:
            raise SystemExit(f"{python} -m {module}: ended without an answer; run it by hand to see why")
        return json.loads(answer)

    ask(json.dumps({"index": str(Path(index).resolve()), "queries": texts, "few": few, "depths": depths}))

    def system(name: str) -> System:
        return lambda depth: tuple(ask(f"{name} {depth}"))

    return {label: system(name) for label, name in PEERS.items()}


def report(systems: dict[str, System], depth: int, rounds: int) -> None:
    """Prints medians over `rounds` of all systems (by name) at one `depth`, and the best round's processor time."""
    result: dict[str, list[tuple[float, float]]] = {name: [] for name in systems}
    for number in range(rounds + 1):
        for name, run in systems.items():
            figures = run(depth)
            if number:  # the first round warms up
                result[name].append(figures)
    rows = []
    for name, times in result.items():
        clock, used = zip(*times, strict=True)
        rows.append((name, f"{statistics.median(clock):.1f}", f"{statistics.median(used):.1f}", f"{min(used):.1f}"))
    print(text_table(("one query at a time, one thread", "median ms", "CPU ms", "best round, CPU ms"), rows))


if __name__ == "__main__":
    main()
