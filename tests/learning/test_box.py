"""Programs in a box: optimality conditions, an independent QP solver, warm starts, bounded work."""

import time

import numpy as np
import pytest
from scipy.optimize import Bounds, minimize

from kernelsearch.core.errors import OptionError
from kernelsearch.learning.programs import box
from kernelsearch.learning.programs.box import minimise_in_box


def problem(seed, size, rank):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, rank))
    return x @ x.T / rank, rng.uniform(-0.5, 1.5, size=size), rng.uniform(0.2, 2.0, size=size)


def objective(matrix, linear, theta):
    return linear @ theta - 0.5 * theta @ matrix @ theta


@pytest.mark.parametrize(("size", "rank"), [(1, 1), (8, 8), (40, 60), (60, 15), (120, 30)])
def test_conditions_of_karush_kuhn_and_tucker_hold(size, rank):
    matrix, linear, bounds = problem(size, size, rank)
    result = minimise_in_box(matrix, linear, 0.0, bounds, tolerance=1e-9)
    gradient = linear - matrix @ result.x
    assert (result.x >= 0).all() and (result.x <= bounds).all()
    inside = (result.x > 1e-12) & (result.x < bounds - 1e-12)
    assert np.abs(gradient[inside]).max(initial=0) < 1e-8
    assert gradient[result.x <= 1e-12].max(initial=0) < 1e-8
    assert gradient[result.x >= bounds - 1e-12].min(initial=0) > -1e-8
    assert result.product == pytest.approx(matrix @ result.x, abs=1e-9)


@pytest.mark.parametrize(("size", "rank"), [(10, 12), (30, 10), (50, 60)])
def test_agrees_with_a_generic_solver(size, rank):
    matrix, linear, bounds = problem(7 + size, size, rank)
    result = minimise_in_box(matrix, linear, 0.0, bounds, tolerance=1e-10)
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
    assert objective(matrix, linear, result.x) == pytest.approx(objective(matrix, linear, generic.x), abs=1e-9)


def test_a_bound_of_zero_is_settled():
    """A coordinate that can't move is optimal whatever its gradient is."""
    result = minimise_in_box(np.eye(2), np.ones(2), 0.0, np.array([0.0, 5.0]))
    assert result.x.tolist() == [0, 1] and result.sweeps <= 2


@pytest.mark.parametrize(("size", "rank"), [(40, 60), (60, 15), (120, 30), (200, 20)])
def test_the_gap_bounds_the_distance_from_the_maximum(size, rank):
    """The gap is that of the primal Σ u [l - (Wθ)]₊ + θᵀWθ/2, and is reached with a third of the bounds at zero."""
    matrix, linear, bounds = problem(3 + size, size, rank)
    bounds[::3] = 0.0
    result = minimise_in_box(matrix, linear, 0.0, bounds, tolerance=1e-10)
    value = objective(matrix, linear, result.x)
    primal = bounds @ np.maximum(linear - matrix @ result.x, 0) + 0.5 * result.x @ matrix @ result.x
    assert result.gap == pytest.approx(primal - value, abs=1e-10) and 0 <= result.gap <= 1e-10 * max(1, value)
    early = minimise_in_box(matrix, linear, 0.0, bounds, tolerance=1e-2)
    assert 0 <= value - objective(matrix, linear, early.x) <= early.gap + 1e-12


def test_two_pairs_by_hand():
    # Free optimum of the first is 1/2, of the second 2, which the box cuts at 1.
    result = minimise_in_box(np.diag([2.0, 0.5]), np.ones(2), 0.0, 1.0)
    assert result.x == pytest.approx([0.5, 1.0])


def test_a_zero_row_goes_to_the_end_of_the_box_that_its_gain_points_to():
    result = minimise_in_box(np.zeros((3, 3)), np.array([1.0, -1.0, 0.0]), 0.0, 2.0)
    assert result.x.tolist() == [2, 0, 0]


def test_a_warm_start_at_the_solution_needs_no_sweep():
    matrix, linear, bounds = problem(5, 60, 40)
    cold = minimise_in_box(matrix, linear, 0.0, bounds, tolerance=1e-8)
    warm = minimise_in_box(matrix, linear, 0.0, bounds, start=cold.x, tolerance=1e-8)
    assert cold.sweeps > 0 and warm.sweeps == 0
    far = minimise_in_box(matrix, linear, 0.0, bounds, start=np.full(60, 99.0), tolerance=1e-9)
    assert far.product == pytest.approx(minimise_in_box(matrix, linear, 0.0, bounds, tolerance=1e-9).product, abs=1e-7)


def test_a_tolerance_that_is_not_reached_is_a_warning(caplog, monkeypatch):
    monkeypatch.setattr(box, "SWEEPS", 2)
    monkeypatch.setattr(box, "ITERATIONS", 2)
    matrix, linear, bounds = problem(9, 60, 10)
    result = minimise_in_box(matrix, linear, 0.0, 1000 * bounds)
    (record,) = caplog.records
    gap = result.gap / objective(matrix, linear, result.x)
    assert record.getMessage() == f"a program of 60 variables is solved to a relative duality gap of {gap:.2g}, not 1e-12"
    assert gap > 1e-3


