"""Fusion without learning: CombSUM, CombMNZ, reciprocal ranks.

Fox & Shaw, "Combination of Multiple Searches" (TREC-2, 1994); Cormack, Clarke & Büttcher, "Reciprocal Rank Fusion outperforms
Condorcet and individual Rank Learning Methods" (SIGIR 2009).
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.learning.ranking.lists import Lists, check, normalise_features, ranks

Floats = NDArray[np.float64]


class Learner:
    """Base of all fusers: `fit(X, y, qid)`, `predict(X, qid)`, and each feature's part of a score.

    X has shape (rows, features); y are relevance grades, above 0 relevant; qid names each row's query. Scores order the rows of
    one query; between queries they mean nothing. `normalise` names what happens to the features within each query first.

    Parameters follow scikit-learn's conventions (`sklearn.base.clone` works) without deriving from its BaseEstimator: importing
    that takes longer than a search with a saved model.
    """

    name = "learner"
    normalise = "z"
    features_: int

    def fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> Learner:
        """Checks the table; fusers without weights have nothing to learn."""
        table, _, _ = check(X, qid, y)
        self.features_ = table.shape[1]
        return self

    def predict(self, X: ArrayLike, qid: ArrayLike | None = None) -> Floats:
        """A score for each row, shape (rows,)."""
        return np.asarray(self.contributions(X, qid).sum(axis=1))

    def contributions(self, X: ArrayLike, qid: ArrayLike | None = None) -> Floats:
        """Each feature's part of each row's score, shape (rows, features); a row's parts sum to its score."""
        raise OptionError(f"learner {self.name}: its scores don't split into parts of features")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters by name. `deep` is there for scikit-learn, no parameter is a learner itself."""
        if type(self).__init__ is object.__init__:
            return {}
        return {name: getattr(self, name) for name in list(signature(type(self).__init__).parameters)[1:]}

    def set_params(self, **parameters: Any) -> Learner:
        """Changes some parameters and returns the learner."""
        unknown = set(parameters) - set(self.get_params())
        if unknown:
            raise OptionError(f"learner {self.name}: has no parameter {', '.join(sorted(unknown))}")
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def _table(self, X: ArrayLike, qid: ArrayLike | None) -> tuple[Floats, Lists]:
        """The checked table, normalised, and its lists."""
        table, ids, _ = check(X, qid)
        known = getattr(self, "features_", table.shape[1])
        if table.shape[1] != known:
            raise InputError(f"{self.name}: learned from {known} features, {table.shape[1]} were given")
        lists = Lists.of(ids)
        return normalise_features(table, lists, self.normalise), lists


class CombSUM(Learner):
    """The sum of normalised features, each with a fixed weight (1 unless told otherwise)."""

    name = "combsum"

    def __init__(self, *, weights: ArrayLike | None = None, normalise: str = "z") -> None:
        self.weights, self.normalise = weights, normalise

    def contributions(self, X: ArrayLike, qid: ArrayLike | None = None) -> Floats:
        table, _ = self._table(X, qid)
        if self.weights is None:
            return table
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (table.shape[1],):
            raise InputError(f"combsum: {weights.size} weights for {table.shape[1]} features")
        return table * weights


class CombMNZ(Learner):
    """The sum of min-max normalised features times how many of them are above their lowest value in the list."""

    name = "combmnz"
    normalise = "minmax"

    def contributions(self, X: ArrayLike, qid: ArrayLike | None = None) -> Floats:
        table, _ = self._table(X, qid)
        result: Floats = table * np.count_nonzero(table > 0, axis=1)[:, None]
        return result


class RRF(Learner):
    """The sum over features of 1 / (k + rank); rows that a feature scores alike share their mean rank."""

    name = "rrf"
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
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    sums = np.bincount(group, weights=ranks(scores))
    return (sums / sizes)[group]
