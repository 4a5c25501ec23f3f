"""Measures of runs, through ir_measures, with trec_eval's habits: topics without judgements don't count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.core.errors import OptionError

DEFAULT = ("AP", "nDCG@10", "P@10", "R@1000", "RR")
Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Sequence[tuple[str, float]]]


def parse_measures(names: Iterable[str]) -> list[Any]:
    """ir_measures' objects by their names, such as AP, nDCG@10 or P(rel=2)@5; trec_eval's names (map, P_30) work too."""
    import ir_measures

    measures: list[Any] = []
    for name in names:
        try:
            found = [ir_measures.parse_measure(name)]
        except (NameError, ValueError, SyntaxError, KeyError, TypeError):
            try:
                found = ir_measures.parse_trec_measure(name)
            except (NameError, ValueError, KeyError, TypeError):
                raise OptionError(f"--measures: {name!r} is not a measure that ir_measures knows") from None
        for measure in found:
            if not ir_measures.DefaultPipeline.supports(measure):
                raise OptionError(f"--measures: {name!r} can't be computed as given, or needs a library that isn't installed")
        measures += [measure for measure in found if measure not in measures]
    if not measures:
        raise OptionError("--measures: none given")
    return measures


@dataclass(frozen=True)
class Evaluation:
    """One run's values: `values[measure][qid]`, and which topics counted."""

    values: dict[str, dict[str, float]]
    topics: list[str]
    missing: list[str]  #: judged topics that the run doesn't have
    unjudged: list[str]  #: topics of the run without judgements
    measures: dict[str, Any] = field(default_factory=dict, repr=False)  #: ir_measures' objects by name

    def mean(self, measure: str) -> float:
        """The measure over all topics: a mean, or a sum where the measure counts (NumRet)."""
        total = self.measures[measure].aggregator()
        for value in self.values[measure].values():
            total.add(value)
        return float(total.result()) if self.values[measure] else 0.0

    def array(self, measure: str, topics: Sequence[str]) -> np.ndarray:
        """Values of some topics in their order, shape (topics,)."""
        return np.array([self.values[measure][qid] for qid in topics], dtype=np.float64)


def trec_order(ranked: Sequence[tuple[str, float]]) -> list[str]:
    """Docids as trec_eval ranks them: by score in single precision, ties by docid, both descending; ranks aren't read."""
    scores = np.array([score for _, score in ranked], dtype=np.float32).tolist()
    order = sorted(zip(scores, (docid.encode() for docid, _ in ranked), range(len(ranked)), strict=True), reverse=True)
    return [ranked[place][0] for _, _, place in order]


def evaluate(qrels: Qrels, run: Run, measures: Sequence[Any], *, complete: bool = True) -> Evaluation:
    """Values per topic. Judged topics that the run lacks count as zero (trec_eval -c), or are left out if not `complete`."""
    import ir_measures

    topics = [qid for qid in qrels if complete or qid in run]
    # The libraries behind ir_measures break ties in different ways, so they get scores without ties, in trec_eval's order.
    scored = {}
    for qid in topics:
        if qid in run:
            docids = trec_order(run[qid])
            scored[qid] = dict(zip(docids, range(len(docids), 0, -1), strict=True))
    found: dict[str, dict[str, float]] = {str(measure): {} for measure in measures}
    judged = {qid: dict(qrels[qid]) for qid in topics}
    if judged:
        for metric in ir_measures.iter_calc(list(measures), judged, scored):
            found[str(metric.measure)][metric.query_id] = float(metric.value)
    for measure in measures:
        if measure.NAME == "NumRel":  # the one measure that isn't zero for a topic which the run lacks
            for qid in set(topics) - set(run):
                found[str(measure)][qid] = float(sum(grade >= 1 for grade in qrels[qid].values()))
    # ir_measures yields topics in no fixed order; means must not depend on it in the last bit.
    values = {name: {qid: one[qid] for qid in topics if qid in one} for name, one in found.items()}
    return Evaluation(
        values,
        topics,
        [qid for qid in qrels if qid not in run],
        [qid for qid in run if qid not in qrels],
        {str(measure): measure for measure in measures},
    )


def run_labels(paths: list[str]) -> list[str]:
    """Short names for runs: file names where they differ, whole paths where they don't."""
    names = [Path(path).name.removesuffix(".gz").removesuffix(".txt") for path in paths]
    found = names if len(set(names)) == len(names) else list(paths)
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise OptionError(f"{twice}: this run is given twice")
    return found
