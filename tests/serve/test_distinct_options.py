"""A service with few descriptors: requests share what is opened, and the watcher of changes survives a lack of descriptors."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, write_jsonl
from tests.serve.test_server import announced_address, fetch, run
from tools.bench.process_memory import process_memory

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")

#: What the shell sets with `ulimit -n`, and what the service may use of it.
LIMIT, DESCRIPTORS = 256, 120
#: Growth of the memory after warming, and the share of the requests that warm: memory grows in steps until about the 2,000th
#: request, while Java compiles (411 MB, and the same after 4,000).
GROWTH, WARMING = 1.05, 0.7


def descriptors(pid: int) -> list[int]:
    return sorted(map(int, os.listdir(f"/proc/{pid}/fd")))


def limit_descriptors(pid: int, soft: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, LIMIT))


@pytest.fixture
def server(fitted, tmp_path):
    """A server over a copy of the demo's index: its process, its address, and the index."""
    path = shutil.copytree(fitted / "demo", tmp_path / "demo")
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = run(
        "--index", f"repairs={path}", "--port", "0", "--threads", "2", "--timeout", "120", "--java-heap", "96m", **threads
    )
    limit_descriptors(process.pid, LIMIT)
    yield process, announced_address(process), path
    process.kill()
    process.communicate()


# 200 requests once needed more than 256 descriptors.
@pytest.mark.parametrize("requests", [200, pytest.param(3000, marks=pytest.mark.soak)])
def test_requests_with_distinct_options_share_the_opened_artefacts(server, requests):
    process, address, _ = server
    most, warm = 0, 0
    for number in range(requests):
        status, body = fetch(f"{address}/v1/repairs/search?query=dripping+tap&rerank=auto&hits=5&k1={0.5 + number / 10_000}")
        assert status == 200, body
        most = max(most, len(descriptors(process.pid)))
        if number == int(WARMING * requests):
            warm = process_memory("VmRSS", process.pid)
    assert most < DESCRIPTORS
    assert process_memory("VmRSS", process.pid) < GROWTH * warm


def test_the_watcher_survives_a_lack_of_descriptors(server, tmp_path):
    process, address, path = server

    def documents() -> int:
        return json.loads(fetch(f"{address}/v1/indexes")[1])["indexes"][0]["documents"]

    before = documents()
    used = descriptors(process.pid)
    limit_descriptors(process.pid, next(number for number in range(LIMIT) if number not in used))
    added = write_jsonl(tmp_path / "added.jsonl", [{"id": "new", "contents": "a dripping tap"}])
    command = [sys.executable, "-m", "kernelsearch.index", "--index", path, "--append", added]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    time.sleep(3)  # the watcher looks every second, and can't open anything
    limit_descriptors(process.pid, LIMIT)
    deadline = time.monotonic() + 60
    while documents() == before:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert documents() == before + 1 and process.poll() is None
