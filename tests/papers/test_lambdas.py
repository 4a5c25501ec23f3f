"""The listwise gradients: changes of AP by hand and by brute force, pulls against finite differences."""

import itertools

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.learning.ranking.lists import list_average_precision
from kernelsearch.papers.ltr.lambdas import lambdas, swap_deltas


def swapped_change(scores, relevant, kind_ap, i, j):
    """|AP after - AP before| when rows i and j change places."""
    other = scores.copy()
    other[i], other[j] = scores[j], scores[i]
    return abs(kind_ap(other, relevant) - kind_ap(scores, relevant))


@pytest.mark.parametrize("seed", range(6))
def test_exact_delta_is_the_change_of_average_precision(seed):
    chance = np.random.default_rng(seed)
    scores = chance.permutation(9).astype(float)
    relevant = np.zeros(9, dtype=bool)
    relevant[chance.choice(9, 1 + seed % 5, replace=False)] = True
    result = swap_deltas(scores, relevant)
    for (a, i), (b, j) in itertools.product(enumerate(np.flatnonzero(relevant)), enumerate(np.flatnonzero(~relevant))):
        assert result[a, b] == pytest.approx(swapped_change(scores, relevant, list_average_precision, i, j), abs=1e-12)


def test_printed_delta_misses_what_stands_between():
    """The list 1001 swapping ranks 2 and 4: Eq. 8 says 0, the truth is .25."""
    scores, relevant = np.array([4.0, 3.0, 2.0, 1.0]), np.array([True, False, False, True])
    assert swap_deltas(scores, relevant, "printed")[1, 0] == 0
    assert swap_deltas(scores, relevant, "exact")[1, 0] == pytest.approx(0.25)


def test_ndcg_delta_is_the_change_of_ndcg():
    scores, relevant = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([False, True, False, False, True])

    def ndcg(values, marks):
        hits = marks[np.argsort(-values)]
        discount = 1 / np.log2(np.arange(2, len(hits) + 2))
        return (hits * discount).sum() / discount[: marks.sum()].sum()

    result = swap_deltas(scores, relevant, "ndcg")
    for (a, i), (b, j) in itertools.product(enumerate([1, 4]), enumerate([0, 2, 3])):
        assert result[a, b] == pytest.approx(swapped_change(scores, relevant, ndcg, i, j))


@pytest.mark.parametrize("kind", ["exact", "printed", "ndcg", "none"])
def test_pulls_are_the_slope_of_the_weighted_pair_loss(kind):
    """With |Δ| held fixed, the pull is minus the derivative of Σ |Δ| log(1 + exp(f_j - f_i)) (Eq. 6), w its second one."""
    chance = np.random.default_rng(3)
    scores, relevant = chance.normal(size=7), np.array([True, False, True, False, False, True, False])
    delta = swap_deltas(scores, relevant, kind)

    def loss(values):
        return (delta * np.logaddexp(0, values[~relevant][None, :] - values[relevant][:, None])).sum()

    pull, curvature = lambdas(scores, relevant, kind)
    step = 1e-4
    for place in range(7):
        moved = np.eye(7)[place] * step
        slope = (loss(scores + moved) - loss(scores - moved)) / (2 * step)
        bend = (loss(scores + moved) - 2 * loss(scores) + loss(scores - moved)) / step**2
        assert pull[place] == pytest.approx(-slope, abs=1e-7)
        assert curvature[place] == pytest.approx(bend, abs=1e-5)


def test_lambdas_are_two_sided():
    """What goes up pushes another down: the pulls of a list sum to 0, up for relevant rows and down for the others."""
    chance = np.random.default_rng(0)
    relevant = chance.random(30) < 0.3
    pull, curvature = lambdas(chance.normal(size=30), relevant)
    assert pull.sum() == pytest.approx(0, abs=1e-12)
    assert (pull[relevant] > 0).all() and (pull[~relevant] <= 0).all() and pull[~relevant].min() < 0
    assert (curvature >= 0).all()


def test_a_list_without_choice_pulls_nothing():
    for relevant in (np.ones(3, dtype=bool), np.zeros(3, dtype=bool)):
        pull, curvature = lambdas(np.array([1.0, 2.0, 3.0]), relevant)
        assert not pull.any() and not curvature.any()


def test_extreme_scores_stay_finite():
    pull, curvature = lambdas(np.array([1e6, -1e6]), np.array([False, True]))
    assert np.isfinite(pull).all() and np.isfinite(curvature).all()


def test_unknown_delta_is_refused():
    with pytest.raises(OptionError, match=r"delta 'map' is not one of exact, printed, ndcg, none"):
        swap_deltas(np.zeros(2), np.array([True, False]), "map")
