import gzip
import os
import socket
import stat
from pathlib import Path

import pytest

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.files import check_output, is_special, refuse_special, write_bytes, write_file, write_folder


def test_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path):
    file = tmp_path / "run.txt"
    file.write_text("old")
    with pytest.raises(RuntimeError), write_file(file) as stream:
        stream.write("half of the new")
        raise RuntimeError
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["run.txt.gz", "RUN.GZ"])
def test_a_file_called_gz_is_gzipped_and_appears_whole_or_not_at_all(tmp_path, name):
    text = "1 Q0 d1 1 2.5 tag\n" * 50_000
    for folder in ("a", "b"):
        with write_file(tmp_path / folder / name) as stream:
            stream.write(text)
    content = (tmp_path / "a" / name).read_bytes()
    assert gzip.decompress(content).decode() == text and len(content) < len(text) / 50
    assert content == (tmp_path / "b" / name).read_bytes()
    with pytest.raises(RuntimeError), write_file(tmp_path / "a" / name) as stream:
        stream.write("half of the new")
        raise RuntimeError
    assert (tmp_path / "a" / name).read_bytes() == content and len(list((tmp_path / "a").iterdir())) == 1
    read, write = os.pipe()
    with write_file(f"/dev/fd/{write}") as stream:  # a pipe has no name that says what it is
        stream.write("plain")
    os.close(write)
    assert os.read(read, 100) == b"plain"
    os.close(read)


def test_written_file_has_the_usual_permissions(tmp_path):
    with write_file(tmp_path / "a") as stream:
        stream.write("x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_write_into_a_place_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), write_file(tmp_path / "file" / "run.txt"):
        pass


@pytest.mark.parametrize("name", ["run.txt", "run.txt.gz"])
def test_full_disk_is_one_clear_line_and_loses_nothing(tmp_path, name):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    with pytest.raises(InputError, match=r"cannot be written .No space left"), write_file(tmp_path / name) as stream:
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


def test_a_device_is_written_to_and_stays_a_device(tmp_path):
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.stat("/dev/null").st_rdev)
    except PermissionError:
        null = Path("/dev/null")  # which this user can't replace
    with write_file(null) as stream:
        stream.write("x")
    write_bytes(null, b"x")
    assert stat.S_ISCHR(null.stat().st_mode) and len(list(tmp_path.iterdir())) <= 1
    assert is_special(null) and is_special("/dev/stdout") and not is_special(tmp_path / "new")


def test_a_pipe_takes_what_is_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with write_file(tmp_path / "pipe") as stream:
        stream.write("whole")
    assert os.read(reader, 100) == b"whole" and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    os.close(reader)


def test_a_stream_of_the_process_is_continued(tmp_path):
    with open(tmp_path / "log", "w") as stream:
        stream.write("before ")
        stream.flush()
        write_bytes(f"/dev/fd/{stream.fileno()}", b"after")
    assert (tmp_path / "log").read_text() == "before after"


def test_a_dash_is_standard_output(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with write_file("-") as stream:
        stream.write("a run\n")
    write_bytes(Path("-"), b"bytes")
    assert capfd.readouterr().out == "a run\nbytes" and is_special("-")
    with pytest.raises(InputError, match=r"^-: is not a file, cannot write a file there$"):
        refuse_special(Path("-"))
    assert not list(tmp_path.iterdir())
    write_bytes(tmp_path / "-", b"a file of this name")
    assert (tmp_path / "-").read_bytes() == b"a file of this name"


def test_a_reader_that_has_enough_is_no_error_of_the_file(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError), write_file(f"/dev/fd/{writer}") as stream:
        stream.write("x")
    os.close(writer)


def test_a_socket_is_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(InputError, match="socket: neither a file nor a pipe"):
            write_bytes(tmp_path / "socket", b"x")


def test_a_symbolic_link_is_followed(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_bytes(tmp_path / "link", b"new")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-folder").symlink_to("folder")
    with write_folder(tmp_path / "to-folder", replace=True) as folder:
        (folder / "a").write_text("1")
    assert (tmp_path / "target").read_text() == "new" and (tmp_path / "folder" / "a").read_text() == "1"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "link", "target", "to-folder"]
    assert (tmp_path / "link").is_symlink() and (tmp_path / "to-folder").is_symlink()


@pytest.mark.parametrize("length", [255, 250, 181])
def test_names_as_long_as_a_file_system_takes_them(tmp_path, length):
    for path in (tmp_path / ("é" + "n" * (length - 2)), tmp_path / ("m" * length)):
        write_bytes(path, b"x")
        with write_folder(tmp_path / "folders" / path.name):
            pass
    assert len(list(tmp_path.iterdir())) == 3 and len(list((tmp_path / "folders").iterdir())) == 2


@pytest.mark.parametrize("place", ["file", ".", ".."])
def test_a_folder_does_not_take_the_place_of_something_else(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("kept")
    refused = pytest.raises(InputError, match=r"is a file, a folder was expected|name a folder below it")
    with refused, write_folder(place, replace=True):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "kept"


def test_an_output_that_is_an_input_is_refused(tmp_path):
    (tmp_path / "run").write_text("kept")
    (tmp_path / "link").symlink_to("run")
    with pytest.raises(OptionError, match=r"output: .*link is an input of this command"):
        check_output("--output", tmp_path / "link", [None, tmp_path / "run"])
    with pytest.raises(InputError, match="is a directory"):
        check_output("--output", tmp_path)
    check_output("--output", tmp_path / "new", [tmp_path / "run"])
