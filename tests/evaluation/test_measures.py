"""Measures against trec_eval itself, to the printed digit."""

import json
import math
import random
import subprocess
import warnings

import ir_measures
import numpy as np
import pandas as pd
import pytest

from kernelsearch import evaluate as verb
from kernelsearch.api.judged import as_qrels
from kernelsearch.core import measures
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.measures import is_known
from kernelsearch.core.types import Candidates
from kernelsearch.evaluation.measures import evaluate, parse_measures, trec_order
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.trec import read_qrels, read_run, write_run
from tests.evaluation.conftest import random_judgements_and_run

#: trec_eval's names and ours
NAMES = {
    "map": "AP", "map_cut_10": "AP@10", "ndcg": "nDCG", "ndcg_cut_10": "nDCG@10", "P_5": "P@5", "P_10": "P@10",
    "recall_100": "R@100", "recall_5": "R@5", "recip_rank": "RR", "Rprec": "Rprec", "bpref": "Bpref", "success_5": "Success@5",
    "set_P": "SetP", "set_recall": "SetR", "infAP": "infAP", "iprec_at_recall_0.40": "IPrec@0.4",
    "num_ret": "NumRet", "num_rel": "NumRel", "num_rel_ret": "NumRet(rel=1)",
}  # fmt: skip


def printed(value: float, like: str) -> str:
    return f"{value:.4f}" if "." in like else str(int(value))


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_every_figure_is_trec_evals(trec_eval, tmp_path, seed, complete):
    qrels, run = random_judgements_and_run(seed, tmp_path)
    flags = ["-c"] if complete else []
    done = subprocess.run([trec_eval, *flags, "-q", "-m", "all_trec", qrels, run], capture_output=True, text=True, check=True)
    theirs = {tuple(line.split()[:2]): line.split()[2] for line in done.stdout.splitlines()}
    ours = evaluate(read_qrels(qrels), read_run(run), parse_measures(NAMES.values()), complete=complete)
    for name, measure in NAMES.items():
        assert printed(ours.mean(measure), theirs[name, "all"]) == theirs[name, "all"], name
        for qid, value in ours.values[measure].items():
            if (name, qid) in theirs:  # trec_eval -c prints missing topics in its means only
                assert printed(value, theirs[name, qid]) == theirs[name, qid], (name, qid)


def test_ties_are_broken_as_trec_eval_breaks_them():
    assert trec_order([("a", 1.0), ("b", 1.0), ("c", 2.0)]) == ["c", "b", "a"]
    # 20.0000001 is 20 in single precision; capitals stand before small letters, and é after them, as bytes
    assert trec_order([("Z", 20.0), ("a", 20.0000001), ("é", 20.0)]) == ["é", "a", "Z"]
    with warnings.catch_warnings():  # beyond single precision all are infinite, and nothing is printed about it
        warnings.simplefilter("error")
        assert trec_order([("a", 1e300), ("b", 1e200), ("c", 1.0)]) == ["b", "a", "c"]


def test_runs_that_we_write_keep_their_order_in_single_precision(tmp_path):
    docids = ["a", "b", "c", "d", "e"]
    write_run(tmp_path / "run", [("1", docids, [25.123457, 25.123456, 25.123455, 25.123455, 3.0])])
    assert trec_order(read_run(tmp_path / "run")["1"]) == docids


def test_missing_and_unjudged_topics():
    qrels, run = {"1": {"a": 1}, "2": {"b": 1}}, {"2": [("b", 1.0)], "3": [("c", 1.0)]}
    result = evaluate(qrels, run, parse_measures(["AP"]))
    assert (result.topics, result.missing, result.unjudged, result.mean("AP")) == (["1", "2"], ["1"], ["3"], 0.5)
    result = evaluate(qrels, run, parse_measures(["AP"]), complete=False)
    assert (result.topics, result.mean("AP")) == (["2"], 1.0)


