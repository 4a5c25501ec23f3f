"""Learning to rank as the verb ltr does it: its options, and a model that is fitted, cross-validated and applied to files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernelsearch.cli.flags import require_training_or_model
from kernelsearch.core.artefacts import refuse_foreign
from kernelsearch.core.files import check_output
from kernelsearch.core.options import Settings, option
from kernelsearch.core.progress import Progress, silent
from kernelsearch.evaluation.measures import Evaluation, Measure
from kernelsearch.evaluation.tables import FORMATS
from kernelsearch.learning.ranking.letor import read_letor
from kernelsearch.rerankers.fusion.feature_files import (
    MEASURES,
    Floats,
    evaluate_scores,
    fit_table,
    held_out_scores,
    load_model,
    save_model,
)
from kernelsearch.rerankers.fusion.settings import LearnerSettings


@dataclass(frozen=True, kw_only=True)
class LtrSettings(Settings):
    """Options of ltr."""

    train: str | None = option(None, "LETOR (svmlight) file of features and grades to learn from")
    model: str | None = option(None, "folder of the model: written with --train, read without")
    predict: str | None = option(None, "LETOR file to rank and to measure")
    folds: int | None = option(None, "number of folds, by query, of a cross-validation on the file of --train", low=2)
    output: str | None = option(
        None, "file to write scores to, one per row of --predict; without --predict the held-out scores of --folds"
    )
    measures: tuple[str, ...] = option(MEASURES, "measures, by their names in ir_measures or trec_eval")
    per_query: bool = option(False, "print the values of every query as well")
    format: str = option("text", "format of the measures", choices=FORMATS)


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


def learn_to_rank(
    settings: LtrSettings, learning: LearnerSettings, measures: Sequence[Measure], progress: Progress = silent
) -> RankedFiles:
    """Fits or loads the model, cross-validates it and ranks the rows of `predict`, as far as the options ask for it.

    `settings` are the options of ltr that `check_ltr` has passed, `learning` those of the learner, `measures` what is
    measured; cross-validation reports its folds to `progress`. Raises InputError for files that can't
    be read or learned from, and where `model` names a folder with other content.
    """
    evaluations: dict[str, Evaluation] = {}
    learner = scores = saved = None
    if settings.train is not None:
        if settings.model:
            refuse_foreign(settings.model)  # before the work
        table = read_letor(settings.train)
        test = read_letor(settings.predict, table.X.shape[1]) if settings.predict else None  # before the work
        if settings.folds:
            scores = held_out_scores(table, learning, settings.folds, progress)
            evaluations[f"{settings.train}, held out"] = evaluate_scores(table, scores, measures, settings.train)
        if settings.model or settings.predict:
            learner = fit_table(table, learning)
        if settings.model and learner is not None:
            saved = save_model(settings.model, learner, table), len(np.unique(table.qid))
    else:
        learner = load_model(settings.model or "")
        test = read_letor(settings.predict or "", learner.features_)
    if test is not None and learner is not None:
        scores = learner.predict(test.X, test.qid)
        evaluations[settings.predict or ""] = evaluate_scores(test, scores, measures, settings.predict or "")
    return RankedFiles(evaluations, scores, saved)
