"""The gradients of listwise learning: what moving a document up would change in average precision.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation", Eqs. 6-8
and lines 9-10 of its listing; the lambdas are LambdaMART's (Burges, "From RankNet to LambdaRank to LambdaMART", 2010).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.learning.ranking.lists import cautious_order

Floats = NDArray[np.float64]

DELTAS = ("exact", "printed", "ndcg", "none")


def swap_deltas(scores: Floats, relevant: NDArray[np.bool_], kind: str = "exact") -> Floats:
    """|ΔE| of swapping each relevant with each other document in the order of `scores`, shape (relevant, others).

    Of documents with equal scores the relevant ones come last, so that a start from equal scores depends on no order of rows.

    `relevant` (documents,) marks the relevant ones. `kind` `exact` is the change of AP with the documents between the two
    counted; `printed` is the paper's Eq. 8, |P@r_i - P@r_j|, which only approximates it; `ndcg` is the change of nDCG; `none`
    counts all pairs the same. Raises OptionError for another.
    """
    if kind not in DELTAS:
        raise OptionError(f"delta {kind!r} is not one of {', '.join(DELTAS)}")
    place = np.empty(len(scores), dtype=np.int64)
    place[cautious_order(scores, relevant)] = np.arange(1, len(scores) + 1)
    r_i, r_j = place[relevant][:, None], place[~relevant][None, :]
    if kind == "none":
        return np.ones((r_i.shape[0], r_j.shape[1]))
    hits = np.zeros(len(scores) + 1)
    hits[place[relevant]] = 1.0  # hits[r] = 1 where rank r is relevant; rank 0 is nobody's
    total = hits.sum()
    rank = np.maximum(np.arange(len(hits)), 1)
    if kind == "ndcg":
        gain = 1 / np.log2(rank + 1)
        ndcg: Floats = np.abs(gain[r_i] - gain[r_j]) / gain[1 : int(total) + 1].sum()
        return ndcg
    count = np.cumsum(hits)
    if kind == "printed":
        precision = count / rank
        return np.abs(precision[r_i] - precision[r_j])
    between = np.cumsum(hits / rank)  # the sum over relevant ranks of 1/rank: what one hit more above them adds to AP
    up = (count[r_j] + 1) / r_j - count[r_i] / r_i + (between[r_i] - hits[r_i] / r_i - between[r_j])
    down = count[r_j] / r_j - count[r_i] / r_i - (between[r_j] - between[r_i])
    change: Floats = np.abs(np.where(r_j < r_i, up, down)) / total
    return change


def lambdas(scores: Floats, relevant: NDArray[np.bool_], kind: str = "exact") -> tuple[Floats, Floats]:
    """The pull y on each document of one list and its curvature w, both of shape (documents,).

    `scores` (documents,) are f, `relevant` and `kind` are those of `swap_deltas`.

    y_i = Σ_j |Δ_ij| / (1 + exp(f_i - f_j)) for a relevant i, and the same with a minus sign for each j below it: what goes
    up pushes another down, so the pulls of a list sum to 0. w_i = Σ |Δ_ij| ρ(1 - ρ) with ρ that same logistic factor.
    """
    pull, curvature = np.zeros(len(scores)), np.zeros(len(scores))
    if relevant.all() or not relevant.any():
        return pull, curvature
    delta = swap_deltas(scores, relevant, kind)
    apart = scores[relevant][:, None] - scores[~relevant][None, :]
    rho = 1 / (1 + np.exp(np.clip(apart, -500, 500)))
    force, bend = delta * rho, delta * rho * (1 - rho)
    pull[relevant], pull[~relevant] = force.sum(axis=1), -force.sum(axis=0)
    curvature[relevant], curvature[~relevant] = bend.sum(axis=1), bend.sum(axis=0)
    return pull, curvature
