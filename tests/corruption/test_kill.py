"""Commands that are killed: what they write is the old or the new state, and the next command removes what was left.

KERNELSEARCH_KILLS sets the number of kills per command, by default none, because every kill starts four processes:
`make test-kill` runs them.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kernelsearch
from tests.conftest import ROOT, TINY, heeding_interrupts, write_jsonl

KILLS = int(os.environ.get("KERNELSEARCH_KILLS", "0"))

#: Runs a verb that kills itself at a given call of a function that makes something last: sync, rename, exchange.
DYING = """
import importlib, os, signal, sys
from kernelsearch.core import replacing
left = [int(sys.argv[1])]
def dying(function):
    def call(*arguments, **keywords):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)
    return call
os.replace, os.fsync, replacing.exchange = dying(os.replace), dying(os.fsync), dying(replacing.exchange)
importlib.import_module(f"kernelsearch.{sys.argv[2]}").main(sys.argv[3:])
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def place(tiny_path, tmp_path):
    """A folder with an index, a second collection, and topics."""
    shutil.copytree(tiny_path, tmp_path / "index")
    write_jsonl(tmp_path / "new.jsonl", [*TINY, {"id": "d7", "title": "Tap", "contents": "A seventh document about a tap."}])
    (tmp_path / "topics.tsv").write_text("1\twater tap\n")
    return tmp_path


COMMANDS = {
    "index": ["index", "--input", "new.jsonl", "--index", "index", "--force"],
    "append": ["index", "--append", "new.jsonl", "--index", "index"],
    "klsa": ["train", "--index", "index", "--rerank", "klsa", "--klsa.dims", "2"],
    "mslm": ["train", "--index", "index", "--rerank", "mslm", "--mslm.min-count", "1"],
    "search": ["search", "--index", "index", "--topics", "topics.tsv", "--output", "run.txt"],
}


def visible_state(folder: Path) -> tuple[int, bool]:
    """The number of documents, and whether everything can be opened and searched."""
    index = kernelsearch.open(folder / "index")
    for method in (None, *(name for name in ("klsa", "mslm") if (folder / "index" / "kernelsearch" / name).exists())):
        assert len(index.search("water tap", rerank=method))
    if (folder / "run.txt").exists():
        assert (folder / "run.txt").read_text().endswith("\n")
    found = len(index.forward)
    index.lucene.close()
    return found, True


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
