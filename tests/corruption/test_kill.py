"""Commands that are killed: what they write is the old or the new state, and the next command removes what was left.

KERNELSEARCH_KILLS sets the number of kills per command, by default none, because every kill starts four processes:
`make test-kill` runs them.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelsearch
from tests.conftest import DYING_CALLS, ROOT, TINY, heeding_interrupts, write_jsonl

KILLS = int(os.environ.get("KERNELSEARCH_KILLS", "0"))

#: Runs a verb that kills itself at a given call of a function that makes something last: sync, rename, exchange.
DYING = f"""{DYING_CALLS}
import importlib
from kernelsearch.core import replacing
left[0] = int(sys.argv[1])
os.replace, os.fsync, replacing.exchange = dying(os.replace), dying(os.fsync), dying(replacing.exchange)
verb = importlib.import_module("kernelsearch." + sys.argv[2])
(verb if hasattr(verb, "main") else importlib.import_module(verb.__name__ + ".__main__")).main(sys.argv[3:])
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def place(tiny_path, tmp_path):
    """A folder with an index, a second collection, and topics."""
    shutil.copytree(tiny_path, tmp_path / "index")
    write_jsonl(tmp_path / "new.jsonl", [*TINY, {"id": "d7", "title": "Tap", "contents": "A seventh document about a tap."}])
    (tmp_path / "topics.tsv").write_text("1\twater tap\n2\twasher\n3\treplace\n")
    (tmp_path / "qrels.txt").write_text("1 0 d1 1\n2 0 d2 1\n3 0 d3 1\n")
    write_jsonl(tmp_path / "log.jsonl", [{"session": "s", "query": "water tap", "items": CLICKED}] * 3)
    np.savez(tmp_path / "v.npz", ids=np.array([f"d{number}" for number in range(1, 7)]), vectors=np.eye(6, 4) + 1)
    np.savez(tmp_path / "queries.npz", ids=np.array(["water tap"]), vectors=np.ones((1, 4)))
    return tmp_path


#: Two documents that were shown, of which one was clicked.
CLICKED = [{"docid": "d1", "clicked": False}, {"docid": "d2", "clicked": True}]
COMMANDS = {
    "index": ["index", "--input", "new.jsonl", "--index", "index", "--force"],
    "append": ["index", "--append", "new.jsonl", "--index", "index"],
    "klsa": ["train", "--index", "index", "--rerank", "klsa", "--klsa.dims", "2"],
    "mslm": ["train", "--index", "index", "--rerank", "mslm", "--mslm.min-count", "1"],
    "rbm25": ["train", "--index", "index", "--rerank", "rbm25", "--clicks", "log.jsonl"],
    "fusion": ["train", "--index", "index", "--rerank", "fusion", "--topics", "topics.tsv", "--qrels", "qrels.txt",
               "--fusion.features", "first rm3", "--fusion.sources", "none", "--fusion.learner", "simlistmkl"],
    "vectors": ["vectors", "--index", "index", "--name", "m", "--input", "v.npz", "--neighbours", "hnsw"],
    "search": ["search", "--index", "index", "--topics", "topics.tsv", "--output", "run.txt"],
}  # fmt: skip
#: Where each command leaves its result, in the folder `kernelsearch` of the index, and the method that uses it.
RESULTS = {"klsa": "klsa", "mslm": "mslm", "clicks.db": "rbm25", "fusion": "fusion", "vectors/m": "dense"}


def visible_state(folder: Path) -> tuple[int, bool]:
    """The number of documents, and whether everything can be opened and searched."""
    index = kernelsearch.open(folder / "index", vectors={"queries": str(folder / "queries.npz")})
    made = [method for name, method in RESULTS.items() if (folder / "index" / "kernelsearch" / name).exists()]
    for method in (None, *made):
        assert len(index.search("water tap", rerank=method))
    if (folder / "run.txt").exists():
        assert (folder / "run.txt").read_text().endswith("\n")
    result = len(index.forward)
    index.lucene.close()
    return result, True


def leftovers(folder: Path) -> list[str]:
    """Temporary files and folders."""
    return [path.name for path in folder.rglob(".*")]


