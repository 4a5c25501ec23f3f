"""The expansion program with rows: constraints, agreement with other solvers, contradictions."""

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelsearch.kernels.perturbation import similarity
from kernelsearch.papers.pert.active_set import Infeasible
from kernelsearch.papers.pert.kernels import random_distances
from kernelsearch.papers.pert.program import ConstrainedProgram


def problem(words, seed):
    apart = random_distances(words, seed=seed)
    return np.random.default_rng(seed).uniform(0, 1, words), similarity(apart), apart


def solve(program, relevance, similar, apart, query_terms):
    return program.solve_with_rows(relevance, program.quadratic(similar, apart, query_terms), query_terms, similar)


@pytest.mark.parametrize("seed", range(5))
def test_rows_agree_with_an_independent_solver(seed):
    relevance, alike, apart = problem(12, seed)
    program = ConstrainedProgram(risk=0.3, balance=0.4, coverage=0.2, budget=3.0)
    x = solve(program, relevance, alike, apart, 3)
    quadratic = program.quadratic(alike, apart, 3)
    rows, least = program.rows(alike, 3)
    assert (rows @ x >= least - 1e-7).all()
    other = minimize(
        lambda y: y @ quadratic @ y / 2 - relevance @ y,
        x0=np.full(12, 0.5),
        jac=lambda y: quadratic @ y - relevance,
        bounds=[(0.95, 1)] * 3 + [(0, 1)] * 9,
        constraints={"type": "ineq", "fun": lambda y: rows @ y - least, "jac": lambda y: rows},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    np.testing.assert_allclose(x, other.x, atol=1e-5)


def test_rows_that_do_not_bind_change_nothing():
    relevance, alike, apart = problem(10, 2)
    free = solve(ConstrainedProgram(risk=0.3), relevance, alike, apart, 2)
    np.testing.assert_array_equal(solve(ConstrainedProgram(risk=0.3, budget=10.0), relevance, alike, apart, 2), free)


def test_budget_and_coverage_bind():
    relevance, alike, apart = problem(10, 2)
    assert solve(ConstrainedProgram(budget=1.5), relevance, alike, apart, 2)[2:].sum() == pytest.approx(1.5, abs=1e-6)
    demanding = ConstrainedProgram(risk=5.0, coverage=1.0)
    x = solve(demanding, relevance, alike, apart, 2)
    assert (alike[:2, 2:] @ x[2:] >= 1.0 - 1e-6).all()
    assert (alike[:2, 2:] @ solve(ConstrainedProgram(risk=5.0), relevance, alike, apart, 2)[2:]).min() < 1.0


def test_balance_evens_out_the_aspects():
    # Five words like the first query term, one like the second.
    near = np.array([0, 1, 0, 0, 0, 0, 0, 1])
    alike = np.where(near[:, None] == near[None, :], 0.9, 0.1) + 0.1 * np.eye(8)
    program = ConstrainedProgram(risk=0.001, balance=0.5)
    x = solve(program, np.full(8, 0.5), alike, 1 - alike, 2)
    aspects = alike[:2] / alike[:2].sum(axis=0)
    assert abs(np.diff(aspects @ x))[0] <= 1.0 + 1e-6
    assert abs(np.diff(aspects @ solve(ConstrainedProgram(risk=0.001), np.full(8, 0.5), alike, 1 - alike, 2)))[0] > 2.0


def test_a_word_that_is_like_no_query_term_belongs_to_no_aspect():
    """Its similarities are negative, as a Gram matrix may have them: balance neither raises nor lowers it."""
    similarity = np.array([[1.0, 0.2, -0.1], [0.2, 1.0, -0.1], [-0.1, -0.1, 1.0]])
    gain, apart = np.array([1.0, 1.0, 0.1]), np.zeros((3, 3))
    free, balanced = (solve(ConstrainedProgram(risk=1.0, balance=limit), gain, similarity, apart, 2) for limit in (None, 0.05))
    assert 0.2 < free[2] < 0.5
    assert balanced == pytest.approx(free, abs=1e-6)


def test_contradicting_constraints_are_infeasible():
    relevance, alike, apart = problem(6, 0)
    with pytest.raises(Infeasible):
        solve(ConstrainedProgram(coverage=3.0, budget=0.5), relevance, alike, apart, 2)


def test_solvers_agree_on_a_row_that_barely_binds():
    relevance, alike, apart = problem(8, 5)
    program = ConstrainedProgram(risk=0.3)
    box = solve(program, relevance, alike, apart, 2)
    tight = solve(ConstrainedProgram(risk=0.3, budget=box[2:].sum() - 1e-6), relevance, alike, apart, 2)
    assert tight[2:].sum() < box[2:].sum()
    np.testing.assert_allclose(tight, box, atol=1e-5)


def test_a_binding_row_with_large_curvature_gives_the_closed_form():
    """min h|x|²/2 - c'x with sum(x) <= B: x_i = c_i/h + (B - sum(c)/h)/n; the ridge must not move it."""
    size, curvature, budget = 30, 1e6, 4.0
    linear = np.random.default_rng(1).uniform(curvature / 8, curvature / 4, size)
    program = ConstrainedProgram(budget=budget)
    result = program.solve_with_rows(linear, curvature * np.eye(size), 0, np.eye(size))
    expected = linear / curvature + (budget - linear.sum() / curvature) / size
    assert linear.sum() / curvature > budget and expected.min() > 0 and expected.max() < 1  # the row binds, the box doesn't
    np.testing.assert_allclose(result, expected, rtol=1e-8)


def test_constraints_as_rows_by_hand():
    """Balance over two aspects, coverage by new words only, and a budget of new words."""
    similarity = np.array([[1.0, 0.5, 0.2, 0.0], [0.5, 1.0, 0.6, -0.4], [0.2, 0.6, 1.0, 0.1], [0.0, -0.4, 0.1, 1.0]])
    rows, least = ConstrainedProgram(balance=0.3, coverage=0.2, budget=1.5).rows(similarity, 2)
    aspects = np.array([[1 / 1.5, 0.5 / 1.5, 0.2 / 0.8, 0], [0.5 / 1.5, 1 / 1.5, 0.6 / 0.8, 0]])
    uneven = aspects - aspects.mean(axis=0)
    expected = np.vstack([uneven, -uneven, [[0, 0, 0.2, 0.0], [0, 0, 0.6, 0.0], [0, 0, -1, -1]]])
    assert rows == pytest.approx(expected) and least == pytest.approx([-0.3] * 4 + [0.2, 0.2, -1.5])
    # One aspect is in balance with itself, no constraint is no row.
    assert (
        ConstrainedProgram(balance=0.3).rows(similarity, 1)[0].shape
        == ConstrainedProgram().rows(similarity, 2)[0].shape
        == (0, 4)
    )
