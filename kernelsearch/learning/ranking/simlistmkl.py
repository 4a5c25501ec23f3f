"""SimListMKL: boosted trees over kernel values, trained for the average precision of whole lists.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation",
section 3. `SimListMKL` runs on xgboost (`rank:map` is the same algorithm); `ExactSimListMKL` is the listing line by line, with
sums over both sides of each pair, and is what the fast one is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.lambdas import lambdas
from kernelsearch.learning.ranking.lists import Lists, check_training, normalise_features, require_contrast

Floats = NDArray[np.float64]

#: Where f starts: the mean of the normalised kernels (CombSUM; the paper's `basemodel`), or nowhere.
STARTS = ("combsum", "zero")


@dataclass(kw_only=True, eq=False, repr=False)
class _Boosted(Learner):
    """What both versions share: parameters, the start f₀, the table in query order."""

    needs_fit = True

    trees: int = 100
    leaves: int = 8
    learning_rate: float = 0.05
    init: str = "combsum"
    strength: float = 2.0
    normalise: str = "z"
    random_state: int = 0

    def _start(self, table: Floats) -> Floats:
        """Each feature's part of f₀, shape (rows, features): `strength` times the mean of the normalised kernels."""
        return table * (self.strength / max(table.shape[1], 1) if self.init == "combsum" else 0.0)

    def _training(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None) -> tuple[Floats, Floats, Lists]:
        if self.init not in STARTS:
            raise OptionError(f"init {self.init!r} is not one of {', '.join(STARTS)}")
        self.check_parameters()
        table, ids, labels = check_training(X, y, qid)
        lists = Lists.of(ids)
        require_contrast(labels, lists)  # where grades differ but all are relevant, the start is kept
        self.features_ = table.shape[1]
        return normalise_features(table, lists, self.normalise), labels, lists


@dataclass(kw_only=True, eq=False, repr=False)
class SimListMKL(_Boosted):
    """The listwise learner on xgboost: `rank:map` lambdas, trees of at most `leaves` leaves, f₀ as base margin.

    `min_weight`: least curvature in a leaf; `penalty`: L2 on leaves; `columns`: share of features a tree may use.
    """

    name = "simlistmkl"

    min_weight: float = 1.0
    penalty: float = 1.0
    columns: float = 0.5

    def fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None, *, client: Any = None) -> SimListMKL:
        """Learns; with a Dask `client`, on its workers, each of which holds some of the queries."""
        xgboost = load_xgboost()
        table, labels, lists = self._training(X, y, qid)
        settings = self.booster_settings()
        relevant = (labels[lists.order] > 0).astype(np.float32)
        start = self._start(table).sum(axis=1)[lists.order]
        if client is not None:
            from kernelsearch.learning.ranking.boosting_on_dask import train

            self.booster_: Any = train(client, settings, self.trees, table[lists.order], relevant, start, lists.sizes)
            return self
        rows = xgboost.DMatrix(table[lists.order], label=relevant, group=lists.sizes, base_margin=start, nthread=1)
        self.booster_ = xgboost.train(settings, rows, num_boost_round=self.trees)
        return self

    def booster_settings(self) -> dict[str, Any]:
        """The parameters of xgboost that the hyper-parameters amount to."""
        return {
            "objective": "rank:map",
            "base_score": 0.0,
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_leaves": self.leaves,
            "max_depth": 0,
            "learning_rate": self.learning_rate,
            "min_child_weight": self.min_weight,
            "reg_lambda": self.penalty,
            "colsample_bytree": self.columns,
            "lambdarank_pair_method": "mean",
            "lambdarank_num_pair_per_sample": 5,
            "lambdarank_normalization": False,
            "seed": self.random_state,
            "nthread": 1,
            "verbosity": 0,
        }

    def predict(self, X: ArrayLike, qid: ArrayLike | None = None) -> Floats:
        table, _ = self._table(X, qid)
        result: Floats = self._start(table).sum(axis=1) + self._trees(table)
        return result

    def contributions(self, X: ArrayLike, qid: ArrayLike | None = None) -> Floats:
        """Exact: the start is linear, and the trees' parts are their Shapley values (Lundberg et al., 2018).

        What the trees give to an average row belongs to no feature and orders nothing; it is shared out evenly, so that
        a row's parts sum to its score.
        """
        table, _ = self._table(X, qid)
        if not len(table):
            return self._start(table)
        parts = self.booster_.predict(load_xgboost().DMatrix(table, nthread=1), pred_contribs=True).astype(np.float64)
        result: Floats = self._start(table) + parts[:, :-1] + parts[:, -1:] / table.shape[1]
        return result

    def _trees(self, table: Floats) -> Floats:
        if not len(table):
            return np.zeros(0)
        result: Floats = self.booster_.inplace_predict(table.astype(np.float32), predict_type="margin").astype(np.float64)
        return result


@dataclass(kw_only=True, eq=False, repr=False)
class ExactSimListMKL(_Boosted):
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


def load_xgboost() -> Any:
    """The package xgboost, which takes a while to import; raises OptionError where it is not installed."""
    from importlib import import_module

    try:
        return import_module("xgboost")
    except ImportError:
        raise OptionError(
            "needs xgboost; install it with: pip install xgboost-cpu", option=Flag("learner", "fusion", value="simlistmkl")
        ) from None
