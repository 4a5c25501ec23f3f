"""Measures the service under load beside pyserini's own REST server: the same index, queries and machine, by turns.

    python -m tools.bench.serve --index indexes/cacm --topics topics.tsv --pyserini .venv-pyserini/bin/python
    python -m tools.bench.serve --index indexes/cacm --topics topics.tsv --methods klsa --clients 8 --memory 0

The load comes from `tools.bench.load` on loopback, with connections kept open. Each figure is the median of several rounds, in
which the two servers take turns. Requests per second depend on what else the machine does, and the load generator takes its
share of it; the CPU milliseconds that a server spends on a request don't. Both servers must give the same lists, or nothing is
measured.

pyserini's server only opens indexes that it can download. Here it is started with its one function for opening them replaced by
one that opens the index under test, on the Java that ours uses too; everything else is its own. It also
imports an encoder of images that it doesn't install; nothing here uses it, and an empty one replaces it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.core.tables import text_table
from kernelsearch.trec import read_topics
from tools import environment
from tools.bench.load import run_load
from tools.bench.process_memory import process_memory

PYSERINI = """
import sys, uvicorn
from tools.bench.probes import start_java
start_java()
from unittest.mock import MagicMock
for name in ("", ".uniir_corpus_encoder", ".uniir_query_encoder"):
    sys.modules["uniir_for_pyserini.pyserini_integration" + name] = MagicMock()
sys.modules["uniir_for_pyserini"] = MagicMock()
from pyserini.search.lucene import LuceneSearcher
LuceneSearcher.from_prebuilt_index = classmethod(lambda cls, *_, **__: cls(sys.argv[1]))
from pyserini.server.rest.app import app
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
"""


@dataclass
class Server:
    """A server process and how it is asked."""

    name: str
    process: subprocess.Popen[bytes]
    port: int

    def request(self, text: str, method: str | None) -> bytes:
        """The bytes of an HTTP request for ten hits of the query `text`; `method` reranks, None for BM25 alone."""
        if self.name == "pyserini":
            body = json.dumps({"query": text, "hits": 10}).encode()
            head = f"POST /v1/indexes/msmarco-v1-passage/search HTTP/1.1\r\nContent-Length: {len(body)}\r\n"
            return f"{head}Content-Type: application/json\r\nHost: 127.0.0.1\r\n\r\n".encode() + body
        chosen = {"query": text, "hits": 10} | ({"rerank": method} if method else {})
        return f"GET /v1/bench/search?{urllib.parse.urlencode(chosen)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()

    def docids(self, text: str) -> list[str]:
        """The docids of the first ten documents for the query `text`."""
        url = f"http://127.0.0.1:{self.port}"
        if self.name == "pyserini":
            data = json.dumps({"query": text, "hits": 10}).encode()
            kind = {"Content-Type": "application/json"}
            call = urllib.request.Request(f"{url}/v1/indexes/msmarco-v1-passage/search", data, kind)
        else:
            call = urllib.request.Request(f"{url}/v1/bench/search?{urllib.parse.urlencode({'query': text, 'hits': 10})}")
        with urllib.request.urlopen(call, timeout=60) as answer:
            return [entry["docid"] for entry in json.load(answer)["candidates"]]

    def cpu_seconds(self) -> float:
        """CPU seconds of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Resident memory of the process."""
        return process_memory("VmRSS", self.process.pid) / 1e6


@dataclass
class Figures:
    """One round: requests per second, percentiles of the latency in ms, CPU ms per request, answers other than 200."""

    rate: float
    p50: float
    p99: float
    cpu: float
    errors: int


def main() -> None:
    """Starts the servers and prints the tables of load and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="an index on which the methods are fitted")
    parser.add_argument("--topics", required=True, help="the queries")
    parser.add_argument("--clicks", help="a click log, for the methods that need one")
    parser.add_argument("--pyserini", help="the Python that has the full pyserini; without it only ours is measured")
    parser.add_argument("--methods", default="klsa,mslm,pert,auto", help="methods to measure, besides BM25")
    parser.add_argument("--clients", default="1,8,32", help="connections")
    parser.add_argument("--seconds", type=int, default=5, help="duration of a round")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    parser.add_argument("--warm-up", type=int, default=2000, help="requests before a list is measured")
    parser.add_argument("--memory", type=int, default=20_000, help="requests of the test of memory; 0 leaves it out")
    arguments = parser.parse_args()
    texts = list(read_topics(arguments.topics).values())
    with ExitStack() as stack:
        ours = stack.enter_context(our_server(arguments.index, arguments.clicks))
        servers = [ours]
        if arguments.pyserini:
            servers.append(stack.enter_context(pyserini_server(arguments.pyserini, arguments.index)))
            same_lists(ours, servers[1], texts)
        methods = [None, *(name for name in arguments.methods.split(",") if name)]
        clients = [int(n) for n in arguments.clients.split(",")]
        print(load_table(servers, methods, texts, clients, arguments.seconds, arguments.rounds, arguments.warm_up))
        if arguments.memory:
            print("\n" + memory_table(ours, methods, texts, arguments.memory))


