"""The service under load beside Pyserini's REST server, and what its first requests cost."""

from __future__ import annotations

import time
import urllib.request
from contextlib import ExitStack
from itertools import count

from tools.bench import serve
from tools.bench.speed.collection import Collection
from tools.bench.speed.measuring import Bench, Cost, Pair

CLIENTS = (1, 8, 32)
#: Seconds of a round and of the warm-up.
ROUND, WARM_UP = 1.0, 4.0


def run(bench: Bench, collections: list[Collection]) -> None:
    """Measures into `bench` both servers by turns, on the first, smallest of `collections`."""
    collection = collections[0]
    index, texts, size = str(collection.folder / "index"), collection.texts, collection.documents
    python = bench.pyserini.python
    with ExitStack() as stack:
        starts = []
        for number in range(1, bench.repetitions):
            with serve.our_server(index, None) as server:
                starts.append(_first_times(server, texts[2 * number :]))
        ours = stack.enter_context(serve.our_server(index, None))
        _first_requests(bench, [*starts, _first_times(ours, texts)], size)
        theirs = stack.enter_context(serve.pyserini_server(str(python), index)) if python.exists() else None
        if theirs is None:
            bench.pyserini.missing["REST server"] = f"{python} does not exist"
        else:
            serve.same_lists(ours, theirs, texts)
        for server in (ours, *([theirs] if theirs else [])):
            serve.load(server, None, texts, 8, WARM_UP)
        for clients in CLIENTS if theirs is not None else ():
            assert theirs is not None
            _beside(bench, ours, theirs, texts, size, clients)
        serve.load(ours, "auto", texts, 8, WARM_UP)
        rounds = _Rounds(ours, "auto", texts, 8)
        for label, field in (("median", "p50"), ("99th percentile", "p99")):
            latency = rounds.figure(field)
            bench.add(Pair(f"auto, 8 clients, {label} of latency", "", size, latency, unit="ms by the clock", warm_up=0))


def _beside(bench: Bench, ours: serve.Server, theirs: serve.Server, texts: list[str], size: int, clients: int) -> None:
    """Time per answer by the clock, and CPU time per request with most clients, of the same rounds."""
    rounds = [_Rounds(server, None, texts, clients) for server in (ours, theirs)]
    for unit, field in (("ms per answer by the clock", "interval"), ("CPU ms per request", "cpu")):
        if field == "interval" or clients == CLIENTS[-1]:
            bench.compare(
                *(f"BM25, 10 hits, {clients} client{'s' if clients > 1 else ''}", "Pyserini's REST server", size),
                *(made.figure(field) for made in rounds),
                unit=unit,
                warm_up=0,
            )


class _Rounds:
    """Rounds of load on a server, from which several figures are taken; a round is made when the first figure needs it."""

    def __init__(self, server: serve.Server, method: str | None, texts: list[str], clients: int) -> None:
        self._make = lambda: serve.load(server, method, texts, clients, ROUND)
        self._server, self._made = server, list[serve.Figures]()

    def figure(self, field: str) -> Cost:
        """A function whose n-th call returns a figure of the n-th round: a `field` of `serve.Figures`, or `interval`.

        `interval` is the time between two answers in milliseconds.
        """
        places = count()

        def cost() -> float:
            place = next(places)
            if place == len(self._made):
                self._made.append(self._make())
            figures = self._made[place]
            if figures.errors:
                raise SystemExit(f"{self._server.name}: {figures.errors} errors")
            return 1000 / figures.rate if field == "interval" else float(getattr(figures, field))

        return cost


def _first_times(server: serve.Server, texts: list[str]) -> tuple[float, float, float]:
    """Milliseconds that clients wait right after the start: for the list of indexes, and for the first two `auto` requests.

    The queries are the first two of `texts`.
    """

    def milliseconds(path: str) -> float:
        start = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=60) as answer:
            answer.read()
        return (time.perf_counter() - start) * 1000

    listed = milliseconds("/v1/indexes")
    words = [text.replace(" ", "+") for text in texts[:2]]
    first, second = (milliseconds(f"/v1/bench/search?query={query}&rerank=auto") for query in words)
    return listed, first, second


def _first_requests(bench: Bench, starts: list[tuple[float, float, float]], size: int) -> None:
    """Adds the rows of `_first_times` of several `starts`, with other queries after each: one query costs more than another."""
    listed, first, second = (iter(column) for column in zip(*starts, strict=True))
    bench.add(Pair("/v1/indexes after the start", "", size, lambda: next(listed), unit="ms by the clock", warm_up=0))
    bench.compare(
        *("first auto request", "the second", size, lambda: next(first), lambda: next(second)),
        unit="ms by the clock",
        warm_up=0,
    )
