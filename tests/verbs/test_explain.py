"""`python -m kernelsearch.explain`: both lists, reasons, JSON and pictures."""

from __future__ import annotations

import json
import re

import pytest

from kernelsearch import explain
from kernelsearch.core.errors import InputError


def run(demo_index, capsys, *more: str) -> str:
    explain.main(["--index", str(demo_index.path), "--rerank", "pert", "--query", "dripping tap", *more])
    return capsys.readouterr().out


def test_the_list_before_and_after_with_rank_changes_and_reasons(demo_index, capsys):
    out = run(demo_index, capsys, "--top", "5").splitlines()
    assert out[0].split() == ["rank", "first", "stage", "score", "pert", "score", "moved", "text"]
    result = demo_index.search("dripping tap", rerank="pert", k=5)
    rows = [line.split() for line in out[2:7]]
    assert [row[1] for row in rows] == demo_index.search("dripping tap", k=5).docids
    assert [row[3] for row in rows] == result.docids
    assert [row[5] for row in rows] == ["new" if n is None else "=" if n == 0 else f"{n:+d}" for n in result.moved()]
    assert out[8].startswith(f"pert: {result.docids[0]} “") and "” scores " in out[8]


def test_texts_are_shown_around_the_words_of_the_query_in_colour_on_a_terminal(demo_index, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    lines = run(demo_index, capsys, "--top", "5").splitlines()[2:7]
    moved = [line for line in lines if ": …" in line]  # the window isn't the beginning of the text
    assert moved and all(re.search("tap|drip", line, re.IGNORECASE) for line in moved)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;33mtap\x1b[0m" in run(demo_index, capsys, "--top", "5")


def test_json_has_both_lists_and_contributions_that_sum_to_the_score(demo_index, capsys):
    explained = json.loads(run(demo_index, capsys, "--json", "--docid", "hr040"))
    assert [entry["docid"] for entry in explained["before"]] == demo_index.search("dripping tap").docids
    assert [entry["docid"] for entry in explained["list"]] == demo_index.search("dripping tap", rerank="pert").docids
    explanation = explained["explanation"]
    assert explanation["docid"] == "hr040"
    assert sum(part["value"] for part in explanation["contributions"]) == pytest.approx(explanation["score"])


def test_a_picture_is_drawn_and_a_dollar_is_no_formula(demo_index, capsys, tmp_path):
    explain.main(
        [
            "--index",
            str(demo_index.path),
            "--rerank",
            "pert",
            "--query",
            "dripping tap $x_{$",
            "--plot",
            str(tmp_path / "p.svg"),
        ]
    )
    assert "<svg" in (tmp_path / "p.svg").read_text()
    with pytest.raises(InputError, match=r"only \.png and \.svg"):
        run(demo_index, capsys, "--plot", str(tmp_path / "p.pdf"))


def test_a_document_that_is_not_in_the_list_is_named(demo_index, capsys):
    with pytest.raises(InputError, match="'none' is not in"):
        run(demo_index, capsys, "--docid", "none")


def test_a_method_that_cannot_act_says_why(demo_index, capsys):
    """With a weight of 0 for the expansion there is nothing to explain."""
    explain.main(["--index", str(demo_index.path), "--rerank", "pert", "--query", "dripping tap", "--pert.alpha", "0"])
    captured = capsys.readouterr()
    assert "first stage" in captured.out and "scores" not in captured.out
    assert captured.err == "pert: 1 query keeps the first stage's list: alpha is 0\n"
