import csv
import io
import json

import numpy as np
import pytest
from scipy import stats

from kernelsearch import evaluate as verb
from kernelsearch.core.errors import OptionError
from kernelsearch.evaluation import risk
from kernelsearch.evaluation.comparison import Procedure, compare
from kernelsearch.evaluation.measures import evaluate, parse_measures
from kernelsearch.evaluation.run_files import RunReport
from kernelsearch.evaluation.tables import render

QRELS = {str(topic): {"a": 1} for topic in range(6)}


def ranked(places):
    """A run that puts the one relevant document at a place (from 1), topic by topic; None: not found; "-": topic missing."""
    return {
        str(topic): [(f"x{other}" if other != place else "a", 10.0 - other) for other in range(1, 6)]
        for topic, place in enumerate(places)
        if place != "-"
    }


RUNS = {
    "base": ranked([1, 2, 2, 4, 5, None]),
    "good": ranked([1, 1, 1, 2, 4, None]),
    "mixed": ranked([2, 1, 2, 4, 5, 1]),
}


@pytest.fixture
def result():
    return {label: evaluate(QRELS, run, parse_measures(["RR", "P@1"])) for label, run in RUNS.items()}


def test_differences_by_hand(result):
    difference = compare(result, "base", ["RR", "P@1"]).of("good", "RR")
    base, good = [1, 1 / 2, 1 / 2, 1 / 4, 1 / 5, 0], [1, 1, 1, 1 / 2, 1 / 4, 0]
    assert difference.mean == pytest.approx(np.mean(good)) and difference.baseline_mean == pytest.approx(np.mean(base))
    assert difference.difference == pytest.approx(np.mean(good) - np.mean(base))
    assert difference.relative == pytest.approx(np.mean(good) / np.mean(base) - 1)
    assert (difference.wins, difference.ties, difference.losses, difference.lost) == (4, 2, 0, 0.0)
    assert difference.p == pytest.approx(stats.ttest_rel(good, base).pvalue)
    mixed = compare(result, "base", ["RR"], Procedure(aversion=2.0)).of("mixed", "RR")
    # topic 0 loses 1/2, topics 1 and 5 gain 1/2 and 1
    assert (mixed.wins, mixed.ties, mixed.losses, mixed.lost) == (2, 3, 1, 0.5)
    assert mixed.urisk == pytest.approx((1.5 - 3 * 0.5) / 6)
    table = [result[label].array("RR", list(QRELS)) for label in result]
    assert mixed.georisk == pytest.approx(risk.georisk(table, 2.0)[2])


def test_the_runs_of_one_measure_are_one_family(result):
    how = compare(result, "base", ["RR", "P@1"], Procedure(test="wilcoxon", correction="bonferroni"))
    for difference in how.differences:
        assert difference.p_corrected == min(2 * difference.p, 1.0)


def test_only_shared_topics_are_compared():
    runs = {"base": ranked([1, 2, "-", 4, 5, None]), "short": ranked(["-", 1, 1, 2, 4, None])}
    result = {label: evaluate(QRELS, run, parse_measures(["RR"]), complete=False) for label, run in runs.items()}
    comparison = compare(result, "base", ["RR"])
    assert comparison.topics == {"short": ["1", "3", "4", "5"]} and comparison.of("short", "RR").topics == 4
    report = RunReport(QRELS, runs, False, result, result, ["RR"], comparison, [])
    assert "short: compared on the 4 topics that it shares with the baseline" in report.messages()


