"""The active-set solver: optimality conditions, figures of another implementation, contradictions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from kernelsearch.papers.pert.active_set import Infeasible, solve_program

#: Solutions of the three programs of `drawn` by quadprog 0.1.14 (Goldfarb and Idnani's method in C).
QUADPROG = [
    [-0.8506699109082918, -1.4534437788328156, -0.18360130316846246, 0.24135849420247985, 0.3431197687374049],
    [0.24971036201171215, -0.061792535277547855, -0.4722651500688265, 0.1114464411524198, 0.24018375426567834],
    [-0.6213769290782873, -0.3984759896953725, 0.9566531577816569, -0.1860813207638964, -0.27654742851569925],
]


def drawn(generator, size, constraints):
    root = generator.normal(size=(size, size))
    quadratic, linear = root @ root.T + np.eye(size), generator.normal(size=size) * 3
    return quadratic, linear, generator.normal(size=(constraints, size)), generator.normal(size=constraints)


def test_the_figures_are_those_of_quadprog():
    generator = np.random.default_rng(7)
    for expected in QUADPROG:
        np.testing.assert_allclose(solve_program(*drawn(generator, 5, 4)), expected, rtol=0, atol=1e-8)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 15), st.integers(0, 8), st.sampled_from([1e-6, 1.0, 1e4]))
def test_solutions_satisfy_the_kkt_conditions(seed, size, constraints, scale):
    quadratic, linear, rows, _ = drawn(np.random.default_rng(seed), size, constraints)
    inside = np.random.default_rng(seed).normal(size=size)  # a feasible point, so that there is a solution
    rows = np.vstack([np.eye(size), rows])
    least = rows @ inside - np.random.default_rng(seed).random(len(rows)) * (np.arange(len(rows)) % 2)
    x = solve_program(quadratic * scale, linear * scale, rows, least)
    assert (rows @ x >= least - 1e-8).all()
    gradient = (quadratic @ x - linear) / max(1.0, float(np.abs(linear).max()))
    active = rows[np.abs(rows @ x - least) < 1e-8]
    # The gradient is a sum of active rows with multipliers that aren't negative.
    if len(active):
        assert nnls(active.T, gradient)[1] < 1e-7
    else:
        assert np.abs(gradient).max() < 1e-8


def test_rows_that_are_repeated_or_redundant_do_no_harm():
    rows = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    x = solve_program(np.eye(2), np.zeros(2), rows, np.array([1.0, 2.0, 0.5, 1.0]))
    np.testing.assert_allclose(x, [1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "least"),
    [([[1.0, 0.0], [-1.0, 0.0]], [1.0, 0.0]), ([[0.0, 0.0]], [1.0]), ([[1.0, 1.0], [-1.0, -1.0]], [0.0, 1.0])],
)
def test_contradictions_are_infeasible(rows, least):
    with pytest.raises(Infeasible):
        solve_program(np.eye(2), np.zeros(2), np.array(rows), np.array(least))


@pytest.mark.parametrize("unit", [1e-14, 1e-3, 1.0, 1e9])
def test_the_unit_of_a_row_does_not_matter(unit):
    """x + y >= 3 and x >= 2.5 in any unit: the nearest point to (1, 0) is (2.5, .5)."""
    rows, least = np.array([[1.0, 1.0], [1.0, 0.0]]) * [[unit], [1.0]], np.array([3.0 * unit, 2.5])
    np.testing.assert_allclose(solve_program(np.eye(2), np.array([1.0, 0.0]), rows, least), [2.5, 0.5], atol=1e-9)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_unknowns_does_not_matter(size):
    """The point of least norm with x_i >= i and a sum of 15, by hand."""
    least = np.append(size * np.arange(5.0), 15 * size)
    rows = np.vstack([np.eye(5), np.ones(5)])
    # Sum 0 + 1 + 2 + 3 + 4 = 10: five more are needed, and the smallest are raised first, to (15 - 3 - 4) / 3 each.
    solution = solve_program(np.eye(5), np.zeros(5), rows, least)
    np.testing.assert_allclose(solution / size, [8 / 3, 8 / 3, 8 / 3, 3, 4], rtol=1e-9)


def test_the_projection_onto_a_polygon_of_two_hundred_sides():
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    rows, least = -np.stack([np.cos(angles), np.sin(angles)], axis=1), np.full(200, -1.0)
    corners = np.stack([np.cos(angles + np.pi / 200), np.sin(angles + np.pi / 200)], axis=1) / np.cos(np.pi / 200)
    for point in np.random.default_rng(0).normal(size=(20, 2)) * 3:
        nearest = []
        for start, side in zip(corners, np.roll(corners, -1, axis=0) - corners, strict=True):
            along = np.clip((point - start) @ side / (side @ side), 0, 1)
            nearest.append(start + along * side)
        inside = (rows @ point >= least).all()
        expected = point if inside else min(nearest, key=lambda place: np.linalg.norm(place - point))
        assert solve_program(np.eye(2), point, rows, least) == pytest.approx(expected, abs=1e-9)
