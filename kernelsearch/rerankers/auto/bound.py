"""A bound on what feedback can cost a query.

Feedback helps most queries and hurts some, and nothing that is known of a query before feedback tells which ones. So `auto`
bounds its effect on all of them: a document's place is the better one of its place by the whole sum and FACTOR times its place
by the match with the query. The document that matches best is second at worst, and the r-th is not below place
(1 + FACTOR) · r: at most FACTOR · r documents are before it by their sum, and r - 1 by their match. Where a query has one right
answer, feedback can therefore cost it at most half of its reciprocal rank by match if it was first, three fifths otherwise.

`python -m tools.reproduce.auto` compares bounds (docs/reproductions/auto.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: A smaller factor bounds more, for fewer gains of queries with many right answers.
FACTOR = 1.5


def lifts(
    sums: NDArray[np.floating], by_sum: NDArray[np.integer], by_match: NDArray[np.integer], factor: float = FACTOR
) -> NDArray[np.float64]:
    """What is added to each document's sum so that its place is the better one of the two, shape (documents,).

    Documents that pass others with larger sums get a score between those of their new neighbours, all others 0.

    Parameters
    ----------
    sums : one number per document, shape (documents,)
    by_sum : the documents in the order of `sums`, best first, shape (documents,)
    by_match : the documents in the order of the match, best first, shape (documents,)
    factor : how many times its place by match a document's place may be
    """
    count = len(sums)
    sum_place, match_place = np.empty(count), np.empty(count)
    sum_place[by_sum] = match_place[by_match] = np.arange(1, count + 1)
    order = np.lexsort((sum_place, np.minimum(sum_place, factor * match_place)))
    values = sums[order]
    unmoved = np.flatnonzero(values == np.maximum.accumulate(values[::-1])[::-1])  # no larger sum follows
    out = np.empty(count)
    out[order] = np.interp(np.arange(count), unmoved, values[unmoved]) - values
    return out
