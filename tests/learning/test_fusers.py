"""Fusion without learning: sums by hand."""

import numpy as np
import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.learning.ranking.fusers import CombSUM

X = np.array([[3.0, 0.0], [2.0, 4.0], [1.0, 2.0]])
SUM = CombSUM()


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


def test_queries_do_not_touch_each_other(fuser=SUM):
    qid = np.array([0, 1, 0, 1, 0, 1])
    both = np.empty((6, 2))
    both[qid == 0], both[qid == 1] = X, X[::-1] * 9
    together = fuser.predict(both, qid)
    assert together[qid == 0] == pytest.approx(fuser.predict(X))
    assert together[qid == 1] == pytest.approx(fuser.predict(X[::-1] * 9))


def test_parts_sum_to_the_score(fuser=SUM):
    assert fuser.contributions(X).sum(axis=1) == pytest.approx(fuser.predict(X))
