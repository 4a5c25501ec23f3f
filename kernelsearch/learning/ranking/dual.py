"""The dual of asymmetric kernel learning with a hinge loss: a quadratic program in a box, by coordinate descent.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), section 5.3; the algorithm is that of Hsieh et al., "A Dual Coordinate
Descent Method for Large-scale Linear SVM" (ICML 2008), on a dense matrix, visiting only coordinates that can still move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError


@dataclass(frozen=True)
class DualSolution:
    """The multipliers, Wθ, the largest violation of the optimality conditions, and the sweeps it took."""

    theta: NDArray[np.float64]
    product: NDArray[np.float64]
    violation: float
    sweeps: int


def maximise_dual(
    matrix: NDArray[np.float64],
    linear: NDArray[np.float64],
    bounds: NDArray[np.float64] | float,
    *,
    start: NDArray[np.float64] | None = None,
    tolerance: float = 1e-6,
    sweeps: int = 200,
) -> DualSolution:
    """Maximises Σ l_i θ_i - ½ θᵀWθ over 0 ≤ θ_i ≤ bounds_i, for symmetric positive semi-definite W of shape (m, m).

    Work is bounded: at most `sweeps` passes over the coordinates, each O(m²). `start` is a warm start, clipped into the box.
    It ends when no condition of Karush, Kuhn and Tucker is violated by more than `tolerance`. Where W is singular θ is
    not unique, Wθ is.
    """
    from scipy.linalg.blas import daxpy

    size = len(linear)
    upper = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (size,)).copy()
    if matrix.shape != (size, size) or (size and upper.min() < 0):
        raise OptionError(f"dual: a matrix of shape {matrix.shape} for {size} pairs, or a negative bound")
    rows = np.ascontiguousarray(matrix, dtype=np.float64)
    theta = np.zeros(size) if start is None else np.clip(np.asarray(start, dtype=np.float64), 0.0, upper)
    product = rows @ theta
    # Lists where single numbers are looked at: much faster than arrays.
    slopes, curvature, limits = linear.tolist(), rows.diagonal().tolist(), upper.tolist()
    sweep, worst = 0, _violation(theta, product, linear, upper)
    while sweep < sweeps and worst.max(initial=0.0) > tolerance:
        # The most violated first: most of the way is made in a few steps, and settled coordinates cost nothing.
        order = np.argsort(-worst, kind="stable")[: int(np.count_nonzero(worst > 0.1 * tolerance))]
        values = theta.tolist()
        for i in order.tolist():
            old, gradient = values[i], slopes[i] - product.item(i)
            if curvature[i] > 0:
                new = min(max(old + gradient / curvature[i], 0.0), limits[i])
            else:  # a zero row: the objective is linear in this coordinate
                new = limits[i] if gradient > 0 else (0.0 if gradient < 0 else old)
            if new != old:
                values[i] = new
                daxpy(rows[i], product, a=new - old)
        theta = np.array(values)
        sweep += 1
        worst = _violation(theta, product, linear, upper)
    return DualSolution(theta, product, float(worst.max(initial=0.0)), sweep)


def _violation(
    theta: NDArray[np.float64], product: NDArray[np.float64], linear: NDArray[np.float64], upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How far each coordinate is from optimality: its gradient where the box lets it follow, 0 elsewhere."""
    gradient = linear - product
    return np.where(theta <= 0, np.maximum(gradient, 0), np.where(theta >= upper, np.maximum(-gradient, 0), np.abs(gradient)))
