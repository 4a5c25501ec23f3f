"""Learning to rank on LETOR files: a model from a file, held-out scores of its queries, a saved model on another file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.execution import Engine
from kernelsearch.core.progress import Progress, silent
from kernelsearch.evaluation.measures import Evaluation, Measure, evaluate
from kernelsearch.learning.folds import query_folds
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.letor import LetorTable
from kernelsearch.learning.ranking.lists import Lists
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion.learners import fit_learner, log_choice, make_learner
from kernelsearch.rerankers.fusion.settings import LearnerSettings

Floats = NDArray[np.float64]

#: Measures of feature files, unless others are asked for.
MEASURES = ("AP", "nDCG@10", "P@1", "P@10")


def fit_table(table: LetorTable, settings: LearnerSettings, *, folds: int = 5, engine: Engine | None = None) -> Learner:
    """The learner that `settings` describe, fitted on `table`; `folds` are those by which `best` chooses.

    `engine` runs the training of learners that can use its workers; None: this process. Raises TableError for a table that
    nothing can be learned from.
    """
    learner = make_learner(
        settings.learner,
        normalise=settings.normalise,
        folds=folds,
        random_state=settings.random_state,
        parameters=settings.parameters(),
        owner=settings.owner,
    )
    fit_learner(learner, table.X, table.y, table.qid, engine)
    log_choice(learner, settings.owner or "ltr", f"{len(np.unique(table.qid))} queries")
    return learner


def save_model(path: str | Path, learner: Learner, table: LetorTable) -> Path:
    """Saves a learner that was fitted on `table` as the artefact `path`, and returns the folder."""
    recipe = [f"column:{number}" for number in range(1, table.X.shape[1] + 1)]
    return models.save(path, learner, recipe, {"rows": len(table.y), "queries": len(np.unique(table.qid))})


def load_model(path: str | Path) -> Learner:
    """The learner of the model `path`, learned from a feature file; raises OptionError for one that was learned on an index."""
    model = models.load(path)
    if "normalise" in model.notes:
        raise OptionError(
            f"{path} was learned on an index, whose features no file has; use it with search", option=Flag("model")
        )
    return model.learner


def held_out_scores(table: LetorTable, settings: LearnerSettings, folds: int, progress: Progress = silent) -> Floats:
    """Scores of all rows of `table`, shape (rows,), each by a learner that was fitted on the other folds of the queries.

    `settings` are those of the learners, `folds` is the number of folds, of which `progress` is told.
    """
    scores = np.zeros(len(table.y))
    with progress("folds", total=folds, unit="fold") as bar:
        for held_out in query_folds(table.qid, folds, settings.random_state):
            learner = fit_table(LetorTable(table.X[~held_out], table.y[~held_out], table.qid[~held_out]), settings)
            scores[held_out] = learner.predict(table.X[held_out], table.qid[held_out])
            bar.update()
    return scores


def evaluate_scores(table: LetorTable, scores: Floats, measures: Sequence[Measure], path: str | Path) -> Evaluation:
    """Measures of the queries of `table` that have something relevant, by `scores` (rows,); `path` names the file in messages.

    Of rows with equal scores those with the lower grade come first, whatever their order in the file. Raises InputError for
    grades that aren't whole numbers, which measures can't take.
    """
    if (table.y != np.rint(table.y)).any():
        row = int(np.flatnonzero(table.y != np.rint(table.y))[0]) + 1
        raise InputError(f"row {row}: grade {table.y[row - 1]:g} is not a whole number, so nothing can be measured", path=path)
    lists, qrels, run = Lists.of(table.qid), {}, {}
    for name, rows in zip(lists.names.tolist(), lists, strict=True):
        grades = table.y[rows]
        if (grades > 0).any():
            order = rows[np.lexsort((grades, -scores[rows]))]
            qrels[str(name)] = {str(row): int(table.y[row]) for row in order.tolist()}
            run[str(name)] = [(str(row), float(len(order) - place)) for place, row in enumerate(order.tolist())]
    return evaluate(qrels, run, measures)