@pytest.mark.parametrize("name", ["P", "recall", "ndcg_cut", "map_cut", "success", "iprec_at_recall", "set_F", "official"])
def test_a_name_of_trec_eval_alone_has_the_parameters_of_trec_eval(trec_eval, tmp_path, name, capsys):
    """Every figure that trec_eval prints for the name is there, by the name in its first column; nothing is printed here."""
    qrels, run = random_judgements_and_run(1, tmp_path)
    ours = evaluate(read_qrels(qrels), read_run(run), parse_measures([name]), complete=False)
    assert capsys.readouterr().out == ""
    printed = subprocess.run([trec_eval, "-m", name, qrels, run], capture_output=True, text=True, check=True).stdout
    theirs = {line.split()[0]: line.split()[2] for line in printed.splitlines()}
    if name == "official":
        assert {theirs[key] for key in ("P_5", "map", "Rprec")} == {f"{ours.mean(key):.4f}" for key in ("P@5", "AP", "Rprec")}
    else:
        assert sorted(theirs.values()) == sorted(f"{ours.mean(measure):.4f}" for measure in ours.values)


#: (qid, subtopic, docid, grade): d1 is relevant to both subtopics, d2 and d3 to one each.
SUBTOPICS = [("1", "1", "d1", 1), ("1", "2", "d1", 1), ("1", "1", "d2", 1), ("1", "2", "d2", 0), ("1", "2", "d3", 1)]


@pytest.fixture
def by_subtopic(tmp_path):
    (tmp_path / "qrels").write_text("".join(f"{qid} {sub} {docid} {grade}\n" for qid, sub, docid, grade in SUBTOPICS))
    (tmp_path / "run").write_text("1 Q0 d2 1 3.0 x\n1 Q0 d9 2 2.0 x\n1 Q0 d1 3 1.0 x\n")
    return tmp_path


@pytest.mark.parametrize("kind", ["command", "frame", "file"])
def test_measures_of_subtopics_by_hand(by_subtopic, capsys, kind):
    """alpha-nDCG (Clarke et al., SIGIR 2008): a subtopic's gain falls by 1 - alpha with each document that covers it."""
    pytest.importorskip("pyndeval")

    def expected(left):  # of a gain, after a document
        gain = 1 + (left + 1) / 2  # d2, subtopic 1, at rank 1; d1, subtopic 1 again and 2, at rank 3, log2(1 + 3) = 2
        return gain / (2 + left / math.log2(3) + left / 2)  # the best order: d1, then d2 and d3

    names = ["alpha_nDCG@20", "alpha_nDCG(alpha=0.25)@20", "StRecall@1"]
    if kind == "command":
        flags = ["--qrels", f"{by_subtopic}/qrels", f"{by_subtopic}/run", "--format", "json"]
        verb.main([*flags, "--measures", ",".join(names)])
        means = json.loads(capsys.readouterr().out)["runs"]["run"]["means"]
        values = list(means.values())
    else:
        frame = pd.DataFrame(SUBTOPICS, columns=["qid", "iteration", "docno", "label"])
        read = read_qrels(by_subtopic / "qrels", by_subtopic=True)  # as `kernelsearch.evaluate` passes a file on
        qrels = as_qrels(frame if kind == "frame" else read, by_subtopic=True)
        values = [evaluate(qrels, read_run(by_subtopic / "run"), parse_measures([name])).mean(name) for name in names]
    assert values == pytest.approx([expected(0.5), expected(0.75), 0.5], abs=1e-6)


