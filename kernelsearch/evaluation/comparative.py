"""Measures of a run against a baseline, beside those of ir_measures. A measure is one class, listed in MEASURES."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, OptionError, quote
from kernelsearch.evaluation.comparison import Procedure, compared_topics
from kernelsearch.evaluation.measures import Evaluation, Qrels, Run, evaluate_runs, parse_measures
from kernelsearch.evaluation.risk import r_loss

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RLoss:
    """The number of relevant documents among the first `cutoff` that topics lose whose AP gets worse; `risk.r_loss`."""

    NAME: ClassVar[str] = "R-Loss"
    PATTERN: ClassVar[str] = "r-?loss"  #: of the name, in any case

    cutoff: int

    def __str__(self) -> str:
        return f"{self.NAME}@{self.cutoff}"

    @property
    def needs(self) -> tuple[str, ...]:
        """The measures of both runs that it is computed from."""
        return "AP", f"P@{self.cutoff}"

    def by_topic(self, before: tuple[Floats, ...], after: tuple[Floats, ...]) -> Floats:
        """Its values (topics,).

        `before` and `after` are the values that it `needs` of the baseline and of the run, one array (topics,) per measure.
        """
        # P@k is the number of relevant documents over k, also for shorter lists.
        return r_loss(before[0], after[0], *((precision * self.cutoff).round() for precision in (before[1], after[1])))

    def aggregator(self) -> Any:
        """What makes one value of those of the topics: their sum."""
        from ir_measures.measures import SumAgg

        return SumAgg()  # type: ignore[no-untyped-call]


MEASURES = (RLoss,)


def split_comparative(names: Iterable[str]) -> tuple[list[str], list[RLoss]]:
    """Those of `names` that a run alone has, and the measures against a baseline; OptionError for one without its cutoff."""
    others: list[str] = []
    found: list[RLoss] = []
    for name in names:
        kind = next((kind for kind in MEASURES if re.match(kind.PATTERN, name, re.I)), None)
        if kind is None:
            others.append(name)
            continue
        match = re.fullmatch(rf"{kind.PATTERN}@([1-9]\d{{0,8}})", name, re.I)
        if match is None:
            raise OptionError(f"{quote(name)} is not {kind.NAME} with a cutoff, such as {kind(1000)}", option=Flag("measures"))
        if (measure := kind(int(match[1]))) not in found:
            found.append(measure)
    return others, found


def add_comparative(
    evaluations: Mapping[str, Evaluation],
    baseline: str,
    measures: Iterable[RLoss],
    qrels: Qrels,
    runs: Mapping[str, Run],
    procedure: Procedure,
    *,
    complete: bool = True,
) -> dict[str, Evaluation]:
    """The evaluations with the values of `measures`, those of `split_comparative`, per topic: 0 where runs aren't compared.

    `evaluations` and `runs` are by label, `baseline` is a label; `procedure` chooses the topics; `qrels` and `complete` are
    those of `measures.evaluate`.
    """
    made = dict(evaluations)
    for measure in measures:
        measured = evaluate_runs(qrels, runs, parse_measures(measure.needs), complete=complete)
        for label, evaluation in measured.items():
            shared = compared_topics([measured[baseline], evaluation], procedure)
            before, after = (
                tuple(which.array(name, shared) for name in measure.needs) for which in (measured[baseline], evaluation)
            )
            by_topic = dict.fromkeys(evaluation.topics, 0.0)
            by_topic.update(zip(shared, measure.by_topic(before, after).tolist(), strict=True))
            made[label] = replace(
                made[label],
                values={**made[label].values, str(measure): by_topic},
                measures={**made[label].measures, str(measure): measure},
            )
    return made
