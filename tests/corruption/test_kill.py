"""Commands that are killed: what they write is the old or the new state, and the next command removes what was left.

KERNELSEARCH_KILLS sets the number of kills per command, by default none: `make test-kill` runs them. Commands run in processes
that are forked from one that has imported the verbs and started no Java, so that a kill hits the work and not the imports.
"""

import contextlib
import ctypes
import gc
import importlib
import multiprocessing
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelsearch
from kernelsearch.cli import console
from kernelsearch.clicks.importing import import_log
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.replacing import remove_leftovers
from tests.conftest import ROOT, TINY, heeding_interrupts, write_jsonl

KILLS = int(os.environ.get("KERNELSEARCH_KILLS", "0"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

#: Kills the process before call number KILL_AT (from 0) of a function that makes something last, in Python, SQLite or Java;
#: adds a byte per call to the file KILL_LOG.
DYING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void count(void) {
    static int calls = 0;
    const char *at = getenv("KILL_AT"), *log = getenv("KILL_LOG");
    if (at && __sync_fetch_and_add(&calls, 1) == atoi(at)) kill(getpid(), SIGKILL);
    if (log) {
        int stream = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (write(stream, "x", 1) == 1) close(stream);
    }
}

#define DYING(NAME, PARAMETERS, ...) \
    int NAME PARAMETERS { count(); return ((int (*) PARAMETERS) dlsym(RTLD_NEXT, #NAME))(__VA_ARGS__); }

DYING(fsync, (int file), file)
DYING(fdatasync, (int file), file)
DYING(unlink, (const char *name), name)
DYING(rename, (const char *old, const char *new), old, new)
DYING(renameat2, (int a, const char *old, int b, const char *new, unsigned flags), a, old, b, new, flags)
"""


def run_verb(folder: Path, command: list[str], variables: dict[str, str], errors: Path) -> None:
    """Runs a verb in this process, which was made for it."""
    os.chdir(folder)
    os.environ.update(variables)
    for number, name in ((1, os.devnull), (2, errors)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    if "WITHOUT_CAPABILITIES" in variables:
        drop_capabilities()
    verb = importlib.import_module(f"kernelsearch.{command[0]}")
    if not hasattr(verb, "main"):
        verb = importlib.import_module(f"{verb.__name__}.__main__")
    console.run(verb.main, command[1:])


def drop_capabilities() -> None:
    """Makes permissions count for this process, also where it is root's."""
    version_3, words = 0x20080522, 6
    header, nothing = (ctypes.c_uint32 * 2)(version_3, 0), (ctypes.c_uint32 * words)()
    if ctypes.CDLL(None).capset(header, nothing):
        raise OSError("capset")


class Commands:
    """Runs verbs in forked processes."""

    def __init__(self, folder: Path) -> None:
        (folder / "dying.c").write_text(DYING)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "dying.so", folder / "dying.c", "-ldl"], check=True)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__, *PRELOADED])
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(folder / "dying.so"))
            self.start(folder, ["check", "--help"]).join()
        self._folder = folder
        self._measured: dict[str, tuple[float, int]] = {}

    def start(self, folder: Path, command: list[str], errors: Path | None = None, **variables: str) -> Any:
        """A started process of a verb."""
        errors = errors or folder.parent / "errors.txt"
        errors.parent.mkdir(exist_ok=True)
        process = self._context.Process(target=run_verb, args=(folder, command, variables, errors))
        process.start()
        return process

    def run(self, folder: Path, command: list[str], **variables: str) -> tuple[int, str]:
        """The exit status of a verb, negative after a signal, and what it printed on stderr."""
        process = self.start(folder, command, **variables)
        process.join()
        return process.exitcode, (folder.parent / "errors.txt").read_text()

    def undisturbed(self, name: str) -> Path:
        """The folder in which a command has run undisturbed, for `measured`."""
        return self._folder / name / "copy"

    def measured(self, place: Path, name: str) -> tuple[float, int]:
        """The seconds that a command takes and the number of its calls of DYING's functions, from one run in a copy."""
        if name not in self._measured:
            calls = self._folder / f"{name}.calls"
            copy = shutil.copytree(place, self.undisturbed(name))
            begin = time.monotonic()
            status, errors = self.run(copy, COMMANDS[name], KILL_LOG=str(calls))
            assert status == 0, errors
            self._measured[name] = time.monotonic() - begin, calls.stat().st_size
        return self._measured[name]


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    if not KILLS:
        pytest.skip("make test-kill")
    return Commands(tmp_path_factory.mktemp("commands"))


