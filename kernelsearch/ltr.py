"""`python -m kernelsearch.ltr`: learning to rank on LETOR files: fits a model, cross-validates, and applies a saved one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.core.artefacts import refuse_foreign
from kernelsearch.core.files import check_output, write_file
from kernelsearch.core.options import Settings, option
from kernelsearch.evaluation.measures import Evaluation, parse_measures
from kernelsearch.evaluation.tables import FORMATS, render
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


EXAMPLES = """examples:
  python -m kernelsearch.ltr --train train.txt --folds 5 --learner svm --signed
  python -m kernelsearch.ltr --train train.txt --learner simlistmkl --trees 200 --leaves 4 --model models/mq2008
  python -m kernelsearch.ltr --model models/mq2008 --predict test.txt --per-query --output scores.txt"""


def main(argv: list[str]) -> None:
    """Parses the flags, then fits, cross-validates and applies the model, as far as they ask for it."""
    parser = console.Parser(
        prog="python -m kernelsearch.ltr", description="Learns to rank from files of features (LETOR).", epilog=EXAMPLES
    )
    add_flags(parser, LtrSettings.options)
    add_flags(parser, LearnerSettings.options, title="the learner")
    arguments = parser.parse_args(argv)
    flags, settings = read_flags(LtrSettings, arguments), read_flags(LearnerSettings, arguments)
    if flags.train is None and (flags.model is None or flags.predict is None):
        parser.error("--train, or --model and --predict, are needed")
    if flags.train is not None and not (flags.model or flags.predict or flags.folds):
        parser.error("--train: name what is asked for: --folds, --model or --predict")
    if flags.train is None and flags.folds:
        parser.error("--folds: needs --train")
    if flags.output and not (flags.predict or flags.folds):
        parser.error("--output: needs --predict or --folds")
    check_output("--output", flags.output, (flags.train, flags.predict))
    measures = parse_measures(flags.measures)
    evaluations: dict[str, Evaluation] = {}
    learner = scores = None
    if flags.train is not None:
        if flags.model:
            refuse_foreign(flags.model)  # before the work
        table = read_letor(flags.train)
        test = read_letor(flags.predict, table.X.shape[1]) if flags.predict else None  # before the work
        if flags.folds:
            scores = held_out_scores(table, settings, flags.folds, console.progress)
            evaluations[f"{flags.train}, held out"] = evaluate_scores(table, scores, measures, flags.train)
        if flags.model or flags.predict:
            learner = fit_table(table, settings)
        if flags.model and learner is not None:
            console.notice(f"{save_model(flags.model, learner, table)}: fitted ({len(np.unique(table.qid))} training queries)")
    else:
        learner = load_model(flags.model or "")
        test = read_letor(flags.predict or "", learner.features_)
    if test is not None and learner is not None:
        scores = learner.predict(test.X, test.qid)
        evaluations[flags.predict or ""] = evaluate_scores(test, scores, measures, flags.predict or "")
    if flags.output and scores is not None:
        _write_scores(flags.output, scores)
    _show(evaluations, flags, [str(measure) for measure in measures])


def _write_scores(path: str, scores: Floats) -> None:
    with write_file(path) as stream:
        stream.writelines(f"{score:.9g}\n" for score in scores.tolist())
    console.notice(f"{path}: {len(scores)} scores")


def _show(evaluations: dict[str, Evaluation], flags: LtrSettings, names: list[str]) -> None:
    """Prints the measures of files that have relevant rows; of the others it says that there is nothing to measure."""
    for label, evaluation in evaluations.items():
        if not evaluation.topics:
            console.notice(f"{label}: no query has a relevant row, so nothing is measured")
    measured = {label: evaluation for label, evaluation in evaluations.items() if evaluation.topics}
    if measured:
        console.show(render(flags.format, measured, names, None, flags.per_query), end="")


if __name__ == "__main__":
    console.run(main)
