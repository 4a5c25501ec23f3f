"""SimListMKL as its listing has it: what the product's learner on xgboost is compared with.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation", section 3,
with sums over both sides of each pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.learning.ranking.simlistmkl import BoostedKernels
from kernelsearch.papers.ltr.lambdas import lambdas

Floats = NDArray[np.float64]


@dataclass(kw_only=True, eq=False, repr=False)
class ExactSimListMKL(BoostedKernels):
    """The reference: lambdas with the chosen |ΔE| over all pairs, regression trees, Newton leaves Σy/Σw (lines 6-17).

    `delta`: |ΔE| of a pair, one of `lambdas.DELTAS`; `min_rows`: least rows in a leaf.
    """

    name = "exact"

    delta: str = "exact"
    min_rows: int = 20

    def fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> ExactSimListMKL:
        from sklearn.tree import DecisionTreeRegressor

        table, labels, lists = self._training(X, y, qid)
        relevant, groups = labels > 0, list(lists)
        scores = self._start(table).sum(axis=1)
        self.trees_: list[Any] = []
        self.leaves_: list[Floats] = []
        for _ in range(self.trees):
            pull, curvature = np.zeros(len(table)), np.zeros(len(table))
            for rows in groups:
                pull[rows], curvature[rows] = lambdas(scores[rows], relevant[rows], self.delta)
            tree = DecisionTreeRegressor(
                max_leaf_nodes=self.leaves, min_samples_leaf=self.min_rows, random_state=self.random_state
            ).fit(table, pull)
            leaf = tree.apply(table)
            above = np.bincount(leaf, weights=pull, minlength=tree.tree_.node_count)
            below = np.bincount(leaf, weights=curvature, minlength=tree.tree_.node_count)
            values = self.learning_rate * np.divide(above, below, out=np.zeros_like(above), where=below > 1e-12)
            scores += values[leaf]
            self.trees_.append(tree)
            self.leaves_.append(values)
        return self

    def predict(self, X: ArrayLike, qid: ArrayLike | None = None) -> Floats:
        table, _ = self._table(X, qid)
        total: Floats = self._start(table).sum(axis=1)
        if not len(table):  # scikit-learn's trees refuse a table without rows
            return total
        for tree, values in zip(self.trees_, self.leaves_, strict=True):
            total += values[tree.apply(table)]
        return total
