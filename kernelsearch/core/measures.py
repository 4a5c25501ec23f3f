"""Measures of one ranked list, as arrays: the operations of trec_eval in its order, so that values agree to the last bit.

A measure is one entry of MEASURES. Other measures and parameters are computed by ir_measures (`kernelsearch.evaluation`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """The relevant documents of one list.

    `places` (found,): their positions from 0, ascending; `grades` (found,): their grades; `ideal` (relevant,): the grades of
    all relevant documents, in the list or not, descending; `cutoff`: how many documents count, None for all.
    """

    places: NDArray[np.integer]
    grades: Floats
    ideal: Floats
    cutoff: int | None = None

    def cut(self, cutoff: int) -> Found:
        """The relevant documents among the first `cutoff` of the list."""
        count = int(np.searchsorted(self.places, cutoff))
        return Found(self.places[:count], self.grades[:count], self.ideal, cutoff)


def average_precision(places: NDArray[np.integer], relevant: int) -> float:
    """AP of one list, as trec_eval's map.

    `places` (found,): positions from 0, ascending, of the relevant documents that the list has; `relevant`: how many there
    are, in the list or not. 0 where there is none.

    >>> average_precision(np.array([0, 2]), 2)  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    return _total(np.arange(1, len(places) + 1) / (places + 1)) / max(relevant, 1)


def ndcg(found: Found) -> float:
    """nDCG of the list of `found` with the grades as gains, as trec_eval's ndcg; 0 without relevant documents."""
    best = found.ideal[: found.cutoff]
    gain = _total(found.grades / _discounts(found.places))
    return gain / _total(best / _discounts(np.arange(len(best)))) if len(best) else 0.0


def _total(values: Floats) -> float:
    """The sum from left to right; numpy's `sum` adds in another order, with other rounding errors."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def _discounts(places: NDArray[np.integer]) -> Floats:
    """log2(rank + 1); numpy's log2 differs from the C library's in the last bit of some."""
    return np.array([math.log2(place + 2) for place in places.tolist()])


@dataclass(frozen=True)
class ListMeasure:
    """A measure of one list: its name in ir_measures, its formula, and whether it `has` and `needs` the parameter cutoff."""

    name: str
    value: Callable[[Found], float]
    has: bool = True
    needs: bool = False


MEASURES = {
    measure.name: measure
    for measure in (
        ListMeasure("AP", lambda found: average_precision(found.places, len(found.ideal))),
        ListMeasure("nDCG", ndcg),
        ListMeasure("P", lambda found: len(found.places) / int(found.cutoff or 1), needs=True),
        ListMeasure("R", lambda found: len(found.places) / max(len(found.ideal), 1), needs=True),
        ListMeasure("RR", lambda found: float(1.0 / (found.places[0] + 1)) if len(found.places) else 0.0, has=False),
    )
}


def is_known(measure: Any) -> bool:
    """Whether `value_of` computes the `measure` of ir_measures: one of MEASURES with no parameter but its cutoff."""
    known = MEASURES.get(measure.NAME)
    if known is None or not set(measure.params) <= {"cutoff"}:
        return False
    return known.has if measure.params else not known.needs


def value_of(measure: Any, found: Found) -> float:
    """The value of a `measure` of ir_measures for the list of `found`, where `is_known` is true.

    >>> import ir_measures
    >>> value_of(ir_measures.P @ 4, Found(np.array([0, 2, 9]), np.ones(3), np.ones(5)))
    0.5
    """
    cutoff = measure.params.get("cutoff")
    return MEASURES[measure.NAME].value(found if cutoff is None else found.cut(cutoff))
