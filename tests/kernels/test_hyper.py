"""Hyper asymmetric kernels: Eq. 4 by hand, Theorems 3 and 4, positive semi-definiteness."""

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.kernels.hyper import Combined, Hyper, Pairs, PowerSeries, precomputed, precomputed_relevance

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


def test_equation_4_by_hand():
    value = FULL(Pairs([1], [2]), Pairs([4], [6]))[0, 0]
    assert value == pytest.approx(G[1, 2] * KQ[1, 4] * KD[2, 6] * G[4, 6])
    assert PAIRWISE(Pairs([1], [2]), Pairs([4], [6]))[0, 0] == pytest.approx(KQ[1, 4] * KD[2, 6])


def test_power_series_by_hand():
    inner, outer = KQ[1, 4] * KD[2, 6], G[1, 2] * G[4, 6]
    value = PowerSeries(FULL, [0.5, 1.0, 0.25])(Pairs([1], [2]), Pairs([4], [6]))[0, 0]
    assert value == pytest.approx(outer * (0.5 + inner + 0.25 * inner**2))


@pytest.mark.parametrize("name", KERNELS)
def test_every_hyper_kernel_is_symmetric_and_positive_semi_definite(name):
    values = KERNELS[name](ALL, ALL)
    assert values == pytest.approx(values.T)
    assert np.linalg.eigvalsh(values).min() > -1e-9


def test_operators_are_the_weighted_sum():
    assert KERNELS["operators"](ALL, ALL) == pytest.approx(2 * FULL(ALL, ALL) + PAIRWISE(ALL, ALL))


def test_learned_functions_are_asymmetric_kernels_again():
    # Theorem 2: k = Σ α k̄ has explicit maps; as a matrix over queries and documents it is G ∘ (A B) with inner dimension rank.
    alpha = RNG.normal(size=35)
    values = (FULL(ALL, ALL) @ alpha).reshape(5, 7)
    assert np.linalg.matrix_rank(values / G, tol=1e-9) <= 4


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


def test_lists_are_matrices_too():
    assert precomputed([[1.0, 0.5], [0.5, 1.0]])([0], [1]).tolist() == [[0.5]]
    assert precomputed_relevance([[1, 2], [3, 4]])([1], [0]).tolist() == [3]
