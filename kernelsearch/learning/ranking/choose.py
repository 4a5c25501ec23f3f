"""Which learner? Inner cross-validation over queries decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.learning.folds import query_folds
from kernelsearch.learning.ranking.fusers import CombNonzero, CombSUM, Learner, TiedRRF
from kernelsearch.learning.ranking.lists import Lists, check_training, list_average_precision
from kernelsearch.learning.ranking.online import OASIS, OKWL, OnlineSimListMKL
from kernelsearch.learning.ranking.simlistmkl import ExactSimListMKL, SimListMKL
from kernelsearch.learning.ranking.triplets import SimTripletBoost, SimTripletNet, SimTripletSVM

#: Everything that fuses, by name.
LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner
    for learner in (
        *(SimListMKL, SimTripletNet, SimTripletBoost, SimTripletSVM, OKWL, OASIS, OnlineSimListMKL),
        *(CombSUM, CombNonzero, TiedRRF, ExactSimListMKL),
    )
}

#: What `best` chooses among, from the one that can fit least to the one that can fit most.
CANDIDATES = ("combsum", "net", "svm", "boost", "simlistmkl")

#: Standard errors by which a learner must be better than the best input to take its place: the gain of the best of several
#: learners in cross-validation is too high on average, that of an input is not. docs/reproductions/fusion.md shows what other
#: values give, and which one is chosen with a collection left out (`python -m tools.reproduce.fusion --parts conditions`).
INPUT_CAUTION = 1.5


class CompleteList(NamedTuple):
    """The whole ranking of a training query, to measure with: a table to learn from holds only a draw of its candidates.

    `qid` is the query's id in the table, `X` (candidates, features) holds normalised features, `relevant` (candidates,) marks
    relevant candidates, and `total` is the number of relevant documents, those that are no candidates included. `unrelated`
    (candidates, features) are the features as they would be if no other training query had a relevant document in common with
    this one, None where that changes nothing. `nearness` is the largest cosine of another training query, and that of one
    without a relevant document in common; None where queries are not compared.
    """

    qid: int
    X: NDArray[np.float32]
    relevant: NDArray[np.bool_]
    total: int
    unrelated: NDArray[np.float32] | None = None
    nearness: tuple[float, float] | None = None


def standard_error(differences: NDArray[np.float64]) -> float:
    """The standard error of the mean of `differences` per query; 0 for a single one."""
    return float(differences.std(ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else 0.0


def _gains(tried: NDArray[np.float64], other: NDArray[np.float64], caution: float) -> bool:
    """Whether AP per query is higher than that of another candidate by more than `caution` standard errors."""
    difference = tried - other
    return bool(difference.mean() > caution * standard_error(difference))


def _orders(scores: NDArray[np.float64], lists: Lists) -> bool:
    """Whether some list has two different scores."""
    return any(np.ptp(scores[rows]) > 0 for rows in lists)


def preferred(
    tried: Mapping[str, NDArray[np.float64]], inputs: Sequence[str], caution: float, input_caution: float = INPUT_CAUTION
) -> list[str]:
    """Candidates in the order of preference, from the cross-validated AP per query of each in `tried`.

    `inputs` and `caution` are those of `Best`; a learner needs `input_caution` standard errors to be preferred to an input.
    """
    by_mean = sorted(tried, key=lambda name: -tried[name].mean())  # equal means: in the order of the candidates
    known, learned = ([name for name in by_mean if (name in inputs) == is_input] for is_input in (True, False))
    close = [name for name in tried if name in learned and not _gains(tried[learned[0]], tried[name], caution)]
    if known and not (close and _gains(tried[close[0]], tried[known[0]], input_caution)):
        close = [known[0], *close]
    return list(dict.fromkeys((*close, *by_mean)))


class Best(Learner):
    """Tries each candidate in `folds` of the training queries (MAP), drawn by `random_state`, and fits the winner on all.

    `candidates` are names of LEARNERS, or unfitted learners by any name, in the order of how much they can fit, least first.
    The winner is the first candidate that is no more than `caution` standard errors (of the paired difference) below the
    best one: with few queries the highest mean alone is mostly luck. `inputs` names candidates that learn nothing: the best of
    them wins unless that winner is better by more than INPUT_CAUTION standard errors. A candidate that gives all documents of
    a query the same score, in every query, is passed over, and InputError is raised where no other is left. At most `queries`
    queries, drawn by chance, decide: beyond a few hundred the choice takes long and changes little. `chosen_` is the fitted
    winner, `choice_` its name, `tried_` the AP per query of each candidate, `scores_` its MAP and `unrelated_scores_` that of
    queries to which no training query is related. `cases_` has the AP per query for both: with the features as they are, and
    unrelated.
    """

    name = "best"
    needs_fit = True
    choice_: str
    chosen_: Learner
    tried_: dict[str, NDArray[np.float64]]
    cases_: tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]

    def __init__(
        self,
        *,
        candidates: Sequence[str] | Mapping[str, Learner] = CANDIDATES,
        folds: int = 5,
        queries: int = 300,
        caution: float = 1.0,
        inputs: Sequence[str] = (),
        normalise: str = "z",
        random_state: int = 0,
    ) -> None:
        unknown = [] if isinstance(candidates, Mapping) else [name for name in candidates if name not in LEARNERS]
        if unknown or not candidates:
            raise OptionError(f"best: {', '.join(unknown) or 'nothing'} is not one of {', '.join(LEARNERS)}")
        self.candidates, self.folds, self.queries, self.caution = candidates, folds, queries, caution
        self.inputs = inputs
        self.normalise, self.random_state = normalise, random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        complete: Sequence[CompleteList] | None = None,
        groups: Mapping[int, int] | None = None,
    ) -> Best:
        """Chooses and fits. With `complete`, AP is measured on those rankings, all relevant documents counted, which is what
        the learner will be judged by; without it on the rows of the table.

        Future queries may be related to training queries or be new: where complete rankings have features of both cases, the
        mean of both decides. `groups` are queries that stay in one fold, {qid: group}; by default each query is its own.
        """
        self.check_parameters()
        table, ids, labels = check_training(X, y, qid)
        self.features_ = table.shape[1]
        names = np.unique(ids)
        if min(self.folds, len(names)) < 2:
            raise InputError("best: choosing among learners takes at least two training queries")
        if len(names) > self.queries:
            deciding = np.isin(ids, np.random.default_rng(self.random_state).choice(names, self.queries, replace=False))
        else:
            deciding = np.ones(len(ids), dtype=bool)
        if complete is None:
            tried = self._tried(table[deciding], labels[deciding], ids[deciding])
            self.cases_ = tried, tried
        else:
            related, unrelated = self.cases_ = self._tried_on(complete, table, labels, ids, groups or {})
            tried = {name: (related[name] + unrelated[name]) / 2 for name in related}
        self.scores_, self.unrelated_scores_ = (
            {name: float(values.mean()) for name, values in case.items()} for case in self.cases_
        )
        self.tried_, lists = tried, Lists.of(ids)
        for name in preferred(tried, self.inputs, self.caution):
            self.take(name, table, labels, ids)
            if _orders(self.predict(table, ids), lists):
                return self
        raise InputError("best: every learner gives all documents of a query the same score; are the features constant?")

    def __sklearn_tags__(self) -> Any:
        """The learner's tags; scikit-learn's checks, whose tables are of one query, have nothing to choose by."""
        tags = super().__sklearn_tags__()
        tags._skip_test = True
        return tags

    def take(self, name: str, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> None:
        """Fits the candidate `name` on all rows and makes it the choice; the other parameters are those of `fit`."""
        self.choice_, self.chosen_ = name, self.make(name).fit(X, y, qid)

    def _tried_on(
        self,
        complete: Sequence[CompleteList],
        table: NDArray[np.float64],
        labels: NDArray[np.float64],
        ids: NDArray[Any],
        groups: Mapping[int, int],
    ) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
        """The cross-validated AP of each complete ranking, for each candidate: with the features as they are, and unrelated.

        Folds are those of the complete rankings' groups.
        """
        related, unrelated = ({name: np.zeros(len(complete)) for name in self.candidates} for _ in range(2))
        numbers = np.array([groups.get(entry.qid, entry.qid) for entry in complete])
        row_groups = np.array([groups.get(int(qid), int(qid)) for qid in ids]) if groups else ids
        for held_out in query_folds(numbers, min(self.folds, len(np.unique(numbers))), self.random_state):
            learned = ~np.isin(row_groups, numbers[held_out])
            for name in self.candidates:
                learner = self.make(name).fit(table[learned], labels[learned], ids[learned])

                def measure(entry: CompleteList, X: NDArray[np.float32], learner: Learner = learner) -> float:
                    return list_average_precision(learner.predict(X.astype(np.float64)), entry.relevant, entry.total)

                for place in np.flatnonzero(held_out).tolist():
                    entry = complete[place]
                    related[name][place] = unrelated[name][place] = measure(entry, entry.X)
                    if entry.unrelated is not None:
                        unrelated[name][place] = measure(entry, entry.unrelated)
        return related, unrelated

    def _tried(
        self, table: NDArray[np.float64], labels: NDArray[np.float64], ids: NDArray[Any]
    ) -> dict[str, NDArray[np.float64]]:
        """The cross-validated AP of each query that has something relevant, for each candidate."""
        predictions = {name: np.zeros(len(labels)) for name in self.candidates}
        for held_out in query_folds(ids, min(self.folds, len(np.unique(ids))), self.random_state):
            for name in self.candidates:
                learner = self.make(name).fit(table[~held_out], labels[~held_out], ids[~held_out])
                predictions[name][held_out] = learner.predict(table[held_out], ids[held_out])
        judged = [rows for rows in Lists.of(ids) if (labels[rows] > 0).any()]
        return {
            name: np.array([list_average_precision(scores[rows], labels[rows] > 0) for rows in judged])
            for name, scores in predictions.items()
        }

    def make(self, name: str) -> Learner:
        """The candidate of that name, unfitted."""
        if isinstance(self.candidates, Mapping):
            candidate = self.candidates[name]
            copy: Learner = type(candidate)(**candidate.get_params())
            return copy
        kind: Any = LEARNERS[name]
        # TiedRRF and CombNonzero bring their own normalisation.
        result: Learner = kind(normalise=self.normalise) if "normalise" in kind().get_params() else kind()
        return result

    def predict(self, X: ArrayLike, qid: ArrayLike | None = None) -> NDArray[np.float64]:
        self.require_fit()
        return self.chosen_.predict(X, qid)

    def contributions(self, X: ArrayLike, qid: ArrayLike | None = None) -> NDArray[np.float64]:
        self.require_fit()
        return self.chosen_.contributions(X, qid)