def finish(folder: Path, command: list[str]) -> None:
    """Runs the command again, undisturbed: nothing of the killed one is left."""
    done = subprocess.run([sys.executable, "-m", f"kernelsearch.{command[0]}", *command[1:]], cwd=folder, env=ENVIRONMENT,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert leftovers(folder) == []
    assert visible_state(folder)[0] == (7 if command[0] == "index" else 6)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_time(place, name, number):
    process = subprocess.Popen([sys.executable, "-m", f"kernelsearch.{COMMANDS[name][0]}", *COMMANDS[name][1:]], cwd=place,
                               env=ENVIRONMENT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
    time.sleep(random.Random(f"{name} {number}").uniform(0.1, 2.0))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert visible_state(place)[0] in (6, 7)
    finish(place, COMMANDS[name])


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_a_sync_or_rename(place, name, number):
    command = COMMANDS[name]
    last = 60 if command[0] == "index" else 16 if name != "search" else 3
    at = random.Random(f"{name} at {number}").randrange(last)
    arguments = [sys.executable, "-c", DYING, str(at), *command]
    done = subprocess.run(arguments, cwd=place, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    assert visible_state(place)[0] in (6, 7)
    finish(place, command)


@pytest.mark.skipif(not KILLS, reason="make test-kill")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_that_can_be_handled_leave_nothing(place, number):
    process = subprocess.Popen([sys.executable, "-m", "kernelsearch.index", *COMMANDS["index"][1:]], cwd=place, env=ENVIRONMENT,
                               stderr=subprocess.DEVNULL, preexec_fn=heeding_interrupts)  # fmt: skip
    deadline = time.monotonic() + 20
    while not leftovers(place) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    process.wait()
    assert leftovers(place) == [] and visible_state(place)[0] in (6, 7)


def run(folder: Path, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-m", f"kernelsearch.{command[0]}", *command[1:]]
    return subprocess.run(arguments, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, **options)


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The last line on stderr of a command that was refused; there is no traceback."""
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("kernelsearch: ")
    return line


@pytest.fixture
def small_disk(place):
    """A file system that can be filled, with the index of `place`; a folder of it."""
    disk = place / "disk"
    disk.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        for name in os.listdir(place):
            if name != "disk":
                subprocess.run(["cp", "-r", place / name, disk], check=True)
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.skipif(not KILLS, reason="make test-kill")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_line_and_loses_nothing(small_disk, name):
    # What is verified on opening may be recorded meanwhile.
    before = {path: path.read_bytes() for path in small_disk.rglob("*") if path.is_file() and path.name != "verified.json"}
    filling = small_disk / "filling"
    with open(filling, "wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(4096))
    line = complaint(run(small_disk, *COMMANDS[name]))
    assert "No space left on device" in line or "disk is full" in line, line
    filling.unlink()
    after = {path: path.read_bytes() for path in small_disk.rglob("*") if path.is_file() and path.name != "verified.json"}
    assert after == before
    finish(small_disk, COMMANDS[name])


@pytest.mark.skipif(not KILLS, reason="make test-kill")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_cannot_be_written_is_one_line(small_disk, name):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert "Read-only file system" in complaint(run(small_disk, *COMMANDS[name]))
    assert visible_state(small_disk)[0] == 6


@pytest.mark.skipif(not KILLS, reason="make test-kill")
@pytest.mark.parametrize("name", COMMANDS)
def test_two_writers_at_once(place, name):
    """Both succeed, or one is refused in one line; what is left is whole."""
    command = [sys.executable, "-m", f"kernelsearch.{COMMANDS[name][0]}", *COMMANDS[name][1:]]
    pair = [
        subprocess.Popen(command, cwd=place, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    messages = [process.communicate()[1] for process in pair]
    statuses = sorted(process.returncode for process in pair)
    assert statuses in ([0, 0], [0, 2]), messages
    assert not any("Traceback" in message for message in messages), messages
    assert leftovers(place) == []
    assert visible_state(place)[0] == (7 if COMMANDS[name][0] == "index" else 6)