def test_measures_of_subtopics_need_subtopics_and_others_one_grade_per_document(by_subtopic, monkeypatch):
    monkeypatch.setattr(type(ir_measures.DefaultPipeline), "supports", lambda *_: True)  # also without pyndeval
    measures, run = parse_measures(["alpha_nDCG@20"]), read_run(by_subtopic / "run")
    for qrels in ({"1": {"d1": 1}}, as_qrels(pd.DataFrame({"qid": ["1"], "docno": ["d1"], "label": [1]}), by_subtopic=True)):
        with pytest.raises(
            OptionError, match="alpha_nDCG@20 needs judgements of subtopics, which TREC's qrels have in the second"
        ):
            evaluate(qrels, run, measures)
    (by_subtopic / "flat").write_text("1 0 d1 1\n1 0 d2 0\n")
    with pytest.raises(OptionError, match="alpha_nDCG@20 needs judgements of subtopics"):
        verb.main(["--qrels", f"{by_subtopic}/flat", f"{by_subtopic}/run", "--measures", "alpha_nDCG@20"])
    with pytest.raises(InputError, match="topic 1, document d2 has different grades in subtopics, and AP needs one"):
        verb.main(["--qrels", f"{by_subtopic}/qrels", f"{by_subtopic}/run", "--measures", "AP,alpha_nDCG@20"])
    with pytest.raises(InputError, match="qrels: line 4: topic 1, document d2 is judged twice"):
        read_qrels(by_subtopic / "qrels")
    with open(by_subtopic / "qrels", "a") as stream:
        stream.write("1 2 d3 0\n")
    with pytest.raises(InputError, match="qrels: line 6: topic 1, document d3 is judged twice"):
        read_qrels(by_subtopic / "qrels", by_subtopic=True)


def test_names_of_measures():
    assert [str(measure) for measure in parse_measures(["AP", "map", "ndcg_cut_10", "P(rel=2)@5"])] == [
        "AP",
        "nDCG@10",
        "P(rel=2)@5",
    ]
    assert [str(measure) for measure in parse_measures("RR,P_5")] == ["RR", "P@5"]  # not letter by letter
    with pytest.raises(OptionError, match="measures: 'Magic@3' is not a measure"):
        parse_measures(["Magic@3"])
    with pytest.raises(OptionError, match="measures: no measure is given"):
        parse_measures([])
    with pytest.raises(OptionError, match="is not a measure"):
        parse_measures(["-" * 10_000 + "P@5"])  # nested too deep for Python's parser


@pytest.mark.parametrize(
    "name",
    [
        *[
            "P@0",
            "P_0",
            "nDCG@0",
            "R@0",
            "AP@0",
            "Success@0",
            "Judged@0",
            "RR@0",
            "P@99999999999999",
            "P@1.5",
            "P(rel=0)@5",
            "AP(rel=0)",
        ],
        *["AP(rel=999999999999)", "RBP(p=2)", "Compat(p=3)", "P(judged_only=7)@5", "INSQ"],
        "(" * 5000,
        "P@" + "9" * 9999,
    ],
)
def test_parameters_that_would_abort_the_process_are_refused(name):
    with pytest.raises(OptionError, match=r"^measures: ") as caught:
        parse_measures([name])
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("bad", ["a\0b", "\ud800"])
def test_ids_that_end_a_c_string_are_refused(bad):
    measures = parse_measures(["AP"])
    for qrels, run in (
        ({bad: {"a": 1}}, {"1": [("a", 1.0)]}),
        ({"1": {bad: 1}}, {"1": [("a", 1.0)]}),
        ({"1": {"a": 1}}, {bad: [("a", 1.0)]}),
        ({"1": {"a": 1}}, {"1": [(bad, 1.0)]}),
    ):
        with pytest.raises(InputError, match="can't be evaluated"):
            evaluate(qrels, run, measures)


def test_huge_grades_are_refused_and_large_ones_are_not():
    measures = parse_measures(["AP"])
    with pytest.raises(InputError, match="topic 1: a grade is not between"):
        evaluate({"1": {"a": 2_147_483_647}}, {"1": [("a", 1.0)]}, measures)
    assert evaluate({"1": {"a": 1_000_000}}, {"1": [("a", 1.0)]}, measures).mean("AP") == 1.0


