"""What the integrations add to the time of the core, and whether 10,000 queries from 8 threads leave anything behind.

    python -m tools.bench.dropin --index indexes/cacm --topics topics.tsv [--rounds 5] [--queries 10000]

The core is a pipeline's search, or its rerank of lists of docids and scores, with docids and scores at the end, as the
command line runs it. Hits are made when they are looked at, so there are two figures: what a call adds, and what it adds
where every hit's docid and score are read afterwards. Core and adapter take turns query by query, and each query's shortest
time over the rounds counts, so that a busy machine disturbs neither. Time is the process's CPU time.
"""

from __future__ import annotations

import argparse
import importlib.util
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import kernelsearch
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.tables import text_table
from kernelsearch.core.types import Candidates, Query
from kernelsearch.integrations.pyserini import KernelReranker, KernelSearcher
from kernelsearch.trec import read_topics
from tools.bench.process_memory import process_memory


@dataclass
class Hit:
    """A hit as another library returns it: any object with `docid` and `score`."""

    docid: str
    score: float


def main() -> None:
    """Prints the table of all adapters and methods, then memory and threads of many queries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="the index to measure on")
    parser.add_argument("--topics", required=True, help="file of topics")
    parser.add_argument("--methods", default="klsa,pert,mslm", help="methods to measure, besides none")
    parser.add_argument("--hits", type=int, default=1000, help="documents per query of the first stage")
    parser.add_argument("--topics-count", type=int, default=30, help="number of topics, from the first on")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    parser.add_argument("--queries", type=int, default=10_000, help="queries of the test for leaks; 0 leaves it out")
    arguments = parser.parse_args()
    index = kernelsearch.open(arguments.index)
    topics = dict(list(read_topics(arguments.topics).items())[: arguments.topics_count])
    rows = []
    for name in (None, *arguments.methods.split(",")):
        rows += compare(index, topics, name, arguments.hits, arguments.rounds)
    header = ("adapter", "method", "core ms", "call ms", "added", "all read ms", "added")
    print(text_table(header, rows, align="<<>>>>>"))
    if arguments.queries:
        leaks(index, list(topics.values()), arguments.queries)


def compare(index: kernelsearch.Index, topics: dict[str, str], name: str | None, hits: int, rounds: int) -> list[tuple]:
    """The rows of one method: the time per query in the core and through each adapter.

    Parameters
    ----------
    index : the opened index
    topics : texts of queries by topic id
    name : the method, None for the first stage alone
    hits : documents per query of the first stage
    rounds : timed rounds
    """
    pipeline = index.pipeline(name, hits=hits)
    texts, qids = list(topics.values()), list(topics)

    def search(text: str) -> list[str]:
        result = pipeline.search([index.query(text)])[0]
        return docids_and_scores(index, result)[0]

    searcher = KernelSearcher(index, rerank=name, hits=hits)
    label = name or "none"
    rows = [row("KernelSearcher.search", label, search, lambda text: searcher.search(text, hits), read, texts, rounds)]
    rows.append(row("Index.search, k=10", label, search, lambda text: index.search(text, name, hits=hits), read, texts, rounds))
    rows.append(
        row(
            "KernelSearcher.batch_search",
            label,
            lambda _: [docids_and_scores(index, result) for result in pipeline.search(index.lucene.queries(texts, qids))],
            lambda _: searcher.batch_search(texts, qids, k=hits),
            lambda lists: [read(ranking) for ranking in lists.values()],
            [""],
            rounds * 2,
        )
    )
    if name is not None:
        rows += rerank_rows(index, name, texts, hits, rounds)
    if importlib.util.find_spec("pyterrier") is not None and name is not None:
        rows.append(pyterrier_row(index, pipeline, name, topics, hits, rounds))
    return rows


def rerank_rows(index: kernelsearch.Index, name: str, texts: Sequence[str], hits: int, rounds: int) -> list[tuple]:
    """The rows of `KernelReranker` on `index`, which reranks first-stage lists of `hits` documents for the queries `texts`.

    `name` is the method, `rounds` the number of timed rounds.
    """
    reranker = KernelReranker(index, name)
    lists = {text: docids_and_scores(index, index.lucene.search([index.query(text)], hits)[0]) for text in texts}
    objects = {text: [Hit(*pair) for pair in zip(*both, strict=True)] for text, both in lists.items()}

    def core(text: str) -> tuple[list[str], list[float]]:
        docids, scores = lists[text]
        arguments = Candidates(index.forward.rows_of(docids), np.array(scores))
        return docids_and_scores(index, reranker._apply([index.query(text)], [arguments])[0])

    return [
        row(
            "KernelReranker.rerank(query, hits)",
            name,
            core,
            lambda text: reranker.rerank(text, objects[text]),
            read,
            texts,
            rounds,
        ),
        row(
            "KernelReranker.rerank(docids, ...)",
            name,
            core,
            lambda text: reranker.rerank(*lists[text], text),
            None,
            texts,
            rounds,
        ),
    ]


def pyterrier_row(
    index: kernelsearch.Index, pipeline: Pipeline, name: str, topics: dict[str, str], hits: int, rounds: int
) -> tuple:
    """The row of PyTerrier's retriever and method; the core searches all `topics` (texts by id) in one batch with `pipeline`.

    `index` is that of both, `name` the method, `hits` the documents per query, `rounds` half the number of timed rounds.
    """
    import pandas as pd

    import kernelsearch.integrations.pyterrier as ks

    kinds = {"klsa": ks.KernelLSA, "pert": ks.Perturbation, "mslm": ks.MultiScaleLM}
    transformer = ks.Retriever(index, hits) >> kinds[name](index)
    frame = pd.DataFrame(topics.items(), columns=["qid", "query"])
    queries = list(topics.values())

    def core(_: str) -> list:
        analysed: list[Query] = index.lucene.queries(queries, list(topics))
        return [docids_and_scores(index, result) for result in pipeline.search(analysed)]

    return row("PyTerrier: retriever >> method", name, core, lambda _: transformer(frame), None, [""], rounds * 2)


def read(hits: Sequence) -> list[tuple[str, float]]:
    """What a script does with hits."""
    return [(hit.docid, hit.score) for hit in hits]


def docids_and_scores(index: kernelsearch.Index, result: Candidates) -> tuple[list[str], list[float]]:
    """The docids and scores of a ranked list `result`, which has row numbers of `index`."""
    return index.forward.docids.take(result.docs), result.scores.tolist()


def row(
    adapter: str,
    method: str,
    core: Callable,
    call: Callable,
    reading: Callable | None,
    inputs: Sequence[str],
    rounds: int,
) -> tuple[str, ...]:
    """A row of the table.

    Parameters
    ----------
    adapter : the name of the adapter
    method : the name of the method
    core : answers one input without the adapter
    call : answers one input through the adapter
    reading : reads every hit of the adapter's answer; None: the answer has docids and scores already
    inputs : queries; one empty text where `core` and `call` answer all queries in one call
    rounds : timed rounds
    """
    functions = [core, call] + ([lambda text: reading(call(text))] if reading else [])
    times = np.full((len(functions), rounds, len(inputs)), np.inf)
    for text in inputs:  # warm
        for function in functions:
            function(text)
    for turn in range(rounds):
        for place, text in enumerate(inputs):
            for number in np.roll(np.arange(len(functions)), turn).tolist():
                start = time.process_time()
                functions[number](text)
                times[number, turn, place] = time.process_time() - start
    best = times.min(axis=1).sum(axis=1)
    milliseconds = 1000 * best / len(inputs)
    shown = [f"{milliseconds[0]:.2f}"]
    for number in range(1, len(functions)):
        shown += [f"{milliseconds[number]:.2f}", f"{best[number] / best[0] - 1:+.1%}"]
    return (adapter, method, *shown, *([] if reading else ["", ""]))


def leaks(index: kernelsearch.Index, texts: Sequence[str], queries: int, threads: int = 8) -> None:
    """Prints memory and Java's threads before and during `queries` searches for `texts` in `index`.

    They come from `threads` threads, which are started anew for every fifth of the searches.
    """
    searcher = KernelSearcher(index, rerank="pert", hits=50)

    def work(start: int, count: int) -> None:
        for place in range(start, start + count):
            searcher.search(texts[place % len(texts)])

    def round_of(count: int) -> None:
        workers = [threading.Thread(target=work, args=(number, count // threads)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    round_of(400)
    from jnius import autoclass

    java = autoclass("java.lang.Thread")
    print(f"\n{'queries':>8} {'Java threads':>13} {'memory, MB':>11}")
    for done in range(6):
        if done:
            round_of(queries // 5)
        megabytes = process_memory("VmRSS") / 1e6
        print(f"{400 + done * queries // 5:>8} {java.activeCount():>13} {megabytes:>11.0f}", flush=True)


if __name__ == "__main__":
    main()
