"""Linear similarity from triplets (query, better, worse): f = Σ ω_d K_d, with ω ≥ 0 unless weights may be negative.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation", section
2.3: SimTripletNet (Eq. 3, cross entropy); the exponential and the hinge loss are in `kernelsearch.papers.ltr.triplets`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.lists import Lists, check_training, normalise_features, require_contrast

Floats = NDArray[np.float64]


def triplet_differences(table: Floats, y: Floats, lists: Lists, limit: int, random_state: int) -> tuple[Floats, Floats]:
    """K(q, better) - K(q, worse) of at most `limit` triplets per query, shape (triplets, features), and their weights.

    `table` (rows, features) and grades `y` (rows,) are of `lists`; `random_state` is the seed of the draw. Raises TableError
    where no list has two grades. Triplets are drawn uniformly: learning fails on positives against the top-ranked negatives
    alone. Every query weighs the same in sum, however many triplets it has; the weights sum to 1.
    """
    require_contrast(y, lists)
    chance = np.random.default_rng(random_state)
    parts, weights = [], []
    for rows in lists:
        grade = y[rows]
        better, worse = np.nonzero(grade[:, None] > grade[None, :])
        if not len(better):
            continue
        if len(better) > limit:
            chosen = np.sort(chance.choice(len(better), limit, replace=False))
            better, worse = better[chosen], worse[chosen]
        parts.append(table[rows[better]] - table[rows[worse]])
        weights.append(np.full(len(better), 1.0 / len(better)))
    return np.concatenate(parts), np.concatenate(weights) / len(parts)


class LinearLearner(Learner):
    """Base of learners of a weighted sum of normalised features, with weights ω in `weights_` (features,).

    ω ≥ 0 as in the paper, which makes f a kernel; `signed` allows negative weights, for features of which less is better.
    """

    needs_fit = True
    signed = False
    weights_: Floats

    def contributions(self, X: ArrayLike, qid: ArrayLike | None = None) -> Floats:
        table, _ = self._table(X, qid)
        return table * self.weights_


@dataclass(kw_only=True, eq=False, repr=False)
class TripletLearner(LinearLearner):
    """Base of those that learn from triplets: normalises, and draws at most `triplets` per query by the seed `random_state`."""

    triplets: int = 200
    normalise: str = "z"
    random_state: int = 0
    signed: bool = False

    def fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> TripletLearner:
        self.check_parameters()
        table, ids, labels = check_training(X, y, qid)
        lists = Lists.of(ids)
        self.features_ = table.shape[1]
        differences, weights = triplet_differences(
            normalise_features(table, lists, self.normalise), labels, lists, self.triplets, self.random_state
        )
        self.weights_ = self._solve(differences, weights)
        return self

    @abstractmethod
    def _solve(self, differences: Floats, weights: Floats) -> Floats:
        """The weights ω, shape (features,), from the triplets' differences and their weights."""


@dataclass(kw_only=True, eq=False, repr=False)
class SimTripletNet(TripletLearner):
    """Cross entropy of the logistic probability that the better one wins, by bounded quasi-Newton descent.

    The L2 `penalty` pulls towards the weights `start` (features,), by default equal ones of `strength` / features each
    (CombSUM, where trees start too), not towards 0: with few training queries known weights or the plain sum are the better
    guess. `iterations` bounds the steps.
    """

    name = "net"

    penalty: float = 0.03
    strength: float = 2.0
    start: ArrayLike | None = None
    iterations: int = 500

    def _solve(self, differences: Floats, weights: Floats) -> Floats:
        from scipy.optimize import minimize

        features = differences.shape[1]
        start = np.full(features, self.strength / features) if self.start is None else np.asarray(self.start, np.float64)
        if start.shape != (features,):
            raise InputError(f"net: {start.size} weights to start from, for {features} features")

        def loss(omega: Floats) -> tuple[float, Floats]:
            margins, away = differences @ omega, omega - start
            value = weights @ np.logaddexp(0, -margins) + self.penalty / 2 * away @ away
            slope = -(weights / (1 + np.exp(np.clip(margins, -500, 500)))) @ differences + self.penalty * away
            return float(value), slope

        if not self.iterations:  # L-BFGS-B takes a step even so
            return start if self.signed else np.maximum(start, 0.0)
        bounds = None if self.signed else [(0.0, None)] * len(start)
        options = {"maxiter": self.iterations}
        result: Floats = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        return result
