"""All that `evaluate` says of run files: their measures, a comparison with a baseline, and tests of all pairs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.core.errors import InputError, OptionError, short
from kernelsearch.evaluation.comparative import RLoss, add_comparative
from kernelsearch.evaluation.comparison import Comparison, PairTest, Procedure, compare, compare_all
from kernelsearch.evaluation.measures import Evaluation, Measure, Qrels, Run, evaluate_runs, parse_measures
from kernelsearch.evaluation.tables import render
from kernelsearch.trec import read_run

#: trec_eval's eleven points of the precision-recall curve.
RECALL_LEVELS = tuple(f"IPrec@{level / 10:.1f}" for level in range(11))


@dataclass(frozen=True)
class RunReport:
    """The evaluation of runs by the same judgements.

    `runs` are by label, `evaluations` have the values of the measures, `with_losses` those of R-Loss as well. `comparison` is
    that with a baseline, None without one; `pairs` are the tests of all pairs of runs, where they were asked for. With
    `complete`, judged topics that a run lacks count as zero.
    """

    qrels: Qrels
    runs: Mapping[str, Run]
    complete: bool
    evaluations: dict[str, Evaluation]
    with_losses: dict[str, Evaluation]
    columns: list[str]
    comparison: Comparison | None
    pairs: list[PairTest]

    def render(self, kind: str, per_query: bool = False) -> str:
        """The tables in the format `kind`, one of `tables.FORMATS`; `per_query` adds the values of every topic."""
        return render(kind, self.with_losses, self.columns, self.comparison, per_query, self.pairs)

    def messages(self) -> list[str]:
        """One line for each run and kind of topics that did not count, counted as zero or are not shared with the baseline."""
        messages = []
        for label, evaluation in self.evaluations.items():
            if evaluation.missing:
                how = "count as zero" if self.complete else "are left out"
                messages.append(f"{label}: {len(evaluation.missing)} judged topics are not in the run and {how}")
            if evaluation.unjudged:
                messages.append(f"{label}: {len(evaluation.unjudged)} topics of the run have no judgements and are left out")
        if self.comparison is not None:
            base = len(self.evaluations[self.comparison.baseline].topics)
            for label, topics in self.comparison.topics.items():
                if len(topics) < max(len(self.evaluations[label].topics), base):
                    messages.append(f"{label}: compared on the {len(topics)} topics that it shares with the baseline")
        return messages

    def curves(self) -> dict[str, Evaluation]:
        """The interpolated precisions of each run at trec_eval's eleven levels of recall."""
        return evaluate_runs(self.qrels, self.runs, parse_measures(RECALL_LEVELS), complete=self.complete)


def report_on_runs(
    paths: Sequence[str],
    qrels: Qrels,
    measures: Sequence[Measure],
    *,
    source: str,
    baseline: int | None = None,
    losses: Sequence[RLoss] = (),
    all_pairs: bool = False,
    procedure: Procedure | None = None,
    complete: bool = True,
) -> RunReport:
    """Reads the run files `paths`, evaluates them by `qrels` and compares them.

    Parameters
    ----------
    measures : what is measured
    source : what messages call the judgements
    baseline : the position in `paths` of the run to compare the others with
    losses : R-Loss measures to add, which need a baseline
    all_pairs : test every pair of runs
    procedure : how runs are tested and compared
    complete : count judged topics that a run lacks as zero

    Raises InputError for a file that is no run, or of which no topic is judged.
    """
    procedure = procedure or Procedure()
    runs = read_runs(paths)
    evaluations = evaluate_runs(qrels, runs, measures, complete=complete)
    for path, evaluation in zip(paths, evaluations.values(), strict=True):
        if not set(evaluation.topics) - set(evaluation.missing):
            raise InputError(f"none of its topics is judged in {source}", path=path)
    names, with_losses, comparison = [str(measure) for measure in measures], evaluations, None
    if baseline is not None:
        compared_with = list(evaluations)[baseline]
        comparison = compare(evaluations, compared_with, names, procedure)
        if losses:
            with_losses = add_comparative(evaluations, compared_with, losses, qrels, runs, procedure, complete=complete)
    pairs = compare_all(evaluations, names, procedure) if all_pairs else []
    columns = [*names, *map(str, losses)]
    return RunReport(qrels, runs, complete, evaluations, with_losses, columns, comparison, pairs)


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
    return {label: read_run(path) for path, label in zip(paths, _labels(list(paths)), strict=True)}


def _labels(paths: list[str]) -> list[str]:
    """Short labels of run files: file names where they differ, else whole paths. Raises OptionError for a path given twice."""
    names = [Path(path).name.removesuffix(".gz").removesuffix(".txt") for path in paths]
    labels = names if len(set(names)) == len(names) else list(paths)
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise OptionError(f"{short(twice)}: this run is given twice")
    return labels
