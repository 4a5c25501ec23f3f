"""The reading layer: pipes, gzip, encodings, limits, and messages that name file, line and column."""

import gzip
import json
import math
import os
import subprocess
import sys
import threading
import time
import zlib

import pytest

from kernelsearch.core import reading
from kernelsearch.core.errors import InputError, quote
from kernelsearch.core.reading import (
    TextFile,
    json_lines,
    json_object,
    lines,
    parse_json,
    read_toml,
    to_number,
    whole_number,
)


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
    with pytest.raises(InputError, match=r"x\.txt: line 2, column 5: not valid UTF-8 \(byte 0xff\)"):
        list(lines(file))


def test_other_encodings_can_be_named(tmp_path):
    file = tmp_path / "x.txt"
    file.write_bytes("é".encode("latin-1"))
    assert list(lines(file, "latin-1")) == [(1, "é")]
    with pytest.raises(InputError, match=r"encoding: 'nonsense'"):
        list(lines(file, "nonsense"))


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir()])
def test_missing_file_and_directory_are_named(tmp_path, make):
    file = tmp_path / "x"
    make(file)
    with pytest.raises(InputError, match=r"x: (no such file|is a directory)"):
        list(lines(file))


@pytest.mark.parametrize("content", [b"one\ntwo\n", gzip.compress(b"one\ntwo\n")], ids=["plain", "gzip"])
def test_a_named_pipe_is_read_once_from_its_beginning(tmp_path, content):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(content))
    writer.start()
    text = TextFile(pipe)
    assert text.first_line() == "one"
    assert list(text) == [(1, "one"), (2, "two")]
    writer.join()


def test_a_pipe_whose_writer_is_slow_is_waited_for():
    read_end, write_end = os.pipe()
    for seconds, part in ((0.1, b"l"), (0.2, b"ate\n")):
        threading.Timer(seconds, os.write, (write_end, part)).start()
    threading.Timer(0.3, os.close, (write_end,)).start()
    assert list(lines(f"/dev/fd/{read_end}")) == [(1, "late")]
    os.close(read_end)


def test_an_empty_pipe_is_an_empty_file():
    read_end, write_end = os.pipe()
    os.close(write_end)
    assert list(lines(f"/dev/fd/{read_end}")) == []
    os.close(read_end)


def test_every_damage_of_a_gzip_file_is_named(tmp_path):
    good = gzip.compress(os.urandom(3000).hex().encode())
    file = tmp_path / "x.gz"
    for place in range(0, len(good), 37):
        for bad in (good[:place], good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1 :], good + b"rubbish"):
            file.write_bytes(bad)
            try:
                for _ in lines(file):
                    pass
            except InputError as problem:
                assert str(problem).startswith(str(file))


def test_a_gzip_bomb_is_stopped(tmp_path):
    file = tmp_path / "bomb.gz"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b"\n".rjust(1 << 20)
    file.write_bytes(b"".join(packer.compress(block) for _ in range(80)) + packer.flush())
    with pytest.raises(InputError, match=r"bomb.gz: a gzip file that expands more than 250 times"):
        list(lines(file))


def test_a_line_may_not_be_longer_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE", 10)
    file = tmp_path / "x.txt"
    file.write_bytes(b"123456789\n12345678901\n")
    with pytest.raises(InputError, match=r"line 2: longer than 10 bytes$"):
        list(lines(file))


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf16_is_named_with_what_converts_it(tmp_path, codec):
    (tmp_path / "sheet.csv").write_bytes("\ufeffid;contents\r\n1;a\r\n".encode(codec))
    with pytest.raises(InputError, match=r"sheet\.csv: text in UTF-16; iconv -f UTF-16 -t UTF-8"):
        list(lines(tmp_path / "sheet.csv"))


@pytest.mark.parametrize("encoding", ["rot13", "utf-16", "base64", "idna", "undefined", "no such", "a\0b", "utf-7"])
def test_an_encoding_that_cannot_read_lines_is_refused(tmp_path, encoding):
    (tmp_path / "x.txt").write_bytes(b"x\n")
    with pytest.raises(InputError, match=r"^encoding: "):
        list(lines(tmp_path / "x.txt", encoding))


