"""The cross-validated AP per query of candidate learners, on the rows of a table or on whole rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.learning.folds import query_folds
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.lists import Lists, list_average_precision

Floats = NDArray[np.float64]
#: {candidate: AP per query}.
Precisions = dict[str, Floats]


class Table(NamedTuple):
    """Rows to learn from."""

    X: Floats  #: features, shape (rows, features)
    y: Floats  #: grades, shape (rows,)
    qid: NDArray[Any]  #: each row's query, shape (rows,)

    def select(self, rows: NDArray[np.bool_]) -> Table:
        """The marked `rows`, shape (rows,)."""
        return Table(self.X[rows], self.y[rows], self.qid[rows])


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

    def precision(self, learner: Learner, features: NDArray[np.float32]) -> float:
        """AP of the order that `learner` gives to the candidates by `features`, shape (candidates, features)."""
        return list_average_precision(learner.predict(features.astype(np.float64)), self.relevant, self.total)


def unfitted(learner: Learner) -> Learner:
    """A new learner with the same parameters."""
    copy: Learner = type(learner)(**learner.get_params())
    return copy


def table_precisions(candidates: Mapping[str, Learner], table: Table, folds: int, seed: int) -> Precisions:
    """AP of each query of `table` that has something relevant, by models fitted on the other folds.

    `candidates` are unfitted learners by name; `folds` is the number of folds, `seed` draws them.
    """
    scores = {name: np.zeros(len(table.y)) for name in candidates}
    for held_out in query_folds(table.qid, folds, seed):
        learned = table.select(~held_out)
        for name, candidate in candidates.items():
            scores[name][held_out] = unfitted(candidate).fit(*learned).predict(table.X[held_out], table.qid[held_out])
    judged = [rows for rows in Lists.of(table.qid) if (table.y[rows] > 0).any()]
    return {
        name: np.array([list_average_precision(values[rows], table.y[rows] > 0) for rows in judged])
        for name, values in scores.items()
    }


def list_precisions(
    candidates: Mapping[str, Learner],
    table: Table,
    complete: Sequence[CompleteList],
    groups: Mapping[int, int],
    folds: int,
    seed: int,
) -> tuple[Precisions, Precisions]:
    """AP of each complete ranking by models fitted on the other folds of `table`: with the features as they are, and unrelated.

    `candidates` are unfitted learners by name, `complete` the rankings; `groups`, {qid: group}, are queries that stay in one
    fold. `folds` is the largest number of folds, `seed` draws them.
    """
    related, unrelated = ({name: np.zeros(len(complete)) for name in candidates} for _ in range(2))
    numbers = np.array([groups.get(entry.qid, entry.qid) for entry in complete])
    row_groups = np.array([groups.get(int(qid), int(qid)) for qid in table.qid]) if groups else table.qid
    for held_out in query_folds(numbers, min(folds, len(np.unique(numbers))), seed):
        learned = table.select(~np.isin(row_groups, numbers[held_out]))
        for name, candidate in candidates.items():
            learner = unfitted(candidate).fit(*learned)
            for place in np.flatnonzero(held_out).tolist():
                entry = complete[place]
                related[name][place] = unrelated[name][place] = entry.precision(learner, entry.X)
                if entry.unrelated is not None:
                    unrelated[name][place] = entry.precision(learner, entry.unrelated)
    return related, unrelated
