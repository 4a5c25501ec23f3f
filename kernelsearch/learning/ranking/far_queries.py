"""Queries that resemble no training query: whether one of the inputs ranks them better than learned weights do.

Learned weights that rely on the votes of similar training queries are of no use to a query that has none. Cross-validation
over the training queries tells whether such queries are better ranked by an input, and below which similarity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.learning.ranking.preference import INPUT_CAUTION, preferred, standard_error

#: Largest cosines with a training query that are tried as the limit: .1 to .9.
LIMITS = tuple(number / 20 for number in range(2, 19))
#: The fewest training queries on either side of the limit; each counts as two halves, as it is and as unrelated.
FEWEST = 10


class FarQueries(NamedTuple):
    """What ranks queries that are far from all training queries, and what ranks the others.

    A query is far if its largest cosine with a training query is below `limit`. `far` and `near` are candidates of `Best` by
    name, an input and a learner. `scores` is the cross-validated MAP of both together: of queries as they are, and of the same
    queries with the votes of unrelated training queries alone.
    """

    limit: float
    far: str
    near: str
    scores: tuple[float, float]


def find_far_queries(
    cases: Sequence[Mapping[str, NDArray[np.float64]]],
    nearness: NDArray[np.float64],
    choice: str,
    inputs: Sequence[str],
    caution: float,
) -> FarQueries | None:
    """The limit with the largest gain over a single choice; None if no gain exceeds INPUT_CAUTION standard errors.

    Parameters
    ----------
    cases : the cross-validated AP per training query of each candidate, of queries as they are and as unrelated (`Best.cases_`)
    nearness : the largest cosine of each query with another training query, in both cases, shape (2, queries)
    choice : the candidate that was chosen for all queries
    inputs, caution : those of `preferred`
    """
    aps = {name: np.stack([case[name] for case in cases]) for name in cases[0]}
    chosen, largest = None, 0.0
    for limit in LIMITS:
        is_far = nearness < limit
        if not inputs or min(is_far.sum(), (~is_far).sum()) < 2 * FEWEST:
            continue
        far = max(inputs, key=lambda name: float(aps[name][is_far].mean()))
        near = preferred({name: values[~is_far] for name, values in aps.items()}, inputs, caution)[0]
        if near in inputs:
            continue
        together = np.where(is_far, aps[far], aps[near])
        gain = (together - aps[choice]).mean(axis=0)
        if gain.mean() > max(largest, INPUT_CAUTION * standard_error(gain)):
            related, unrelated = together.mean(axis=1).tolist()
            chosen, largest = FarQueries(limit, far, near, (related, unrelated)), float(gain.mean())
    return chosen
