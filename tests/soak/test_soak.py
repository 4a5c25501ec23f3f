"""Many queries from many threads, and services under load and abuse: equal answers, and no growth of memory or open files.

`make test-soak` runs it for about two minutes; KERNELSEARCH_SOAK_QUERIES (per thread, default: 300) and
KERNELSEARCH_SOAK_SECONDS (of the services, default: 30) make it longer.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import kernelsearch
from kernelsearch.clicks.store import ClickLog
from kernelsearch.trec import read_topics
from tests.conftest import DEMO, ROOT, write_jsonl
from tools.bench.process_memory import process_memory

pytestmark = pytest.mark.soak

THREADS, CLIENTS = 8, 32
QUERIES = int(os.environ.get("KERNELSEARCH_SOAK_QUERIES", "300"))
SECONDS = float(os.environ.get("KERNELSEARCH_SOAK_SECONDS", "30"))
#: Growth that is not taken for a leak: caches fill, and allocators keep what they were given back.
ALLOWED_MEMORY, ALLOWED_FILES = 60 << 20, 10
METHODS = (None, "klsa", "mslm", "pert", "auto", ["pert", "klsa"])
FIRST_STAGES = ({}, {"rm3": True}, {"qld": True}, {"k1": 1.2, "b": 0.6})


def open_files(pid: int | str = "self") -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.fixture(scope="module")
def fitted_index(demo_index, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("soak") / "demo"
    shutil.copytree(demo_index.path, path)
    index = kernelsearch.open(path)
    index.train("klsa", dims=30)
    index.train("mslm")
    return path


def test_threads_give_what_one_thread_gives_and_leave_nothing_behind(fitted_index):
    index = kernelsearch.open(fitted_index)
    topics = list(read_topics(DEMO / "topics.tsv").values())
    kinds = [(method, first) for method in METHODS for first in FIRST_STAGES]

    def search(number: int) -> tuple:
        method, first = kinds[number % len(kinds)]
        results = index.search(topics[number % len(topics)], rerank=method, hits=200, k=20, **first)
        return tuple((hit.docid, hit.score) for hit in results)

    numbers = range(THREADS * QUERIES)
    distinct = len(kinds) * len(topics)
    expected = [search(number) for number in range(min(distinct, len(numbers)))]

    def check(number: int) -> None:
        assert search(number) == expected[number % distinct], number

    def measure() -> tuple[int, int]:
        """Memory and open files, with the same pipelines in the index's cache whenever it is called."""
        for number in range(len(kinds)):
            check(number)
        gc.collect()
        return process_memory("VmRSS"), open_files()

    together = threading.Barrier(THREADS)

    def warm_up(_: int) -> None:
        together.wait()  # so that every thread of the pool has one of these calls
        for number in range(len(kinds)):
            check(number)

    with ThreadPoolExecutor(THREADS) as pool:
        # Each thread opens files of its own on its first query of a kind, such as click databases.
        list(pool.map(warm_up, range(THREADS)))
        list(pool.map(check, numbers[: len(numbers) // 2]))
        memory, files = measure()
        list(pool.map(check, numbers[len(numbers) // 2 :]))
        memory_after, files_after = measure()
    assert memory_after - memory < ALLOWED_MEMORY
    assert files_after - files <= ALLOWED_FILES


#: Documents that are added to the collection and deleted again while it is served.
EXTRA = [{"id": f"extra{n}", "contents": f"A dripping tap or a cold radiator, number {n}."} for n in range(5)]
#: Seconds between two changes of the index, and between two kills of the second service.
CHANGE_EVERY, KILL_EVERY = 12.0, 25.0


class Server:
    """A service in a process of its own, with short time limits for requests that are not complete."""

    def __init__(self, live: Path, log: Path, port: int = 0) -> None:
        limits = ["--request-timeout", "4", "--threads", "4", "--waiting", "16", "--timeout", "60", "--click-rate", "1000000"]
        command = [sys.executable, "-m", "kernelsearch.serve", "--index", f"live={live}", "--port", str(port)]
        with open(log, "ab") as stream:
            start = stream.tell()
            self.process = subprocess.Popen(
                [*command, "--record-clicks", "--mcp", *limits], cwd=ROOT, stdout=stream, stderr=stream
            )
        while not (match := re.search(rb"http://127.0.0.1:(\d+)/", log.read_bytes()[start:])):
            assert self.process.poll() is None, log.read_bytes()[start:]
            time.sleep(0.05)
        self.port = int(match[1])

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(300)


def change(live: Path, *flags: str | Path) -> None:
    """Adds or deletes documents with the command, which exchanges the index."""
    command = [sys.executable, "-m", "kernelsearch.index", "--index", live, *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def fetch(port: int, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
        method, content = ("POST", json.dumps(body)) if body else ("GET", None)
        connection.request(method, path, content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()


def comparable(answer: bytes) -> str:
    """An answer without what differs between two equal requests: times, and the token for clicks."""
    return re.sub(r'"(seconds|milliseconds|took|time|impression)":("[^"]*"|[-0-9.e]+),?', "", answer.decode())


class Clients:
    """Requests and abuse of two services; counts statuses, and the clicks that were acknowledged or may have been recorded."""

    def __init__(self, ports: tuple[int, int], topics: list[str], states: list[dict[str, str]]) -> None:
        self.ports, self.topics, self.states = ports, topics, states
        self.stop = threading.Event()
        self.statuses: Counter[int] = Counter()
        self.clicked, self.unsure, self.broken, self.cut = 0, 0, 0, 0
        self.seen: Counter[int] = Counter()  # answers by state
        self.problems: list[str] = []
        self.lock = threading.Lock()

    def count(self, status: int) -> None:
        with self.lock:
            self.statuses[status] += 1

    def ask(self, generator: random.Random, port: int) -> None:
        """A request whose answer must be that of one of the states."""
        path = generator.choice(list(self.states[0]))
        if generator.random() < 0.1:  # closed before the answer
            with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
                connection.request("GET", path)
                return
        status, body = fetch(port, path)
        self.count(status)
        if status == 200:
            shown = comparable(body)
            matching = [number for number, answers in enumerate(self.states) if answers[path] == shown]
            with self.lock:
                self.seen.update(matching)
                if not matching:
                    self.problems.append(f"an answer of no state: {path}: {shown[:300]}")

    def other(self, generator: random.Random, port: int) -> None:
        """Requests of other endpoints, and requests beyond the limits."""
        query = quote(generator.choice(self.topics))
        path, body = generator.choice(
            [
                ("/v1/live/suggest?prefix=d", None),
                ("/health", None),
                ("/v1/indexes", None),
                (f"/v1/live/search?query={query}&hits=99999", None),
                (f"/v1/live/search?query={'a' * 5000}", None),
                ("/nothing", None),
                (f"/v1/live/click?{'a' * 3000}", {"query": "a" * 100_000}),
                ("/v1/live/batch", {"queries": ["tap"] * 1000}),
                ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "x" * 1000}),
            ]
        )
        self.count(fetch(port, path, body)[0])

    def click(self, generator: random.Random, port: int) -> None:
        """A search and a click on one of its documents."""
        query = generator.choice(self.topics)
        status, body = fetch(port, f"/v1/live/search?query={quote(query)}")
        self.count(status)
        if status != 200:
            return
        answer = json.loads(body)
        docids = [entry["docid"] for entry in answer["candidates"]]
        if not docids:
            return
        click = {"impression": answer["impression"], "query": query, "docids": docids, "clicked": generator.choice(docids)}
        with self.lock:
            self.unsure += 1
        status, body = fetch(port, "/v1/live/click", click)
        with self.lock:
            self.statuses[status] += 1
            if status != 504:  # a click may be recorded after its time limit
                self.unsure -= 1
                self.clicked += status == 200

    def abuse(self, generator: random.Random, port: int) -> None:
        """A connection that sends too much, too little or too slowly, reads too slowly, or ends too soon."""
        head = b"POST /v1/live/click HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        large = f"GET /v1/live/search?query={quote(self.topics[0])}&hits=200 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        parts = generator.choice(
            [
                [b"GET /health HT"],
                [head + b"Content-Length: 500\r\n\r\n{"],
                [head.replace(b"/v1/live/click", b"/mcp") + b"Content-Length: 500\r\n\r\n{"],
                [head + b"Content-Length: " + b"9" * 4400 + b"\r\n\r\n{"],
                [head + b"X: " + b"a" * 300_000],
                [b"\xff\x00" * 100],
                [bytes([byte]) for byte in b"GET /health HTTP/1.1\r\n"],
                [head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1000],
                [large * 20],
            ]
        )
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.settimeout(300)
            line.connect(("127.0.0.1", port))
            for part in parts:
                line.sendall(part)
                time.sleep(0.01)
            for _ in range(generator.choice([0, 1, 40])):  # slowly
                if not line.recv(100):
                    break
                time.sleep(0.05)

    def run(self, number: int) -> None:
        generator = random.Random(number)
        actions = [self.ask] * 6 + [self.other, self.click]
        while not self.stop.is_set():
            which = generator.random() < 0.3
            abusing = number % 8 == 0
            try:
                (self.abuse if abusing else generator.choice(actions))(generator, self.ports[which])
            except (OSError, HTTPException):
                with self.lock:
                    self.broken += 1
                    self.cut += not abusing and not which  # the second service is killed now and then
            except Exception as problem:
                with self.lock:
                    self.problems.append(repr(problem))
            time.sleep(generator.random() * 0.05)


def test_services_under_load_and_abuse(fitted_index, tmp_path):
    """Two services of one index: documents are added and deleted meanwhile, and one of the services is killed again and again.

    Every answer is that of the index before or after a change; no acknowledged click is lost; the service that is not killed
    gives no errors but those of its limits, and its memory and open files don't grow.
    """
    live, topics = tmp_path / "live", list(read_topics(DEMO / "topics.tsv").values())[:8]
    shutil.copytree(fitted_index, live)
    extra, ids = write_jsonl(tmp_path / "extra.jsonl", EXTRA), tmp_path / "ids.txt"
    ids.write_text("".join(f"{document['id']}\n" for document in EXTRA))
    changes: list[tuple[str, Path]] = [("--append", extra), ("--delete", ids)]
    for flags in changes:  # what is derived has been through a change in all states that are compared
        change(live, *flags)
    logs = tmp_path / "first.log", tmp_path / "second.log"
    first, second = (Server(live, log) for log in logs)
    methods = ["", "&rerank=klsa", "&rerank=mslm", "&rerank=pert", "&rerank=auto", "&rm3=true"]
    paths = [f"/v1/live/search?query={quote(topic)}{method}" for topic in topics for method in methods]
    paths += [f"/v1/live/explain?query={quote(topic)}&rerank=klsa" for topic in topics] + ["/v1/live/doc/hr001"]
    states, size = [], len(kernelsearch.open(live).forward)
    for flags in changes:
        states.append({path: comparable(fetch(first.port, path)[1]) for path in paths})
        assert {path: comparable(fetch(second.port, path)[1]) for path in paths} == states[-1]
        change(live, *flags)
        for server in (first, second):
            while f'"documents":{size + len(EXTRA) * (len(states) % 2)}'.encode() not in fetch(server.port, "/v1/indexes")[1]:
                time.sleep(0.1)
    assert states[0] != states[1]

    clients = Clients((first.port, second.port), topics, states)
    threads = [threading.Thread(target=clients.run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    memory, files, kills, exchanges = [], [], 0, 0
    begin = time.monotonic()
    while (spent := time.monotonic() - begin) < SECONDS:
        if spent > CHANGE_EVERY * (exchanges + 0.5):
            change(live, *changes[exchanges % 2])
            exchanges += 1
        if spent > KILL_EVERY * (kills + 0.4):
            second.end(signal.SIGKILL)
            kills += 1
            second = Server(live, logs[1], second.port)
        time.sleep(1)
        memory.append(process_memory("VmRSS", first.process.pid))
        files.append(open_files(first.process.pid))
    clients.stop.set()
    for thread in threads:
        thread.join()
    deadline = time.monotonic() + 60
    while open_files(first.process.pid) > min(files) + ALLOWED_FILES and time.monotonic() < deadline:
        time.sleep(0.5)  # until incomplete requests are closed, and replaced states collected
    files.append(open_files(first.process.pid))
    assert [first.end(signal.SIGTERM), second.end(signal.SIGTERM)] == [0, 0]

    stored = ClickLog(live / "kernelsearch" / "clicks.db").counts()["clicks"]
    quarter = len(memory) // 4
    levels = [max(memory[place : place + quarter]) >> 20 for place in range(0, 4 * quarter, quarter)]
    summary = (
        f"{spent:.0f} s: {dict(clients.statuses)}, {dict(clients.seen)} answers by state, {exchanges} exchanges, {kills} "
        f"kills, {clients.clicked} clicks acknowledged, {stored} stored, {clients.unsure} without answer, {clients.broken} "
        f"broken connections, memory by quarter {levels} MB, open files {files[:: max(len(files) // 10, 1)]}"
    )
    print(summary)
    assert not clients.problems, (clients.problems[:5], summary)
    assert set(clients.statuses) <= {200, 400, 404, 406, 413, 503, 504}, summary
    # On a machine without a free core, a client may be slower than the time limit for its request.
    assert clients.cut <= 1 + clients.statuses.total() // 10_000, summary
    assert clients.statuses[200] > 10 * CLIENTS, summary
    assert set(clients.seen) == {0, 1} and exchanges and kills, summary
    assert clients.clicked <= stored <= clients.clicked + clients.unsure, summary
    for log in logs:
        text = log.read_text(encoding="utf-8", errors="replace")
        assert "Traceback" not in text, text[-3000:]
    # In a short run, caches and Java's heap still grow.
    factor = 1 if SECONDS >= 1800 else 5
    assert (levels[-1] - levels[1]) << 20 < ALLOWED_MEMORY * factor, summary
    # A state that is being replaced has as many open files as its successor.
    assert max(files[-quarter:]) - max(files[quarter : 2 * quarter]) <= 60 * factor, summary
