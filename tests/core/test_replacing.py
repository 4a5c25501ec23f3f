import os
import signal
import subprocess
import sys

import pytest

from kernelsearch.core import replacing
from kernelsearch.core.errors import IndexProblem
from kernelsearch.core.files import write_file, write_folder
from kernelsearch.lucene.shards import find_shards
from tests.conftest import DYING_CALLS, ROOT


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


def test_a_temporary_file_of_a_temporary_file_is_removed_too(tmp_path):
    """A killed process was writing a file that was to be given its name only after a check."""
    path = tmp_path / "x.db"
    unused_pid = 2**22 + 1  # no process has this number
    first = f".x.db.{replacing._machine()}-{unused_pid}.aa.partial"
    (tmp_path / f".{first}.{replacing._machine()}-{unused_pid}.bb.partial").touch()
    (tmp_path / f".{first}.{replacing._machine()}-{os.getpid()}.bb.partial").touch()
    replacing.remove_leftovers(path)
    assert [file.name.split("-")[-1] for file in tmp_path.iterdir()] == [f"{os.getpid()}.bb.partial"]


def leave(folder, *names):
    """Lets a process that ends make temporary folders of x."""
    script = (
        "import sys, pathlib; from kernelsearch.core.replacing import temporary_prefix\n"
        "x = pathlib.Path(sys.argv[1]) / 'x'\n"
        "for n, s in enumerate(sys.argv[2:]): (x.parent / f'{temporary_prefix(x)}r{n}{s}' / 'replaced').mkdir(parents=True)"
    )
    subprocess.run([sys.executable, "-c", script, str(folder), *names], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_leftovers_of_a_process_that_is_gone_are_removed_by_the_next_write(tmp_path):
    leave(tmp_path, ".partial", ".staged")
    ours = tmp_path / f"{replacing.temporary_prefix(tmp_path / 'x')}abc.partial"
    ours.mkdir()
    (tmp_path / ".x.notes.partial").mkdir()  # of somebody else
    with write_file(tmp_path / "x") as stream:
        stream.write("text")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([".x.notes.partial", ours.name, "x"])


def test_a_folder_that_a_killed_process_moved_away_comes_back_on_opening(tmp_path):
    leave(tmp_path, ".old")
    with pytest.raises(IndexProblem, match="x: not a Lucene index"):  # the folder itself is back
        find_shards(tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


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
