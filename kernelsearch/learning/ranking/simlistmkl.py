"""SimListMKL: boosted trees over kernel values, trained for the average precision of whole lists.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation",
section 3, on xgboost: `rank:map` is the same algorithm. `kernelsearch.papers.ltr.exact` has the listing line by line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import ArtefactError, Flag, OptionError, short
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.lists import Lists, check_training, normalise_features, require_contrast

Floats = NDArray[np.float64]

#: Where f starts: the mean of the normalised kernels (CombSUM; the paper's `basemodel`), or nowhere.
STARTS = ("combsum", "zero")


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedKernels(Learner):
    """What this and the exact version share: parameters, the start f₀, the table in query order."""

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
class SimListMKL(BoostedKernels):
    """The listwise learner on xgboost: `rank:map` lambdas, trees of at most `leaves` leaves, f₀ as base margin.

    `min_weight`: least curvature in a leaf; `penalty`: L2 on leaves; `columns`: share of features a tree may use.
    """

    name = "simlistmkl"

    min_weight: float = 1.0
    penalty: float = 1.0
    columns: float = 0.5

    def fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> SimListMKL:
        xgboost = load_xgboost()
        table, labels, lists = self._training(X, y, qid)
        relevant = (labels[lists.order] > 0).astype(np.float32)
        start = self._start(table).sum(axis=1)[lists.order]
        rows = xgboost.DMatrix(table[lists.order], label=relevant, group=lists.sizes, base_margin=start, nthread=1)
        self.booster_: Any = xgboost.train(self.booster_settings(), rows, num_boost_round=self.trees)
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


def load_xgboost() -> Any:
    """The package xgboost, which takes a while to import; raises OptionError where it is not installed."""
    from importlib import import_module

    try:
        return import_module("xgboost")
    except ImportError:
        raise OptionError(
            "needs xgboost; install it with: pip install xgboost-cpu", option=Flag("learner", "fusion", value="simlistmkl")
        ) from None


def load_booster(path: Path, features: int) -> Any:
    """The booster that xgboost wrote to the file `path`, whose checksum the caller has compared.

    Raises ArtefactError for a file that xgboost refuses and for trees over another number of `features`.
    """
    xgboost = load_xgboost()
    booster = xgboost.Booster({"nthread": 1})
    try:
        booster.load_model(path)
    except (xgboost.core.XGBoostError, ValueError) as problem:
        reason = short(str(problem).strip().splitlines()[-1])
        raise ArtefactError(f"damaged ({reason}); train the model again", path=path) from None
    if booster.num_features() != features:
        raise ArtefactError(f"trees over {booster.num_features()} features for {features}; train the model again", path=path)
    return booster
