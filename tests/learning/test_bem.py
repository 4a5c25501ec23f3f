"""BEM's closed form against a numerical optimiser and against listed pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelsearch.learning.bem import bem_weights, preference_margins, uniform_weights
from kernelsearch.learning.ranking.lists import zscores


@pytest.mark.parametrize("seed", range(5))
def test_closed_form_is_the_optimum(seed):
    margins = np.random.default_rng(seed).normal(size=5)
    weights = bem_weights(margins)
    best = minimize(
        lambda a: -a @ margins,
        np.full(5, 0.4),
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda a: a @ a - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert weights @ margins >= -best.fun - 1e-7
    assert weights == pytest.approx(best.x, abs=1e-3)
    assert np.linalg.norm(weights) == pytest.approx(1) and (weights >= 0).all()


def test_undefined_without_a_positive_margin():
    assert bem_weights([0.0, -1.0]) is None
    assert uniform_weights(4) == pytest.approx([0.5] * 4)


def test_margins_are_sums_over_pairs():
    rng = np.random.default_rng(0)
    queries = [(rng.normal(size=(7, 3)), rng.integers(0, 3, 7)) for _ in range(4)]
    listed = np.zeros(3)
    for scores, grades in queries:
        for i in range(7):
            for j in range(7):
                if grades[i] > grades[j]:
                    listed += scores[i] - scores[j]
    assert preference_margins(queries) == pytest.approx(listed)


def test_zscores_do_not_follow_a_levels_scale():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(50, 2))
    assert zscores(values * [1, 1000] + [0, 5]) == pytest.approx(zscores(values))
    assert zscores(np.column_stack([np.full(3, 0.1), [1.0, 2.0, 3.0]]))[:, 0].tolist() == [0, 0, 0]
