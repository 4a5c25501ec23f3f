"""Fusion without learning: variants of CombMNZ and of reciprocal ranks for complete tables.

Fox & Shaw, "Combination of Multiple Searches" (TREC-2, 1994); Cormack, Clarke & Büttcher, "Reciprocal Rank Fusion outperforms
Condorcet and individual Rank Learning Methods" (SIGIR 2009).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.learning.ranking.fusers import Learner

Floats = NDArray[np.float64]


class CombNonzero(Learner):
    """The sum of min-max normalised features times how many of them are above their lowest value in the list.

    CombMNZ counts the lists that have the document, which a table with a value for every row can't tell.
    """

    name = "nonzero"
    listwise = True
    normalise = "minmax"

    def contributions(self, X: ArrayLike, qid: ArrayLike | None = None) -> Floats:
        table, _ = self._table(X, qid)
        result: Floats = table * np.count_nonzero(table > 0, axis=1)[:, None]
        return result


class TiedRRF(Learner):
    """Reciprocal rank fusion, the sum over features of 1 / (k + rank), in which rows that tie share their mean rank.

    Reciprocal rank fusion of runs gives ties the ranks of their order in the run, which a table doesn't have.
    """

    name = "tied-rrf"
    listwise = True
    normalise = "none"

    def __init__(self, *, k: float = 60.0) -> None:
        self.k = k

    def contributions(self, X: ArrayLike, qid: ArrayLike | None = None) -> Floats:
        table, lists = self._table(X, qid)
        out = np.empty_like(table)
        for rows in lists:
            for column in range(table.shape[1]):
                out[rows, column] = 1 / (self.k + _shared_ranks(table[rows, column]))
        return out


def _shared_ranks(scores: Floats) -> Floats:
    """Ranks from 1, best first; equal scores get the mean of their ranks, so that no order is made up."""
    _, group, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[group]
