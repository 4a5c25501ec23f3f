"""Measures of ranked lists of document rows, without docids or files, so that hundreds of settings can be compared quickly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.measures import Found, average_precision, is_known, value_of
from kernelsearch.core.types import Candidates
from kernelsearch.evaluation.measures import Measure, evaluate
from kernelsearch.forward.index import ForwardIndex

Floats = NDArray[np.float64]


class JudgedRows:
    """The relevant documents of some topics as rows of an index.

    Parameters: `forward`, the forward index; `qrels`, {qid: {docid: grade}}; `qids`, the ids of the topics. Methods refer to a
    topic by its position among these ids.
    """

    def __init__(self, forward: ForwardIndex, qrels: Mapping[str, Mapping[str, int]], qids: Sequence[str]) -> None:
        relevant = [{docid: grade for docid, grade in qrels.get(qid, {}).items() if grade > 0} for qid in qids]
        self.forward, self.qrels, self.qids = forward, qrels, list(qids)
        self.counts = np.array([len(docids) for docids in relevant])  #: relevant documents per topic, indexed or not
        self.ideal = [np.sort(np.array(list(grades.values()), dtype=np.float64))[::-1] for grades in relevant]
        self.relevant: list[NDArray[np.int32]] = []  #: rows of the relevant documents, ascending
        self._grades: list[Floats] = []
        for grades in relevant:
            rows = forward.rows_of(list(grades))
            order = np.argsort(rows)
            known = rows[order] >= 0
            self.relevant.append(rows[order][known])
            self._grades.append(np.array(list(grades.values()), dtype=np.float64)[order][known])

    def average_precision(self, lists: Sequence[Candidates]) -> Floats:
        """AP per topic, as trec_eval's map, shape (topics,); zero for topics without relevant documents.

        `lists` has one ranked list per topic, in the order of the topics.
        """
        return np.array(
            [
                average_precision(self.relevant_places(number, ranked)[0], self.counts[number])
                for number, ranked in enumerate(lists)
            ]
        )

    def retrieved(self, lists: Sequence[Candidates], depth: int = 1000) -> NDArray[np.int64]:
        """The number of relevant documents among the first `depth` of each of `lists`, one per topic, shape (topics,)."""
        return np.array(
            [(self.relevant_places(number, ranked)[0] < depth).sum() for number, ranked in enumerate(lists)], dtype=np.int64
        )

    def relevant_places(self, number: int, candidates: Candidates) -> tuple[NDArray[np.int64], Floats]:
        """The ranks, from 0, of the relevant documents of topic `number` in the list `candidates`, and their grades."""
        rows = self.relevant[number]
        if not len(rows):
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        nearest = np.minimum(np.searchsorted(rows, candidates.docs), len(rows) - 1)
        places = np.flatnonzero(rows[nearest] == candidates.docs)
        return places, self._grades[number][nearest[places]]

    def values(self, measure: Measure, numbers: Sequence[int], lists: Sequence[Candidates]) -> Floats:
        """The values of a measure of ir_measures for the `lists` of the topics `numbers`, shape (topics,), as in trec_eval."""
        if not is_known(measure):
            return self._through_ir_measures(measure, numbers, lists)
        found = (
            Found(*self.relevant_places(number, ranked), self.ideal[number])
            for number, ranked in zip(numbers, lists, strict=True)
        )
        return np.array([value_of(measure, places) for places in found])

    def _through_ir_measures(self, measure: Measure, numbers: Sequence[int], lists: Sequence[Candidates]) -> Floats:
        qids = [self.qids[number] for number in numbers]
        run = {
            qid: [(docid, float(-place)) for place, docid in enumerate(self.forward.docids.take(ranked.docs))]
            for qid, ranked in zip(qids, lists, strict=True)
        }
        evaluation = evaluate({qid: self.qrels[qid] for qid in qids}, run, [measure])
        return evaluation.array(str(measure), qids)
