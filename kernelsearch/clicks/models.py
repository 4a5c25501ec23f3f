"""Seeded click models: how a simulated user examines a list and clicks.

Both are described in Chuklin, Markov & de Rijke, "Click Models for Web Search" (2015): the position-based model and the
cascade model, the latter with clicks that need not end the session (their dependent click model).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def attraction(grades: NDArray[np.integer], *, top: int, noise: float = 0.05, certain: float = 0.9) -> NDArray[np.float64]:
    """The probability of a click on each document once it is examined, from its grade in `grades`; shape (documents,).

    It is `noise` for a document that is not relevant, and rises to `certain` at grade `top`.
    """
    share = (2.0 ** np.maximum(grades, 0) - 1) / (2.0 ** max(top, 1) - 1)
    probabilities: NDArray[np.float64] = noise + (certain - noise) * share
    return probabilities


@dataclass(frozen=True)
class PositionBased:
    """The user examines position r (from 1) with probability r^-eta, independently of the other documents."""

    eta: float = 1.0

    def clicks(self, attractions: NDArray[np.floating], rng: np.random.Generator) -> NDArray[np.bool_]:
        """The clicks of a simulated user, drawn by `rng`, on a list of documents with these attractions, shape (documents,)."""
        examined = rng.random(len(attractions)) < np.arange(1, len(attractions) + 1) ** -self.eta
        return examined & (rng.random(len(attractions)) < attractions)


@dataclass(frozen=True)
class Cascade:
    """The user examines documents from the top; a click ends the session with probability `stop`."""

    stop: float = 0.8

    def clicks(self, attractions: NDArray[np.floating], rng: np.random.Generator) -> NDArray[np.bool_]:
        """The clicks of a simulated user, drawn by `rng`, on a list of documents with these attractions, shape (documents,)."""
        clicked = rng.random(len(attractions)) < attractions
        ends = np.flatnonzero(clicked & (rng.random(len(attractions)) < self.stop))
        if len(ends):
            clicked[ends[0] + 1 :] = False
        return clicked


ClickModel = PositionBased | Cascade