@pytest.mark.parametrize(("size", "rank", "bound"), [(120, 10, 1e3), (60, 15, 1e3), (120, 10, 1e5)])
@pytest.mark.parametrize("sweeps", [0, 200])
def test_wide_boxes_of_singular_matrices_are_solved(size, rank, bound, sweeps, caplog, monkeypatch):
    """Coordinate descent alone is far from the optimum after 2,000 passes. Against the dual and a general solver."""
    monkeypatch.setattr(box, "SWEEPS", sweeps)
    matrix, linear, _ = problem(0, size, rank)
    matrix *= rank
    result = minimise_in_box(matrix, linear, 0.0, bound, tolerance=1e-9)
    value = objective(matrix, linear, result.x)
    primal = bound * np.maximum(linear - matrix @ result.x, 0).sum() + 0.5 * result.x @ matrix @ result.x
    assert 0 <= primal - value <= 1e-9 * value and not caplog.records
    generic = minimize(
        lambda t: -objective(matrix, linear, t), np.full(size, bound / 2), jac=lambda t: matrix @ t - linear,
        bounds=Bounds(0, bound), method="L-BFGS-B", options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    assert -generic.fun * (1 - 1e-9) <= value <= -generic.fun * (1 + (1e-3 if bound < 1e4 else 0.05))
    assert (result.x >= 0).all() and (result.x <= bound).all()


def test_five_hundred_pairs_take_milliseconds():
    rng = np.random.default_rng(0)
    x = np.maximum(rng.normal(size=(500, 60)), 0)
    matrix = x @ x.T / 60
    times = []
    for _ in range(5):
        start = time.process_time()
        minimise_in_box(matrix, np.ones(500), 0.0, 1.0)
        times.append(time.process_time() - start)
    assert min(times) < 0.2  # the others may have shared the processor's caches


def test_shapes_are_checked_and_no_pair_is_fine():
    with pytest.raises(OptionError, match="shape"):
        minimise_in_box(np.eye(2), np.ones(3), 0.0, 1.0)
    with pytest.raises(OptionError, match="below its lower bound"):
        minimise_in_box(np.eye(1), np.ones(1), 0.0, -1.0)
    for bad in (np.array([[np.nan]]), np.array([[np.inf]])):
        with pytest.raises(OptionError, match="finite"):
            minimise_in_box(bad, np.ones(1), 0.0, 1.0)
    assert len(minimise_in_box(np.zeros((0, 0)), np.zeros(0), 0.0, 1.0).x) == 0


@pytest.mark.parametrize("unit", [1.0, 1e-10])
def test_the_tolerance_is_a_share_of_the_objective(unit):
    """At θ = 90 of 100 the objective is 4,950 and the gap 100 · 10 - 90 · 10 = 100 (u = 100): 2 % of it, in any unit."""
    start = np.array([90.0])
    for tolerance, sweeps in ((0.021, 0), (0.02, 1)):
        result = minimise_in_box(unit * np.eye(1), unit * np.array([100.0]), 0.0, 100.0, start=start, tolerance=tolerance)
        assert result.sweeps == sweeps


def test_directions_of_small_curvature_are_settled_by_linear_systems():
    """Two nearly equal pairs: coordinate descent alone needs about 1 / (1 - ρ) sweeps, here ten thousand."""
    rho = 1 - 1e-4
    matrix, linear = np.array([[1.0, rho], [rho, 1.0]]), np.array([1.0, 1.0 - 5e-5])
    result = minimise_in_box(matrix, linear, 0.0, 10.0, tolerance=1e-14)
    assert result.x == pytest.approx(np.linalg.solve(matrix, linear), abs=1e-6) and result.sweeps <= 20


@pytest.mark.parametrize("seed", range(4))
def test_linear_systems_are_cut_off_at_the_box(seed):
    """Strongly correlated pairs with narrow boxes, where the free optimum lies outside; against the general solver."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, 1)) + 0.03 * rng.normal(size=(30, 30))
    matrix, linear, bounds = x @ x.T, rng.uniform(-0.5, 1.5, 30), rng.uniform(0.05, 0.5, 30)
    result = minimise_in_box(matrix, linear, 0.0, bounds, tolerance=1e-12)
    generic = minimize(
        lambda t: -objective(matrix, linear, t), np.zeros(30), jac=lambda t: matrix @ t - linear, bounds=Bounds(0, bounds),
        method="L-BFGS-B", options={"maxiter": 50_000, "maxfun": 200_000, "ftol": 1e-16, "gtol": 1e-12},
    )  # fmt: skip
    value = objective(matrix, linear, result.x)
    assert value >= -generic.fun - 1e-9 and (result.x >= 0).all() and (result.x <= bounds).all()
    assert result.gap <= 1e-12 * max(1, value) and result.sweeps < 500


def test_one_variable_by_hand():
    # min x^2 - x: the optimum .5 is inside [0, 1], above [0, .3] and below [.7, 1].
    quadratic, linear = np.array([[2.0]]), np.array([1.0])
    for low, high, best in [(0.0, 1.0, 0.5), (0.0, 0.3, 0.3), (0.7, 1.0, 0.7)]:
        assert minimise_in_box(quadratic, linear, low, high).x[0] == pytest.approx(best, abs=1e-12)


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
    x = minimise_in_box(quadratic, linear, lower, upper).x
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
    result = minimise_in_box(np.zeros((3, 3)), linear, -2.0, 3.0).x
    assert result[:2].tolist() == [3, -2] and -2 <= result[2] <= 3
