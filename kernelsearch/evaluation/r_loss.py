"""R-Loss as a measure of runs that are compared with a baseline: `R-Loss@1000` beside the measures of ir_measures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernelsearch.core.errors import Flag, OptionError, quote
from kernelsearch.evaluation.comparison import Procedure, compared_topics
from kernelsearch.evaluation.measures import Evaluation, Qrels, Run, parse_measures
from kernelsearch.evaluation.risk import changes
from kernelsearch.evaluation.run_files import evaluate_runs


@dataclass(frozen=True)
class RLoss:
    """The number of relevant documents among the first `cutoff` that topics lose whose AP gets worse; `risk.r_loss`."""

    cutoff: int

    def __str__(self) -> str:
        return f"R-Loss@{self.cutoff}"

    def aggregator(self) -> Any:
        """What makes one value of those of the topics: their sum."""
        from ir_measures.measures import SumAgg

        return SumAgg()  # type: ignore[no-untyped-call]


def split_r_loss(names: Iterable[str]) -> tuple[list[str], list[RLoss]]:
    """Those of `names` that are not R-Loss, and the measures of R-Loss; raises OptionError for R-Loss without a cutoff."""
    others: list[str] = []
    losses: list[RLoss] = []
    for name in names:
        if not re.match(r"r-?loss", name, re.I):
            others.append(name)
            continue
        match = re.fullmatch(r"r-?loss@([1-9]\d{0,8})", name, re.I)
        if match is None:
            raise OptionError(f"{quote(name)} is not R-Loss with a cutoff, such as R-Loss@1000", option=Flag("measures"))
        measure = RLoss(int(match[1]))
        if measure not in losses:
            losses.append(measure)
    return others, losses


def add_r_loss(
    evaluations: Mapping[str, Evaluation],
    baseline: str,
    measures: Iterable[RLoss],
    qrels: Qrels,
    runs: Mapping[str, Run],
    procedure: Procedure,
    *,
    complete: bool = True,
) -> dict[str, Evaluation]:
    """The evaluations with the values of R-Loss per topic: 0 where AP doesn't get worse, and where runs aren't compared.

    `evaluations` and `runs` are by label, `baseline` is a label, `measures` are those of `split_r_loss`; `procedure`
    chooses the topics; `qrels` and `complete` are those of `measures.evaluate`.
    """
    made = dict(evaluations)
    for measure in measures:
        precision = f"P@{measure.cutoff}"
        measured = evaluate_runs(qrels, runs, parse_measures(["AP", precision]), complete=complete)
        base = measured[baseline]
        for label, evaluation in measured.items():
            shared = compared_topics([base, evaluation], procedure)
            worse = changes(base.array("AP", shared), evaluation.array("AP", shared)) < 0
            # P@k is the number of relevant documents over k, also for shorter lists.
            lost = (base.array(precision, shared) - evaluation.array(precision, shared)) * measure.cutoff
            by_topic = dict.fromkeys(evaluation.topics, 0.0)
            by_topic.update(zip(shared, (lost.round() * worse).tolist(), strict=True))
            made[label] = replace(
                made[label],
                values={**made[label].values, str(measure): by_topic},
                measures={**made[label].measures, str(measure): measure},
            )
    return made
