"""The expansion program: optimality conditions, constraints, agreement of its two solvers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from kernelsearch.kernels.perturbation import random_distances, similarity
from kernelsearch.learning.programs.active_set import Infeasible
from kernelsearch.learning.programs.box import minimise_in_box, solve_rows, violation
from kernelsearch.learning.programs.expansion import ExpansionProgram


def problem(words, seed):
    apart = random_distances(words, seed=seed)
    return np.random.default_rng(seed).uniform(0, 1, words), similarity(apart), apart


def test_one_variable_by_hand():
    # min x^2 - x: the optimum .5 is inside [0, 1], above [0, .3] and below [.7, 1].
    quadratic, linear = np.array([[2.0]]), np.array([1.0])
    for low, high, best in [(0.0, 1.0, 0.5), (0.0, 0.3, 0.3), (0.7, 1.0, 0.7)]:
        assert minimise_in_box(quadratic, linear, np.array([low]), np.array([high]))[0] == pytest.approx(best, abs=1e-12)


@given(st.integers(1, 25), st.integers(0, 10_000), st.sampled_from([0.01, 0.3, 3.0]))
def test_box_solution_satisfies_the_kkt_conditions(words, seed, risk):
    relevance, alike, apart = problem(words, seed)
    program = ExpansionProgram(risk=risk)
    queried = min(2, words)
    x = program.solve(relevance, alike, apart, queried)
    lower = np.where(np.arange(words) < queried, program.support, 0.0)
    assert (x >= lower).all() and (x <= 1).all()
    assert violation(program.quadratic(alike, apart, queried), relevance, lower, np.ones(words), x) < 1e-8


def test_violation_notices_a_point_that_is_not_optimal():
    identity, linear = np.eye(2), np.array([0.5, 0.5])
    assert violation(identity, linear, np.zeros(2), np.ones(2), np.array([0.5, 0.9])) == pytest.approx(0.4)


def test_words_that_all_coincide_still_have_an_optimum():
    relevance = np.array([0.9, 0.4, 0.2])
    x = ExpansionProgram(risk=0.5, support=0.0).solve(relevance, np.ones((3, 3)), np.zeros((3, 3)), 1)
    np.testing.assert_allclose(x, [1.0, 0.0, 0.0], atol=1e-9)  # .5 x'11'x/2 - c'x: the best word alone, up to its bound


def test_no_risk_takes_every_relevant_word():
    relevance, alike, apart = problem(6, 1)
    np.testing.assert_array_equal(ExpansionProgram(risk=0.0).solve(relevance, alike, apart, 2), np.ones(6))


def test_more_risk_aversion_adds_fewer_words():
    relevance, alike, apart = problem(20, 4)
    added = [ExpansionProgram(risk=risk).solve(relevance, alike, apart, 2)[2:].sum() for risk in (0.01, 0.1, 0.5, 2.0)]
    assert added == sorted(added, reverse=True) and added[-1] < added[0] / 3


@pytest.mark.parametrize("seed", range(5))
def test_rows_agree_with_an_independent_solver(seed):
    relevance, alike, apart = problem(12, seed)
    program = ExpansionProgram(risk=0.3, balance=0.4, coverage=0.2, budget=3.0)
    x = program.solve(relevance, alike, apart, 3)
    quadratic = program.quadratic(alike, apart, 3)
    rows, least = program._rows(alike, 3)
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
    free = ExpansionProgram(risk=0.3).solve(relevance, alike, apart, 2)
    np.testing.assert_array_equal(ExpansionProgram(risk=0.3, budget=10.0).solve(relevance, alike, apart, 2), free)


def test_budget_and_coverage_bind():
    relevance, alike, apart = problem(10, 2)
    assert ExpansionProgram(budget=1.5).solve(relevance, alike, apart, 2)[2:].sum() == pytest.approx(1.5, abs=1e-6)
    demanding = ExpansionProgram(risk=5.0, coverage=1.0)
    x = demanding.solve(relevance, alike, apart, 2)
    assert (alike[:2, 2:] @ x[2:] >= 1.0 - 1e-6).all()
    assert (alike[:2, 2:] @ ExpansionProgram(risk=5.0).solve(relevance, alike, apart, 2)[2:]).min() < 1.0


def test_balance_evens_out_the_aspects():
    # Five words like the first query term, one like the second.
    near = np.array([0, 1, 0, 0, 0, 0, 0, 1])
    alike = np.where(near[:, None] == near[None, :], 0.9, 0.1) + 0.1 * np.eye(8)
    program = ExpansionProgram(risk=0.001, balance=0.5)
    x = program.solve(np.full(8, 0.5), alike, 1 - alike, 2)
    aspects = alike[:2] / alike[:2].sum(axis=0)
    assert abs(np.diff(aspects @ x))[0] <= 1.0 + 1e-6
    assert abs(np.diff(aspects @ ExpansionProgram(risk=0.001).solve(np.full(8, 0.5), alike, 1 - alike, 2)))[0] > 2.0


def test_a_word_that_is_like_no_query_term_belongs_to_no_aspect():
    """Its similarities are negative, as a Gram matrix may have them: balance neither raises nor lowers it."""
    similarity = np.array([[1.0, 0.2, -0.1], [0.2, 1.0, -0.1], [-0.1, -0.1, 1.0]])
    gain, apart = np.array([1.0, 1.0, 0.1]), np.zeros((3, 3))
    free, balanced = (ExpansionProgram(risk=1.0, balance=limit).solve(gain, similarity, apart, 2) for limit in (None, 0.05))
    assert 0.2 < free[2] < 0.5
    assert balanced == pytest.approx(free, abs=1e-6)


def test_contradicting_constraints_are_infeasible():
    relevance, alike, apart = problem(6, 0)
    with pytest.raises(Infeasible):
        ExpansionProgram(coverage=3.0, budget=0.5).solve(relevance, alike, apart, 2)


def test_solvers_agree_on_a_row_that_barely_binds():
    relevance, alike, apart = problem(8, 5)
    program = ExpansionProgram(risk=0.3)
    quadratic, lower, upper = program.quadratic(alike, apart, 2), np.zeros(8), np.ones(8)
    box = minimise_in_box(quadratic, relevance, lower, upper)
    tight = solve_rows(quadratic, relevance, lower, upper, -np.ones((1, 8)), np.array([-box.sum() + 1e-6]))
    np.testing.assert_allclose(tight, box, atol=1e-5)


def test_a_binding_row_with_large_curvature_gives_the_closed_form():
    """min h|x|²/2 - c'x with sum(x) = s: x_i = c_i/h + (s - sum(c)/h)/n; the ridge must not move it."""
    size, curvature, total = 30, 1e6, 12.0
    linear = np.random.default_rng(1).uniform(0, curvature / 4, size)
    row = np.ones((1, size))
    result = solve_rows(curvature * np.eye(size), linear, np.zeros(size), np.ones(size), row, np.array([total]))
    expected = linear / curvature + (total - linear.sum() / curvature) / size
    assert linear.sum() / curvature < total and expected.min() > 0 and expected.max() < 1  # the row binds, the box doesn't
    np.testing.assert_allclose(result, expected, rtol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_boxes_with_negative_bounds_and_without_curvature(seed):
    """Random boxes, some closed, and variables without curvature, which go to a bound; against a general solver."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(8, 5))
    quadratic, linear = root @ root.T, rng.normal(size=8) * 2
    quadratic[2], quadratic[:, 2], quadratic[5], quadratic[:, 5] = 0, 0, 0, 0
    linear[2], linear[5] = 1.0, -1.0
    lower = rng.uniform(-2, 0.5, 8)
    upper = lower + rng.uniform(0, 2, 8) * (np.arange(8) != 3)
    x = minimise_in_box(quadratic, linear, lower, upper)
    other = minimize(
        lambda y: y @ quadratic @ y / 2 - linear @ y, (lower + upper) / 2, jac=lambda y: quadratic @ y - linear,
        bounds=list(zip(lower, upper, strict=True)), method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    assert x @ quadratic @ x / 2 - linear @ x <= other.fun + 1e-8
    assert (x >= lower).all() and (x <= upper).all()
    assert (x[2], x[5], x[3]) == (upper[2], lower[5], lower[3])
    gradient = quadratic @ x - linear
    free = np.where(x < upper, np.maximum(-gradient, 0), 0) + np.where(x > lower, np.maximum(gradient, 0), 0)
    assert free.max() < 1e-8


@pytest.mark.parametrize("start", [1.0, -1.0, 0.0])
def test_the_first_corner_is_returned_where_it_is_optimal(start):
    """No curvature at all: each variable is at the bound that its gain points to, whatever it begins with."""
    linear = np.array([1.0, -1.0, start])
    result = minimise_in_box(np.zeros((3, 3)), linear, np.full(3, -2.0), np.full(3, 3.0))
    assert result[:2].tolist() == [3, -2] and -2 <= result[2] <= 3
    assert violation(np.zeros((3, 3)), linear, np.full(3, -2.0), np.full(3, 3.0), result) == 0


def test_a_violation_at_each_bound():
    """Gradient x - c of the identity: at a bound only the way inside counts."""
    lower, upper, linear = np.zeros(4), np.ones(4), np.array([0.3, -0.2, 1.5, 0.6])
    for x, expected in (
        ([0.0, 0.0, 1.0, 0.6], 0.3), ([0.3, 0.0, 1.0, 0.6], 0.0), ([0.3, 0.5, 1.0, 0.6], 0.7), ([0.3, 0.0, 0.0, 1.0], 1.5),
        ([0.3, 0.0, 1.0, 1.0], 0.4),
    ):  # fmt: skip
        assert violation(np.eye(4), linear, lower, upper, np.array(x)) == pytest.approx(expected)


def test_strangeness_is_relative_to_the_mean_distance():
    """κ (S + γ diag(r)): r is the mean distance to the two query terms over its mean, (1 + 1 + 4 + 5) / 4."""
    apart = np.array([[0.0, 2, 5, 4], [2, 0, 3, 6], [5, 3, 0, 9], [4, 6, 9, 0]])
    quadratic = ExpansionProgram(risk=0.5, strangeness=0.6).quadratic(np.eye(4), apart, 2)
    assert quadratic == pytest.approx(0.5 * np.diag(1 + 0.6 * np.array([1, 1, 4, 5]) / 2.75))
    assert ExpansionProgram(risk=0.5).quadratic(np.eye(4), np.zeros((4, 4)), 2) == pytest.approx(0.5 * np.eye(4))
    assert ExpansionProgram(risk=0.5).quadratic(np.eye(4), apart, 0) == pytest.approx(0.5 * np.eye(4))


def test_constraints_as_rows_by_hand():
    """Balance over two aspects, coverage by new words only, and a budget of new words."""
    similarity = np.array([[1.0, 0.5, 0.2, 0.0], [0.5, 1.0, 0.6, -0.4], [0.2, 0.6, 1.0, 0.1], [0.0, -0.4, 0.1, 1.0]])
    rows, least = ExpansionProgram(balance=0.3, coverage=0.2, budget=1.5)._rows(similarity, 2)
    aspects = np.array([[1 / 1.5, 0.5 / 1.5, 0.2 / 0.8, 0], [0.5 / 1.5, 1 / 1.5, 0.6 / 0.8, 0]])
    uneven = aspects - aspects.mean(axis=0)
    expected = np.vstack([uneven, -uneven, [[0, 0, 0.2, 0.0], [0, 0, 0.6, 0.0], [0, 0, -1, -1]]])
    assert rows == pytest.approx(expected) and least == pytest.approx([-0.3] * 4 + [0.2, 0.2, -1.5])
    # One aspect is in balance with itself, no constraint is no row.
    assert (
        ExpansionProgram(balance=0.3)._rows(similarity, 1)[0].shape
        == ExpansionProgram()._rows(similarity, 2)[0].shape
        == (0, 4)
    )
