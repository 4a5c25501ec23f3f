"""A linear model with weighted hinge losses and an L2 penalty, by a primal-dual interior-point method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The share of the mean complementarity that an iteration aims at, and the share of the way to the boundary that it goes.
CENTRING, TO_BOUNDARY = 0.1, 0.99


def minimise_hinge(rows: Floats, costs: Floats, *, signed: bool, tolerance: float, iterations: int) -> tuple[Floats, float]:
    """The minimiser ω of |ω|²/2 + Σ_i u_i [1 - <x_i, ω>]₊, with ω ≥ 0 unless `signed`, and the duality gap that is left.

    `rows` x (m, n) and `costs` u (m,), positive. It ends where the gap is at most `tolerance` times the objective, or after so
    many `iterations` of O(m n²); the gap returned is relative to the objective. With slacks ξ ≥ 0 and s = Xω + ξ - 1 ≥ 0 the
    conditions are ω = Xᵀθ + z, θs = 0, (u - θ)ξ = 0 and zω = 0 for multipliers 0 ≤ θ ≤ u and z ≥ 0. Newton's method solves
    them with μ on the right of the last three; μ falls to 0.
    """
    m, n = rows.shape
    omega = np.zeros(n) if signed else np.ones(n)
    z, inverse = omega.copy(), np.zeros(n)
    theta, rest = costs / 2, costs / 2  # θ and u - θ, which loses its digits where it is computed from θ
    xi = np.maximum(1 - rows @ omega, 0) + 1
    s = rows @ omega - 1 + xi
    for iteration in range(iterations + 1):
        value, pull = _objective(rows, costs, omega), theta @ rows
        dual = float(theta.sum()) - float(np.sum((pull if signed else np.maximum(pull, 0)) ** 2)) / 2
        gap = (value - dual) / max(value, 1e-300)
        if gap <= tolerance or iteration == iterations:
            break
        mu = CENTRING * float(theta @ s + rest @ xi + z @ omega) / (2 * m + (0 if signed else n))
        if not signed:
            inverse = 1 / omega
        slope = s / theta + xi / rest
        target = rows @ omega - 1 - mu / theta + mu / rest
        system = (rows.T / slope) @ rows + np.diag(1 + z * inverse)
        d_omega = np.linalg.solve(system, pull - omega + mu * inverse - (target / slope) @ rows)
        d_theta = -(target + rows @ d_omega) / slope
        d_s, d_xi = mu / theta - s - s / theta * d_theta, mu / rest - xi + xi / rest * d_theta
        d_z = mu * inverse - z - z * inverse * d_omega
        bounded = [(theta, d_theta), (rest, -d_theta), (s, d_s), (xi, d_xi)]
        if not signed:
            bounded += [(omega, d_omega), (z, d_z)]
        lengths = [float((-point[step < 0] / step[step < 0]).min(initial=np.inf)) for point, step in bounded]
        length = min(1.0, TO_BOUNDARY * min(lengths))
        theta, rest, s, xi = theta + length * d_theta, rest - length * d_theta, s + length * d_s, xi + length * d_xi
        omega, z = omega + length * d_omega, z + length * d_z
    if not signed:  # weights that go to 0 are smaller than their multipliers in the end
        cleared = np.where(omega > z, omega, 0.0)
        if _objective(rows, costs, cleared) <= max(value, dual * (1 + tolerance)):
            omega = cleared
    return omega, gap


def _objective(rows: Floats, costs: Floats, omega: Floats) -> float:
    return float(omega @ omega) / 2 + float(costs @ np.maximum(1 - rows @ omega, 0))