@pytest.mark.parametrize("name", ["n" * 300, "a\0b", "\udcff"])
def test_an_impossible_name_is_named(name):
    with pytest.raises(InputError, match=r"cannot be read|no such file") as caught:
        list(lines(name))
    str(caught.value).encode()  # can be printed


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path):
    file = tmp_path / "x"
    file.write_text("")
    file.chmod(0)
    with pytest.raises(InputError, match=r"x: cannot be read .Permission denied"):
        list(lines(file))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested deeper than 100"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested deeper than 100"),
        ("[" * 100_000, "nested deeper than 100"),
        ("9" * 5_000, "not valid JSON .Exceeds the limit"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"a" 1}', "f: line 3, column 6: not valid JSON"),
        (b'"\xff"', "not valid UTF-8 .byte 2"),
        ('{"a": 1, "b": [{"c": 1, "a": 2, "c": 3}]}', "the key 'c' occurs twice in one object"),
    ],
)
def test_json_that_would_break_a_reader_is_refused_in_a_short_line(text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_json(text, "f: line 3")
    assert str(caught.value).startswith("f: line 3") and len(str(caught.value)) < 200


def test_a_deep_text_is_refused_at_its_beginning():
    begun = time.thread_time()
    with pytest.raises(InputError, match="nested deeper than 100"):
        parse_json("[" * (16 << 20), "f")
    assert time.thread_time() - begun < 1


@pytest.mark.parametrize("filler", range(8))
def test_brackets_inside_strings_are_not_nested(filler):
    """Also where a block, in which brackets are counted, ends between a backslash and what it escapes."""
    inside = "[{" * 500 + '"\\' * (reading.BLOCK // 2) + "[" * 500
    text = json.dumps({"a": " " * filler + inside, "b": [["]"] * 99]})
    assert parse_json(text, "f") == json.loads(text)
    deep = "[" * 101 + "]" * 101
    with pytest.raises(InputError, match="nested deeper than 100"):
        parse_json(text[:-1] + f', "c": {deep}}}', "f")


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", '[1, {"a": -1e400}]'])
def test_numbers_that_are_not_finite_are_refused_where_nothing_else_checks_them(number):
    assert parse_json(number, "f") is not None
    with pytest.raises(InputError, match=r"f: not valid JSON \(.* is not a finite number\)"):
        parse_json(number, "f", finite=True)
    assert parse_json("[1e300, -2.5, 3]", "f", finite=True) == [1e300, -2.5, 3]


def test_json_lines_must_be_objects(tmp_path):
    (tmp_path / "x").write_text("{}\n3\n")
    with pytest.raises(InputError, match=r"x: line 2: a JSON object was expected"):
        list(json_lines(tmp_path / "x"))


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a." * 100_000 + "b = 1",
        "[" + "a." * 100_000 + "b]",
        "x = {" + "a." * 100_000 + "b = 1}",
        "a = 9" + "9" * 5_000,
        "a = ",
        "\udcff",
        "a = 1\na = 2",
    ],
)
def test_toml_that_would_break_a_reader_is_refused_in_a_short_line(tmp_path, text):
    file = tmp_path / "x.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=r"x.toml: not a TOML file") as caught:
        read_toml(file)
    assert len(str(caught.value)) < 300


def test_whole_numbers_have_bounds():
    assert whole_number("-3") == -3
    for text in ("1.0", "", "9" * 5000, "9223372036854775808", "x" * 10_000):
        with pytest.raises(ValueError) as caught:
            whole_number(text)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("mark", ["\x1c", "\x1d", "\x1e", "\x1f", "_", "\u00a0", "\u0663", "x", ""])
def test_a_number_is_what_other_tools_read_as_one(mark):
    for read in (to_number, whole_number):
        assert read("12") == read(" +12\t") == 12
        for text in (mark, f"12{mark}") if mark else ("",):
            with pytest.raises(ValueError, match=r"is not a"):
                read(text)
    assert to_number(".5") == 0.5 and to_number("5.e-1") == 0.5 and to_number("-Infinity") == -math.inf
    assert math.isnan(to_number("NaN"))


def test_a_long_row_of_digits_is_refused_in_linear_time():
    # Time with the square of the length would be minutes.
    with pytest.raises(ValueError, match="is not a number"):
        to_number("9" * 200_000 + "x")


def test_a_stored_record_has_the_last_value_of_a_key():
    assert json_object('{"a": 1, "a": 2}') == {"a": 2} == parse_json('{"a": 1, "a": 2}', "d1", stored=True)


def test_quotes_are_short_and_escaped():
    assert quote("tap") == "'tap'"
    assert len(quote("x" * 500_000)) <= 120 and quote("x" * 500_000).endswith("...'")
    assert "\x1b" not in quote("\x1b[31mred")
    assert len(quote(10**100_000)) < 120
    assert len(quote(list(range(1000)))) <= 124


def test_reading_is_as_quick_as_plain_python(tmp_path):
    """A line costs little more than Python's own iteration over a binary file (twelve times at most, on a loaded machine)."""
    file = tmp_path / "x.txt"
    file.write_text("1 Q0 document 1 0.5 tag\n" * 50_000)
    code = """
import sys, time
from kernelsearch.core.reading import lines
start = time.process_time(); [line.decode() for line in open(sys.argv[1], "rb")]; plain = time.process_time() - start
start = time.process_time(); list(lines(sys.argv[1])); ours = time.process_time() - start
sys.exit(ours > 12 * plain + 0.05)
"""
    assert subprocess.run([sys.executable, "-c", code, str(file)]).returncode == 0


def test_a_file_for_a_library_is_a_file(tmp_path):
    file = tmp_path / "v.npz"
    file.write_bytes(b"0123456789")
    with reading.open_file(file) as stream:
        assert stream.seek(-2, 2) == 8 and stream.read() == b"89"
        assert stream.seek(0) == 0 and stream.read(3) == b"012"
    with pytest.raises(InputError, match=r"none\.npz: no such file"):
        reading.open_file(tmp_path / "none.npz")
    with pytest.raises(InputError, match="is a directory"):
        reading.open_file(tmp_path)


def test_a_pipe_is_refused_where_the_format_needs_a_file(tmp_path):
    reader, writer = os.pipe()
    os.write(writer, b"PK")
    os.close(writer)
    with pytest.raises(InputError, match="a pipe, and this format"):
        reading.open_file(f"/dev/fd/{reader}")
    os.close(reader)


def test_damage_is_reported_in_one_line():
    with (
        pytest.raises(InputError, match=r"^f: damaged, not a valid PDF \(second\)$"),
        reading.report_damage("f", "PDF", ValueError),
    ):
        raise ValueError("first\nsecond\n")
    with (
        pytest.raises(InputError, match=r"^f: damaged, not a valid PDF \(KeyError\)$"),
        reading.report_damage("f", "PDF", KeyError),
    ):
        raise KeyError
    with pytest.raises(InputError, match=r"^own$"), reading.report_damage("f", "PDF", Exception):
        raise InputError("own")
    with pytest.raises(TypeError), reading.report_damage("f", "PDF", ValueError):
        raise TypeError
