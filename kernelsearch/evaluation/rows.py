"""Measures of lists that are still document rows: no docids, no files, so that hundreds of settings can be compared quickly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelsearch.forward.index import ForwardIndex
from kernelsearch.types import Candidates


class JudgedRows:
    """The relevant documents of some topics as rows of an index."""

    def __init__(self, index: ForwardIndex, qrels: Mapping[str, Mapping[str, int]], qids: Sequence[str]) -> None:
        named = [[docid for docid, grade in qrels.get(qid, {}).items() if grade > 0] for qid in qids]
        self.counts = np.array([len(docids) for docids in named])  #: relevant documents a topic, indexed or not
        self.relevant = [index.rows_of(docids) for docids in named]

    def average_precision(self, lists: Sequence[Candidates]) -> NDArray[np.float64]:
        """AP a topic, as trec_eval's map; zero for topics without relevant documents."""
        values = np.zeros(len(lists))
        for number, (candidates, relevant) in enumerate(zip(lists, self.relevant, strict=True)):
            places = _places(candidates, relevant)
            values[number] = (np.arange(1, len(places) + 1) / (places + 1)).sum() / max(self.counts[number], 1)
        return values

    def retrieved(self, lists: Sequence[Candidates], depth: int = 1000) -> NDArray[np.int64]:
        """Relevant documents among the first `depth` of each list."""
        return np.array(
            [(_places(one, relevant) < depth).sum() for one, relevant in zip(lists, self.relevant, strict=True)], dtype=np.int64
        )


def _places(candidates: Candidates, relevant: NDArray[np.int32]) -> NDArray[np.int64]:
    """Ranks, from 0, of the relevant documents in a list."""
    return np.flatnonzero(np.isin(candidates.docs, relevant[relevant >= 0]))
