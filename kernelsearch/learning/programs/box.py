"""Convex quadratic programs in a box: coordinate descent with linear systems, and an interior-point method where that stalls.

Coordinate descent is that of Hsieh et al., "A Dual Coordinate Descent Method for Large-scale Linear SVM" (ICML 2008), on a
dense matrix, visiting only coordinates that can still move.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg.blas import daxpy

from kernelsearch.core.errors import OptionError

Floats = NDArray[np.float64]

logger = logging.getLogger(__name__)

#: Passes of coordinate descent, each O(n²), before the interior-point method.
SWEEPS = 200
#: Passes of coordinate descent between linear systems for all coordinates inside their bounds.
POLISH_EVERY = 10
#: Added to the diagonal of a linear system that may be singular, as a share of its largest entry.
RIDGE = 1e-12
#: Of the interior-point method: the share of the mean complementarity that an iteration aims at, the share of the way to the
#: boundary that it goes, and the largest number of iterations.
CENTRING, TO_BOUNDARY, ITERATIONS = 0.1, 0.99, 100
EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class BoxSolution:
    """The outcome of `minimise_in_box`, for n variables.

    `x` (n,) is the minimiser and `product` (n,) is Hx. `gap` is the duality gap: the objective is at most this far above its
    minimum. `sweeps` counts the passes over the coordinates.
    """

    x: Floats
    product: Floats
    gap: float
    sweeps: int


@dataclass(frozen=True)
class _Box:
    """The program min x'Hx/2 - c'x, 0 <= x <= u; every bounded program is one after a shift by its lower bounds."""

    quadratic: Floats
    linear: Floats
    upper: Floats

    def objective(self, x: Floats, product: Floats) -> float:
        """How far the value at x lies below that at 0."""
        return float(self.linear @ x - 0.5 * x @ product)

    def gap(self, x: Floats, product: Floats) -> float:
        """The duality gap Σ u_i [c_i - (Hx)_i]₊ + x'Hx - c'x, a sum of terms that are not negative."""
        gradient = self.linear - product
        return float(np.sum(self.upper * np.maximum(gradient, 0.0) - x * gradient))

    def converged(self, x: Floats, product: Floats, tolerance: float) -> bool:
        """Whether the gap is small against the objective or within rounding errors."""
        rounding = EPSILON * float(self.upper @ np.abs(self.linear))
        limit = max(tolerance * self.objective(x, product), rounding)
        return self.gap(x, product) <= limit


def minimise_in_box(
    quadratic: Floats,
    linear: Floats,
    lower: Floats | float,
    upper: Floats | float,
    *,
    start: Floats | None = None,
    tolerance: float = 1e-12,
) -> BoxSolution:
    """The minimiser of x'Hx/2 - c'x within lower <= x <= upper, for symmetric positive semi-definite H.

    Where H is singular x is not unique, but Hx is. A warning names the gap where the tolerance is not reached.

    Parameters
    ----------
    quadratic : H, shape (n, n)
    linear : c, shape (n,)
    lower, upper : bounds, each of shape (n,) or one number
    start : first value of x, clipped into the box; default: the lower bounds
    tolerance : the duality gap to reach, as a share of the decrease of the objective from x = lower. |H(x - x*)|² in the norm
        of H's pseudo-inverse is at most twice the gap

    Raises OptionError for shapes that don't belong together, values that aren't finite and bounds without a point between them.
    """
    size = len(linear)
    low, high = (np.broadcast_to(np.asarray(bound, dtype=np.float64), (size,)) for bound in (lower, upper))
    if quadratic.shape != (size, size):
        raise OptionError(f"box: a matrix of shape {quadratic.shape} for {size} variables")
    if not all(np.isfinite(values).all() for values in (quadratic, linear, low, high)):
        raise OptionError("box: the matrix, the linear term and the bounds must be finite numbers")
    if (high < low).any():
        raise OptionError("box: an upper bound is below its lower bound")
    matrix = np.ascontiguousarray(quadratic, dtype=np.float64)
    box = _Box(matrix, linear - matrix @ low, high - low)
    x = np.zeros(size) if start is None else np.clip(np.asarray(start, dtype=np.float64), low, high) - low
    product, sweep = matrix @ x, 0
    while sweep < SWEEPS and not box.converged(x, product, tolerance):
        x = _swept(box, x, product)
        sweep += 1
        # Which coordinates end at a bound is soon known; the others then solve a linear system, which settles directions
        # of small curvature that coordinate descent follows in thousands of passes.
        if sweep % POLISH_EVERY == 0:
            x, product = _polished(box, x)
    if sweep:
        x, product = _polished(box, x)
    if not box.converged(x, product, tolerance):
        points = [(x, product), *_interior(box, tolerance)]
        x, product = min(points, key=lambda point: box.gap(*point))
    gap = box.gap(x, product)
    if not box.converged(x, product, tolerance):
        logger.warning(
            "a program of %d variables is solved to a relative duality gap of %.2g, not %.2g",
            size, gap / max(box.objective(x, product), 1e-300), tolerance,
        )  # fmt: skip
    x = np.clip(x + low, low, high)
    return BoxSolution(x, matrix @ x, gap, sweep)


def _swept(box: _Box, x: Floats, product: Floats) -> Floats:
    """x after a pass over the coordinates that can still move, the most violated first; `product` is updated in place."""
    gradient = box.linear - product
    violation = np.where(x < box.upper, np.maximum(gradient, 0.0), 0.0) + np.where(x > 0, np.maximum(-gradient, 0.0), 0.0)
    order = np.argsort(-violation, kind="stable")[: int(np.count_nonzero(violation))]
    # Lists where single numbers are read: much faster than arrays.
    values, slopes, limits = x.tolist(), box.linear.tolist(), box.upper.tolist()
    curvature = box.quadratic.diagonal().tolist()
    for i in order.tolist():
        old, slope = values[i], slopes[i] - product.item(i)
        if curvature[i] > 0:
            new = min(max(old + slope / curvature[i], 0.0), limits[i])
        else:  # a zero row: the objective is linear in this coordinate
            new = limits[i] if slope > 0 else (0.0 if slope < 0 else old)
        if new != old:
            values[i] = new
            daxpy(box.quadratic[i], product, a=new - old)
    return np.array(values)


def _polished(box: _Box, x: Floats) -> tuple[Floats, Floats]:
    """x and Hx after the step to the optimum over the coordinates inside their bounds, as far as the box allows."""
    free = (x > 0) & (x < box.upper)
    product = box.quadratic @ x
    if not free.any():
        return x, product
    inner = box.quadratic[np.ix_(free, free)]
    step = np.zeros(len(x))
    # The matrix of the free coordinates may be singular.
    inner[np.diag_indices_from(inner)] += RIDGE * max(float(inner.diagonal().max()), RIDGE)
    try:
        step[free] = linalg.cho_solve(linalg.cho_factor(inner, overwrite_a=True), (box.linear - product)[free])
    except linalg.LinAlgError:  # not positive semi-definite beyond rounding: coordinate descent continues alone
        return x, product
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lengths = np.where(step > 0, (box.upper - x) / step, np.where(step < 0, -x / step, np.inf))
    inside = np.clip(x + min(1.0, float(lengths.min())) * step, 0.0, box.upper)
    projected = np.clip(x + step, 0.0, box.upper)
    points = [(point, box.quadratic @ point) for point in (x, inside, projected)]
    return max(points, key=lambda point: box.objective(*point))


def _interior(box: _Box, tolerance: float) -> list[tuple[Floats, Floats]]:
    """Points near the optimum with their products, by a primal-dual interior-point method.

    With s = x and t = u - x the conditions are Hx - c = z - w, zs = 0 and wt = 0 for multipliers z, w >= 0. Newton's method
    solves them with μ on the right of the last two; μ falls to 0. The first point satisfies the first condition, so all do.
    """
    open_ = box.upper > 0
    inner = _Box(box.quadratic[np.ix_(open_, open_)], box.linear[open_], box.upper[open_])
    s, t = inner.upper / 2, inner.upper / 2
    gradient = inner.quadratic @ s - inner.linear
    offset = float(np.abs(gradient).mean()) or 1.0
    z, w = np.maximum(gradient, 0) + offset, np.maximum(-gradient, 0) + offset
    for _ in range(ITERATIONS):
        product = inner.quadratic @ s
        if inner.converged(s, product, tolerance):
            break
        mu = CENTRING * float(s @ z + t @ w) / (2 * len(s))
        system = inner.quadratic + np.diag(z / s + w / t)
        try:
            step = linalg.cho_solve(linalg.cho_factor(system), inner.linear - product + mu / s - mu / t)
        except linalg.LinAlgError:
            break
        d_z, d_w = mu / s - z - z / s * step, mu / t - w + w / t * step
        moves = ((s, step), (t, -step), (z, d_z), (w, d_w))
        length = min(float((-point[move < 0] / move[move < 0]).min(initial=np.inf)) for point, move in moves)
        length = min(1.0, TO_BOUNDARY * length)
        s, t, z, w = s + length * step, t - length * step, z + length * d_z, w + length * d_w
    x = np.zeros(len(box.upper))
    x[open_] = np.minimum(s, inner.upper)
    return [(x, box.quadratic @ x), _polished(box, x)]
