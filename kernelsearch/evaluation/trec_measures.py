"""AP, nDCG, P, R and RR with the operations of trec_eval in its order, so that values agree to the last bit.

trec_eval's code sorts every list by docid; these measures need only the ranks of the relevant documents.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

#: A measure of ir_measures, whose classes have no type annotations.
Measure: TypeAlias = Any

#: (ranks from 1 and grades of the relevant documents that were retrieved, by rank; grades of all relevant ones; cutoff)
_Measure = Callable[[Sequence[tuple[int, int]], Sequence[int], int], float]


def _average_precision(retrieved: Sequence[tuple[int, int]], grades: Sequence[int], cutoff: int) -> float:
    total = 0.0
    for count, (rank, _) in enumerate(retrieved, 1):
        total += count / rank
    return total / len(grades)


def _ndcg(retrieved: Sequence[tuple[int, int]], grades: Sequence[int], cutoff: int) -> float:
    gain = ideal = 0.0
    for rank, grade in retrieved:
        gain += grade / math.log2(rank + 1)
    for rank, grade in enumerate(sorted(grades, reverse=True)[:cutoff], 1):
        ideal += grade / math.log2(rank + 1)
    return gain / ideal


_MEASURES: dict[str, _Measure] = {
    "AP": _average_precision,
    "nDCG": _ndcg,
    "P": lambda retrieved, grades, cutoff: len(retrieved) / cutoff,
    "R": lambda retrieved, grades, cutoff: len(retrieved) / len(grades),
    "RR": lambda retrieved, grades, cutoff: 1.0 / retrieved[0][0],
}
#: A cutoff beyond every list, for measures of the whole list.
_WHOLE = 2**31


def has_direct_form(measure: Measure) -> bool:
    """Whether `values` computes a measure of ir_measures: with no parameter but a cutoff, and RR without one."""
    parameters = set(measure.params)
    if measure.NAME in ("P", "R"):
        return parameters == {"cutoff"}
    return measure.NAME in _MEASURES and (not parameters or (parameters == {"cutoff"} and measure.NAME != "RR"))


def values(measures: Sequence[Measure], ranks: Mapping[str, int], judged: Mapping[str, int]) -> list[float]:
    """The values of `measures`, for which `has_direct_form` is true, for one topic.

    `ranks`: from 1, by docid; `judged`: grades by docid, relevant from 1 on. 0 where no relevant document is retrieved.
    """
    grades = [grade for grade in judged.values() if grade > 0]
    relevant = sorted((ranks[docid], grade) for docid, grade in judged.items() if grade > 0 and docid in ranks)
    results = []
    for measure in measures:
        cutoff = int(measure.params.get("cutoff", _WHOLE))
        retrieved = relevant[: bisect_right(relevant, cutoff, key=itemgetter(0))]
        results.append(_MEASURES[measure.NAME](retrieved, grades, cutoff) if retrieved else 0.0)
    return results
