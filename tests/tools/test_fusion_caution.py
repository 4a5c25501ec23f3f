"""The choice of fusion's caution with a collection left out, from saved cross-validations."""

import numpy as np
import pytest

from tools.reproduce.fusion_caution import DIVIDED, RULES, among_equals, caution_table, cautious, chosen_rule, corpus_of, gains

#: Four training topics: the learner gains -.01, .03, .03 and .07 over auto, 1.84 standard errors (.03 / (.0327 / 2)).
AUTO, NET = np.array([0.2, 0.3, 0.4, 0.5]), np.array([0.19, 0.33, 0.43, 0.57])
TRIED = {"first": AUTO - 0.1, "auto": AUTO, "mslm": AUTO - 0.1, "net, penalty 1": NET}


def condition(net, auto=0.4, fusion=0.1):
    values = {"first": [0.3], "auto": [auto], "mslm": [0.3], "net, penalty 1": [net]}
    candidates = {"tried": {name: aps.tolist() for name, aps in TRIED.items()}, "fusion": values, "as new": values}
    return {"BM25": [0.3], "auto": [auto], "fusion": [fusion], "as new": [auto], "candidates": [candidates]}


def test_a_learner_needs_so_many_standard_errors():
    assert cautious(1.8)(TRIED) == "net, penalty 1"
    assert cautious(1.9)(TRIED) == "auto"
    assert among_equals(TRIED) == "net, penalty 1"
    assert among_equals({**TRIED, "net, penalty 1": AUTO + np.array([0.1, -0.1, 0.1, -0.09])}) == "auto"


def test_gains_are_against_the_better_of_first_stage_and_auto():
    assert gains(condition(0.44), cautious(1.5)) == pytest.approx((10.0, 10.0))
    assert gains(condition(0.44), cautious(2.0)) == pytest.approx((0.0, 0.0))
    assert gains(condition(0.44, auto=0.2), cautious(2.0)) == pytest.approx((-100 / 3, -100 / 3))


def test_the_least_loss_within_a_percent_of_the_best_mean_is_chosen():
    table = np.array([[5.0, -1.0, -9.0], [3.5, 0.0, 9.0], [4.5, -0.5, 0.0]])
    assert chosen_rule(table, np.array([True, True, False])) == 1
    assert chosen_rule(table, np.array([True, False, False])) == 0
    assert corpus_of("scifact train -> scifact") == corpus_of("scifact, noisy known items") == "scifact"


def test_the_row_of_a_collection_shows_what_the_others_choose():
    """The learner gains on cran and loses on cisi: cran alone chooses a rule that takes it, cisi one that does not."""
    rows = caution_table({"cran": condition(0.44), "cisi": condition(0.36)}).splitlines()
    assert rows[2].startswith("| cran |") and rows[2].endswith("2: +0.0 / +0.0 |")
    assert rows[3].startswith("| cisi |") and rows[3].endswith("0: -10.0 / -10.0 |")
    assert len(rows[2].split("|")) == len(RULES) + 5


def test_the_last_rule_is_fusion_itself():
    """Its topics as they are gain 25 percent over auto, as new nothing: more on average than any other rule."""
    rows = caution_table({"cran": condition(0.44, fusion=0.5), "cisi": condition(0.36, fusion=0.5)}).splitlines()
    assert all(row.endswith(f"{DIVIDED}: +25.0 / +0.0 |") for row in rows[2:4])
