"""Learning to rank as the verb ltr does it: its options, and a model that is fitted, cross-validated and applied to files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.cli.flags import require_training_or_model
from kernelsearch.core.artefacts import refuse_foreign
from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.files import check_output
from kernelsearch.core.options import Settings, option
from kernelsearch.core.progress import Progress, silent
from kernelsearch.evaluation.measures import Evaluation, Measure, evaluate
from kernelsearch.evaluation.tables import FORMATS
from kernelsearch.learning.folds import query_folds
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.lists import Lists
from kernelsearch.learning.ranking.registry import learner_class
from kernelsearch.papers.ltr.letor import LetorTable, read_letor
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion.learners import fit_learner, log_choice, make_learner

Floats = NDArray[np.float64]

#: What `best` chooses among, from the one that can fit least to the one that can fit most.
CANDIDATES = ("combsum", "net", "svm", "boost", "simlistmkl")


@dataclass(frozen=True, kw_only=True)
class LtrSettings(Settings):
    """Options of ltr; a parameter of learners that is None stays at the learner's own default."""

    train: str | None = option(None, "LETOR (svmlight) file of features and grades to learn from")
    model: str | None = option(None, "folder of the model: written with --train, read without")
    predict: str | None = option(None, "LETOR file to rank and to measure")
    folds: int | None = option(None, "number of folds, by query, of a cross-validation on the file of --train", low=2)
    output: str | None = option(
        None, "file to write scores to, one per row of --predict; without --predict the held-out scores of --folds"
    )
    measures: tuple[str, ...] = option(("AP", "nDCG@10", "P@1", "P@10"), "measures, by their names in ir_measures or trec_eval")
    per_query: bool = option(False, "print the values of every query as well")
    format: str = option("text", "format of the measures", choices=FORMATS)
    learner: str = option(
        "best",
        "learner: simlistmkl, net, boost, svm, okwl, oasis, online, combsum, nonzero or tied-rrf; best: one of "
        f"{', '.join(CANDIDATES)}, chosen by cross-validation over the training queries",
    )
    normalise: str = option("z", "normalisation of features within a query", choices=("z", "minmax", "none"))
    trees: int | None = option(None, "number of trees of simlistmkl; auto: 100", low=1, high=10_000)
    leaves: int | None = option(None, "largest number of leaves of a tree of simlistmkl; auto: 8", low=2, high=10_000)
    learning_rate: float | None = option(
        None,
        "learning rate of simlistmkl, boost, okwl and online; auto: 0.05, 0.1, 0.001 and 0.001",
        low=1e-6,
        high=1,
    )
    C: float | None = option(
        None,
        "weight of the hinge loss of svm against its regularisation, largest step of oasis; auto: 10 and 0.001",
        low=1e-9,
    )
    signed: bool = option(False, "allow negative weights in svm, net, boost, okwl, oasis and online")
    random_state: int = option(0, "seed for random draws, the folds and the learner", low=0)

    def make_learner(self) -> Learner:
        """The unfitted learner; raises OptionError for a parameter that was given and that it does not have."""
        given = {name: getattr(self, name) for name in ("trees", "leaves", "learning_rate", "C")}
        parameters: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if self.signed:
            parameters["signed"] = True
        kinds = [learner_class(name)() for name in (CANDIDATES if self.learner == "best" else (self.learner,))]
        for name in parameters:
            if not any(name in kind.get_params() for kind in kinds):
                raise OptionError(f"learner {self.learner} has no such parameter", option=Flag(name.replace("_", "-")))
        values = {"normalise": self.normalise, "random_state": self.random_state, **parameters}
        return make_learner(self.learner, candidates=CANDIDATES, **values)


class RankedFiles(NamedTuple):
    """The outcome of ltr.

    `evaluations` are measures by the label of a file, `scores` (rows,) are those to write, of `predict` or held out, `saved` is
    the folder of the fitted model with the number of its training queries.
    """

    evaluations: dict[str, Evaluation]
    scores: Floats | None
    saved: tuple[Path, int] | None


def check_ltr(parser: argparse.ArgumentParser, settings: LtrSettings) -> None:
    """Ends the command through `parser` where the options `settings` don't belong together or ask for nothing.

    Raises InputError for an output file that is also read.
    """
    require_training_or_model(parser, settings.train, settings.model, settings.predict, settings.folds)
    if settings.train is None and settings.folds:
        parser.error("--folds: needs --train")
    if settings.output and not (settings.predict or settings.folds):
        parser.error("--output: needs --predict or --folds")
    check_output("output", settings.output, (settings.train, settings.predict))


def learn_to_rank(settings: LtrSettings, measures: Sequence[Measure], progress: Progress = silent) -> RankedFiles:
    """Fits or loads the model, cross-validates it and ranks the rows of `predict`, as far as the options ask for it.

    `settings` are the options of ltr that `check_ltr` has passed, `measures` what is measured; cross-validation reports its
    folds to `progress`. Raises InputError for files that can't be read or learned from, and where `model` names a folder with
    other content.
    """
    evaluations: dict[str, Evaluation] = {}
    learner = scores = saved = None
    if settings.train is not None:
        if settings.model:
            refuse_foreign(settings.model)  # before the work
        settings.make_learner()
        table = read_letor(settings.train)
        test = read_letor(settings.predict, table.X.shape[1]) if settings.predict else None  # before the work
        if settings.folds:
            scores = held_out_scores(table, settings, progress)
            evaluations[f"{settings.train}, held out"] = evaluate_scores(table, scores, measures, settings.train)
        if settings.model or settings.predict:
            learner = fit_table(table, settings)
        if settings.model and learner is not None:
            saved = save_model(settings.model, learner, table), len(np.unique(table.qid))
    else:
        learner = load_model(settings.model or "")
        test = read_letor(settings.predict or "", learner.features_)
    if test is not None and learner is not None:
        scores = learner.predict(test.X, test.qid)
        evaluations[settings.predict or ""] = evaluate_scores(test, scores, measures, settings.predict or "")
    return RankedFiles(evaluations, scores, saved)


def fit_table(table: LetorTable, settings: LtrSettings) -> Learner:
    """The learner that `settings` describe, fitted on `table`; raises TableError where nothing can be learned from it."""
    learner = fit_learner(settings.make_learner(), *table)
    log_choice(learner, "ltr", f"{len(np.unique(table.qid))} queries")
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


def held_out_scores(table: LetorTable, settings: LtrSettings, progress: Progress = silent) -> Floats:
    """Scores of all rows of `table`, shape (rows,), each by a learner that was fitted on the other folds of the queries.

    `settings` are those of the learners and the folds, of which `progress` is told.
    """
    scores = np.zeros(len(table.y))
    with progress("folds", total=settings.folds, unit="fold") as bar:
        for held_out in query_folds(table.qid, settings.folds or 0, settings.random_state):
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
