"""Milliseconds per query of `pert` against Anserini's RM3 and Rocchio, and Pyserini's RM3 from Python, in one run.

    python -m tools.bench.pert --index indexes/cacm --topics topics.tsv [--rounds 5] [--hits 1000]

Every system answers the same queries one at a time on one thread, in turns, so that a busy machine slows them all alike; the
figure is the median round. CPU time is that of the whole process, Java's threads included: on a busy machine it says more than
the clock. Pyserini is measured where it can be imported (it needs torch), and said to be missing where it can't.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import kernelsearch
from kernelsearch.core.tables import text_table
from kernelsearch.lucene.models import RM3, Rocchio
from kernelsearch.rerankers.base import CannotAct, Context
from kernelsearch.rerankers.pert.reranker import PerturbationReranker
from kernelsearch.trec import read_topics

Round = Callable[[], None]


def main() -> None:
    """Measures all systems and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="the index to measure on")
    parser.add_argument("--topics", required=True, help="file of topics")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    parser.add_argument("--hits", type=int, default=1000, help="documents per query of the first stage")
    parser.add_argument("--queries", type=int, default=60, help="number of topics, from the first on")
    arguments = parser.parse_args()
    index = kernelsearch.open(arguments.index)
    texts = list(read_topics(arguments.topics).values())[: arguments.queries]
    systems = make_systems(index, texts, arguments.hits)
    pyserini = make_pyserini(arguments.index, texts, arguments.hits)
    if pyserini is None:
        print("Pyserini can't be imported here: its row is left out")
    else:
        systems["Pyserini, set_rm3"] = pyserini
    for run in systems.values():  # the first round warms Java up and isn't counted
        run()
    wall: dict[str, list[float]] = {name: [] for name in systems}
    cpu: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(arguments.rounds):
        for name, run in systems.items():
            clock, used = time.perf_counter(), time.process_time()
            run()
            wall[name].append(1000 * (time.perf_counter() - clock) / len(texts))
            cpu[name].append(1000 * (time.process_time() - used) / len(texts))
    rows = [(name, f"{statistics.median(wall[name]):.2f}", f"{statistics.median(cpu[name]):.2f}") for name in systems]
    print(text_table(("one query at a time, one thread", "median ms", "CPU ms"), rows))
    for label, times in (("clock", wall), ("CPU", cpu)):
        middle = {name: statistics.median(values) for name, values in times.items()}
        beyond = middle["pert, total"] - middle["first search"] - middle["second search"]
        print(f"pert beyond its two searches, by {label}: {beyond:.2f} ms per query")


def make_systems(index: kernelsearch.Index, texts: list[str], hits: int) -> dict[str, Round]:
    """The systems that run inside this project by name, each as one round over all queries.

    `index` is the opened index, `texts` are the queries, `hits` is the number of documents per query.
    """
    lucene = index.lucene
    reranker, plain, context = PerturbationReranker(index), PerturbationReranker(index, method="rm3-all"), Context(hits=hits)
    queries = lucene.queries(texts)
    lists = lucene.search(queries, hits)
    expanded = []
    for query, result in zip(queries, lists, strict=True):
        try:
            expanded.append(reranker.expanded(query, result))
        except CannotAct:
            expanded.append(query)

    def searching(feedback: RM3 | Rocchio | None) -> Round:
        def run() -> None:
            for text in texts:
                lucene.search([index.query(text)], hits, feedback=feedback)

        return run

    def second() -> None:
        for query in expanded:
            lucene.search([query], hits)

    def expanding() -> None:
        for query, result in zip(queries, lists, strict=True):
            if result.depth:
                reranker.expanded(query, result)

    def expansion_with(method: PerturbationReranker) -> Round:
        def run() -> None:
            for text in texts:
                query = index.query(text)
                method.apply(query, lucene.search([query], hits)[0], context)

        return run

    def batched() -> None:
        together = lucene.queries(texts)
        reranker.apply_batch(together, lucene.search(together, hits), context)

    return {
        "first search": searching(None),
        "second search": second,
        "pert, expansion alone": expanding,
        "pert, total": expansion_with(reranker),
        "pert, total, in one batch": batched,
        "pert --pert.method rm3-all, total": expansion_with(plain),
        "Anserini RM3, total": searching(RM3()),
        "Anserini Rocchio, total": searching(Rocchio()),
    }


def make_pyserini(path: str, texts: list[str], hits: int) -> Round | None:
    """Pyserini's own searcher with RM3 on the index at `path`, hit by hit into Python; None where it can't be imported.

    The round answers the queries `texts` with `hits` documents each.
    """
    try:
        from pyserini.search.lucene import LuceneSearcher
    except ImportError:
        return None
    searcher = LuceneSearcher(path)
    searcher.set_bm25(0.9, 0.4)
    searcher.set_rm3()

    def run() -> None:
        for text in texts:
            for hit in searcher.search(text, hits):
                _ = hit.docid, hit.score

    return run


if __name__ == "__main__":
    main()