@pytest.fixture
def place(tiny_path, tmp_path):
    """A folder with an index, a second collection, topics, and click logs."""
    tmp_path = tmp_path / "place"
    shutil.copytree(tiny_path, tmp_path / "index")
    write_jsonl(tmp_path / "new.jsonl", [*TINY, {"id": "d7", "title": "Tap", "contents": "A seventh document about a tap."}])
    (tmp_path / "topics.tsv").write_text("1\twater tap\n2\twasher\n3\treplace\n")
    (tmp_path / "qrels.txt").write_text("1 0 d1 1\n2 0 d2 1\n3 0 d3 1\n")
    write_jsonl(tmp_path / "log.jsonl", [{"session": "s", "query": "water tap", "items": CLICKED}] * 3)
    import_log([tmp_path / "log.jsonl"], tmp_path / "old.db")
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
    "tune": ["tune", "--index", "index", "--topics", "topics.tsv", "--qrels", "qrels.txt", "--try", "k1=0.5,0.9,1.4",
             "--folds", "3", "--processes", "1", "--output", "best.toml"],
    "import": ["clicks", "import", "--input", "log.jsonl", "--output", "new.db"],
    "add clicks": ["clicks", "import", "--input", "log.jsonl", "--output", "old.db", "--append"],
    "aggregate": ["clicks", "aggregate", "--log", "old.db", "--eta", "0.5"],
}  # fmt: skip
#: Modules that the commands import; none of them starts Java.
PRELOADED = ["kernelsearch.index", "kernelsearch.train", "kernelsearch.search", "kernelsearch.tune",
             "kernelsearch.clicks.__main__", "kernelsearch.vectors.__main__",
             *(f"kernelsearch.rerankers.{name}.reranker" for name in ("klsa", "mslm", "rbm25", "fusion")),
             "faiss", "pandas", "scipy.sparse.linalg", "xgboost"]  # fmt: skip
#: Where each command leaves its result, in the folder `kernelsearch` of the index, and the method that uses it.
RESULTS = {"klsa": "klsa", "mslm": "mslm", "clicks.db": "rbm25", "fusion": "fusion", "vectors/m": "dense"}


def visible_state(folder: Path) -> dict[str, int]:
    """The numbers of documents and of lists in the click logs; everything that was made can be opened and searched."""
    index = kernelsearch.open(folder / "index", vectors={"queries": str(folder / "queries.npz")})
    made = [method for name, method in RESULTS.items() if (folder / "index" / "kernelsearch" / name).exists()]
    for method in (None, *made):
        assert len(index.search("water tap", rerank=method))
    for name in ("run.txt", "best.toml"):
        assert not (folder / name).exists() or (folder / name).read_text().endswith("\n")
    result = {"documents": len(index.forward)}
    index.lucene.close()
    for name in ("old.db", "new.db"):
        if (folder / name).exists():
            counts = ClickLog(folder / name).counts()
            assert counts["clicks"] == counts["impressions"] > 0
            result[name] = counts["impressions"]
    gc.collect()  # closes the databases
    return result


#: What `visible_state` returns before any command, and what a command changes.
BEFORE = {"documents": 6, "old.db": 3}
AFTER = {"index": {"documents": 7}, "append": {"documents": 7}, "import": {"new.db": 3}, "add clicks": {"old.db": 6}}


def leftovers(folder: Path) -> list[str]:
    """Temporary files and folders, and the side files of databases."""
    return [path.name for path in folder.rglob("*") if path.name.startswith(".") or ".db-" in path.name]


