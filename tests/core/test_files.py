import gzip
import os

import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.core.files import lines, write_file, write_folder


def test_lines_are_numbered_and_keep_odd_line_separators(tmp_path):
    file = tmp_path / "x.txt"
    file.write_bytes("\ufeffone\r\ntwo\u2028still two\n\nfour".encode())
    assert list(lines(file)) == [(1, "one"), (2, "two\u2028still two"), (3, ""), (4, "four")]


def test_gzip_is_recognised_by_content_not_by_name(tmp_path):
    file = tmp_path / "x.txt"
    file.write_bytes(gzip.compress(b"a\nb\n"))
    assert [text for _, text in lines(file)] == ["a", "b"]


def test_truncated_gzip_is_named(tmp_path):
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(os.urandom(5000).hex().encode())[:-3000])
    with pytest.raises(InputError, match=r"x\.gz: damaged"):
        list(lines(file))


def test_bad_utf8_names_file_and_line(tmp_path):
    file = tmp_path / "x.txt"
    file.write_bytes(b"good\nbad \xff\n")
    with pytest.raises(InputError, match=r"x\.txt: line 2: not valid UTF-8 \(byte 0xff\)"):
        list(lines(file))


def test_other_encodings_can_be_named(tmp_path):
    file = tmp_path / "x.txt"
    file.write_bytes("é".encode("latin-1"))
    assert list(lines(file, "latin-1")) == [(1, "é")]
    with pytest.raises(InputError, match="--encoding: 'nonsense'"):
        list(lines(file, "nonsense"))


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir()])
def test_missing_file_and_directory_are_named(tmp_path, make):
    file = tmp_path / "x"
    make(file)
    with pytest.raises(InputError, match=r"x: (no such file|is a directory)"):
        list(lines(file))


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
