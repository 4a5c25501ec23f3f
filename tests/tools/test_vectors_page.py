"""The page of vectors: settings are chosen without the collection that they are measured on, and figures are kept."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from tools.data.made_topics import without_words
from tools.reproduce.vectors import DEFAULT, PLAIN, Measured, leave_one_out, page_text
from tools.reproduce.vectors_learned import Tables, training_rows
from tools.reproduce.vectors_long import join_judgements, related_groups
from tools.reproduce.vectors_weights import DENSE, FEEDBACK, MSLM, smallest_lead
from tools.reproduce.vectors_weights import page_text as weights_text


def test_a_setting_is_chosen_on_the_other_collections():
    tables = {"a": {(1.0,): 0.9, (2.0,): 0.1}, "b": {(1.0,): 0.2, (2.0,): 0.4}, "c": {(1.0,): 0.3, (2.0,): 0.5}}
    assert leave_one_out(tables) == {"a": (2.0,), "b": (1.0,), "c": (1.0,)}


def test_figures_are_read_as_they_were_written(tmp_path):
    label = "`auto` with vectors"
    choices = {PLAIN: ["auto"] * 5, DEFAULT: ["net, penalty 0.01", "auto", "auto", "net, penalty 0.01", "auto"]}
    measured = Measured({"BM25": [0.25, 0.0, 0.5], label: [0.5, 0.125, 0.375]}, {(0.5, 10, 0.3): [0.375] * 3}, 0.75, choices, 2)
    measured.save(tmp_path / "figures" / "a.json")
    again = Measured.load(tmp_path / "figures" / "a.json")
    assert again == measured
    text = page_text({"a": again, "b": again})
    assert "| BM25 | .2500 | .2500 |" in text and "| klsa over BM25 + MiniLM |" not in text and "0.75 ms" in text
    assert "| 5 auto | 5 auto |" in text and "| 2 net, penalty 0.01; 3 auto |" in text and "| 3 (2) | 3 (2) |" in text
    assert f"| {label} | .3333 | .3333 |" in text and f"| {label} | (1/2, 0.1) | (1/2, 0.1) |" in text


def test_rows_to_learn_from_have_all_relevant_documents_and_a_draw_of_others():
    features = np.arange(600.0)[:, None]
    relevant = np.zeros(600, dtype=bool)
    relevant[[3, 500]] = True
    docs = np.arange(600, dtype=np.int32)
    tables = Tables(("first",), [docs, docs], [features, features], [relevant, ~relevant & relevant], [2, 0])
    (X, y, places), *others = training_rows(tables, [0, 1])
    assert not others  # the second query has no relevant candidate
    assert len(X) == 202 and set(X[y > 0, 0]) == {3.0, 500.0} and (places == 0).all()


def test_weights_are_those_with_the_largest_smallest_lead_elsewhere():
    good, risky = "[3.0, 1.0, 0.75]", "[4.0, 1.5, 1.5]"
    plain = {"RRF": 0.4, "z-scores": 0.5}
    measured = {
        "a": {**plain, good: 0.55, risky: 0.9},
        "b": {**plain, good: 0.54, risky: 0.45},
        "c": {**plain, good: 0.52, risky: 0.8},
    }
    assert smallest_lead(risky, measured) == pytest.approx(0.9) and smallest_lead(good, measured) == pytest.approx(1.04)
    for figures in measured.values():
        for setting in product(DENSE, FEEDBACK, MSLM):
            figures.setdefault(json.dumps(setting), 0.1)
    # Without b, the risky weights have the larger smallest lead; b itself is not asked.
    assert "chosen on the others | .5500 | .4500 | .5200 |" in weights_text(measured, {})
    text = weights_text(measured, {"Known items": {"a": {"BM25": 0.25}, "b": {"BM25": 0.5}}})
    assert "Known items:\n\n| AP | a | b |" in text and "| BM25 | .2500 | .5000 |" in text


def test_topics_lose_a_share_of_their_words_but_never_all():
    topics = {"1": " ".join(f"w{number}" for number in range(400)), "2": "alone"}
    left = without_words(topics)
    words = left["1"].split()
    assert 150 < len(words) < 250 and words == [word for word in topics["1"].split() if word in words]
    assert left["2"] == "alone" and without_words(topics, 0.0) == topics and without_words(topics, 1.0)["1"] == "w0"


def test_long_documents_are_groups_of_near_documents_and_relevant_by_their_parts():
    vectors = np.repeat(np.eye(3, dtype=np.float32), 2, axis=0)
    groups = related_groups(vectors, 2, np.random.default_rng(0))
    assert sorted(sorted(group.tolist()) for group in groups) == [[0, 1], [2, 3], [4, 5]]
    joined = {"a": "x", "b": "x", "c": "y"}
    assert join_judgements({"1": {"a": 0, "b": 2, "c": 1, "lost": 3}}, joined) == {"1": {"x": 2, "y": 1}}
