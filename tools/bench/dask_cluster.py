"""Throughput of batch reranking on a Dask cluster of 1 and 2 workers on this machine, beside a single process.

    python -m tools.bench.dask_cluster --index INDEX --topics TOPICS [--rerank klsa] [--workers 1 2]

Each contender is a process of its own: it opens everything with a few topics first (not timed), then does all topics. Their
runs must agree in every digit. On a machine with other work the ratio of CPU seconds says more than the wall clock.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from typing import Any

from tools import environment

WARM = 64


def main() -> None:
    """Starts one process per contender and prints their throughput; with --contender, is that process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="the index to measure on")
    parser.add_argument("--topics", required=True, help="file of topics")
    parser.add_argument("--rerank", default="klsa", help="method")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of Dask workers")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contender is not None:
        print(json.dumps(measure(arguments)))
        return
    from kernelsearch.core.tables import text_table

    result = {}
    for contender in ("local", *map(str, arguments.workers)):
        command = [sys.executable, "-m", "tools.bench.dask_cluster", *sys.argv[1:], "--contender", contender]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment(OMP_NUM_THREADS="1"))
        result[contender] = json.loads(done.stdout.splitlines()[-1])
    if len({figures["digest"] for figures in result.values()}) != 1:
        raise SystemExit("the contenders' lists differ: nothing to compare")
    single = result["local"]["rate"]
    rows = [
        (
            "single process" if name == "local" else f"Dask, {name} worker{'s' if name != '1' else ''}",
            f"{figures['rate']:.1f}",
            f"{figures['rate'] / single:.2f}",
            f"{1000 * figures['cpu'] / figures['topics']:.1f}",
            f"{figures['start']:.1f}",
        )
        for name, figures in result.items()
    ]
    print(text_table(("engine", "queries/s", "times one", "CPU ms per query", "start-up s"), rows))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Reranks all topics with one engine.

    `arguments` are those of the command line; `arguments.contender` is "local" or a number of Dask workers. Returns queries per
    second (`rate`), CPU seconds (`cpu`), number of topics, seconds until the timed part (`start`) and a checksum of the lists.
    """
    from kernelsearch.api.index import Index
    from kernelsearch.api.topics import Topic, run_topics
    from kernelsearch.core.execution import LocalEngine
    from kernelsearch.trec import read_topics

    begin = time.perf_counter()
    index = Index(arguments.index)
    pipeline = index.pipeline(arguments.rerank)
    topics = [Topic(qid, text) for qid, text in read_topics(arguments.topics).items()]
    if arguments.contender == "local":
        engine: Any = LocalEngine()
    else:
        from kernelsearch.engines.dask import DaskEngine

        engine = DaskEngine(workers=int(arguments.contender))
    with engine:
        list(run_topics(pipeline, topics[:WARM], engine=engine, batch_size=8))
        start, cpu = time.perf_counter(), processor(engine)
        lists = [
            (ranking.qid, ranking.docids, ranking.scores)
            for ranking in run_topics(pipeline, topics, engine=engine, batch_size=32)
        ]
        seconds, used = time.perf_counter() - start, processor(engine) - cpu
    digest = hashlib.sha256(json.dumps(lists).encode()).hexdigest()
    return {"rate": len(topics) / seconds, "cpu": used, "topics": len(topics), "start": start - begin, "digest": digest}


def processor(engine: Any) -> float:
    """CPU seconds of this process and of all workers of `engine` so far."""
    workers = engine.client.run(time.process_time).values() if engine.name == "dask" else ()
    return time.process_time() + sum(workers)


if __name__ == "__main__":
    main()