def test_direct_measures_agree_with_ir_measures_to_the_last_bit():
    names = ["AP", "AP@10", "AP@3", "nDCG", "nDCG@10", "nDCG@3", "P@5", "P@10", "R@5", "R@1000", "RR"]
    measures = parse_measures(names)
    assert all(map(is_known, measures))
    for seed in range(60):
        chance = random.Random(seed)
        docids = [f"d{number}" for number in range(chance.choice([3, 30, 300]))]
        # No negative grades: pytrec_eval reads outside its memory for some. trec_eval itself is compared with them above.
        qrels = {
            str(topic): {
                docid: chance.choice([0, 0, 1, 1, 2, 7]) for docid in chance.sample(docids, chance.randint(1, len(docids)))
            }
            for topic in range(4)
        }
        run = {
            str(topic): [(docid, chance.random()) for docid in chance.sample(docids, chance.randint(1, len(docids)))]
            for topic in chance.sample(range(6), 4)
        }
        theirs = {name: dict.fromkeys(qrels, 0.0) for name in names}
        scored = {qid: dict(ranked) for qid, ranked in run.items()}
        for metric in ir_measures.iter_calc(measures, qrels, scored):
            theirs[str(metric.measure)][metric.query_id] = metric.value
        assert evaluate(qrels, run, measures).values == theirs, seed


@pytest.mark.parametrize(
    "name", ["AP", "AP@5", "nDCG", "nDCG@10", "P@10", "R@30", "RR", "RR@3", "Bpref", "P(rel=2)@5", "Success@5"]
)
def test_lists_of_rows_and_of_docids_have_the_same_values_to_the_last_bit(demo_index, monkeypatch, name):
    """Tuning measures rows of the index, `evaluate` measures docids; a measure that is added to the table is added to both."""
    chance, forward = random.Random(7), demo_index.forward
    docids = forward.docids.take(forward.live_docs)
    qrels = {str(topic): {docid: chance.choice([0, 1, 1, 2, 7]) for docid in chance.sample(docids, 40)} for topic in range(9)}
    ranked = {qid: chance.sample(docids, min(60, len(docids))) for qid in qrels}
    lists = [Candidates(forward.rows_of(names), np.arange(len(names), 0, -1.0)) for names in ranked.values()]
    run = {qid: [(docid, -float(place)) for place, docid in enumerate(names)] for qid, names in ranked.items()}
    (measure,) = parse_measures([name])
    expected = evaluate(qrels, run, [measure]).array(name, list(qrels))
    if name == "Success@5":  # computed by ir_measures so far
        added = measures.ListMeasure("Success", lambda found: float(len(found.places) > 0), needs=True)
        monkeypatch.setitem(measures.MEASURES, "Success", added)
        monkeypatch.delattr(ir_measures, "iter_calc")
        assert evaluate(qrels, run, [measure]).array(name, list(qrels)).tolist() == expected.tolist()
    values = JudgedRows(forward, qrels, list(qrels)).values(measure, range(len(qrels)), lists)
    assert values.tolist() == expected.tolist() and len(set(values)) > 1


def test_which_measures_have_a_direct_form():
    others = parse_measures(["RR@10", "P(rel=2)@5", "AP(rel=2)", "nDCG(dcg='exp-log2')@10", "Rprec", "Success@5"])
    assert not any(map(is_known, others))


def test_of_a_document_listed_twice_the_lower_rank_counts():
    run = {"1": [("a", 4.0), ("b", 3.0), ("a", 2.0), ("c", 1.0)]}
    result = evaluate({"1": {"a": 1, "c": 1}}, run, parse_measures(["AP", "RR"]))
    assert (result.mean("RR"), result.mean("AP")) == (0.5, (1 / 2 + 2 / 3) / 2)


@pytest.mark.parametrize(
    "names", [["Accuracy"], ["Accuracy", "AP"], ["RR@10"], ["ERR@10"], ["Accuracy", "P(rel=2)@5", "RR@10"]]
)
def test_every_topic_has_a_value_whatever_else_is_measured(names):
    qrels = {"1": {"a": 1, "b": 0}, "2": {"a": 0, "b": 0}, "3": {"x": 1}, "4": {}}
    run = {"1": [("a", 2.0), ("b", 1.0)], "2": [("b", 1.0)], "4": [("a", 1.0)]}
    values = evaluate(qrels, run, parse_measures(names)).values
    for name in names:
        assert list(values[name]) == list(qrels) and all(values[name][qid] == 0.0 for qid in "234")
    assert values[names[0]]["1"] > 0
