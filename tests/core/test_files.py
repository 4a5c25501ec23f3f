import os

import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.core.files import write_file, write_folder


def test_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path):
    file = tmp_path / "run.txt"
    file.write_text("old")
    with pytest.raises(RuntimeError), write_file(file) as stream:
        stream.write("half of the new")
        raise RuntimeError
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_written_file_has_the_usual_permissions(tmp_path):
    with write_file(tmp_path / "a") as stream:
        stream.write("x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_write_into_a_place_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), write_file(tmp_path / "file" / "run.txt"):
        pass


def test_full_disk_is_one_clear_line_and_loses_nothing(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    with pytest.raises(InputError, match=r"cannot be written .No space left"), write_file(tmp_path / "run.txt") as stream:
        os.dup2(os.open("/dev/full", os.O_WRONLY), stream.fileno())
        stream.write("x" * 100_000)
    assert list(tmp_path.iterdir()) == []


def test_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "artefact"
    with pytest.raises(RuntimeError), write_folder(target) as folder:
        (folder / "half").write_text("x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with write_folder(target) as folder:
        (folder / "a").write_text("1")
    with write_folder(target, replace=True) as folder:
        (folder / "b").write_text("2")
    assert [file.name for file in target.iterdir()] == ["b"]
    assert list(tmp_path.iterdir()) == [target]


def test_folder_is_not_replaced_unasked(tmp_path):
    (tmp_path / "artefact").mkdir()
    with pytest.raises(InputError, match="artefact: exists already"), write_folder(tmp_path / "artefact"):
        pass


def test_an_input_that_cannot_be_read_is_not_reported_as_the_output(tmp_path):
    (tmp_path / "run.txt").write_text("old")
    with pytest.raises(FileNotFoundError, match=r"input\.txt"), write_file(tmp_path / "run.txt") as stream:
        stream.write((tmp_path / "input.txt").read_text())
    with pytest.raises(IsADirectoryError), write_file(tmp_path / "run.txt") as stream:
        stream.write(tmp_path.read_text())
    assert (tmp_path / "run.txt").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_an_input_of_a_folder_that_cannot_be_read_is_named(tmp_path):
    missing = tmp_path / "input.txt"
    with pytest.raises(InputError) as problem, write_folder(tmp_path / "artefact") as folder:
        (folder / "copy").write_text(missing.read_text())
    assert str(problem.value) == f"{missing}: cannot be read (No such file or directory)"
    with pytest.raises(InputError) as problem, write_folder(tmp_path / "artefact") as folder:
        (folder / "none" / "file").write_text("x")
    assert str(problem.value) == f"{tmp_path / 'artefact'}: cannot be written (No such file or directory)"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file/artefact: cannot be written"), write_folder(tmp_path / "file" / "artefact"):
        pass
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file"]
