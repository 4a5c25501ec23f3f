"""The baselines of Robust BM25 with its interface: the pairwise kernel, query substitution, a click prior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.records import normalise_query
from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context
from kernelsearch.rerankers.rbm25 import CLICK_PRIOR, PAIRWISE_KERNEL, QUERY_SUBSTITUTION
from kernelsearch.rerankers.rbm25.base import ClickReranker
from kernelsearch.rerankers.rbm25.reranker import RobustBM25
from kernelsearch.rerankers.rbm25.settings import ClickPriorSettings, QuerySubstitutionSettings
from kernelsearch.rerankers.rbm25.similar_queries import Similar


class PairwiseKernel(RobustBM25):
    """k_Q · k_D alone: Basilico & Hofmann, "Unifying Collaborative and Content-Based Filtering" (ICML 2004)."""

    method = PAIRWISE_KERNEL
    uses_bm25 = False


class QuerySubstitution(ClickReranker[QuerySubstitutionSettings]):
    """The list of the most similar other query of the log, then the query's own documents that it doesn't have."""

    method = QUERY_SUBSTITUTION

    def rank(
        self,
        query: Query,
        candidates: Candidates,
        similar: Similar,
        retrieved: list[Candidates],
        context: Context = DEFAULT_CONTEXT,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        other = next((n for n, near in enumerate(similar.queries) if near.text != normalise_query(query.text)), None)
        if other is None:
            raise CannotAct("no other query in the click log is similar")
        docs = self.merged(candidates, [retrieved[other]], np.empty(0, dtype=np.int32))
        scores = self.bm25(similar.queries[other], docs)
        # Documents that only the query itself finds come after all others, in its own order.
        own = self.bm25(query, docs)
        return docs, np.where(scores > 0, scores, own / (1.0 + own.max(initial=0.0)) - 1.0)


class ClickPrior(ClickReranker[ClickPriorSettings]):
    """BM25 plus the clicks of similar queries as a prior: g(q, d) + weight · Σ_i k_Q(q, q_i) · share of q_i's clicks on d."""

    method = CLICK_PRIOR

    def rank(
        self,
        query: Query,
        candidates: Candidates,
        similar: Similar,
        retrieved: list[Candidates],
        context: Context = DEFAULT_CONTEXT,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        shown = self.log.shown(similar.ids, clicked_only=True)
        rows = self.similar.rows[shown.docs]
        known = rows >= 0
        if not known.any():
            raise CannotAct("no similar query in the click log")
        order = np.argsort(similar.ids)
        owner = order[np.searchsorted(similar.ids[order], shown.queries)]
        share = shown.clicks / np.bincount(owner, shown.clicks, len(similar.ids))[owner]
        docs = self.merged(candidates, retrieved, rows[known])
        prior = np.bincount(np.searchsorted(docs, rows[known]), (similar.kernel[owner] * share)[known], len(docs))
        scores = self.bm25(query, docs)
        return docs, scores / max(scores.max(initial=0.0), 1e-9) + self.settings.weight * prior
