"""The solver: optimality conditions, an independent QP solver, warm starts, bounded work."""

import time

import numpy as np
import pytest
from scipy.optimize import Bounds, minimize

from kernelsearch.core.errors import OptionError
from kernelsearch.learning.ranking.dual import maximise_dual


def problem(seed, size, rank):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, rank))
    return x @ x.T / rank, rng.uniform(-0.5, 1.5, size=size), rng.uniform(0.2, 2.0, size=size)


def objective(matrix, linear, theta):
    return linear @ theta - 0.5 * theta @ matrix @ theta


@pytest.mark.parametrize(("size", "rank"), [(1, 1), (8, 8), (40, 60), (60, 15), (120, 30)])
def test_conditions_of_karush_kuhn_and_tucker_hold(size, rank):
    matrix, linear, bounds = problem(size, size, rank)
    result = maximise_dual(matrix, linear, bounds, tolerance=1e-9, sweeps=20_000)
    gradient = linear - matrix @ result.theta
    assert (result.theta >= 0).all() and (result.theta <= bounds).all()
    inside = (result.theta > 1e-12) & (result.theta < bounds - 1e-12)
    assert np.abs(gradient[inside]).max(initial=0) < 1e-8
    assert gradient[result.theta <= 1e-12].max(initial=0) < 1e-8
    assert gradient[result.theta >= bounds - 1e-12].min(initial=0) > -1e-8
    assert result.product == pytest.approx(matrix @ result.theta, abs=1e-9)


@pytest.mark.parametrize(("size", "rank"), [(10, 12), (30, 10), (50, 60)])
def test_agrees_with_a_generic_solver(size, rank):
    matrix, linear, bounds = problem(7 + size, size, rank)
    result = maximise_dual(matrix, linear, bounds, tolerance=1e-10, sweeps=50_000)
    generic = minimize(
        lambda t: -objective(matrix, linear, t),
        np.zeros(size),
        jac=lambda t: matrix @ t - linear,
        bounds=Bounds(0, bounds),
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-11},
    )
    # θ isn't unique where the matrix is singular; Wθ and the objective are.
    assert result.product == pytest.approx(matrix @ generic.x, abs=1e-6)
    assert objective(matrix, linear, result.theta) == pytest.approx(objective(matrix, linear, generic.x), abs=1e-9)


def test_a_bound_of_zero_is_settled():
    """A coordinate that can't move is optimal whatever its gradient is."""
    result = maximise_dual(np.eye(2), np.ones(2), np.array([0.0, 5.0]))
    assert result.theta.tolist() == [0, 1] and result.violation == 0 and result.sweeps <= 2


@pytest.mark.parametrize(("size", "rank"), [(40, 60), (60, 15), (120, 30), (200, 20)])
def test_the_gap_bounds_the_distance_from_the_maximum(size, rank):
    """The gap is that of the primal Σ u [l - (Wθ)]₊ + θᵀWθ/2, and is reached with a third of the bounds at zero."""
    matrix, linear, bounds = problem(3 + size, size, rank)
    bounds[::3] = 0.0
    result = maximise_dual(matrix, linear, bounds, tolerance=1e-10)
    value = objective(matrix, linear, result.theta)
    primal = bounds @ np.maximum(linear - matrix @ result.theta, 0) + 0.5 * result.theta @ matrix @ result.theta
    assert result.gap == pytest.approx(primal - value, abs=1e-10) and 0 <= result.gap <= 1e-10 * max(1, value)
    early = maximise_dual(matrix, linear, bounds, tolerance=1e-2)
    assert 0 <= value - objective(matrix, linear, early.theta) <= early.gap + 1e-12


def test_two_pairs_by_hand():
    # Free optimum of the first is 1/2, of the second 2, which the box cuts at 1.
    result = maximise_dual(np.diag([2.0, 0.5]), np.ones(2), 1.0)
    assert result.theta == pytest.approx([0.5, 1.0])


def test_a_zero_row_goes_to_the_end_of_the_box_that_its_gain_points_to():
    result = maximise_dual(np.zeros((3, 3)), np.array([1.0, -1.0, 0.0]), 2.0)
    assert result.theta.tolist() == [2, 0, 0] and result.violation == 0


def test_a_warm_start_at_the_solution_needs_no_sweep():
    matrix, linear, bounds = problem(5, 60, 40)
    cold = maximise_dual(matrix, linear, bounds, tolerance=1e-8)
    warm = maximise_dual(matrix, linear, bounds, start=cold.theta, tolerance=1e-8)
    assert cold.sweeps > 0 and warm.sweeps == 0
    far = maximise_dual(matrix, linear, bounds, start=np.full(60, 99.0), tolerance=1e-9, sweeps=20_000)
    assert far.product == pytest.approx(maximise_dual(matrix, linear, bounds, tolerance=1e-9, sweeps=20_000).product, abs=1e-7)


