"""Lists within a table: normalisation by hand, measures against ir_measures, checks."""

import ir_measures
import numpy as np
import pytest
from ir_measures import AP

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.learning.ranking.lists import (
    Lists,
    check,
    check_training,
    mean_average_precision,
    normalise_features,
    require_contrast,
    zscores,
)


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
    result = ir_measures.calc_aggregate([AP], qrels, run)
    lists = Lists.of(qid)
    assert mean_average_precision(scores, y, lists) == pytest.approx(result[AP])


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


def test_average_precision_of_a_partial_tie_by_hand():
    """Scores 3, 2, 2, 1 with the first, the second and the last relevant: ranks 1, 3 and 4."""
    result = mean_average_precision(np.array([3.0, 2, 2, 1]), np.array([1.0, 1, 0, 1]), Lists.of(np.zeros(4)))
    assert result == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)


def test_nothing_relevant_has_no_average_precision():
    assert mean_average_precision(np.array([3.0, 2.0]), np.zeros(2), Lists.of([0, 0])) == 0.0


def test_labels_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match="labels: that of row 2 is NaN or infinite"):
        check(np.zeros((2, 1)), None, [1.0, np.nan])


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("kind", ["z", "minmax"])
def test_what_is_constant_is_relative_to_the_size_of_the_numbers(size, kind):
    """Noise of a few units in the last place is no difference; one part in a billion is, whatever the size of the numbers."""
    noise = size * (1 + np.array([0.0, 2.0, -3.0, 1.0]) * np.finfo(float).eps)
    real = size * (1 + np.array([0.0, 2.0, -3.0, 1.0]) * 1e-9)
    table, lists = np.column_stack([noise, real, -noise, -real]), Lists.of(np.zeros(4))
    wanted = np.array([0.0, 2, -3, 1])
    wanted = wanted / wanted.std() if kind == "z" else (wanted + 3) / 5
    mirrored = -wanted if kind == "z" else 1 - wanted
    normalised = [normalise_features(table, lists, kind)]
    if kind == "z":
        normalised += [zscores(table), np.column_stack([zscores(column) for column in table.T])]
        normalised.append(np.column_stack([zscores(column[:, None])[:, 0] for column in table.T]))
    for result in normalised:
        assert not result[:, [0, 2]].any()
        assert result[:, 1] == pytest.approx(wanted, abs=1e-5) and result[:, 3] == pytest.approx(mirrored, abs=1e-5)


def test_zscores_of_one_column_and_of_several_are_those_of_a_list():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(9, 3)) * [1, 50, 0] + [3, -7, 2]
    expected = (values - values.mean(axis=0)) / np.where(values.std(axis=0) > 0, values.std(axis=0), 1)
    assert zscores(values) == pytest.approx(expected)
    assert zscores(values[:, 0]) == pytest.approx(expected[:, 0]) and zscores(values[:, :1]) == pytest.approx(expected[:, :1])
    assert zscores(np.zeros((0, 3))).shape == (0, 3) and zscores([5.0]).tolist() == [0.0]
    assert normalise_features(values, Lists.single(9), "z") == pytest.approx(expected)


def test_one_list_of_all_rows():
    assert [rows.tolist() for rows in Lists.single(3)] == [[0, 1, 2]] and Lists.single(3).sizes.tolist() == [3]
    assert len(Lists.single(0)) == 0 and not list(Lists.single(0)) and not list(Lists.of([]))
    assert Lists.of(["b", "a", "b"]).sizes.tolist() == [1, 2]


@pytest.mark.parametrize(("table", "y", "message"), [
    (np.zeros((0, 2)), [], r"0 sample\(s\)"), (np.zeros((2, 0)), [0, 1], r"0 feature\(s\)"),
    (np.zeros((2, 1)), None, "requires y"),
])  # fmt: skip
def test_tables_that_nothing_can_be_learned_from(table, y, message):
    with pytest.raises(InputError, match=message):
        check_training(table, y, None)


@pytest.mark.parametrize(("labels", "qid", "reason"), [
    ([1.0], [0], "one sample only"), ([1, 2], [0, 1], "all documents are relevant"),
    ([0, 0], [0, 0], "no document is relevant"), ([0, -1], [0, 1], "no document is relevant"),
    ([1, 0], [0, 1], "no query has both"),
])  # fmt: skip
def test_reasons_why_nothing_can_be_learned(labels, qid, reason):
    with pytest.raises(InputError, match=reason):
        require_contrast(np.array(labels, dtype=float), Lists.of(qid))
    require_contrast(np.array([0.0, 1.0, 1.0]), Lists.of([0, 0, 1]))


def test_the_place_of_a_bad_value_is_named():
    table = np.zeros((3, 4))
    table[2, 1] = table[2, 3] = np.inf
    with pytest.raises(InputError, match="row 3, column 2 is NaN or infinite"):
        check(table, None)
    with pytest.raises(InputError, match="2 rows, but 2 query ids and 3 labels"):
        check(np.zeros((2, 1)), None, [1.0, 2.0, 3.0])
