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
