import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernelsearch.core import reading
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.trec import read_qrels, read_run, write_run
from kernelsearch.trec.runs import parse_run, printed_scores
from tests.fuzz.mutate import mutate


def test_round_trip(tmp_path):
    file = tmp_path / "run.txt"
    assert write_run(file, [("q1", ["b", "a"], [2.0, 1.5]), ("q2", [], []), ("q3", ["c"], [-1.0])], tag="t") == 3
    assert file.read_text() == "q1 Q0 b 1 2.000000 t\nq1 Q0 a 2 1.500000 t\nq3 Q0 c 1 -1.000000 t\n"
    assert read_run(file) == {"q1": [("b", 2.0), ("a", 1.5)], "q3": [("c", -1.0)]}


def test_ties_stay_in_order_for_everybody_who_sorts_by_score(tmp_path):
    file = tmp_path / "run.txt"
    docids = [f"d{n}" for n in range(5)]
    write_run(file, [("1", docids, [1.0, 1.0, 1.0, 0.9999999, 0.5])])
    printed = [float(line.split()[4]) for line in file.read_text().splitlines()]
    assert printed == sorted(set(printed), reverse=True)
    assert [docid for docid, _ in read_run(file)["1"]] == docids


@given(st.lists(st.floats(-1e6, 1e6), max_size=50))
def test_printed_scores_descend_strictly_and_stay_close(scores):
    scores = sorted(scores, reverse=True)
    values = [float(text) for text in printed_scores(scores)]
    assert all(np.float32(a) > np.float32(b) for a, b in itertools.pairwise(values))
    step = 1e-6 + float(np.spacing(np.float32(max(map(abs, scores), default=1.0))))
    assert all(abs(a - b) <= step * (len(scores) + 1) for a, b in zip(values, scores, strict=True))


def printed_one_by_one(scores, unit=10**6):
    """The scores as whole numbers of millionths, each replaced where it isn't below its predecessor in single precision."""
    last = np.float32(np.inf)
    for score in scores:
        steps = round(score * unit)
        if np.float32(steps / unit) >= last:
            steps = math.floor(float(np.nextafter(last, np.float32(-np.inf))) * unit)
        last = np.float32(steps / unit)
        yield f"{'-' if steps < 0 else ''}{abs(steps) // unit}.{abs(steps) % unit:06d}"


@given(st.lists(st.tuples(st.floats(-1e12, 1e12) | st.floats(-1, 1), st.integers(1, 4), st.integers(0, 7)), max_size=20))
@example([(-1e-9, 1, 7), (1e15, 3, 0), (0.5, 2, 1)])
def test_printed_scores_are_those_of_one_by_one_in_any_order(drawn):
    scores = [round(score, decimals) for score, times, decimals in drawn for _ in range(times)]
    assert printed_scores(scores) == list(printed_one_by_one(scores))


@pytest.mark.parametrize("scores", [[1e308, 1e308, 1e300, 1e38, 0.0], [-1.0, -1e39, -1e39, -1e305], [3.5e38, 3.4e38]])
def test_scores_beyond_single_precision_keep_their_order(tmp_path, scores):
    docids = [f"d{place}" for place in range(len(scores))]
    write_run(tmp_path / "run", [("1", docids, scores)])
    printed = np.array([score for _, score in read_run(tmp_path / "run")["1"]], dtype=np.float32)
    assert np.isfinite(printed).all() and (np.diff(printed) < 0).all()
    assert [docid for docid, _ in read_run(tmp_path / "run")["1"]] == docids


def test_msmarco_form(tmp_path):
    file = tmp_path / "run.tsv"
    write_run(file, [("1", ["x", "y"], [3.0, 2.0])], "msmarco")
    assert file.read_text() == "1\tx\t1\n1\ty\t2\n"
    assert [docid for docid, _ in read_run(file)["1"]] == ["x", "y"]


def test_unknown_output_format(tmp_path):
    with pytest.raises(OptionError, match="output_format: 'csv'"):
        write_run(tmp_path / "x", [], "csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no results in it"),
        ("1 Q0 a 1\n", "line 1: 4 columns"),
        ("1 Q0 a 1 2.0 t\n1 Q0 a 2 1.0 t\n", "line 2: topic 1 lists document a twice"),
        ("1 Q0 a one 2.0 t\n", "line 1: rank or score is not a number"),
        ("1 Q0 a 1 nan t\n", "line 1: score nan is not finite"),
    ],
)
def test_bad_runs_are_named(tmp_path, content, message):
    file = tmp_path / "run.txt"
    file.write_text(content)
    with pytest.raises(InputError) as caught:
        read_run(file)
    assert message in str(caught.value) and str(file) in str(caught.value)


