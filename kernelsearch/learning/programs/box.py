"""Small convex quadratic programs, solved exactly: boxes by clipped coordinate descent, further rows by an active set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.learning.programs.active_set import solve_program

Floats = NDArray[np.float64]

#: Added to the diagonal where the active-set solver must factor a matrix that may be singular.
RIDGE = 1e-9
TOLERANCE = 1e-9


def minimise_in_box(quadratic: Floats, linear: Floats, lower: Floats, upper: Floats, *, sweeps: int = 10_000) -> Floats:
    """The minimiser of x'Hx/2 - c'x within lower <= x <= upper; H positive semi-definite, shape (n, n).

    Clipped coordinate descent finds which variables end at a bound; the free ones then solve a linear system, and the result is
    accepted when it satisfies the Karush-Kuhn-Tucker conditions. Where H_ii = 0, the sign of c_i chooses the bound. `quadratic`
    is H, `linear` c (n,), `lower` and `upper` (n,) are the bounds; at most `sweeps` passes over the variables are made.
    """
    x = np.clip(np.where(linear > 0, upper, lower), lower, upper).astype(np.float64)
    if violation(quadratic, linear, lower, upper, x) < TOLERANCE:
        return x
    gradient = quadratic @ x - linear
    curvature = np.diag(quadratic).tolist()
    low, high = lower.tolist(), upper.tolist()
    for _ in range(sweeps):
        largest = 0.0
        for i, bend in enumerate(curvature):
            slope, old = float(gradient[i]), float(x[i])
            goal = old - slope / bend if bend > 0 else (low[i] if slope > 0 else high[i] if slope < 0 else old)
            step = min(max(goal, low[i]), high[i]) - old
            if step:
                x[i] += step
                gradient += step * quadratic[i]
                largest = max(largest, abs(step))
        polished = _solve_free(quadratic, linear, lower, upper, x)
        if polished is not None:
            return polished
        if largest < TOLERANCE:
            break
    return x


def _solve_free(quadratic: Floats, linear: Floats, lower: Floats, upper: Floats, x: Floats) -> Floats | None:
    """The exact optimum if the variables now at a bound are the right ones, else None."""
    free = (x > lower) & (x < upper)
    out = np.where(x >= upper, upper, lower)
    if free.any():
        inner = quadratic[np.ix_(free, free)]
        try:
            out[free] = np.linalg.solve(inner, linear[free] - quadratic[np.ix_(free, ~free)] @ out[~free])
        except np.linalg.LinAlgError:
            return None
    inside = (out >= lower - TOLERANCE).all() and (out <= upper + TOLERANCE).all()
    return np.clip(out, lower, upper) if inside and violation(quadratic, linear, lower, upper, out) < TOLERANCE else None


def violation(quadratic: Floats, linear: Floats, lower: Floats, upper: Floats, x: Floats) -> float:
    """How far `x` (n,) is from the KKT conditions of the box program: the largest gradient that still points inside.

    `quadratic`, `linear`, `lower` and `upper` are those of `minimise_in_box`.
    """
    gradient = quadratic @ x - linear
    up = np.where(x < upper - TOLERANCE, np.maximum(-gradient, 0.0), 0.0)
    down = np.where(x > lower + TOLERANCE, np.maximum(gradient, 0.0), 0.0)
    return float(np.maximum(up, down).max(initial=0.0))


def solve_rows(quadratic: Floats, linear: Floats, lower: Floats, upper: Floats, rows: Floats, least: Floats) -> Floats:
    """As `minimise_in_box`, with rows @ x >= least besides; rows (constraints, n). Raises Infeasible where no x satisfies them.

    `quadratic`, `linear`, `lower` and `upper` are those of `minimise_in_box`, `least` has shape (constraints,).

    The box optimum is tried first: where it satisfies the rows it is the answer. Otherwise a dual active-set method.
    """
    x = minimise_in_box(quadratic, linear, lower, upper)
    if (rows @ x >= least - TOLERANCE).all():
        return x
    size = len(linear)
    firm = quadratic + RIDGE * max(1.0, float(np.trace(quadratic)) / size) * np.eye(size)
    conditions = np.vstack([np.eye(size), -np.eye(size), rows])
    x = solve_program(firm, linear, conditions, np.concatenate([lower, -upper, least]))
    result: Floats = np.clip(x, lower, upper)
    return result
