"""Lists within a table: normalisation by hand, measures against ir_measures, checks."""

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, P

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.learning.ranking.lists import Lists, check, mean_average_precision, normalise_features, precisions


def test_rows_of_a_query_need_not_stand_together():
    lists = Lists.of(["b", "a", "b", "a", "c"])
    assert [rows.tolist() for rows in lists] == [[1, 3], [0, 2], [4]]
    assert lists.spread(np.array([1.0, 2.0, 3.0])).tolist() == [2, 1, 2, 1, 3]


def test_normalisation_by_hand():
    X = np.array([[1.0, 5.0], [10.0, 5.0], [3.0, 5.0], [30.0, 7.0]])
    lists = Lists.of([1, 2, 1, 2])
    assert normalise_features(X, lists, "minmax").tolist() == [[0, 0], [0, 0], [1, 0], [1, 1]]
    assert normalise_features(X, lists, "z").tolist() == [[-1, 0], [-1, -1], [1, 0], [1, 1]]
    assert normalise_features(X, lists, "none") is X


def test_a_constant_column_stays_silent_whatever_its_rounding():
    X = np.full((7, 1), 0.1) * 3
    assert not normalise_features(X, Lists.of(np.zeros(7)), "z").any()


def test_normalisation_ignores_shift_and_scale_of_a_feature():
    chance = np.random.default_rng(0)
    X, qid = chance.normal(size=(40, 3)), chance.integers(0, 4, 40)
    lists = Lists.of(qid)
    for kind in ("z", "minmax"):
        assert normalise_features(X * 7 + 100, lists, kind) == pytest.approx(normalise_features(X, lists, kind))


def test_measures_agree_with_ir_measures():
    chance = np.random.default_rng(1)
    qid = np.repeat(np.arange(12), 15)
    scores, y = chance.permutation(len(qid)).astype(float), (chance.random(len(qid)) < 0.2).astype(float)
    qrels = {str(q): {str(row): int(y[row]) for row in np.flatnonzero(qid == q)} for q in range(12) if y[qid == q].any()}
    run = {str(q): {str(row): scores[row] for row in np.flatnonzero(qid == q)} for q in range(12)}
    result = ir_measures.calc_aggregate([AP, P @ 1, P @ 10], qrels, run)
    lists = Lists.of(qid)
    assert mean_average_precision(scores, y, lists) == pytest.approx(result[AP])
    at = precisions(scores, y, lists).mean(axis=0)
    assert at[0] == pytest.approx(result[P @ 1]) and at[9] == pytest.approx(result[P @ 10])


def test_what_is_not_a_table_is_refused():
    with pytest.raises(InputError, match="a table of rows and columns was expected"):
        check(np.zeros(3), None)
    with pytest.raises(InputError, match="2 rows, but 3 query ids"):
        check(np.zeros((2, 1)), [1, 2, 3])
    with pytest.raises(InputError, match="row 2, column 1 is NaN or infinite"):
        check([[0.0], [np.nan]], None)
    with pytest.raises(OptionError, match="normalisation 'rank' is not one of"):
        normalise_features(np.zeros((1, 1)), Lists.of([0]), "rank")


def test_equal_scores_earn_no_average_precision():
    """Two relevant of four: constant scores give the AP of the worst order, (1/3 + 2/4) / 2, whatever the order of the rows."""
    for relevant in ([1.0, 1, 0, 0], [0.0, 0, 1, 1], [1.0, 0, 1, 0]):
        assert mean_average_precision(np.zeros(4), np.array(relevant), Lists.of(np.zeros(4))) == pytest.approx(5 / 12)
    assert precisions(np.zeros(4), np.array([1.0, 1, 0, 0]), Lists.of(np.zeros(4)), 4)[0] == pytest.approx([0, 0, 1 / 3, 1 / 2])


def test_average_precision_of_a_partial_tie_by_hand():
    """Scores 3, 2, 2, 1 with the first, the second and the last relevant: ranks 1, 3 and 4."""
    result = mean_average_precision(np.array([3.0, 2, 2, 1]), np.array([1.0, 1, 0, 1]), Lists.of(np.zeros(4)))
    assert result == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)


def test_labels_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match="labels: that of row 2 is NaN or infinite"):
        check(np.zeros((2, 1)), None, [1.0, np.nan])
