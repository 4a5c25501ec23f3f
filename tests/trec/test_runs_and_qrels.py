import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.trec import read_qrels, read_run, write_run
from kernelsearch.trec.runs import printed_scores


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


def test_msmarco_form(tmp_path):
    file = tmp_path / "run.tsv"
    write_run(file, [("1", ["x", "y"], [3.0, 2.0])], "msmarco")
    assert file.read_text() == "1\tx\t1\n1\ty\t2\n"
    assert [docid for docid, _ in read_run(file)["1"]] == ["x", "y"]


def test_unknown_output_format(tmp_path):
    with pytest.raises(OptionError, match="--output-format: 'csv'"):
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
