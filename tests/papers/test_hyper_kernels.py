"""Hyper asymmetric kernels: positive semi-definite, and what is refused; the theorems are in test_asymmetric_kernels.py."""

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.papers.rbm25.hyper import (
    ClosedSeries,
    Combined,
    Hyper,
    Pairs,
    PowerSeries,
    Series,
    precomputed,
    precomputed_relevance,
)

RNG = np.random.default_rng(3)


def gram(size, rank=4):
    x = RNG.normal(size=(size, rank))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x @ x.T


KQ, KD, KD2, G = gram(5), gram(7), gram(7), RNG.random((5, 7))
ALL = Pairs(np.repeat(np.arange(5), 7), np.tile(np.arange(7), 5))
FULL = Hyper(precomputed(KQ), precomputed(KD), precomputed_relevance(G))
PAIRWISE = Hyper(precomputed(KQ), precomputed(KD))
KERNELS = {
    "Eq. 4": FULL,
    "pairwise": PAIRWISE,
    "power series": PowerSeries(FULL, [0.5, 1.0, 0.25, 0.1]),
    "several": Combined((1.0, 0.5), (FULL, Hyper(precomputed(KQ), precomputed(KD2), precomputed_relevance(G)))),
    "operators": 2.0 * FULL + PAIRWISE,
}


@pytest.mark.parametrize("name", KERNELS)
def test_every_hyper_kernel_is_symmetric_and_positive_semi_definite(name):
    values = KERNELS[name](ALL, ALL)
    assert values == pytest.approx(values.T)
    assert np.linalg.eigvalsh(values).min() > -1e-9


def test_negative_weights_and_uneven_pairs_are_refused():
    with pytest.raises(OptionError, match="negative"):
        PowerSeries(FULL, [1.0, -1.0])
    with pytest.raises(OptionError, match="none negative"):
        -1.0 * FULL
    with pytest.raises(OptionError, match="queries but"):
        Pairs([1, 2], [1])
    for bad in ([0.5], [-1], ["x"], [np.nan]):
        with pytest.raises(OptionError, match="whole numbers"):
            Pairs(bad, [1])
    for bad in (np.nan, np.inf):
        with pytest.raises(OptionError, match="finite"):
            PowerSeries(FULL, [1.0, bad])
        with pytest.raises(OptionError, match="finite"):
            bad * FULL


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "has the eigenvalue -1,"),
        ([[1.0, 0.5], [0.0, 1.0]], "not symmetric"),
        ([[1.0, np.nan], [np.nan, 1.0]], "finite numbers"),
        ([[1.0, 0.0]], "square"),
    ],
)
def test_matrices_that_no_kernel_has_are_refused(matrix, message):
    with pytest.raises(OptionError, match=message):
        precomputed(np.array(matrix))
    with pytest.raises(OptionError, match="finite"):
        precomputed_relevance(np.array([[np.inf]]))


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_rounding_is_relative_to_the_largest_value(size):
    """A part in a billion of asymmetry or of a negative eigenvalue is rounding, a part in a hundred thousand is not."""
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]

    def with_least(least):
        matrix = (vectors * [1.0, 0.5, 0.2, least]) @ vectors.T
        return size * (matrix + matrix.T) / 2

    skew = np.zeros((4, 4))
    skew[0, 1] = size
    for rounding, problem in ((1e-9, 1e-5), (-1e-9, -1e-5)):
        precomputed(with_least(0.1) + rounding * skew)
        with pytest.raises(OptionError, match="not symmetric"):
            precomputed(with_least(0.1) + problem * skew)
    precomputed(with_least(-1e-9))
    with pytest.raises(OptionError, match="not positive semi-definite"):
        precomputed(with_least(-1e-5))


def test_values_of_a_precomputed_kernel_are_looked_up():
    assert precomputed(KQ)(np.array([3, 0]), np.array([1, 1, 4])) == pytest.approx(KQ[[3, 0]][:, [1, 1, 4]])
    assert precomputed_relevance(G)(np.array([3, 0]), np.array([1, 6])) == pytest.approx([G[3, 1], G[0, 6]])
    assert precomputed(np.zeros((0, 0)))(np.array([], dtype=int), np.array([], dtype=int)).shape == (0, 0)
    for bad in (np.zeros(3), np.zeros((2, 2, 2))):
        with pytest.raises(OptionError, match="square matrix"):
            precomputed(bad)
        with pytest.raises(OptionError, match="a matrix of finite numbers"):
            precomputed_relevance(bad)


def test_the_limit_is_the_root_of_the_radius():
    """Σ (x/4)^i converges below 4: the values of either kernel must lie below 2, so that their product does."""
    series = Series("quarters", lambda x: 1 / (1 - x / 4), 4.0)

    def value(size):
        both = Hyper(lambda a, b: np.full((len(a), len(b)), size), lambda a, b: np.full((len(a), len(b)), size))
        return ClosedSeries(both, series)(Pairs([0], [0]), Pairs([1], [1]))

    assert value(1.9) == pytest.approx(1 / (1 - 1.9**2 / 4))
    with pytest.raises(OptionError, match="value of 2 is not below 2, the square root"):
        value(2.0)


def test_weights_of_zero_are_weights_and_their_number_is_checked():
    assert Combined((0.0, 1.0), (FULL, PAIRWISE))(ALL, ALL) == pytest.approx(PAIRWISE(ALL, ALL))
    assert PowerSeries(FULL, [0.0, 1.0])(ALL, ALL) == pytest.approx(FULL(ALL, ALL))
    for weights, kernels in (((1.0,), (FULL, PAIRWISE)), ((), ())):
        with pytest.raises(OptionError, match="one finite weight per kernel"):
            Combined(weights, kernels)
    with pytest.raises(OptionError, match="at least one coefficient"):
        PowerSeries(FULL, [])
    with pytest.raises(OptionError, match=r"pairs: \(1, 1\) queries"):
        Pairs([[0]], [[0]])
    assert len(Pairs([], [])) == 0 and len(Pairs([0.0, 2.0], [1, 0])) == 2


def test_lists_are_matrices_too():
    assert precomputed([[1.0, 0.5], [0.5, 1.0]])([0], [1]).tolist() == [[0.5]]
    assert precomputed_relevance([[1, 2], [3, 4]])([1], [0]).tolist() == [3]
