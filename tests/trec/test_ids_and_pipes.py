"""Ids and numbers that the libraries behind us can't hold are refused by file and line; pipes are read once."""

import gzip
import os
import threading

import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.trec import read_qrels, read_run, read_topics
from kernelsearch.trec.documents import read_documents


def piped(tmp_path, content: bytes):
    """A named pipe that a thread writes to."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(content), daemon=True).start()
    return pipe


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("read", "line", "count"),
    [
        (lambda path: list(read_documents(path)), '{{"id": "{0}", "contents": "x"}}', 5000),
        (lambda path: list(read_documents(path)), "{0}\tsome text", 5000),
        (read_topics, "{0}\tsome text", 5000),
        (read_qrels, "{0} 0 d1 1", 5000),
        (read_run, "{0} Q0 d1 1 0.5 tag", 5000),
    ],
)
def test_a_pipe_gives_every_line(tmp_path, pack, read, line, count):
    content = "".join(line.format(number) + "\n" for number in range(count)).encode()
    assert len(read(piped(tmp_path, pack(content)))) == count


@pytest.mark.parametrize("bad", ["a\0b", "a\x1b[31m", "a\x85b", "\x7f"])
def test_control_characters_in_ids_are_refused(tmp_path, bad):
    file = tmp_path / "f"
    for read, line in (
        (read_qrels, f"1 0 {bad} 1"),
        (read_qrels, f"{bad} 0 d 1"),
        (read_run, f"1 Q0 {bad} 1 0.5 tag"),
        (read_run, f"{bad} Q0 d 1 0.5 tag"),
        (read_topics, f"{bad}\ttext"),
        (lambda path: list(read_documents(path, "tsv")), f"{bad}\ttext"),
    ):
        if "\x85" in bad and read in (read_qrels, read_run):
            continue  # white space for str.split
        file.write_text(line + "\n")
        with pytest.raises(
            InputError, match=r"f: line 1: (document|topic) id '.*' has white space or a control character"
        ) as caught:
            read(file)
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("rank", ["9" * 5000, "9223372036854775808", "1e3"])
def test_ranks_have_64_bits(tmp_path, rank):
    for line in (f"1 Q0 a {rank} 0.5 tag", f"1 a {rank}"):
        (tmp_path / "f").write_text(line)
        with pytest.raises(InputError, match="f: line 1: rank or score") as caught:
            read_run(tmp_path / "f")
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("grade", ["1000001", "-1000001", "3000000000", "2147483647", "9" * 5000, "1.5"])
def test_grades_have_bounds(tmp_path, grade):
    (tmp_path / "f").write_text(f"1 0 a {grade}\n")
    with pytest.raises(InputError, match=r"f: line 1: grade .* is not a whole number from -1000000 to 1000000") as caught:
        read_qrels(tmp_path / "f")
    assert len(str(caught.value)) < 400
    (tmp_path / "f").write_text("1 0 a 1000000\n1 0 b -2\n")
    assert read_qrels(tmp_path / "f") == {"1": {"a": 1_000_000, "b": -2}}


def test_long_ids_are_refused_and_quoted_in_short(tmp_path):
    (tmp_path / "f").write_text("x" * 40_000 + "\ttext\n")
    with pytest.raises(InputError, match="more than 32766 bytes") as caught:
        list(read_documents(tmp_path / "f"))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "record", ['{"id": true, "contents": "x"}', '{"id": [1], "contents": "x"}', '{"id": {}, "contents": "x"}']
)
def test_ids_are_text_or_numbers(tmp_path, record):
    (tmp_path / "f.jsonl").write_text(record)
    with pytest.raises(InputError, match=r"line 1: document id .* is neither text nor a number"):
        list(read_documents(tmp_path / "f.jsonl"))


def test_a_folder_below_that_cannot_be_listed_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text('{"id": "1", "contents": "x"}')
    (tmp_path / "closed").mkdir()
    scan = os.scandir

    def refusing(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(InputError, match=r"closed: cannot be read .Permission denied"):
        list(read_documents(tmp_path))