def test_qrels_of_trec_and_beir(tmp_path):
    file = tmp_path / "qrels"
    file.write_text("1 0 a 1\n1 0 b 0\n2 0 a -1\n")
    assert read_qrels(file) == {"1": {"a": 1, "b": 0}, "2": {"a": -1}}
    file.write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\n")
    assert read_qrels(file) == {"q1": {"d1": 2}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no judgements"),
        ("1 0 a\n1 0 a x\n", "line 1: grade 'a'"),
        ("1 2\n", "line 1: 2 columns"),
        ("1 0 a 1\n1 0 a 0\n", "line 2: topic 1, document a is judged twice"),
    ],
)
def test_bad_qrels_are_named(tmp_path, content, message):
    file = tmp_path / "qrels"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_qrels(file)


def outcome(read, *arguments):
    try:
        return list(read(*arguments).items())
    except InputError as problem:
        return str(problem)


@pytest.mark.parametrize(
    "valid", [b"1 Q0 a 1 2.5 t\n1 Q0 b 2 2.5 t\r\n2 Q0 \xc3\xa9 1 -1 t\n2 Q0 b 2 1e3 t\n", b"7\ta\t1\n7\tb\t2\n8\ta\t1\n"]
)
def test_blocks_are_read_as_lines_are(tmp_path, monkeypatch, valid):
    """Many lines at once, whatever the block's bounds, give the run or the message that reading line by line gives."""
    file, kinds = tmp_path / "run.txt", set()
    for seed in range(400):
        chance = random.Random(seed)
        monkeypatch.setattr(reading, "BLOCK", chance.choice([1, 20, 40, 1 << 16]))
        topics = [valid.replace(b"a", b"a%d" % number).replace(b"b", b"b%d" % number) for number in range(4)]
        content = b"".join(topics)
        file.write_bytes(mutate(content, chance) if seed else content)
        expected = outcome(lambda: parse_run(file, reading.lines(file)) or {})
        result = outcome(read_run, file)
        assert result == expected or (expected == [] and "no results in it" in result), seed
        kinds.add(type(result))
    assert kinds == {list, str}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 Q0 d1 9 1.0 t", "topic 1 lists document d1 twice"),
        ("1 Q0 d\x01 9 1.0 t", "control character"),
        ("1 Q0 d\x85x 9 1.0 t", "7 columns"),
        ("1 Q0 d\x9fx 9 1.0 t", "control character"),
        ("1 Q0 x 9 inf t", "score inf is not finite"),
        ("1 Q0 x 99999999999999999999 1.0 t", "more than 64 bits"),
        ("1 Q0 x " + "0" * 41 + " 1.0 t", "rank or score is not a number"),
        ("1 Q0 x 9 1,5 t", "rank or score is not a number"),
        ("1 x 9", None),
        ("", None),
    ],
)
def test_a_fault_among_many_lines_is_named_with_its_line(tmp_path, line, message):
    file = tmp_path / "run.txt"
    lines = [f"1 Q0 d{number} {number} {9000 - number} t" for number in range(6000)]
    file.write_text("\n".join([*lines[:5000], line, *lines[5000:]]))
    if message is None:
        assert [docid for docid, _ in read_run(file)["1"]][:6000] == [f"d{number}" for number in range(6000)]
        return
    with pytest.raises(InputError, match=f"line 5001: .*{message}"):
        read_run(file)


def test_a_line_beyond_the_limit_is_named(tmp_path, monkeypatch):
    file = tmp_path / "run.txt"
    file.write_text("1 Q0 a 1 2.0 t\n1 Q0 " + "b" * 100_000 + " 2 1.0 t\n")
    monkeypatch.setattr(reading, "MAX_LINE", 80_000)
    with pytest.raises(InputError, match="line 2: longer than 80000 bytes"):
        read_run(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1 7 1\r1 8 2\r", "its lines end with carriage returns alone"),
        (b"1 Q0 a 1 1_0 t\n", "line 1: rank or score is not a number"),
        (b"1 Q0 a 1_0 1 t\n", "line 1: rank or score is not a number"),
        ("1 Q0 a 1 ٣ t\n".encode(), "line 1: rank or score is not a number"),
        ("1 Q0 a ٣ 1 t\n".encode(), "line 1: rank or score is not a number"),
        ("1 Q0 a 1 2 t\n\ufeff2 Q0 a 1 2 t\n".encode(), "line 2: topic id .* begins with a byte-order mark"),
    ],
)
def test_what_python_reads_and_nobody_else_is_no_run(tmp_path, content, message):
    (tmp_path / "run").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_run(tmp_path / "run")


@pytest.mark.parametrize("grade", ["1_0", "٣", "1.0"])
def test_grades_are_digits(tmp_path, grade):
    (tmp_path / "qrels").write_text(f"1 0 a {grade}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 1: grade .* is not a whole number"):
        read_qrels(tmp_path / "qrels")