def test_topics_that_no_run_has_are_counted_on_request_only(tmp_path, capsys):
    """Two of eight judged topics are in no run, one in the baseline only: five differences, or eight with zeros."""
    qrels = tmp_path / "qrels"
    qrels.write_text("".join(f"{qid} 0 a 1\n" for qid in range(8)))
    runs = {
        name: write(tmp_path, f"{name}.txt", ranked(places))
        for name, places in (("base", [1, 2, 2, 4, 5, 3]), ("new", [1, 1, 1, 2, 4, "-"]))
    }
    asked = [
        "--qrels",
        str(qrels),
        "--measures",
        "RR",
        "--baseline",
        runs["base"],
        runs["new"],
        "--all-pairs",
        "--format",
        "json",
    ]
    base, new = [1, 1 / 2, 1 / 2, 1 / 4, 1 / 5, 1 / 3, 0, 0], [1, 1, 1, 1 / 2, 1 / 4, 0, 0, 0]
    for flags, count in (([], 5), (["--no-complete"], 5), (["--all-judged"], 8)):
        verb.main([*asked, *flags])
        record = json.loads(capsys.readouterr().out)
        difference, pair = record["comparison"]["differences"][0], record["pairs"][0]
        expected = stats.ttest_rel(new[:count], base[:count]).pvalue
        assert (difference["topics"], difference["wins"], difference["losses"]) == (count, 4, count == 8)
        assert [difference["p"], pair["p"]] == pytest.approx([expected] * 2) and pair["topics"] == count
        table = np.array([base[:count], new[:count]])
        assert difference["georisk"] == pytest.approx(risk.georisk(table, 1.0)[1])
        assert record["runs"]["new"]["means"]["RR"] == pytest.approx(np.sum(new) / (5 if flags == ["--no-complete"] else 8))
    with pytest.raises(SystemExit):
        verb.main([*asked, "--all-judged", "--no-complete"])
    assert "--all-judged: counts the topics that --no-complete leaves out" in capsys.readouterr().err


def test_text_and_markdown_and_latex(result):
    comparison = compare(result, "base", ["RR"], Procedure(test="t", correction="none", level=0.2))
    text = render("text", result, ["RR"], comparison).splitlines()
    assert [line.split() for line in text[2:5]] == [["base", "6", "0.4083"], ["good", "6", "0.6250*"], ["mixed", "6", "0.5750"]]
    assert "* differs from base: paired t test, uncorrected, p < 0.2" in text
    markdown = render("markdown", result, ["RR"], comparison).splitlines()
    assert markdown[:5] == ["**Means**", "", "| run | topics | RR |", "| --- | ---: | ---: |", "| base | 6 | 0.4083 |"]
    latex = render("latex", {"a_b&c%": result["base"]}, ["RR"]).splitlines()
    assert latex[1] == r"\begin{tabular}{lrr}" and latex[5] == r"a\_b\&c\% & 6 & 0.4083 \\"


def test_csv_and_json_keep_full_precision(result):
    comparison = compare(result, "base", ["RR"])
    rows = list(csv.DictReader(io.StringIO(render("csv", result, ["RR"], comparison, per_query=True))))
    assert len(rows) == 3 * 7
    good = next(row for row in rows if row["run"] == "good" and row["topic"] == "all")
    mixed = next(row for row in rows if row["run"] == "mixed" and row["topic"] == "all")
    assert (mixed["wins"], mixed["losses"], mixed["lost"]) == ("2", "1", "0.5")
    assert float(good["value"]) == result["good"].mean("RR") and float(good["p"]) == comparison.of("good", "RR").p
    record = json.loads(render("json", result, ["RR"], comparison, per_query=True))
    assert record["runs"]["mixed"]["per_topic"]["RR"] == result["mixed"].values["RR"]
    assert record["comparison"]["differences"][0]["interval"] == list(comparison.of("good", "RR").interval)


def test_json_has_no_infinities():
    runs = {"base": ranked([2, 2, 2, 2, 2, 2]), "all": ranked([1, 1, 1, 1, 1, 1])}
    result = {label: evaluate(QRELS, run, parse_measures(["RR"])) for label, run in runs.items()}
    text = render("json", result, ["RR"], compare(result, "base", ["RR"]))
    assert json.loads(text, parse_constant=pytest.fail)["comparison"]["differences"][0]["trisk"] == "inf"


