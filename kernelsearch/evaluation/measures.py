"""Measures of runs, through ir_measures, with trec_eval's habits: topics without judgements don't count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelsearch.errors import OptionError

DEFAULT = ("AP", "nDCG@10", "P@10", "R@1000", "RR")
Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Sequence[tuple[str, float]]]


def parse_measures(names: Iterable[str]) -> list[Any]:
    """ir_measures' objects by their names, such as AP, nDCG@10 or P(rel=2)@5; trec_eval's names (map, P_30) work too."""
    import ir_measures

    measures = []
    for name in names:
        try:
            measures.append(ir_measures.parse_measure(name))
        except (NameError, ValueError, SyntaxError, KeyError, TypeError):
            try:
                measures += ir_measures.parse_trec_measure(name)
            except (NameError, ValueError, KeyError, TypeError):
                raise OptionError(f"--measures: {name!r} is not a measure that ir_measures knows") from None
    return measures


@dataclass(frozen=True)
class Evaluation:
    """One run's values: `values[measure][qid]`, and which topics counted."""

    values: dict[str, dict[str, float]]
    topics: list[str]
    missing: list[str]  #: judged topics that the run doesn't have
    unjudged: list[str]  #: topics of the run without judgements

    def mean(self, measure: str) -> float:
        values = self.values[measure]
        return sum(values.values()) / len(values) if values else 0.0


def evaluate(qrels: Qrels, run: Run, measures: Sequence[Any], *, complete: bool = True) -> Evaluation:
    """Values per topic. Judged topics that the run lacks count as zero (trec_eval -c), or are left out if not `complete`."""
    import ir_measures

    topics = [qid for qid in qrels if complete or qid in run]
    counted = set(topics)
    # Ranks decide, not printed scores: evaluators disagree on how to break ties.
    scored = {
        qid: {docid: float(len(ranked) - place) for place, (docid, _) in enumerate(ranked)}
        for qid, ranked in run.items()
        if qid in qrels
    }
    values: dict[str, dict[str, float]] = {str(measure): {} for measure in measures}
    judged = {qid: dict(qrels[qid]) for qid in topics}
    if judged:
        for metric in ir_measures.iter_calc(list(measures), judged, scored):
            if metric.query_id in counted:
                values[str(metric.measure)][metric.query_id] = float(metric.value)
    return Evaluation(values, topics, [qid for qid in qrels if qid not in run], [qid for qid in run if qid not in qrels])
