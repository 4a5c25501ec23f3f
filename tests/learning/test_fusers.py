"""Fusion without learning: sums, products with counts and reciprocal ranks by hand."""

import numpy as np
import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.learning.ranking.choose import LEARNERS
from kernelsearch.learning.ranking.fusers import CombNonzero, CombSUM, TiedRRF
from kernelsearch.rerankers.fusion.settings import LEARNERS as SETTINGS_LEARNERS

X = np.array([[3.0, 0.0], [2.0, 4.0], [1.0, 2.0]])


def test_combsum_by_hand():
    assert CombSUM(normalise="minmax").predict(X).tolist() == [1.0, 1.5, 0.5]
    assert CombSUM(weights=[2, 1], normalise="minmax").predict(X).tolist() == [2.0, 2.0, 0.5]
    with pytest.raises(InputError, match="3 weights for 2 features"):
        CombSUM(weights=[1, 1, 1]).predict(X)


def test_combsum_of_ties_and_equal_scores_is_that_of_other_libraries():
    """Runs a, b and c of four documents; ranx 0.3.21 gives the same with norm="min-max", method="sum"."""
    a, b, c = [3.0, 2.0, 2.0, 1.0], [5.0, 5.0, 1.0, 5.0], [2.0, 2.0, 2.0, 2.0]
    assert CombSUM(normalise="minmax").predict(np.column_stack([a, b, c])).tolist() == [2.0, 1.5, 0.5, 1.0]
    with pytest.raises(InputError, match="row 3, column 2 is NaN"):  # a document that a run lacks has no score to sum
        CombSUM(normalise="minmax").predict([[1.0, 2], [2, 3], [3, np.nan]])


def test_names_of_other_libraries_are_not_given_to_other_sums():
    """CombMNZ counts lists, not values above 0, and reciprocal rank fusion has the ranks of the run for ties."""
    assert not {"combmnz", "rrf"} & {*LEARNERS, *SETTINGS_LEARNERS}
    assert {"nonzero", "tied-rrf"} <= {*LEARNERS} & {*SETTINGS_LEARNERS}


def test_the_count_of_values_above_the_lowest_by_hand():
    assert CombNonzero().predict(X).tolist() == [1.0, 3.0, 0.5]


def test_rrf_by_hand_and_ties_share_a_rank():
    assert TiedRRF(k=0).predict(X).tolist() == pytest.approx([1 + 1 / 3, 1 / 2 + 1, 1 / 3 + 1 / 2])
    assert TiedRRF(k=60).predict(np.array([[1.0], [1.0], [0.0]])).tolist() == pytest.approx([1 / 61.5, 1 / 61.5, 1 / 63])


@pytest.mark.parametrize("fuser", [CombSUM(), CombNonzero(), TiedRRF()])
def test_queries_do_not_touch_each_other(fuser):
    qid = np.array([0, 1, 0, 1, 0, 1])
    both = np.empty((6, 2))
    both[qid == 0], both[qid == 1] = X, X[::-1] * 9
    together = fuser.predict(both, qid)
    assert together[qid == 0] == pytest.approx(fuser.predict(X))
    assert together[qid == 1] == pytest.approx(fuser.predict(X[::-1] * 9))


@pytest.mark.parametrize("fuser", [CombSUM(), CombNonzero(), TiedRRF()])
def test_parts_sum_to_the_score(fuser):
    assert fuser.contributions(X).sum(axis=1) == pytest.approx(fuser.predict(X))