def write(folder, name, run):
    lines = [f"{qid} Q0 {docid} {rank} {score} t\n" for qid, docs in run.items() for rank, (docid, score) in enumerate(docs, 1)]
    (folder / name).write_text("".join(lines))
    return str(folder / name)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "qrels").write_text("".join(f"{qid} 0 a 1\n" for qid in QRELS))
    return ["--qrels", str(tmp_path / "qrels"), "--measures", "RR"], {
        n: write(tmp_path, f"{n}.txt", r) for n, r in RUNS.items()
    }


def test_the_baseline_may_stand_among_the_runs_or_not(files, capsys):
    flags, runs = files
    verb.main([*flags, "--baseline", runs["base"], runs["good"], runs["mixed"]])
    apart = capsys.readouterr().out
    verb.main([*flags, "--baseline", runs["base"], *runs.values()])
    assert capsys.readouterr().out == apart


def test_output_file_and_a_run_given_twice(files, tmp_path, capsys):
    flags, runs = files
    verb.main([*flags, runs["good"], "--format", "csv", "--output", str(tmp_path / "o.csv")])
    assert capsys.readouterr().out == "" and (tmp_path / "o.csv").read_text().startswith("run,topic,measure,value")
    with pytest.raises(OptionError, match="is given twice"):
        verb.main([*flags, runs["good"], runs["good"]])


def test_all_pairs_of_runs_are_tested_and_corrected_together(tmp_path, capsys):
    """Three runs' t tests by scipy; Holm's correction by hand over the three pairs of one measure."""
    (tmp_path / "qrels.txt").write_text("".join(f"{topic} 0 a 1\n" for topic in QRELS))
    paths = []
    for label, run in RUNS.items():
        lines = [f"{qid} Q0 {docid} 1 {score} x\n" for qid, listed in run.items() for docid, score in listed]
        (tmp_path / f"{label}.txt").write_text("".join(lines))
        paths.append(str(tmp_path / f"{label}.txt"))
    asked = ["--qrels", str(tmp_path / "qrels.txt"), *paths, "--measures", "RR", "--all-pairs"]
    verb.main([*asked, "--format", "json"])
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    values = {
        "base": [1, 1 / 2, 1 / 2, 1 / 4, 1 / 5, 0],
        "good": [1, 1, 1, 1 / 2, 1 / 4, 0],
        "mixed": [1 / 2, 1, 1 / 2, 1 / 4, 1 / 5, 1],
    }
    names = [("base", "good"), ("base", "mixed"), ("good", "mixed")]
    raw = [stats.ttest_rel(values[second], values[first]).pvalue for first, second in names]
    holm, largest = {}, 0.0
    for place, number in enumerate(np.argsort(raw)):
        largest = max(largest, min(1.0, (3 - place) * raw[number]))
        holm[int(number)] = largest
    assert [(pair["first"], pair["second"]) for pair in pairs] == names
    assert [pair["p"] for pair in pairs] == pytest.approx(raw)
    assert [pair["p_corrected"] for pair in pairs] == pytest.approx([holm[place] for place in range(3)])
    assert [pair["difference"] for pair in pairs] == pytest.approx(
        [np.mean(values[second]) - np.mean(values[first]) for first, second in names]
    )
    verb.main([*asked, "--level", "0.5"])
    table = capsys.readouterr().out
    rows = [line.split() for line in table.splitlines()]
    assert ["good", "base", "RR", "6", f"+{pairs[0]['difference']:.4f}*"] in [row[:5] for row in rows]
    assert ["mixed", "good", "RR", "6", f"{pairs[2]['difference']:.4f}"] in [row[:5] for row in rows]
    for more, message in (
        (["--format", "csv"], "has no place in --format csv"),
        (["--test", "none"], "needs a --test"),
    ):
        with pytest.raises(SystemExit) as stopped:
            verb.main([*asked, *more])
        assert stopped.value.code == 2 and f"--all-pairs: {message}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        verb.main(["--qrels", str(tmp_path / "qrels.txt"), paths[0], "--all-pairs"])
    assert "--all-pairs: needs at least two runs" in capsys.readouterr().err
