"""Online learners of kernel weights: one triplet, or one list, at a time, in constant memory; `partial_fit` continues learning.

Baselines of Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation",
section 1, on the hinge loss of Eq. 5: OKWL (Chen, Hoi, Li & Xiao, "SimApp", WSDM 2015) and OASIS (Chechik, Sharma, Shalit &
Bengio, "Large Scale Online Learning of Image Similarity Through Ranking", JMLR 2010); and the online form of the paper's own
listwise learner, which it names as future work.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.learning.ranking.lists import Lists, check_training, require_contrast
from kernelsearch.learning.ranking.triplets import LinearLearner, TripletLearner, triplet_differences
from kernelsearch.papers.ltr.lambdas import lambdas

Floats = NDArray[np.float64]


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineTriplets(TripletLearner):
    """Base of OKWL and OASIS: from ω = 0, one step per triplet; `fit` takes `passes` over all triplets in random order."""

    passes: int = 5

    def _solve(self, differences: Floats, weights: Floats) -> Floats:
        chance = np.random.default_rng(self.random_state)
        omega = np.zeros(differences.shape[1])
        for _ in range(self.passes):
            omega = self._steps(omega, differences[chance.permutation(len(differences))])
        return omega

    def partial_fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> Self:
        """One step per triplet of the queries, in their order, from the current weights. `X`, `y`, `qid` as in `Learner`."""
        self.check_parameters()
        table, ids, labels = check_training(X, y, qid)
        if not hasattr(self, "features_"):
            self.features_, self.weights_ = table.shape[1], np.zeros(table.shape[1])
        table, lists = self._table(table, ids)
        differences, _ = triplet_differences(table, labels, lists, self.triplets, self.random_state)
        self.weights_ = self._steps(self.weights_, differences)
        return self

    def _steps(self, omega: Floats, differences: Floats) -> Floats:
        """The weights (features,) after one step for each difference K(q, better) - K(q, worse), shape (triplets, features)."""
        for difference in differences:
            loss = 1.0 - float(difference @ omega)
            if loss > 0:
                omega = omega + self._rate(loss, difference) * difference
                if not self.signed:
                    omega = np.maximum(omega, 0.0)
        return omega

    @abstractmethod
    def _rate(self, loss: float, difference: Floats) -> float:
        """The length of the step along the difference of a triplet whose hinge loss is above 0."""


@dataclass(kw_only=True, eq=False, repr=False)
class OKWL(OnlineTriplets):
    """Online kernel weight learning: gradient descent on the hinge loss, ω ← max(0, ω + η (K⁺ - K⁻)) where it is above 0.

    η is `learning_rate`.
    """

    name = "okwl"

    learning_rate: float = 0.001

    def _rate(self, loss: float, difference: Floats) -> float:
        return self.learning_rate


@dataclass(kw_only=True, eq=False, repr=False)
class OASIS(OnlineTriplets):
    """The passive-aggressive step: the smallest that removes the hinge loss, τ = min(C, loss / |K⁺ - K⁻|²)."""

    name = "oasis"

    C: float = 0.001

    def _rate(self, loss: float, difference: Floats) -> float:
        square = float(difference @ difference)
        return min(self.C, loss / square) if square > 0 else 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineSimListMKL(LinearLearner):
    """The listwise loss (Eqs. 6-8) with a linear f: after each list ω ← max(0, ω + η Σ_i y_i K_i), y the lambdas with |ΔAP|.

    It starts from equal weights of `strength` / features (CombSUM), as the trees of SimListMKL do. `delta` is one of
    `lambdas.DELTAS`; `fit` takes `passes` over the lists in the random order of `random_state`. η is `learning_rate`; its
    default was the best of 0.0003 to 0.03 on the folds of MQ2008's training file (docs/fusion.md).
    """

    name = "online"

    learning_rate: float = 0.001
    passes: int = 10
    delta: str = "exact"
    strength: float = 2.0
    normalise: str = "z"
    random_state: int = 0
    signed: bool = False

    def fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> OnlineSimListMKL:
        table, labels, lists = self._training(X, y, qid, start=True)
        chance, groups = np.random.default_rng(self.random_state), list(lists)
        for _ in range(self.passes):
            for number in chance.permutation(len(groups)).tolist():
                self._step(table[groups[number]], labels[groups[number]] > 0)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> OnlineSimListMKL:
        """One step per list, in the order of query ids, from the current weights. `X`, `y` and `qid` as in `Learner`."""
        table, labels, lists = self._training(X, y, qid, start=not hasattr(self, "features_"))
        for rows in lists:
            self._step(table[rows], labels[rows] > 0)
        return self

    def _training(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None, *, start: bool) -> tuple[Floats, Floats, Lists]:
        self.check_parameters()
        table, ids, labels = check_training(X, y, qid)
        lists = Lists.of(ids)
        require_contrast(labels, lists)  # where grades differ but all are relevant, the start is kept
        if start:
            self.features_ = table.shape[1]
            self.weights_ = np.full(self.features_, self.strength / self.features_)
        table, lists = self._table(table, ids)
        return table, labels, lists

    def _step(self, table: Floats, relevant: NDArray[np.bool_]) -> None:
        pull, _ = lambdas(table @ self.weights_, relevant, self.delta)
        weights = self.weights_ + self.learning_rate * (pull @ table)
        self.weights_ = weights if self.signed else np.maximum(weights, 0.0)
