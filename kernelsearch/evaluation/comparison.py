"""Several runs against a baseline: differences, tests, intervals, wins and losses, risk, all in one record."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from kernelsearch.core.options import Settings, option
from kernelsearch.evaluation import risk
from kernelsearch.evaluation.measures import Evaluation
from kernelsearch.evaluation.significance import CORRECTIONS, TESTS, bootstrap_interval, corrected, p_value


@dataclass(frozen=True, kw_only=True)
class Procedure(Settings):
    """How runs are compared with a baseline."""

    all_judged: bool = option(
        False,
        "compare over all judged topics (trec_eval -c), zero where a run lacks one, instead of those that both runs have",
    )
    test: str = option("t", "paired significance test over topics", choices=TESTS)
    correction: str = option(
        "holm", "correction for multiple tests, over all runs compared by the same measure", choices=CORRECTIONS
    )
    level: float = option(0.05, "significance level: differences with a corrected p-value below it are marked", low=0, high=1)
    confidence: float = option(0.95, "confidence level of the bootstrap intervals", low=0.5, high=0.9999)
    rounds: int = option(10_000, "rounds of the bootstrap and of the randomisation test", low=100)
    seed: int = option(0, "seed for the bootstrap and the randomisation test", low=0)
    aversion: float = option(
        1.0, "risk aversion alpha of URisk, TRisk and GeoRisk: losses count 1 + alpha times", low=0, name="risk-alpha"
    )


@dataclass(frozen=True)
class Difference:
    """One run against the baseline by one measure, over the topics that both have, or all with `Procedure.all_judged`."""

    run: str
    measure: str
    topics: int
    baseline_mean: float
    mean: float
    difference: float
    relative: float | None  #: difference over the baseline's mean; None where that is zero
    interval: tuple[float, float]  #: bootstrap interval of the difference
    p: float | None
    p_corrected: float | None
    significant: bool
    wins: int
    ties: int
    losses: int
    lost: float  #: what the losses lose in sum
    urisk: float
    trisk: float
    georisk: float | None  #: None where a measure can be negative


@dataclass(frozen=True)
class Comparison:
    """All differences; `topics[run]` are the topics on which the run and the baseline are compared."""

    baseline: str
    procedure: Procedure
    differences: list[Difference]
    topics: dict[str, list[str]]

    def of(self, run: str, measure: str) -> Difference:
        """The difference of a run from the baseline by a measure; KeyError where they are not compared."""
        difference = self.get(run, measure)
        if difference is None:
            raise KeyError((run, measure))
        return difference

    def get(self, run: str, measure: str) -> Difference | None:
        """As `of` with its `run` and `measure`, but None for what isn't compared.

        That is the baseline, and R-Loss, which is a comparison itself.
        """
        return next((entry for entry in self.differences if (entry.run, entry.measure) == (run, measure)), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "baseline": self.baseline,
            "procedure": asdict(self.procedure),
            "differences": [asdict(difference) for difference in self.differences],
        }


def compare(
    evaluations: Mapping[str, Evaluation], baseline: str, measures: Sequence[str], procedure: Procedure | None = None
) -> Comparison:
    """Compares every run with the baseline. The tests by one measure are one family, corrected together.

    `evaluations` are those of all runs by label, that of the `baseline` among them; `measures` are names that all of them have.
    `procedure` says how differences are tested (default: `Procedure()`). Raises OptionError for an unknown test or correction.
    """
    how = procedure or Procedure()
    base = evaluations[baseline]
    runs = [label for label in evaluations if label != baseline]
    topics = {label: compared_topics([base, evaluations[label]], how) for label in runs}
    differences: list[Difference] = []
    for measure in measures:
        arrays = {
            label: (base.array(measure, topics[label]), evaluations[label].array(measure, topics[label])) for label in runs
        }
        gains = {label: risk.changes(*arrays[label]) for label in runs}
        raw: list[float] = []
        if how.test != "none":
            raw = [p_value(how.test, gains[label], rounds=how.rounds, seed=how.seed) for label in runs]
        adjusted = corrected(raw, how.correction)
        shared = _georisks(evaluations, measure, how)
        for place, label in enumerate(runs):
            before, after = arrays[label]
            wins, losses = risk.helped(before, after), risk.hurt(before, after)
            mean = float(before.mean()) if len(before) else 0.0
            gain = float(gains[label].mean()) if len(before) else 0.0
            differences.append(
                Difference(
                    run=label,
                    measure=measure,
                    topics=len(before),
                    baseline_mean=mean,
                    mean=float(after.mean()) if len(after) else 0.0,
                    difference=gain,
                    relative=gain / mean if mean > 0 else None,
                    interval=bootstrap_interval(gains[label], confidence=how.confidence, rounds=how.rounds, seed=how.seed),
                    p=raw[place] if raw else None,
                    p_corrected=adjusted[place] if raw else None,
                    significant=bool(raw) and adjusted[place] < how.level,
                    wins=wins,
                    ties=len(before) - wins - losses,
                    losses=losses,
                    lost=risk.lost(before, after),
                    urisk=risk.urisk(before, after, how.aversion),
                    trisk=risk.trisk(before, after, how.aversion),
                    georisk=shared.get(label),
                )
            )
    return Comparison(baseline, how, differences, topics)


@dataclass(frozen=True)
class PairTest:
    """Two runs by one measure, over the topics of `Difference`; `difference` is the second's mean minus the first's."""

    first: str
    second: str
    measure: str
    topics: int
    difference: float
    p: float
    p_corrected: float
    significant: bool


def compare_all(
    evaluations: Mapping[str, Evaluation], measures: Sequence[str], procedure: Procedure | None = None
) -> list[PairTest]:
    """Tests every pair of runs. The tests of all pairs by one measure are one family, corrected together.

    The parameters are those of `compare`.
    """
    how = procedure or Procedure()
    pairs = list(combinations(evaluations, 2))
    tests: list[PairTest] = []
    for measure in measures:
        changes = []
        for first, second in pairs:
            topics = compared_topics([evaluations[first], evaluations[second]], how)
            changes.append(risk.changes(evaluations[first].array(measure, topics), evaluations[second].array(measure, topics)))
        raw = [p_value(how.test, change, rounds=how.rounds, seed=how.seed) for change in changes]
        for (first, second), change, p, adjusted in zip(pairs, changes, raw, corrected(raw, how.correction), strict=True):
            mean = float(change.mean()) if len(change) else 0.0
            tests.append(PairTest(first, second, measure, len(change), mean, p, adjusted, adjusted < how.level))
    return tests


def compared_topics(evaluations: Collection[Evaluation], procedure: Procedure) -> list[str]:
    """The topics on which runs are compared: those in all `evaluations`; with `procedure.all_judged`, all that count."""
    lists = [evaluation.topics if procedure.all_judged else evaluation.answered for evaluation in evaluations]
    common = set.intersection(*map(set, lists))
    return [qid for qid in lists[-1] if qid in common]


def _georisks(evaluations: Mapping[str, Evaluation], measure: str, procedure: Procedure) -> dict[str, float]:
    """GeoRisk of every run, the baseline among them, over the topics on which all runs are compared."""
    topics = compared_topics(evaluations.values(), procedure)
    table = np.array([evaluation.array(measure, topics) for evaluation in evaluations.values()])
    if not table.size or (table < 0).any():
        return {}
    return dict(zip(evaluations, risk.georisk(table, procedure.aversion).tolist(), strict=True))
