"""Many queries from many threads, and a service under load and abuse: equal answers, and no growth of memory or open files.

`make test-soak` runs it for about a minute; KERNELSEARCH_SOAK_QUERIES (per thread, default: 300) and
KERNELSEARCH_SOAK_SECONDS (of the service, default: 30) make it longer.
"""

from __future__ import annotations

import contextlib
import gc
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import quote

import pytest

import kernelsearch
from kernelsearch.trec import read_topics
from tests.conftest import DEMO, ROOT
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


@pytest.fixture
def server(fitted_index, tmp_path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A server on a free port, with short time limits: the process, its port and its index."""
    live = tmp_path / "live"
    shutil.copytree(fitted_index, live)
    command = [sys.executable, "-m", "kernelsearch.serve", "--index", f"live={live}", "--port", "0", "--record-clicks"]
    limits = ["--request-timeout", "2", "--threads", "4", "--waiting", "16", "--timeout", "20"]
    log = open(tmp_path / "log", "wb")  # noqa: SIM115  closed below
    process = subprocess.Popen([*command, *limits], cwd=ROOT, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while not (said := re.search(rb"http://127.0.0.1:(\d+)/", (tmp_path / "log").read_bytes())):
        assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_bytes()
        time.sleep(0.05)
    yield process, int(said[1]), live
    process.kill()
    process.wait()
    log.close()


def test_a_service_under_load_and_abuse(server, fitted_index, tmp_path):
    process, port, live = server
    topics = list(read_topics(DEMO / "topics.tsv").values())
    stop, statuses, problems = threading.Event(), Counter(), []

    def ask(generator: random.Random) -> None:
        """One request of a random kind; counts the status of its answer."""
        query = quote(generator.choice(topics))
        rerank = generator.choice(["klsa", "mslm", "pert"])
        path = generator.choice(
            [
                f"/v1/live/search?query={query}",
                f"/v1/live/search?query={query}&rerank={rerank}",
                f"/v1/live/explain?query={query}&rerank=klsa",
                "/v1/live/doc/hr001",
                "/v1/live/suggest?prefix=d",
                "/health",
                f"/v1/live/search?query={query}&hits=99999",
                f"/v1/live/search?query={'a' * 5000}",
                "/nothing",
            ]
        )
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            if generator.random() < 0.1:
                return  # closed before the answer
            statuses[connection.getresponse().status] += 1

    def abuse(generator: random.Random) -> None:
        """A connection that sends too much, too little, too slowly, or ends too soon."""
        head = b"POST /v1/live/click HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        parts = generator.choice(
            [
                [b"GET /health HT"],
                [head + b"Content-Length: 500\r\n\r\n{"],
                [head + b"X: " + b"a" * 300_000],
                [b"\xff\x00" * 100],
                [bytes([byte]) for byte in b"GET /health HTTP/1.1\r\n"],
                [head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1000],
            ]
        )
        with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
            for part in parts:
                line.sendall(part)
                time.sleep(0.01)
            if generator.random() < 0.5:
                line.recv(1000)

    def run(number: int) -> None:
        generator = random.Random(number)
        while not stop.is_set():
            try:
                (abuse if number % 8 == 0 else ask)(generator)
            except (OSError, HTTPException) as problem:
                if number % 8:
                    problems.append(repr(problem))
            time.sleep(generator.random() * 0.05)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    memory, files = [], []
    turns = max(int(SECONDS // 3), 4)
    for turn in range(turns):
        time.sleep(SECONDS / turns)
        if turn % 2:  # another copy of the index takes its place
            copy, old = tmp_path / f"copy{turn}", tmp_path / f"old{turn}"
            shutil.copytree(fitted_index, copy)
            os.rename(live, old)
            os.rename(copy, live)
        memory.append(process_memory("VmRSS", process.pid))
        files.append(open_files(process.pid))
    stop.set()
    for thread in threads:
        thread.join()
    time.sleep(3)  # longer than incomplete requests may take
    files.append(open_files(process.pid))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    log = (tmp_path / "log").read_text(encoding="utf-8", errors="replace")
    summary = f"{dict(statuses)}, memory {[value >> 20 for value in memory]} MB, open files {files}"
    print(summary)
    assert set(statuses) <= {200, 400, 404, 503}, summary
    assert statuses[200] > statuses[503], summary
    assert not problems, problems[:5]
    assert "Traceback" not in log, log[-3000:]
    middle = len(memory) // 2
    assert memory[-1] - memory[middle] < ALLOWED_MEMORY, summary
    assert files[-1] - min(files) <= ALLOWED_FILES, summary
