"""Searches in a warm process, beside Anserini's SimpleSearcher, bm25s and Pyserini's PRCL; and two processes beside one."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.engines.processes import ProcessEngine
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.lucene.index import FirstStage
from kernelsearch.lucene.models import RM3, BM25Model, Feedback
from kernelsearch.lucene.simple import simple_search, simple_searcher
from kernelsearch.rerankers.klsa.basis import fit_basis
from tools.bench.speed.collection import DIMS, Collection, command
from tools.bench.speed.measuring import Bench, Cost, clock_time, cpu_time
from tools.bench.speed.peers import FEW, HITS

#: The methods with their options; vectors, which the index has too, are another module's.
METHODS = {"klsa": {}, "pert": {}, "mslm": {}, "auto": {"vectors": "none"}}
#: Topics in warm processes, for BM25 (which takes a tenth of a millisecond for one) and for the methods, and of whole commands.
BM25_TOPICS, WARM_TOPICS, COMMANDS = 3000, 320, {"": 3000, "auto": 800}
#: Seconds until both processes are warm: for the first method, whose searches Java compiles in each of them, and for others.
FIRST_SECONDS, WARM_SECONDS = 12.0, 2.0
#: Queries of Anserini's RM3, which takes twenty times as long as BM25 and is the peer of every method.
FEEDBACK_TEXTS = 20
SEARCHER, RM3_PEER = "Anserini's SimpleSearcher", "Anserini's RM3"


def pipeline(collection: Collection, method: str = "", feedback: Feedback | None = None) -> Pipeline:
    """The pipeline of a `method` on `collection`, or the first stage alone; `feedback` is that of the first stage, or None."""
    options = dict(METHODS.get(method, {}))
    if method == "klsa":
        options["basis"] = str(fit_klsa(collection))
    return Pipeline(collection.index, FirstStage(feedback=feedback, hits=HITS), [(method, options)] if method else [])


def fit_klsa(collection: Collection) -> Path:
    """The folder of the basis of `collection`, which is fitted on the first call."""
    folder = collection.folder / "klsa"
    if not folder.exists():
        fit_basis(folder, collection.index.forward, BM25(k1=2.0, b=0.75), dims=DIMS)
    return folder


def run(bench: Bench, collections: list[Collection]) -> None:
    """Measures into `bench`: all paths on the first, smallest of `collections`, BM25, RM3 and `auto` on the larger ones too."""
    for collection in collections:
        _search(bench, collection, smallest=collection is collections[0])


def _search(bench: Bench, collection: Collection, smallest: bool) -> None:
    index, texts, size = collection.index, collection.texts, collection.documents
    # Java has compiled what it needs after the smallest collection; the first pair takes longest to warm up.
    options = {"unit": "CPU ms per query", "warm_up": 2 if smallest else 1}
    first = options | {"warm_up": 10 if smallest else 1}
    # Enough for a mean; `auto` has all of them, because it caches.
    measured_texts = texts if smallest else texts[:FEEDBACK_TEXTS]

    def ours(method: str = "", feedback: Feedback | None = None, asked: list[str] = measured_texts) -> Cost:
        ready = pipeline(collection, method, feedback)
        return cpu_time(lambda: [ready.search([index.query(text)]) for text in asked], 1000 / len(asked))

    def anserini(feedback: Feedback | None = None) -> Cost:
        searcher = simple_searcher(index.lucene, BM25Model(), feedback)
        asked = measured_texts if feedback is None else texts[:FEEDBACK_TEXTS]
        return cpu_time(lambda: [simple_search(searcher, text, HITS) for text in asked], 1000 / len(asked))

    bm25s = bench.libraries.task("bm25s", collection.folder, 1000 / len(texts))
    bench.compare("BM25", SEARCHER, size, ours(), anserini(), **first)
    bench.compare("BM25", "bm25s", size, ours(), bm25s, **options)
    bench.compare("RM3", SEARCHER, size, ours(feedback=RM3()), anserini(RM3()), **options)
    for method in METHODS if smallest else ("auto",):
        bench.compare(method, RM3_PEER, size, ours(method, asked=texts), anserini(RM3()), **options)
    if smallest:
        classifier = bench.pyserini.task("prcl", collection.folder, 1000 / FEW)
        bench.compare("prcl", "Pyserini's PRCL", size, ours("prcl", asked=texts[:FEW]), classifier, **options)


def run_threads(bench: Bench, collections: list[Collection]) -> None:
    """Measures into `bench` two processes beside one, by the clock: with both warm, and as whole commands.

    Only the first of `collections` is used.
    """
    collection = collections[0]
    size, unit = collection.documents, "ms per query by the clock"
    all_topics = [Topic(str(number), text) for number, text in enumerate(collection.random_texts(BM25_TOPICS))]
    with ProcessEngine(2) as engine:
        engine.start()
        for method in ("", *METHODS):
            ready, topics = pipeline(collection, method), all_topics[:WARM_TOPICS] if method else all_topics
            end = time.perf_counter() + (WARM_SECONDS if method else FIRST_SECONDS)
            while time.perf_counter() < end:  # the other process opens the index and compiles meanwhile
                list(run_topics(ready, topics, engine=engine))
            two = clock_time(partial(_run, ready, topics, engine), 1000 / len(topics))
            single = clock_time(partial(_run, ready, topics, None), 1000 / len(topics))
            bench.compare(f"{method or 'BM25'}, two processes", "one process", size, two, single, unit=unit, warm_up=1)
    for method, count in COMMANDS.items():
        path = collection.folder / f"{count}.tsv"
        path.write_text("".join(f"{number}\t{text}\n" for number, text in enumerate(collection.random_texts(count))))
        words = ["--index", collection.folder / "index", "--topics", path, "--output", collection.folder / "run.txt"]
        costs = [
            clock_time(partial(command, "kernelsearch.search", *words, *_flags(method), "--threads", threads), 1000 / count)
            for threads in ("2", "1")
        ]
        bench.compare(f"search --topics, {method or 'BM25'}, --threads 2", "--threads 1", size, *costs, unit=unit, warm_up=0)


def _run(ready: Pipeline, topics: list[Topic], engine: ProcessEngine | None) -> None:
    for _ in run_topics(ready, topics, engine=engine):
        pass


def _flags(method: str) -> list[str]:
    """The method and its options as flags of search."""
    options = [word for name, value in METHODS.get(method, {}).items() for word in (f"--{method}.{name}", value)]
    return ["--rerank", method, *options] if method else []
