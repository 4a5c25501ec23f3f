"""The baselines of Robust BM25 with its interface: the pairwise kernel, query substitution, a click prior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.records import normalise_query
from kernelsearch.core.types import Candidates, Query
from kernelsearch.papers.rbm25 import CLICK_PRIOR, PAIRWISE_KERNEL, QUERY_SUBSTITUTION
from kernelsearch.papers.rbm25.explanation import explain_prior, explain_substitution
from kernelsearch.papers.rbm25.reranker import PrintedRobustBM25
from kernelsearch.papers.rbm25.settings import ClickPriorSettings, QuerySubstitutionSettings
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Explanation
from kernelsearch.rerankers.explanations import Contribution
from kernelsearch.rerankers.rbm25.base import ClickReranker
from kernelsearch.rerankers.rbm25.explanation import explain
from kernelsearch.rerankers.rbm25.preference_pairs import PreferencePairs
from kernelsearch.rerankers.rbm25.similar_queries import Similar


class PairwiseKernel(PrintedRobustBM25):
    """k_Q · k_D alone: Basilico & Hofmann, "Unifying Collaborative and Content-Based Filtering" (ICML 2004)."""

    method = PAIRWISE_KERNEL

    def base(self, query: Query, docs: NDArray[np.int32], context: Context = DEFAULT_CONTEXT) -> NDArray[np.float64]:
        """Ones, in the place of g(q, d)."""
        return np.ones(len(docs))

    def gains(
        self, similar: Similar, retrieved: list[Candidates], pairs: PreferencePairs, context: Context
    ) -> NDArray[np.float64]:
        """Ones, in the place of g of both documents of each pair, shape (m, 2)."""
        return np.ones((len(pairs.owner), 2))

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """The constant a, then the parts of the similar queries, each by document."""

        def constant(weight: float, base: float) -> Contribution:
            return Contribution("the same for all documents", weight)

        return explain(self, query, candidates, doc, context, constant)


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
        other = self.other(query, similar)
        docs = self.merged(candidates, [retrieved[other]], np.empty(0, dtype=np.int32))
        scores = self.bm25_of_all([similar.queries[other]], docs)[0]
        # Documents that only the query itself finds come after all others, in its own order.
        own = self.bm25_of_all([query], docs)[0]
        return docs, np.where(scores > 0, scores, own / (1.0 + own.max(initial=0.0)) - 1.0)

    def other(self, query: Query, similar: Similar) -> int:
        """The place of the most similar other query in `similar`; raises CannotAct where there is none."""
        for number, near in enumerate(similar.queries):
            if near.text != normalise_query(query.text):
                return number
        raise CannotAct("no other query in the click log is similar")

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """BM25 by term, for the similar query or after its documents for the query itself."""
        return explain_substitution(self, query, candidates, doc, context)


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
        rows, owners, shares = self.clicks_of(similar)
        docs = self.merged(candidates, retrieved, rows)
        prior = np.bincount(np.searchsorted(docs, rows), similar.kernel[owners] * shares, len(docs))
        scores = self.bm25_of_all([query], docs)[0]
        return docs, scores / max(scores.max(initial=0.0), 1e-9) + self.settings.weight * prior

    def clicks_of(self, similar: Similar) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]:
        """Clicked documents of the index: rows, places in `similar` of their queries, and shares of these queries' clicks.

        All of shape (clicked documents,). Raises CannotAct where there are none.
        """
        shown = self.log.shown(similar.ids, clicked_only=True)
        rows = self.similar.rows[shown.docs]
        known = rows >= 0
        if not known.any():
            raise CannotAct("no similar query in the click log")
        order = np.argsort(similar.ids)
        owners = order[np.searchsorted(similar.ids[order], shown.queries)]
        shares = shown.clicks / np.bincount(owners, shown.clicks, len(similar.ids))[owners]
        return rows[known], owners[known], shares[known]

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """BM25 by term, and the part of each similar query with clicks on the document."""
        return explain_prior(self, query, candidates, doc, context)
