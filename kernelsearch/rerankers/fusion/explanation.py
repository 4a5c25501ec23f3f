"""Why a fusion ranks a document where it does: each feature's part of the score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import Context, Contribution, Explanation, position

if TYPE_CHECKING:
    from kernelsearch.rerankers.fusion.base import FusedReranker


def explain(reranker: FusedReranker[Any], query: Query, candidates: Candidates, doc: int, context: Context) -> Explanation:
    """The features' parts of the score of the document in row `doc`, largest first; they sum to the score.

    The note `importance` is {feature: share} of the whole model. Raises OptionError for a document outside the fused pool.
    """
    pool, table = reranker.tables([query], [candidates], context)[0]
    row = position(pool, doc)
    docid = reranker.index.forward.docids[doc]
    if row is None:
        raise OptionError(f"--docid: {docid} is not among the first {reranker.settings.depth}; only those are fused")
    parts = reranker.learner.contributions(table)[row]
    order = np.argsort(-np.abs(parts), kind="stable")
    ranks = (table > table[row]).sum(axis=0) + 1
    contributions = tuple(
        Contribution(reranker.recipe[column], float(parts[column]), f"rank {ranks[column]} of {pool.depth} by this feature")
        for column in order
    )
    shares = reranker.importance()
    importance = {name: round(float(share), 4) for name, share in zip(reranker.recipe, shares, strict=True)}
    return Explanation(reranker.name, docid, float(parts.sum()), contributions, {"importance": importance})