def check_and_finish(commands: Commands, folder: Path, name: str) -> None:
    """A killed command has left the old or the new state; running it again gives the new one, and nothing else is left."""
    state, after = visible_state(folder), {**BEFORE, **AFTER.get(name, {})}
    assert state in (BEFORE, after)
    if name == "add clicks" and state == after:
        after = {**BEFORE, "old.db": 9}
    status, errors = commands.run(folder, COMMANDS[name])
    assert status == 0, errors
    assert leftovers(folder) == []
    assert visible_state(folder) == after
    if name == "tune":
        undisturbed = commands.undisturbed(name)
        assert (folder / "best.toml").read_bytes() == (undisturbed / "best.toml").read_bytes()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_time(commands, place, name, number):
    seconds, _ = commands.measured(place, name)
    process = commands.start(place, COMMANDS[name])
    time.sleep(random.Random(f"{name} {number}").uniform(0, seconds))
    process.kill()
    process.join()
    check_and_finish(commands, place, name)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_a_sync_rename_or_removal(commands, place, name, number):
    """At calls that are spread evenly over the command; with as many kills as calls, at every one."""
    _, calls = commands.measured(place, name)
    status, errors = commands.run(place, COMMANDS[name], KILL_AT=str(number * calls // KILLS))
    assert status in (0, -signal.SIGKILL), errors
    check_and_finish(commands, place, name)


@pytest.mark.skipif(not KILLS, reason="make test-kill")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_that_can_be_handled_leave_nothing(place, number):
    process = subprocess.Popen([sys.executable, "-m", "kernelsearch.index", *COMMANDS["index"][1:]], cwd=place, env=ENVIRONMENT,
                               stderr=subprocess.DEVNULL, preexec_fn=heeding_interrupts)  # fmt: skip
    while not leftovers(place) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    process.wait()
    assert leftovers(place) == [] and visible_state(place)["documents"] in (6, 7)


def complaint(status: int, errors: str) -> str:
    """The last line on stderr of a command that was refused; there is no traceback."""
    assert status == 2 and "Traceback" not in errors, errors
    line = errors.splitlines()[-1]
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


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_line_and_loses_nothing(commands, small_disk, name):
    commands.measured(small_disk, name)
    # What is verified on opening may be recorded meanwhile.
    before = {path: path.read_bytes() for path in small_disk.rglob("*") if path.is_file() and path.name != "verified.json"}
    filling = small_disk / "filling"
    with open(filling, "wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(4096))
    line = complaint(*commands.run(small_disk, COMMANDS[name]))
    assert "No space left on device" in line or "disk is full" in line, line
    filling.unlink()
    after = {path: path.read_bytes() for path in small_disk.rglob("*") if path.is_file() and path.name != "verified.json"}
    after.pop(small_disk / "best.toml.results.jsonl", None)  # tune's journal, which has nothing yet
    assert after == before
    check_and_finish(commands, small_disk, name)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_cannot_be_written_is_one_line(commands, small_disk, name):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    line = complaint(*commands.run(small_disk, COMMANDS[name]))
    assert "Read-only file system" in line or "old.db: cannot be written (attempt to write a readonly database)" in line
    assert visible_state(small_disk) == BEFORE


@pytest.mark.parametrize("name", COMMANDS)
def test_two_writers_at_once(commands, place, name):
    """Both succeed, or one is refused in one line; what is left is whole."""
    errors = [place.parent / "first" / "errors.txt", place.parent / "second" / "errors.txt"]
    pair = [commands.start(place, COMMANDS[name], errors=file) for file in errors]
    for process in pair:
        process.join()
    messages = [file.read_text() for file in errors]
    statuses = sorted(process.exitcode for process in pair)
    assert statuses in ([0, 0], [0, 2]), messages
    assert not any("Traceback" in message for message in messages), messages
    assert leftovers(place) == []
    after = {**BEFORE, **AFTER.get(name, {})}
    if name == "add clicks" and statuses == [0, 0]:
        after["old.db"] += 3
    assert visible_state(place) == after


#: Paths of `place` that commands read or write, and what is done to them.
PATHS = ("index", "index/kernelsearch", "index/kernelsearch/forward", "index/kernelsearch/forward/contents/df.npy",
         "index/segments_1", "new.jsonl", "log.jsonl", "topics.tsv", "qrels.txt", "v.npz", "old.db", ".")  # fmt: skip
CHANGES = ("no permission", "read-only", "not searchable", "empty folder instead", "empty file instead")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("change", CHANGES)
def test_permissions_and_exchanged_kinds_are_one_line(commands, place, name, change):
    """For each path alone: the command succeeds if it doesn't need the path; otherwise it is refused and changes nothing."""
    paths = [path for path in PATHS if path.partition("/")[0] in COMMANDS[name] or (path == "." and "instead" not in change)]
    for path in random.Random(f"{name} {change}").sample(paths, min(len(paths), KILLS)):
        folder = shutil.copytree(place, place.parent / "changed" / path / "place")
        target = folder / path
        if "instead" in change:
            shutil.rmtree(target) if target.is_dir() else target.unlink()
            target.mkdir() if "folder" in change else target.touch()
        else:
            searching = stat.S_IXUSR if target.is_dir() else 0
            target.chmod({"no permission": 0, "read-only": stat.S_IRUSR | searching, "not searchable": stat.S_IRUSR}[change])
        status, errors = commands.run(folder, COMMANDS[name], WITHOUT_CAPABILITIES="yes")
        assert status in (0, 2), (path, status, errors)
        assert "Traceback" not in errors, (path, errors)
        if status == 2:
            assert len(complaint(status, errors)) < 600, path
        if "instead" not in change:
            target.chmod(0o700)
            remove_leftovers(folder / "index")  # as the next command does: a replaced folder may have been without permission
            assert visible_state(folder) in (BEFORE, {**BEFORE, **AFTER.get(name, {})}), path
            assert leftovers(folder) == [], path
