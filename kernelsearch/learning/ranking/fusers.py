"""The base class of learners, and fusion without learning: CombSUM.

Fox & Shaw, "Combination of Multiple Searches" (TREC-2, 1994).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.learning.ranking.lists import Lists, TableError, check, check_training, normalise_features

Floats = NDArray[np.float64]

#: Parameters of learners that must be above 0; other numbers may be 0.
POSITIVE = {"C", "columns", "folds", "learning_rate", "leaves", "min_rows", "queries", "triplets"}


class Learner:
    """Base of all fusers: `fit(X, y, qid)`, `predict(X, qid)`, and each feature's part of a score.

    Parameters of the methods: `X`, features, shape (rows, features); `y`, relevance grades, above 0 relevant, shape (rows,);
    `qid`, each row's query, shape (rows,), None for one query. Scores order the rows of one query; between queries they mean
    nothing. `normalise` names what happens to the features within each query first.

    Estimators follow scikit-learn's conventions (`sklearn.base.clone`, `check_estimator`) without deriving from its
    BaseEstimator: importing that takes longer than a search with a saved model.
    """

    name = "learner"
    normalise = "z"
    listwise = False  #: whether a row's score depends on other rows of its list, besides the normalisation
    needs_fit = False  #: whether predict needs a fit before
    features_: int

    def fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> Learner:
        """Checks the table and returns the learner; fusers without weights have nothing to learn.

        Raises TableError for a table that can't be learned from, OptionError for the learner's parameters.
        """
        self.check_parameters()
        table, _, _ = check_training(X, y, qid)
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
        return {name: getattr(self, name) for name in _parameter_names(type(self).__init__)}

    def __repr__(self) -> str:
        """The call that makes the learner, with the parameters that aren't at their default."""
        defaults = signature(type(self).__init__).parameters
        shown = [
            f"{name}={value!r}" for name, value in self.get_params().items() if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def set_params(self, **parameters: Any) -> Learner:
        """Changes some parameters and returns the learner. Raises OptionError for a name that it doesn't have."""
        unknown = set(parameters) - set(self.get_params())
        if unknown:
            raise OptionError(f"learner {self.name}: has no parameter {', '.join(sorted(unknown))}")
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def check_parameters(self) -> None:
        """Raises OptionError for a number among the parameters that is NaN, infinite or negative, or 0 where it must not be."""
        for name, value in self.get_params().items():
            if isinstance(value, int | float) and not (0 < value < math.inf or (value == 0 and name not in POSITIVE)):
                least = "above 0" if name in POSITIVE else "0 or more"
                raise OptionError(f"learner {self.name}: {name} {value} must be finite and {least}")

    @property
    def n_features_in_(self) -> int:
        """The number of features that the learner was fitted on, by scikit-learn's name for it."""
        return self.features_

    def __sklearn_is_fitted__(self) -> bool:
        return not self.needs_fit or hasattr(self, "features_")

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools (`check_estimator`, `Pipeline`, model selection) ask about an estimator."""
        from sklearn.utils import Tags, TargetTags

        # A score depends on the other rows of the list: predictions of parts of a table differ, as those of an estimator with
        # chance do, which is the tag that exempts from the checks of parts.
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            requires_fit=self.needs_fit,
            non_deterministic=self.listwise or self.normalise != "none",
        )

    def require_fit(self) -> None:
        """Raises scikit-learn's NotFittedError where the learner has to be fitted and isn't."""
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError  # importing scikit-learn takes seconds

            raise NotFittedError(f"{type(self).__name__}: call fit first")

    def _table(self, X: ArrayLike, qid: ArrayLike | None) -> tuple[Floats, Lists]:
        """The checked table, normalised, and its lists."""
        self.require_fit()
        if not self.needs_fit:
            self.check_parameters()
        table, ids, _ = check(X, qid)
        known = getattr(self, "features_", table.shape[1])
        if table.shape[1] != known:
            raise TableError(
                f"X has {table.shape[1]} features, but {type(self).__name__} is expecting {known} features as input"
            )
        lists = Lists.single(len(table)) if qid is None else Lists.of(ids)
        return normalise_features(table, lists, self.normalise), lists


@cache
def _parameter_names(constructor: Callable[..., None]) -> tuple[str, ...]:
    """The names of a constructor's parameters; cached, since every prediction checks them."""
    return tuple(signature(constructor).parameters)[1:]


class CombSUM(Learner):
    """The sum of normalised features with fixed `weights` (features,); None: 1 each."""

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
        if not np.isfinite(weights).all():
            raise OptionError("learner combsum: weights must be finite")
        return table * weights
