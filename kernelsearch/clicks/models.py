"""Seeded click models: how a simulated user goes down a list and clicks.

Both are described in Chuklin, Markov & de Rijke, "Click Models for Web Search" (2015): the position-based model and the
cascade model, the latter with clicks that need not end the session (their dependent click model).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def attraction(grades: NDArray[np.integer], *, top: int, noise: float = 0.05, certain: float = 0.9) -> NDArray[np.float64]:
    """How likely each document is clicked once looked at: `noise` if not relevant, up to `certain` at grade `top`."""
    share = (2.0 ** np.maximum(grades, 0) - 1) / (2.0 ** max(top, 1) - 1)
    return noise + (certain - noise) * share


@dataclass(frozen=True)
class PositionBased:
    """The user looks at position r (from 1) with probability r^-eta, whatever stands elsewhere."""

    eta: float = 1.0

    def clicks(self, attractions: NDArray[np.floating], rng: np.random.Generator) -> NDArray[np.bool_]:
        """One simulated user on a list of documents with these attractions, shape (documents,)."""
        looked = rng.random(len(attractions)) < np.arange(1, len(attractions) + 1) ** -self.eta
        return looked & (rng.random(len(attractions)) < attractions)


@dataclass(frozen=True)
class Cascade:
    """The user reads from the top; a click ends the session with probability `stop`, no click never does."""

    stop: float = 0.8

    def clicks(self, attractions: NDArray[np.floating], rng: np.random.Generator) -> NDArray[np.bool_]:
        """One simulated user on a list of documents with these attractions, shape (documents,)."""
        clicked = rng.random(len(attractions)) < attractions
        ends = np.flatnonzero(clicked & (rng.random(len(attractions)) < self.stop))
        if len(ends):
            clicked[ends[0] + 1 :] = False
        return clicked


ClickModel = PositionBased | Cascade
