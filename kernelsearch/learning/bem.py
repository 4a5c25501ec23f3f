"""BEM: level weights in closed form from margins.

Yang & Zha, "Language Pyramid and Multi-Scale Text Analysis" (CIKM 2010), Eqs. 9-10 (kernels, `BemMKL`) and 12-13 (retrieval):
max Σ_l a_l m_l subject to a ≥ 0, ‖a‖ = 1 has the solution a = m⁺ / ‖m⁺‖. The weights follow the margins' scale, so
levels must be put on one scale first (z-scores per query), or weights depend on the size of a level's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray


def bem_weights(margins: ArrayLike) -> NDArray[np.float64] | None:
    """m⁺ / ‖m⁺‖ (Eqs. 10 and 13) of `margins` m, shape (levels,). None, undefined, where no margin is positive."""
    positive = np.maximum(np.asarray(margins, dtype=np.float64), 0.0)
    norm = np.linalg.norm(positive)
    return positive / norm if norm > 0 else None


def uniform_weights(levels: int) -> NDArray[np.float64]:
    """Equal weights of unit norm, shape (levels,)."""
    return np.full(levels, 1 / np.sqrt(levels))


def preference_margins(queries: Iterable[tuple[NDArray[np.floating], NDArray[np.integer]]]) -> NDArray[np.float64]:
    """h_l = Σ_q Σ_{i ≻ j} (r_l(q, i) - r_l(q, j)) (Eq. 13), shape (levels,).

    `queries` are, for each query, the scores (documents, levels) and grades (documents,) of its candidates.

    A pair is any two documents of a query with different grades. The sum over pairs is done without listing them: in the sum,
    a document's score counts once for every document below it and minus once for every one above it.
    """
    parts = []
    for scores, grades in queries:
        ordered = np.sort(grades)
        below = np.searchsorted(ordered, grades, side="left")
        above = len(grades) - np.searchsorted(ordered, grades, side="right")
        parts.append((below - above) @ np.asarray(scores, dtype=np.float64))
    result: NDArray[np.float64] = np.sum(parts, axis=0)
    return result
