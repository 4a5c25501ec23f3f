"""Small strictly convex quadratic programs, solved exactly by a dual active-set method."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

Floats = NDArray[np.float64]

#: A row counts as satisfied, and a direction as dependent on the active rows, within this distance relative to its size.
TOLERANCE = 1e-12


class Infeasible(Exception):
    """No point satisfies the constraints."""


def solve_program(quadratic: Floats, linear: Floats, rows: Floats, least: Floats) -> Floats:
    """The minimiser of x'Hx/2 - c'x subject to rows @ x >= least; H positive definite (n, n), rows (constraints, n).

    Goldfarb and Idnani, "A numerically stable dual method for solving strictly convex quadratic programs" (Mathematical
    Programming 27, 1983): from the unconstrained minimum, the row that is violated most becomes active in each step, and rows
    whose multiplier would become negative leave. The active rows at the end determine x by a linear system. Raises Infeasible
    where no x satisfies the rows, and numpy's LinAlgError where H is not positive definite.
    """
    lower: Floats = np.asarray(np.linalg.cholesky(quadratic), dtype=np.float64)
    x = cho_solve((lower, True), linear)
    # In the coordinates y = L'x the quadratic form is the identity, and steps are projections.
    scaled = solve_triangular(lower, rows.T, lower=True).T
    sizes = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    active: list[int] = []
    multipliers = np.zeros(0)
    for _ in range(50 * (len(rows) + len(linear))):
        slack = (rows @ x - least) / sizes
        slack[active] = 0.0
        new = int(np.argmin(slack)) if len(slack) else 0
        if not len(slack) or slack[new] >= -TOLERANCE * max(1.0, float(np.abs(x).max(initial=0.0))):
            return _at_vertex(lower, linear, rows, least, active)
        multiplier = 0.0
        while True:
            basis, factor = np.linalg.qr(scaled[active].T)
            along = basis.T @ scaled[new]
            direction = scaled[new] - basis @ along
            change = solve_triangular(factor, along) if active else np.zeros(0)
            falling = np.flatnonzero(change > TOLERANCE)
            ratios = multipliers[falling] / change[falling]
            leaving = int(falling[np.argmin(ratios)]) if len(falling) else -1
            partial = float(ratios.min()) if len(falling) else math.inf
            length = float(direction @ direction)
            free = length > 1e4 * TOLERANCE**2 * float(scaled[new] @ scaled[new])
            full = (least[new] - rows[new] @ x) / length if free else math.inf
            step = min(partial, full)
            if step == math.inf:
                raise Infeasible
            if free:
                x = x + step * solve_triangular(lower, direction, lower=True, trans="T")
            multipliers, multiplier = multipliers - step * change, multiplier + step
            if step == full:
                active.append(new)
                multipliers = np.append(multipliers, multiplier)
                break
            del active[leaving]
            multipliers = np.delete(multipliers, leaving)
    raise np.linalg.LinAlgError("the active set does not settle")


def _at_vertex(lower: Floats, linear: Floats, rows: Floats, least: Floats, active: list[int]) -> Floats:
    """The minimiser with the active rows as equations, free of the rounding errors of the steps."""
    plain: Floats = cho_solve((lower, True), linear)
    if not active:
        return plain
    chosen = rows[active]
    back = cho_solve((lower, True), chosen.T)
    pull = np.linalg.solve(chosen @ back, least[active] - chosen @ plain)
    result: Floats = plain + back @ pull
    return result
