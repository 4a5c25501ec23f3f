import os
import shutil
import signal
import subprocess
import sys

import pytest

import kernelsearch
from kernelsearch.core import replacing
from kernelsearch.core.files import write_bytes, write_folder
from tests.conftest import DYING_CALLS, ROOT, TINY


def put(path, text):
    with write_folder(path, replace=True) as folder:
        (folder / "a").write_text(text)


def test_two_folders_are_exchanged_in_one_step(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not replacing.exchange(tmp_path / "one", tmp_path / "two"):
        pytest.skip("this file system can't exchange names")
    assert (tmp_path / "one" / "two").exists() and (tmp_path / "two" / "one").exists()


@pytest.mark.parametrize("atomic", [True, False])
def test_a_folder_is_replaced_and_nothing_is_left(tmp_path, monkeypatch, atomic):
    if not atomic:
        monkeypatch.setattr(replacing, "exchange", lambda first, second: False)
    for text in ("first", "second"):
        put(tmp_path / "x", text)
        assert (tmp_path / "x" / "a").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


#: Makes temporary folders of argument 1, one with each of the other names in it, and is killed or (argument 2) ends.
LEAVING = """
import contextlib, os, pathlib, signal, sys
from kernelsearch.core.replacing import temporary_folder
stack = contextlib.ExitStack()
for name in sys.argv[3:]:
    (stack.enter_context(temporary_folder(pathlib.Path(sys.argv[1]))) / name).mkdir()
print("made", flush=True)
os.kill(os.getpid(), signal.SIGKILL) if sys.argv[2] == "killed" else sys.stdin.read()
"""


def leave(path, *names, how="killed"):
    """Lets a process make temporary folders of `path`; returns the process."""
    command = [sys.executable, "-c", LEAVING, str(path), how, *names]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)
    assert process.stdout.readline() == "made\n"
    if how == "killed":
        process.wait()
    return process


@pytest.mark.parametrize("write", [put, lambda path, text: write_bytes(path, text.encode())])
def test_leftovers_of_a_process_that_is_gone_are_removed_and_those_of_others_are_not(tmp_path, write):
    leave(tmp_path / "x", "x", "x.staged")
    (tmp_path / ".x.notes.partial").mkdir()  # of somebody else
    running = leave(tmp_path / "x", "x", how="running")
    with replacing.temporary_folder(tmp_path / "x") as ours:
        write(tmp_path / "x", "text")
        assert len(list(tmp_path.iterdir())) == 4 and ours.exists()  # with the one of the running process
    running.communicate()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".x.notes.partial", "x"]


def test_what_process_1_of_a_container_left_between_two_renames_comes_back(tmp_path):
    """The next process of the container has the number 1, too; this process sees that a process 1 runs."""
    container = ["unshare", "--map-root-user", "--pid", "--fork"]
    if subprocess.run([*container, "true"], capture_output=True).returncode:
        pytest.skip("no namespace of processes can be made here")
    put(tmp_path / "x", "old")
    script = """
import os, pathlib, sys
from kernelsearch.core import files, replacing
replacing.exchange = lambda first, second: False
replace = os.replace
os.replace = lambda old, new: (replace(old, new), os._exit(os.getpid() + 8))  # process 1 can't kill itself
with files.write_folder(pathlib.Path(sys.argv[1]), replace=True) as folder:
    (folder / "a").write_text("new")
"""
    command = [*container, sys.executable, "-c", script, str(tmp_path / "x")]
    assert subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode == 9
    assert not (tmp_path / "x").exists()
    replacing.remove_leftovers(tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"] and (tmp_path / "x" / "a").read_text() == "old"


def test_leftovers_of_names_that_are_too_long_or_links(tmp_path):
    for name in ("n" * 255, "linked"):
        leave(tmp_path / name, ".replaced")
    (tmp_path / "link").symlink_to("linked")
    for name in ("n" * 255, "link"):
        replacing.remove_leftovers(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "linked", "n" * 255]


def test_a_folder_that_a_killed_process_moved_away_comes_back_on_opening(tmp_path, tiny_path):
    """The index itself, one that a link leads to, and an artefact of it."""
    shutil.copytree(tiny_path, tmp_path / "x")
    expected = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    (tmp_path / "link").symlink_to("x")
    for moved, opened in (("x", "x"), ("x", "link"), ("x/kernelsearch/forward/contents", "x")):
        leave(tmp_path / moved, "x.staged")
        outer = next((tmp_path / moved).parent.glob(".*.partial"))
        (tmp_path / moved).rename(outer / ".replaced")
        index = kernelsearch.open(tmp_path / opened)
        assert (tmp_path / moved).is_dir() and len(index.forward) == len(TINY)
        (tmp_path / "x" / "kernelsearch" / "forward" / "contents" / "verified.json").touch()
        assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.name != "link") == expected


@pytest.mark.parametrize("atomic", [True, False])
def test_killed_at_any_rename_or_sync_the_folder_is_the_old_or_the_new_one(tmp_path, atomic):
    """The process kills itself at its first, second, ... call of a function that changes what is on disk."""
    script = f"""{DYING_CALLS}
from pathlib import Path
from kernelsearch.core import files, replacing
left[0] = int(sys.argv[2])
exchange = replacing.exchange if {atomic} else (lambda first, second: False)
os.replace, os.fsync = dying(os.replace), dying(os.fsync)
replacing.exchange, replacing.shutil.rmtree = dying(exchange), dying(replacing.shutil.rmtree)
with files.write_folder(Path(sys.argv[1]), replace=True) as folder:
    (folder / "a").write_text("new")
"""
    states = []
    for number in range(30):
        path = tmp_path / str(number) / "x"
        put(path, "old")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", script, str(path), str(number)], env=environment)
        replacing.remove_leftovers(path)
        assert [file.name for file in path.parent.iterdir()] == ["x"]
        states.append((path / "a").read_text())
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert done.returncode == 0 and states == sorted(states, reverse=True) and set(states) == {"old", "new"}
