"""Which learner? Inner cross-validation over queries decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.errors import InputError, OptionError
from kernelsearch.learning.fusers import RRF, CombMNZ, CombSUM, Learner
from kernelsearch.learning.lists import Lists, check, mean_average_precision
from kernelsearch.learning.simlistmkl import ExactSimListMKL, SimListMKL
from kernelsearch.learning.triplets import SimTripletBoost, SimTripletNet, SimTripletSVM

#: Everything that fuses, by name.
LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner
    for learner in (SimListMKL, SimTripletNet, SimTripletBoost, SimTripletSVM, CombSUM, CombMNZ, RRF, ExactSimListMKL)
}

#: What `best` chooses among. In case of a tie the earlier one wins.
CANDIDATES = ("combsum", "svm", "net", "boost", "simlistmkl")


def query_folds(qid: ArrayLike, folds: int, random_state: int = 0) -> list[NDArray[np.bool_]]:
    """The rows of each fold, True where held out; all rows of a query are in one fold."""
    ids = np.asarray(qid)
    names = np.unique(ids)
    if len(names) < folds:
        raise InputError(f"cross-validation: {len(names)} queries can't make {folds} folds")
    shuffled = np.random.default_rng(random_state).permutation(names)
    return [np.isin(ids, shuffled[number::folds]) for number in range(folds)]


class Best(Learner):
    """Tries each candidate by cross-validation over the training queries (MAP) and fits the winner on all of them.

    `chosen_` is the fitted winner, `scores_` the cross-validated MAP of each candidate.
    """

    name = "best"

    def __init__(
        self, *, candidates: Sequence[str] = CANDIDATES, folds: int = 5, normalise: str = "z", random_state: int = 0
    ) -> None:
        unknown = [name for name in candidates if name not in LEARNERS]
        if unknown or not candidates:
            raise OptionError(f"best: {', '.join(unknown) or 'nothing'} is not one of {', '.join(LEARNERS)}")
        self.candidates, self.folds, self.normalise, self.random_state = tuple(candidates), folds, normalise, random_state

    def fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> Best:
        table, ids, labels = check(X, qid, y)
        self.features_ = table.shape[1]
        folds = min(self.folds, len(np.unique(ids)))
        if folds < 2:
            raise InputError("best: choosing among learners takes at least two training queries")
        predictions = {name: np.zeros(len(labels)) for name in self.candidates}
        for held_out in query_folds(ids, folds, self.random_state):
            for name in self.candidates:
                learner = self._make(name).fit(table[~held_out], labels[~held_out], ids[~held_out])
                predictions[name][held_out] = learner.predict(table[held_out], ids[held_out])
        lists = Lists.of(ids)
        self.scores_ = {name: mean_average_precision(found, labels, lists) for name, found in predictions.items()}
        winner = max(self.candidates, key=lambda name: self.scores_[name])
        self.chosen_: Learner = self._make(winner).fit(table, labels, ids)
        return self

    def _make(self, name: str) -> Learner:
        kind: Any = LEARNERS[name]
        # RRF and CombMNZ bring their own normalisation.
        return kind(normalise=self.normalise) if "normalise" in kind().parameters() else kind()

    def predict(self, X: ArrayLike, qid: ArrayLike | None = None) -> NDArray[np.float64]:
        return self.chosen_.predict(X, qid)

    def contributions(self, X: ArrayLike, qid: ArrayLike | None = None) -> NDArray[np.float64]:
        return self.chosen_.contributions(X, qid)
