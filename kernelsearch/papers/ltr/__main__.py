"""`python -m kernelsearch.ltr`: learning to rank on LETOR files: fits a model, cross-validates, and applies a saved one."""

from __future__ import annotations

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.core.files import write_file
from kernelsearch.evaluation.measures import Evaluation, parse_measures
from kernelsearch.evaluation.tables import render
from kernelsearch.papers.ltr.files import Floats, LtrSettings, check_ltr, learn_to_rank

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
    settings = read_flags(LtrSettings, parser.parse_args(argv))
    check_ltr(parser, settings)
    measures = parse_measures(settings.measures)
    outcome = learn_to_rank(settings, measures, console.progress)
    if outcome.saved is not None:
        folder, queries = outcome.saved
        console.notice(f"{folder}: fitted ({queries} training queries)")
    if settings.output and outcome.scores is not None:
        _write_scores(settings.output, outcome.scores)
    _show(outcome.evaluations, settings, [str(measure) for measure in measures])


def _write_scores(path: str, scores: Floats) -> None:
    with write_file(path) as stream:
        stream.writelines(f"{score:.9g}\n" for score in scores.tolist())
    console.notice(f"{path}: {len(scores)} scores")


def _show(evaluations: dict[str, Evaluation], settings: LtrSettings, names: list[str]) -> None:
    """Prints the measures of files that have relevant rows; of the others it says that there is nothing to measure."""
    for label, evaluation in evaluations.items():
        if not evaluation.topics:
            console.notice(f"{label}: no query has a relevant row, so nothing is measured")
    measured = {label: evaluation for label, evaluation in evaluations.items() if evaluation.topics}
    if measured:
        console.show(render(settings.format, measured, names, None, settings.per_query), end="")


if __name__ == "__main__":
    console.run(main)
