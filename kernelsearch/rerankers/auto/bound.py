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

    Documents whose place by sum is the better one get 0; the others get a score between those of their new neighbours.

    Parameters
    ----------
    sums : one number per document, shape (documents,)
    by_sum : the documents in the order of `sums`, best first, shape (documents,)
    by_match : the documents in the order of the match, best first, shape (documents,)
    factor : how many times its place by match a document's place may be
    """
    count = len(sums)
    out = np.zeros(count)
    sum_place, match_place = np.empty(count), np.empty(count)
    sum_place[by_sum] = match_place[by_match] = np.arange(1, count + 1)
    unmoved = sum_place <= factor * match_place
    if unmoved.all():
        return out
    order = np.lexsort((sum_place, np.minimum(sum_place, factor * match_place)))
    values, fixed = sums[order], np.flatnonzero(unmoved[order])
    # Documents that are moved up may be the last ones, so the scores go on below the list.
    places, scores = np.append(fixed, count), np.append(values[fixed], values.min() - 1)
    out[order] = np.interp(np.arange(count), places, scores) - values
    return out