def load_table(
    servers: list[Server],
    methods: list[str | None],
    texts: list[str],
    clients: list[int],
    seconds: int,
    rounds: int,
    warm_up: int,
) -> str:
    """Figures of every server, method and number of clients; pyserini's server has BM25 alone.

    Parameters
    ----------
    servers : ours, and pyserini's where it is measured
    methods : names of rerankers; None is BM25 alone
    texts : the queries
    clients : numbers of connections
    seconds : duration of a round
    rounds : timed rounds; the medians count
    warm_up : requests to each server before a method is measured
    """
    rows = []
    for method in methods:
        asked = [server for server in servers if method is None or server.name != "pyserini"]
        for server in asked:
            done = 0.0
            while done < warm_up:  # what Java compiles at first isn't measured
                done += 2 * load(server, method, texts, 4, 2).rate
        for count in clients:
            result: dict[str, list[Figures]] = {server.name: [] for server in asked}
            for _ in range(rounds):
                for server in asked:
                    result[server.name].append(load(server, method, texts, count, seconds))
            for name, figures in result.items():
                rows.append((name, method or "BM25", count, *medians(figures)))
    header = ("server", "list", "clients", "requests/s", "p50 ms", "p99 ms", "CPU ms per request", "errors")
    return text_table(header, rows, align="<<>>>>>>")


def medians(figures: list[Figures]) -> tuple[str, ...]:
    """The cells of a row: medians over the rounds in `figures`, and the sum of the errors."""

    def middle(name: str) -> float:
        return statistics.median(getattr(round_figures, name) for round_figures in figures)

    errors = sum(round_figures.errors for round_figures in figures)
    return f"{middle('rate'):.0f}", f"{middle('p50'):.1f}", f"{middle('p99'):.1f}", f"{middle('cpu'):.2f}", str(errors)


def load(server: Server, method: str | None, texts: list[str], clients: int, seconds: float) -> Figures:
    """One round of load on `server` by so many `clients` for so many `seconds`.

    `texts` are the queries, `method` is the reranker, None for BM25 alone.
    """
    before = server.cpu_seconds()
    seen = run_load(server.port, [server.request(text, method) for text in texts], clients, seconds)
    spent = server.cpu_seconds() - before
    return Figures(seen.rate, seen.percentile(50), seen.percentile(99), 1000 * spent / max(seen.requests, 1), seen.errors)


def memory_table(server: Server, methods: list[str | None], texts: list[str], total: int) -> str:
    """The resident memory of `server` during `total` requests of four random words of `texts`, each by one of `methods`."""
    import http.client

    words = sorted({word for text in texts for word in text.split()})
    choose = random.Random(1)
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    rows = []
    for number in range(total + 1):
        if number % max(total // 10, 1) == 0:
            rows.append((number, f"{server.megabytes():.0f}"))
        text, method = " ".join(choose.sample(words, 4)), choose.choice(methods)
        chosen = {"query": text} | ({"rerank": method} if method else {})
        line.request("GET", f"/v1/bench/search?{urllib.parse.urlencode(chosen)}")
        answer = line.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"{method or 'BM25'}: {text!r} was answered with {answer.status}")
    return text_table(("requests", "resident MB"), rows, align=">>")


def same_lists(ours: Server, theirs: Server, texts: list[str]) -> None:
    """Ends the program where the servers `ours` and `theirs` differ on one of the first twenty queries of `texts`."""
    for text in texts[:20]:
        if ours.docids(text) != theirs.docids(text):
            raise SystemExit(f"the servers' lists differ for {text!r}")


@contextmanager
def our_server(index: str, clicks: str | None):
    """Runs the service of this project on `index` while the context lasts; `clicks` is a click log or None."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "kernelsearch.serve",
        "--index",
        f"bench={index}",
        "--port",
        str(port),
        "--waiting",
        "1000",
    ]
    with running(Server("kernelsearch", start([*command, *(["--clicks", clicks] if clicks else [])]), port)) as server:
        yield server


@contextmanager
def pyserini_server(python: str, index: str):
    """Runs pyserini's server on `index` while the context lasts; `python` is an interpreter that has the full pyserini."""
    port = free_port()
    with running(Server("pyserini", start([python, "-c", PYSERINI, index, str(port)]), port)) as server:
        yield server


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Starts `command` without waiting for it; its output is discarded."""
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=None, env=environment())


@contextmanager
def running(server: Server):
    """Waits until `server` answers, and stops it at the end."""
    try:
        for _ in range(1200):
            if server.process.poll() is not None:
                raise SystemExit(f"{server.name}: the server ended with status {server.process.returncode}")
            try:
                server.docids("test")
                break
            except OSError:
                time.sleep(0.5)
        else:
            raise SystemExit(f"{server.name}: the server doesn't answer")
        yield server
    finally:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
