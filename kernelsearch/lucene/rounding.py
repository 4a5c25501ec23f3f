"""Scores rounded as Anserini's searcher rounds them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def anserini_scores(scores: NDArray[np.floating]) -> NDArray[np.float32]:
    """Returns scores as Anserini's searcher does: rounded to four decimals, tied ones each 1e-6 lower than the one before.

    trec_eval sorts by score and breaks ties in an order of its own; with these scores it keeps the list's order.
    `scores` (n,) are descending.
    """
    rounded = (np.floor(np.asarray(scores, dtype=np.float64) * 1e4 + 0.5) / 1e4).astype(np.float32)
    place = np.arange(len(rounded))
    tied = np.zeros(len(rounded), dtype=bool)
    adjusted = rounded
    while True:
        # A score is tied if it is within 1e-4 of the adjusted one before it, so adjusting may tie more: repeat until stable.
        again = np.concatenate([tied[:1], adjusted[:-1] - rounded[1:] <= np.float32(1e-4)])
        if np.array_equal(again, tied):
            return adjusted
        tied = again
        run = place - np.maximum.accumulate(np.where(tied, 0, place))
        adjusted = rounded - np.float32(1e-6) * run.astype(np.float32)
