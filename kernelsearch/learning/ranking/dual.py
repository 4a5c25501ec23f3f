"""The dual of asymmetric kernel learning with a hinge loss: a quadratic program in a box, by coordinate descent.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), section 5.3; the algorithm is that of Hsieh et al., "A Dual Coordinate
Descent Method for Large-scale Linear SVM" (ICML 2008), on a dense matrix, visiting only coordinates that can still move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg.blas import daxpy

from kernelsearch.core.errors import OptionError

Floats = NDArray[np.float64]

#: Sweeps of coordinate descent between steps that solve for all coordinates inside their bounds at once.
POLISH_EVERY = 10
#: Added to the diagonal of the linear system of such a step, as a share of its largest entry.
RIDGE = 1e-12


@dataclass(frozen=True)
class DualSolution:
    """The outcome of `maximise_dual` for m pairs.

    `theta` (m,) are the multipliers and `product` (m,) is Wθ. `gap` is the duality gap: the objective is at most this far
    below its maximum. `violation` is the largest violation of the optimality conditions. `sweeps` counts the passes over the
    coordinates.
    """

    theta: NDArray[np.float64]
    product: NDArray[np.float64]
    gap: float
    violation: float
    sweeps: int


def maximise_dual(
    matrix: NDArray[np.float64],
    linear: NDArray[np.float64],
    bounds: NDArray[np.float64] | float,
    *,
    start: NDArray[np.float64] | None = None,
    tolerance: float = 1e-10,
    sweeps: int = 10_000,
) -> DualSolution:
    """Maximises Σ l_i θ_i - ½ θᵀWθ over 0 ≤ θ_i ≤ u_i, for symmetric positive semi-definite W.

    Where W is singular θ is not unique, but Wθ is.

    Parameters
    ----------
    matrix : W, shape (m, m)
    linear : l, shape (m,)
    bounds : u, shape (m,) or one number
    start : first value of θ, clipped into the box; default: 0
    tolerance : the duality gap to reach, as a share of the dual objective (of 1 where that is smaller). |Wθ - Wθ*|² in the norm
        of W's pseudo-inverse is at most twice the gap
    sweeps : largest number of passes over the coordinates, each O(m²)

    Raises OptionError for shapes that don't belong together, values that aren't finite and negative bounds.
    """
    size = len(linear)
    upper = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (size,)).copy()
    if matrix.shape != (size, size):
        raise OptionError(f"dual: a matrix of shape {matrix.shape} for {size} pairs")
    if not (np.isfinite(matrix).all() and np.isfinite(linear).all() and np.isfinite(upper).all()):
        raise OptionError("dual: the matrix, the linear term and the bounds must be finite numbers")
    if size and upper.min() < 0:
        raise OptionError(f"dual: {upper.min():g} is a negative bound")
    rows = np.ascontiguousarray(matrix, dtype=np.float64)
    theta = np.zeros(size) if start is None else np.clip(np.asarray(start, dtype=np.float64), 0.0, upper)
    product = rows @ theta
    sweep = 0
    while sweep < sweeps and not _converged(theta, product, linear, upper, tolerance):
        theta = _sweep(rows, linear, upper, theta, product)
        sweep += 1
        # Which coordinates end at a bound is soon known; the others then solve a linear system, which settles directions
        # of small curvature that coordinate descent follows in thousands of steps.
        if sweep % POLISH_EVERY == 0:
            theta, product = _polished(rows, linear, upper, theta)
    violation = float(_violation(theta, product, linear, upper).max(initial=0.0))
    return DualSolution(theta, product, _gap(theta, product, linear, upper), violation, sweep)


def _sweep(rows: Floats, linear: Floats, upper: Floats, theta: Floats, product: Floats) -> Floats:
    """θ after a pass over the coordinates that can still move, the most violated first; `product` is updated in place."""
    violation = _violation(theta, product, linear, upper)
    order = np.argsort(-violation, kind="stable")[: int(np.count_nonzero(violation))]
    # Lists where single numbers are read: much faster than arrays.
    values, slopes, curvature, limits = theta.tolist(), linear.tolist(), rows.diagonal().tolist(), upper.tolist()
    for i in order.tolist():
        old, gradient = values[i], slopes[i] - product.item(i)
        if curvature[i] > 0:
            new = min(max(old + gradient / curvature[i], 0.0), limits[i])
        else:  # a zero row: the objective is linear in this coordinate
            new = limits[i] if gradient > 0 else (0.0 if gradient < 0 else old)
        if new != old:
            values[i] = new
            daxpy(rows[i], product, a=new - old)
    return np.array(values)


def _polished(rows: Floats, linear: Floats, upper: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """θ and Wθ after the step to the optimum over the coordinates inside their bounds, as far as the box allows."""
    free = (theta > 0) & (theta < upper)
    product = rows @ theta
    if not free.any():
        return theta, product
    inner = rows[np.ix_(free, free)]
    # The matrix of the free coordinates may be singular.
    inner[np.diag_indices_from(inner)] += RIDGE * max(float(inner.diagonal().max()), RIDGE)
    step = np.zeros(len(theta))
    try:
        step[free] = linalg.cho_solve(linalg.cho_factor(inner, overwrite_a=True), (linear - product)[free])
    except linalg.LinAlgError:  # not positive semi-definite beyond rounding: coordinate descent continues alone
        return theta, product
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lengths = np.where(step > 0, (upper - theta) / step, np.where(step < 0, -theta / step, np.inf))
    inside = np.clip(theta + min(1.0, float(lengths.min())) * step, 0.0, upper)
    projected = np.clip(theta + step, 0.0, upper)
    best = max((theta, inside, projected), key=lambda point: _objective(rows, linear, point))
    return best, rows @ best


def _objective(rows: Floats, linear: Floats, theta: Floats) -> float:
    return float(linear @ theta - 0.5 * theta @ (rows @ theta))


def _gap(theta: Floats, product: Floats, linear: Floats, upper: Floats) -> float:
    """The duality gap Σ u_i [l_i - (Wθ)_i]₊ + θᵀWθ - lᵀθ, a sum of terms that are not negative."""
    gradient = linear - product
    return float(np.sum(upper * np.maximum(gradient, 0.0) - theta * gradient))


def _converged(theta: Floats, product: Floats, linear: Floats, upper: Floats, tolerance: float) -> bool:
    """Whether the gap is small against the objective, or nothing can move any more."""
    objective = float(linear @ theta - 0.5 * theta @ product)
    gap = _gap(theta, product, linear, upper)
    return gap <= tolerance * max(1.0, objective) or not _violation(theta, product, linear, upper).any()


def _violation(theta: Floats, product: Floats, linear: Floats, upper: Floats) -> Floats:
    """How far each coordinate is from optimality: its gradient where the box allows a step that way, 0 elsewhere."""
    gradient = linear - product
    up = np.where(theta < upper, np.maximum(gradient, 0.0), 0.0)
    down = np.where(theta > 0, np.maximum(-gradient, 0.0), 0.0)
    return np.asarray(up + down)
