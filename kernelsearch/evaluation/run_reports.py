"""All that `evaluate` says of run files: their measures, a comparison with a baseline, and tests of all pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelsearch.evaluation.comparison import Comparison, PairTest, Procedure, compare, compare_all
from kernelsearch.evaluation.measures import Evaluation, Measure, Qrels, Run, parse_measures
from kernelsearch.evaluation.r_loss import RLoss, add_r_loss
from kernelsearch.evaluation.run_files import RECALL_LEVELS, check_judged, evaluate_runs, read_runs, topic_messages
from kernelsearch.evaluation.tables import render


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
        """One line for each run and kind of topics that did not count, or counted as zero."""
        return topic_messages(self.evaluations, self.comparison, self.complete)

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
    check_judged(paths, evaluations, source)
    names, with_losses, comparison = [str(measure) for measure in measures], evaluations, None
    if baseline is not None:
        compared_with = list(evaluations)[baseline]
        comparison = compare(evaluations, compared_with, names, procedure)
        if losses:
            with_losses = add_r_loss(evaluations, compared_with, losses, qrels, runs, procedure, complete=complete)
    pairs = compare_all(evaluations, names, procedure) if all_pairs else []
    columns = [*names, *map(str, losses)]
    return RunReport(qrels, runs, complete, evaluations, with_losses, columns, comparison, pairs)
