"""The baselines of Robust BM25 that learn nothing: query substitution and a click prior."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.records import normalise_query
from kernelsearch.core.types import Candidates, Query
from kernelsearch.papers.rbm25 import CLICK_PRIOR, QUERY_SUBSTITUTION
from kernelsearch.papers.rbm25.settings import ClickPriorSettings, QuerySubstitutionSettings
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Contribution, Explanation
from kernelsearch.rerankers.explanations import Term, Text
from kernelsearch.rerankers.rbm25.base import ClickReranker
from kernelsearch.rerankers.rbm25.explanation import similar_query
from kernelsearch.rerankers.rbm25.similar_queries import Similar


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
        similar, retrieved = self.find(query, candidates, context)
        docs, scores = self.rank(query, candidates, similar, retrieved, context)
        score = float(scores[np.searchsorted(docs, doc)])
        number = self.other(query, similar)
        other = similar.queries[number]
        if score > 0:
            detail = similar_query(similar, number)[1]
            contributions = [Contribution(f"BM25 for '{other.text}'", score, detail, bm25_by_term(self, other, doc))]
        else:
            scale = 1.0 + self.bm25_of_all([query], docs)[0].max(initial=0.0)
            parts = bm25_by_term(self, query, doc, scale)
            own = sum(part.value for part in parts)
            contributions = [
                Contribution("BM25 for the query itself", own, f"divided by {scale:.4f}, 1 more than the best", parts),
                Contribution(f"after the documents of '{other.text}'", -1.0),
            ]
        return Explanation(self.name, self.index.forward.docids[doc], score, tuple(contributions))


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
        similar, retrieved = self.find(query, candidates, context)
        docs, _ = self.rank(query, candidates, similar, retrieved, context)
        scale = max(self.bm25_of_all([query], docs)[0].max(initial=0.0), 1e-9)
        terms = bm25_by_term(self, query, doc, scale)
        own = sum(part.value for part in terms)
        contributions = [Contribution("BM25", own, f"divided by {scale:.4f}, this query's best", terms)]
        rows, owners, shares = self.clicks_of(similar)
        for owner, share in zip(owners[rows == doc].tolist(), shares[rows == doc].tolist(), strict=True):
            label, detail = similar_query(similar, owner)
            value = self.settings.weight * float(similar.kernel[owner]) * share
            contributions.append(Contribution(label, value, Text(f"{share:.0%} of its clicks, ", detail)))
        score = sum(part.value for part in contributions)
        return Explanation(self.name, self.index.forward.docids[doc], score, tuple(contributions))


def bm25_by_term(reranker: ClickReranker[Any], query: Query, doc: int, scale: float = 1.0) -> tuple[Contribution, ...]:
    """BM25 of the document in row `doc` for `query` with the parameters of `reranker`, divided by `scale`, by term."""
    terms = [Query("", (term,), (weight,)) for term, weight in zip(query.terms, query.weights, strict=True)]
    scores = reranker.bm25_of_all(terms, np.array([doc]))[:, 0] / scale
    return tuple(Contribution(Term(term), value) for term, value in zip(query.terms, scores.tolist(), strict=True))