def test_work_is_bounded_and_never_worse_than_nothing():
    matrix, linear, bounds = problem(9, 200, 400)
    result = maximise_dual(matrix, linear, bounds, tolerance=0.0, sweeps=3)
    assert result.sweeps == 3 and result.violation > 0
    assert objective(matrix, linear, result.theta) > 0


def test_five_hundred_pairs_take_milliseconds():
    rng = np.random.default_rng(0)
    x = np.maximum(rng.normal(size=(500, 60)), 0)
    matrix = x @ x.T / 60
    times = []
    for _ in range(5):
        start = time.process_time()
        maximise_dual(matrix, np.ones(500), 1.0)
        times.append(time.process_time() - start)
    assert min(times) < 0.2  # the others may have shared the processor's caches


def test_shapes_are_checked_and_no_pair_is_fine():
    with pytest.raises(OptionError, match="shape"):
        maximise_dual(np.eye(2), np.ones(3), 1.0)
    with pytest.raises(OptionError, match="negative bound"):
        maximise_dual(np.eye(1), np.ones(1), -1.0)
    for bad in (np.array([[np.nan]]), np.array([[np.inf]])):
        with pytest.raises(OptionError, match="finite"):
            maximise_dual(bad, np.ones(1), 1.0)
    assert len(maximise_dual(np.zeros((0, 0)), np.zeros(0), 1.0).theta) == 0


def test_the_tolerance_is_a_share_of_the_objective():
    """At θ = 90 of 100 the objective is 4,950 and the gap 100 · 10 - 90 · 10 = 100 (u = 100): 2 % of it."""
    problem = np.eye(1), np.array([100.0]), 100.0
    for tolerance, sweeps in ((0.021, 0), (0.02, 1)):
        result = maximise_dual(*problem, start=np.array([90.0]), tolerance=tolerance)
        assert result.sweeps == sweeps
    # A small objective counts as 1: gap .1 · .1 - .09 · .01 = .0001 where the objective is about .005.
    small = np.eye(1), np.array([0.1]), 0.1
    assert maximise_dual(*small, start=np.array([0.09]), tolerance=2e-4).sweeps == 0
    assert maximise_dual(*small, start=np.array([0.09]), tolerance=5e-5).sweeps == 1


def test_directions_of_small_curvature_are_settled_by_linear_systems():
    """Two nearly equal pairs: coordinate descent alone needs about 1 / (1 - ρ) sweeps, here ten thousand."""
    rho = 1 - 1e-4
    matrix, linear = np.array([[1.0, rho], [rho, 1.0]]), np.array([1.0, 1.0 - 5e-5])
    result = maximise_dual(matrix, linear, 10.0, tolerance=1e-14)
    assert result.theta == pytest.approx(np.linalg.solve(matrix, linear), abs=1e-6) and result.sweeps <= 20


@pytest.mark.parametrize("seed", range(4))
def test_linear_systems_are_cut_off_at_the_box(seed):
    """Strongly correlated pairs with narrow boxes, where the free optimum lies outside; against the general solver."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, 1)) + 0.03 * rng.normal(size=(30, 30))
    matrix, linear, bounds = x @ x.T, rng.uniform(-0.5, 1.5, 30), rng.uniform(0.05, 0.5, 30)
    result = maximise_dual(matrix, linear, bounds, tolerance=1e-12)
    generic = minimize(
        lambda t: -objective(matrix, linear, t), np.zeros(30), jac=lambda t: matrix @ t - linear, bounds=Bounds(0, bounds),
        method="L-BFGS-B", options={"maxiter": 50_000, "maxfun": 200_000, "ftol": 1e-16, "gtol": 1e-12},
    )  # fmt: skip
    value = objective(matrix, linear, result.theta)
    assert value >= -generic.fun - 1e-9 and (result.theta >= 0).all() and (result.theta <= bounds).all()
    assert result.gap <= 1e-12 * max(1, value) and result.sweeps < 500
    gradient = linear - matrix @ result.theta
    free = np.where(result.theta < bounds, np.maximum(gradient, 0), 0) + np.where(result.theta > 0, np.maximum(-gradient, 0), 0)
    assert result.violation == pytest.approx(free.max(), abs=1e-9)
