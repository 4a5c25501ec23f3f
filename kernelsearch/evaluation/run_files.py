"""Evaluating run files: reading them, evaluating all by the same judgements, and what to tell about topics that don't count."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from kernelsearch.core.errors import InputError
from kernelsearch.evaluation.comparison import Comparison
from kernelsearch.evaluation.measures import Evaluation, Measure, Qrels, Run, evaluate, run_labels
from kernelsearch.trec import read_run

#: trec_eval's eleven points of the precision-recall curve.
RECALL_LEVELS = tuple(f"IPrec@{level / 10:.1f}" for level in range(11))


def add_baseline(paths: Sequence[str], baseline: str | None) -> tuple[list[str], int | None]:
    """The paths of all runs and the position of the baseline, which comes first where it is not among them.

    Without a baseline the position is None.
    """
    if baseline is None:
        return list(paths), None
    for position, path in enumerate(paths):
        if os.path.abspath(path) == os.path.abspath(baseline):
            return list(paths), position
    return [baseline, *paths], 0


def read_runs(paths: Sequence[str]) -> dict[str, Run]:
    """The runs of the files `paths`, by a short label of each. Raises InputError for a file that is no run."""
    return {label: read_run(path) for path, label in zip(paths, run_labels(list(paths)), strict=True)}


def evaluate_runs(
    qrels: Qrels, runs: Mapping[str, Run], measures: Sequence[Measure], *, complete: bool = True
) -> dict[str, Evaluation]:
    """The evaluation of each of `runs`, by label; the other parameters are those of `measures.evaluate`."""
    return {label: evaluate(qrels, run, measures, complete=complete) for label, run in runs.items()}


def check_judged(paths: Sequence[str], evaluations: Mapping[str, Evaluation], source: str) -> None:
    """Raises InputError for the first of the run files `paths` without a judged topic.

    `evaluations` are those of the files, in their order; `source` names the judgements in the message.
    """
    for path, evaluation in zip(paths, evaluations.values(), strict=True):
        if not set(evaluation.topics) - set(evaluation.missing):
            raise InputError(f"none of its topics is judged in {source}", path=path)


def topic_messages(evaluations: Mapping[str, Evaluation], comparison: Comparison | None, complete: bool) -> list[str]:
    """One line for each run and kind of topics that did not count, or counted as zero.

    `evaluations` are by label; `complete` is that of `measures.evaluate`; with a `comparison`, a line also says where runs
    share fewer topics with the baseline.
    """
    messages = []
    for label, evaluation in evaluations.items():
        if evaluation.missing:
            how = "count as zero" if complete else "are left out"
            messages.append(f"{label}: {len(evaluation.missing)} judged topics are not in the run and {how}")
        if evaluation.unjudged:
            messages.append(f"{label}: {len(evaluation.unjudged)} topics of the run have no judgements and are left out")
    if comparison is not None:
        base = len(evaluations[comparison.baseline].topics)
        for label, topics in comparison.topics.items():
            if len(topics) < max(len(evaluations[label].topics), base):
                messages.append(f"{label}: compared on the {len(topics)} topics that it shares with the baseline")
    return messages
