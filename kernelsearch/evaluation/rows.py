"""Measures of lists that are still document rows: no docids, no files, so that hundreds of settings can be compared quickly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Candidates
from kernelsearch.forward.index import ForwardIndex

Floats = NDArray[np.float64]

#: What `JudgedRows.values` computes itself; everything else goes through ir_measures.
QUICK = ("AP", "nDCG", "P", "R", "RR")


class JudgedRows:
    """The relevant documents of some topics as rows of an index."""

    def __init__(self, index: ForwardIndex, qrels: Mapping[str, Mapping[str, int]], qids: Sequence[str]) -> None:
        named = [{docid: grade for docid, grade in qrels.get(qid, {}).items() if grade > 0} for qid in qids]
        self.index, self.qrels, self.qids = index, qrels, list(qids)
        self.counts = np.array([len(docids) for docids in named])  #: relevant documents a topic, indexed or not
        self.ideal = [np.sort(np.array(list(grades.values()), dtype=np.float64))[::-1] for grades in named]
        self.relevant: list[NDArray[np.int32]] = []  #: rows of the relevant documents, ascending
        self._grades: list[Floats] = []
        for grades in named:
            rows = index.rows_of(list(grades))
            order = np.argsort(rows)
            known = rows[order] >= 0
            self.relevant.append(rows[order][known])
            self._grades.append(np.array(list(grades.values()), dtype=np.float64)[order][known])

    def average_precision(self, lists: Sequence[Candidates]) -> Floats:
        """AP a topic, as trec_eval's map; zero for topics without relevant documents."""
        return np.array(
            [_average_precision(self.found(number, one)[0], self.counts[number]) for number, one in enumerate(lists)]
        )

    def retrieved(self, lists: Sequence[Candidates], depth: int = 1000) -> NDArray[np.int64]:
        """Relevant documents among the first `depth` of each list."""
        return np.array([(self.found(number, one)[0] < depth).sum() for number, one in enumerate(lists)], dtype=np.int64)

    def found(self, number: int, candidates: Candidates) -> tuple[NDArray[np.int64], Floats]:
        """Ranks, from 0, of a topic's relevant documents in a list, and their grades."""
        rows = self.relevant[number]
        if not len(rows):
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        nearest = np.minimum(np.searchsorted(rows, candidates.docs), len(rows) - 1)
        places = np.flatnonzero(rows[nearest] == candidates.docs)
        return places, self._grades[number][nearest[places]]

    def values(self, measure: Any, numbers: Sequence[int], lists: Sequence[Candidates]) -> Floats:
        """An ir_measures measure of the lists of some topics (by number), shape (topics,); as trec_eval computes it."""
        if not is_quick(measure):
            return self._through_ir_measures(measure, numbers, lists)
        return np.array([self._value(measure, number, one) for number, one in zip(numbers, lists, strict=True)])

    def _value(self, measure: Any, number: int, candidates: Candidates) -> float:
        places, grades = self.found(number, candidates)
        depth = measure.params.get("cutoff")
        if depth is not None:
            places, grades = places[places < depth], grades[places < depth]
        if measure.NAME == "AP":
            return _average_precision(places, self.counts[number])
        if measure.NAME == "RR":
            return 1.0 / (places[0] + 1) if len(places) else 0.0
        if measure.NAME == "P":
            return len(places) / depth
        if measure.NAME == "R":
            return len(places) / max(self.counts[number], 1)
        ideal = self.ideal[number][:depth]
        best = float((ideal / np.log2(np.arange(2, len(ideal) + 2))).sum())
        return float((grades / np.log2(places + 2)).sum()) / best if best > 0 else 0.0

    def _through_ir_measures(self, measure: Any, numbers: Sequence[int], lists: Sequence[Candidates]) -> Floats:
        from kernelsearch.evaluation.measures import evaluate

        qids = [self.qids[number] for number in numbers]
        run = {
            qid: [(docid, float(-place)) for place, docid in enumerate(self.index.docids.take(one.docs))]
            for qid, one in zip(qids, lists, strict=True)
        }
        found = evaluate({qid: self.qrels[qid] for qid in qids}, run, [measure])
        return found.array(str(measure), qids)


def is_quick(measure: Any) -> bool:
    """Whether a measure is one of QUICK with nothing but a depth asked for."""
    return (
        measure.NAME in QUICK and set(measure.params) <= {"cutoff"} and (bool(measure.params) or measure.NAME not in ("P", "R"))
    )


def _average_precision(places: NDArray[np.int64], relevant: int) -> float:
    return float((np.arange(1, len(places) + 1) / (places + 1)).sum() / max(relevant, 1))
