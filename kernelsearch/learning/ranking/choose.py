"""Which learner? Cross-validation over the training queries decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.learning.ranking.cross_validation import (
    CompleteList,
    Precisions,
    Table,
    list_precisions,
    table_precisions,
    unfitted,
)
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.lists import Lists, check_training
from kernelsearch.learning.ranking.preference import preferred
from kernelsearch.learning.ranking.registry import LEARNERS


class Best(Learner):
    """Measures each candidate by cross-validation (MAP) and fits the preferred one on all rows.

    `candidates`, {name: unfitted learner}, are in the order of how much they can fit, least first; by default all LEARNERS.
    `inputs` names those that learn nothing; `caution` is that of `preferred`, which decides. A candidate that gives all
    documents of a query the same score, in every query, is passed over, and InputError is raised where no other is left. At
    most `queries` queries decide, and `folds` folds are made, both drawn with `random_state`: beyond a few hundred queries the
    choice takes long and changes little. `chosen_` is the fitted winner, `choice_` its name, `tried_` the AP per query of each
    candidate, `scores_` its MAP and `unrelated_scores_` that of queries to which no training query is related. `cases_` has the
    AP per query for both: with the features as they are, and unrelated.
    """

    name = "best"
    needs_fit = True
    choice_: str
    chosen_: Learner
    tried_: Precisions
    cases_: tuple[Precisions, Precisions]

    def __init__(
        self,
        *,
        candidates: Mapping[str, Learner] | None = None,
        folds: int = 5,
        queries: int = 300,
        caution: float = 1.0,
        inputs: Sequence[str] = (),
        random_state: int = 0,
    ) -> None:
        self.candidates, self.folds, self.queries, self.caution = candidates, folds, queries, caution
        self.inputs, self.random_state = inputs, random_state

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
        values, ids, labels = check_training(X, y, qid)
        table, candidates = Table(values, labels, ids), self._candidates()
        self.features_ = values.shape[1]
        queries = np.unique(ids)
        if min(self.folds, len(queries)) < 2:
            raise InputError("best: choosing among learners takes at least two training queries")
        if complete is None:
            deciding = table
            if len(queries) > self.queries:
                drawn = np.random.default_rng(self.random_state).choice(queries, self.queries, replace=False)
                deciding = table.select(np.isin(ids, drawn))
            folds = min(self.folds, len(np.unique(deciding.qid)))
            related = unrelated = table_precisions(candidates, deciding, folds, self.random_state)
        else:
            related, unrelated = list_precisions(candidates, table, complete, groups or {}, self.folds, self.random_state)
        self.cases_ = related, unrelated
        self.tried_ = {name: (related[name] + unrelated[name]) / 2 for name in related}
        self.scores_, self.unrelated_scores_ = (
            {name: float(values.mean()) for name, values in case.items()} for case in self.cases_
        )
        lists = Lists.of(ids)
        for name in preferred(self.tried_, self.inputs, self.caution):
            self.take(name, *table)
            scores = self.predict(values, ids)
            if any(np.ptp(scores[rows]) > 0 for rows in lists):
                return self
        raise InputError("best: every learner gives all documents of a query the same score; are the features constant?")

    def __sklearn_tags__(self) -> Any:
        """The learner's tags; scikit-learn's checks, whose tables are of one query, have nothing to choose by."""
        tags = super().__sklearn_tags__()
        tags._skip_test = True
        return tags

    def take(self, name: str, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> None:
        """Fits the candidate `name` on all rows and makes it the choice; the other parameters are those of `fit`."""
        self.choice_, self.chosen_ = name, unfitted(self._candidates()[name]).fit(X, y, qid)

    def _candidates(self) -> Mapping[str, Learner]:
        if self.candidates is None:
            return {name: kind() for name, kind in LEARNERS.items()}
        if not self.candidates:
            raise OptionError("best: no candidates to choose among")
        return self.candidates

    def predict(self, X: ArrayLike, qid: ArrayLike | None = None) -> NDArray[np.float64]:
        self.require_fit()
        return self.chosen_.predict(X, qid)

    def contributions(self, X: ArrayLike, qid: ArrayLike | None = None) -> NDArray[np.float64]:
        self.require_fit()
        return self.chosen_.contributions(X, qid)
