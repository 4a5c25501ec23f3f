"""The compiled reader of runs: the same lists and the same messages as without it."""

import random

import pytest

from kernelsearch.core import compiled
from kernelsearch.core.errors import InputError
from kernelsearch.trec.run_lines import plain_columns
from kernelsearch.trec.runs import read_run

built = pytest.mark.skipif(compiled.loops() is None, reason="installed without a C compiler")

#: Texts of numbers: those that are read here, and those that are left to Python.
DECIMALS = [
    "0",
    "-0.0",
    "+7",
    "12.345678",
    ".5",
    "5.",
    "0.1",
    "123456789012345",
    "0.30000000000000004",
    "1e-7",
    "1.5E+3",
    "9" * 30,
]
NOT_DECIMALS = ["inf", "nan", "0x10", "1_0", "1e999", "e5", "-", ".", "1,5", "--1", "1e"]


@built
def test_columns_by_hand():
    raw = b"7 Q0 d1 1 2.5 tag\n7\tQ0\td2  2 -1 tag \r\n08 x d1 10 1e-3 tag\n7 Q0 d3 3 0 tag"
    columns = plain_columns(raw)
    assert columns.starts == [0, 2, 3] and columns.qids == ["7", "08", "7"]
    assert columns.docids == ["d1", "d2", "d1", "d3"] and columns.ranks == [1, 2, 10, 3]
    assert columns.scores == [2.5, -1.0, 0.001, 0.0]


@built
def test_scores_are_rounded_as_python_rounds_them():
    rng = random.Random(0)
    texts = [*DECIMALS, *(f"{rng.uniform(-50, 50):.{rng.randint(0, 17)}f}" for _ in range(2000))]
    texts += [repr(rng.uniform(-1, 1) * 10 ** rng.randint(-300, 300)) for _ in range(2000)]
    columns = plain_columns("".join(f"1 Q0 d{number} 1 {text} t\n" for number, text in enumerate(texts)).encode())
    assert list(map(repr, columns.scores)) == [repr(float(text)) for text in texts]


@built
@pytest.mark.parametrize("score", NOT_DECIMALS)
def test_other_scores_are_left_to_python(score):
    assert plain_columns(f"1 Q0 d 1 {score} t\n".encode()) is None


def outcome(path):
    try:
        return read_run(path)
    except InputError as problem:
        return str(problem)


@built
@pytest.mark.parametrize(
    "line",
    [
        *(f"1 Q0 d 1 {score} t".encode() for score in (*DECIMALS, *NOT_DECIMALS)),
        *(f"1 Q0 d {rank} 1 t".encode() for rank in ("+1", "-1", "1.0", "9" * 18, "9" * 19, "9" * 20, "x", "1_0", "٣")),
        *(b"", b"  ", b"1 Q0 d 1 1", b"1 Q0 d 1 1 t t", b"1 d 1", b"1 d", b"1 Q0 a 1 1 t", b"2 Q0 a 1 1 t"),
        *(b"1 Q0 \xc3\xa9 1 1 t", b"1 Q0 \xff 1 1 t", b"1 Q0 d\x00 1 1 t", b"1 Q0 d\x0b 1 1 t", b"1\x1fQ0 d 1 1 t"),
        *(b"1 Q0 d 1 1 t\rx", b"\xef\xbb\xbf1 Q0 d 1 1 t", "1 Q0 d\u2003e 1 1".encode()),
        *(b"1 Q0 " + b"d" * 600 + b" 1 1 t", b"q" * 2000 + b" Q0 d 1 1 t"),
    ],
)
def test_reads_and_reports_as_without_it(tmp_path, monkeypatch, line):
    lines, path = [b"1 Q0 a 1 3.25 t", b"1 Q0 b 2 4 t"], tmp_path / "run.txt"
    for place in range(3):
        for separator, end in ((b"\n", b"\n"), (b"\r\n", b"\r\n"), (b"\n", b"")):
            path.write_bytes(separator.join([*lines[:place], line, *lines[place:]]) + end)
            result = outcome(path)
            with monkeypatch.context() as patch:
                patch.setenv(compiled.SWITCH, "0")
                assert outcome(path) == result
