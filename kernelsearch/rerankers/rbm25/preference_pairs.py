"""The preference pairs of similar queries that a query's dual is solved on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.pairs import preferences, round_robin
from kernelsearch.clicks.store import ClickLog, Shown
from kernelsearch.core.types import Candidates

#: Weight of a pair whose worse document was retrieved but not shown according to the log: weaker evidence than a skipped one.
UNSHOWN_WEIGHT = 0.1


@dataclass(frozen=True)
class PreferencePairs:
    """m preference pairs over u documents.

    `owner` (m,) points into the similar queries, `better` and `worse` (m,) into `docs` (u,), the documents' rows; `bounds` (m,)
    are the upper bounds of the multipliers.
    """

    owner: NDArray[np.int64]
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    docs: NDArray[np.int32]
    bounds: NDArray[np.float64]


def preference_pairs(
    log: ClickLog,
    rows: NDArray[np.integer],
    ids: NDArray[np.int64],
    retrieved: list[Candidates],
    *,
    kind: str,
    limit: int,
    regularisation: float,
    corrected: bool = False,
    confident: bool = True,
) -> PreferencePairs:
    """At most `limit` pairs of this `kind` per query: those of the log, then clicked documents over retrieved ones.

    Parameters
    ----------
    log : the click log
    rows : the row in the index of each of its documents, -1 where it has none
    ids : the numbers of the queries in the log, -1 for one that it doesn't have
    retrieved : the documents that each query retrieves
    kind, limit, corrected, confident : see `kernelsearch.clicks.pairs.preferences`
    regularisation : λ, which divides the pairs' weights
    """
    shown = log.shown(ids)
    preferred = preferences(log, ids, shown, kind=kind, limit=limit, corrected=corrected, confident=confident)
    order = np.argsort(ids)
    owner = order[np.searchsorted(ids[order], preferred.queries)]
    better, worse = rows[preferred.better], rows[preferred.worse]
    known = (better >= 0) & (worse >= 0)  # the index may lack documents of the log
    parts = [(owner[known], better[known], worse[known], preferred.weights[known])]
    counts = np.bincount(owner[known], minlength=len(ids))
    for number in np.flatnonzero(counts < limit).tolist():
        extra = _over_retrieved(shown.of(int(ids[number])), rows, retrieved[number], limit - int(counts[number]))
        parts.append((np.full(len(extra[0]), number), *extra, np.full(len(extra[0]), UNSHOWN_WEIGHT)))
    owner, better, worse, weights = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    docs, numbers = np.unique(np.concatenate([better, worse]), return_inverse=True)
    first, second = numbers.reshape(2, -1)
    return PreferencePairs(owner, first, second, docs.astype(np.int32), weights / regularisation)


def _over_retrieved(
    seen: Shown, rows: NDArray[np.integer], retrieved: Candidates, limit: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Pairs of clicked documents over retrieved ones that weren't shown, for logs that record clicks only."""
    clicked = rows[seen.docs[np.argsort(-seen.clicks, kind="stable")][: int((seen.clicks > 0).sum())]]
    others = retrieved.docs[: 2 * limit]
    others = others[~np.isin(others, rows[seen.docs])]
    better, worse = round_robin(clicked[clicked >= 0].astype(np.int64), others.astype(np.int64), limit)
    return better.astype(np.int32), worse.astype(np.int32)
