"""Why the baselines of Robust BM25 rank a document where they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.explanations import Contribution, Explanation, Term, Text
from kernelsearch.rerankers.rbm25.explanation import similar_query

if TYPE_CHECKING:
    from kernelsearch.papers.rbm25.baselines import ClickPrior, QuerySubstitution
    from kernelsearch.rerankers.rbm25.base import ClickReranker


def explain_substitution(
    reranker: QuerySubstitution, query: Query, candidates: Candidates, doc: int, context: Context
) -> Explanation:
    """The score of the document in row `doc`: BM25 for the similar query by term, or after its list BM25 for the query itself.

    The parameters are those of `explain`.
    """
    similar, retrieved = reranker.find(query, candidates, context)
    docs, scores = reranker.rank(query, candidates, similar, retrieved, context)
    score = float(scores[np.searchsorted(docs, doc)])
    number = reranker.other(query, similar)
    other = similar.queries[number]
    if score > 0:
        detail = similar_query(similar, number)[1]
        contributions = [Contribution(f"BM25 for '{other.text}'", score, detail, bm25_by_term(reranker, other, doc))]
    else:
        scale = 1.0 + reranker.bm25_of_all([query], docs)[0].max(initial=0.0)
        parts = bm25_by_term(reranker, query, doc, scale)
        own = sum(part.value for part in parts)
        contributions = [
            Contribution("BM25 for the query itself", own, f"divided by {scale:.4f}, 1 more than the best", parts),
            Contribution(f"after the documents of '{other.text}'", -1.0),
        ]
    return Explanation(reranker.name, reranker.index.forward.docids[doc], score, tuple(contributions))


def explain_prior(reranker: ClickPrior, query: Query, candidates: Candidates, doc: int, context: Context) -> Explanation:
    """The score of the document in row `doc`: BM25 by term, and the part of each similar query with clicks on it.

    The parameters are those of `explain`.
    """
    similar, retrieved = reranker.find(query, candidates, context)
    docs, _ = reranker.rank(query, candidates, similar, retrieved, context)
    scale = max(reranker.bm25_of_all([query], docs)[0].max(initial=0.0), 1e-9)
    terms = bm25_by_term(reranker, query, doc, scale)
    own = sum(part.value for part in terms)
    contributions = [Contribution("BM25", own, f"divided by {scale:.4f}, this query's best", terms)]
    rows, owners, shares = reranker.clicks_of(similar)
    for owner, share in zip(owners[rows == doc].tolist(), shares[rows == doc].tolist(), strict=True):
        label, detail = similar_query(similar, owner)
        value = reranker.settings.weight * float(similar.kernel[owner]) * share
        contributions.append(Contribution(label, value, Text(f"{share:.0%} of its clicks, ", detail)))
    score = sum(part.value for part in contributions)
    return Explanation(reranker.name, reranker.index.forward.docids[doc], score, tuple(contributions))


def bm25_by_term(reranker: ClickReranker[Any], query: Query, doc: int, scale: float = 1.0) -> tuple[Contribution, ...]:
    """BM25 of the document in row `doc` for `query` with the parameters of `reranker`, divided by `scale`, by term."""
    terms = [Query("", (term,), (weight,)) for term, weight in zip(query.terms, query.weights, strict=True)]
    scores = reranker.bm25_of_all(terms, np.array([doc]))[:, 0] / scale
    return tuple(Contribution(Term(term), value) for term, value in zip(query.terms, scores.tolist(), strict=True))
