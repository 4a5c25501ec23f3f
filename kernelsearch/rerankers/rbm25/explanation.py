"""Why `rbm25` ranks a document where it does: BM25's part, and the parts of similar queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import ForwardIndex
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.explanations import Contribution, Document, Explanation, Symbol

if TYPE_CHECKING:
    from kernelsearch.rerankers.rbm25.reranker import Learned, RobustBM25
    from kernelsearch.rerankers.rbm25.similar_queries import Similar


def bm25_part(weight: float, base: float) -> Contribution:
    """BM25's own part of a score: its `weight` a times `base`, the share of the query's best BM25."""
    own = Symbol(f"BM25, weight {weight:.3g}", "its own match with the query (BM25)")
    return Contribution(own, weight * base, f"{base:.3f} of this query's best")


def explain(
    reranker: RobustBM25,
    query: Query,
    candidates: Candidates,
    doc: int,
    context: Context,
    own_part: Callable[[float, float], Contribution] = bm25_part,
) -> Explanation:
    """The score of the document in row `doc`: BM25's part, then each similar query's, split by the documents of its pairs.

    The notes hold the similar queries with their kernel values, the preferred documents, the number of preference pairs and the
    weight of BM25.
    `reranker` is the method, `own_part` explains a·g(q, d); the other parameters are those of `Reranker.explain`.
    """
    similar, retrieved = reranker.find(query, candidates, context)
    learned = reranker.learn(similar, retrieved, context)
    pairs = learned.pairs
    docs = reranker.merged(candidates, retrieved, np.append(pairs.docs[np.unique(pairs.better)], doc))
    base = float(reranker.base(query, docs, context)[np.searchsorted(docs, doc)])
    similarity = np.asarray((learned.features @ reranker.features(np.array([doc])).T).todense()).ravel()
    parts = base * learned.strengths() * similarity[np.stack([pairs.better, pairs.worse], axis=1)]
    contributions = [own_part(learned.weight, base)]
    totals = np.bincount(pairs.owner, parts.sum(axis=1), len(similar.ids))
    for number in np.argsort(-np.abs(totals)).tolist():
        contributions.append(_part_of_query(reranker.index.forward, number, learned, parts, similarity))
    columns = (similar.kernel.tolist(), similar.by_clicks.tolist(), similar.by_text.tolist())
    queries = [
        {"query": other.text, "kernel": kernel, "by clicks": clicks, "by text": text}
        for other, kernel, clicks, text in zip(similar.queries, *columns, strict=True)
    ]
    notes: dict[str, Any] = {
        "similar queries": queries,
        "clicked": list(map(Document, reranker.index.forward.docids.take(pairs.docs[np.unique(pairs.better)]))),
        "pairs": len(pairs.owner),
        "weight of BM25": learned.weight,
    }
    total = sum(contribution.value for contribution in contributions)
    return Explanation(reranker.name, reranker.index.forward.docids[doc], total, tuple(contributions), notes)


def _part_of_query(
    forward: ForwardIndex, number: int, learned: Learned, parts: NDArray[np.float64], similarity: NDArray[np.float64]
) -> Contribution:
    """What similar query `number` adds, by the documents of its pairs.

    `parts` (pairs, 2) are the parts of the two documents of a pair, `similarity` (documents of pairs,) is k_D to the document.
    """
    pairs, similar = learned.pairs, learned.similar
    own = np.flatnonzero(pairs.owner == number)
    size = len(pairs.docs)
    values = np.bincount(pairs.better[own], parts[own, 0], size)
    values += np.bincount(pairs.worse[own], parts[own, 1], size)
    labels = np.where(np.isin(np.arange(size), pairs.better[own]), "clicked", "not clicked")
    shown = np.flatnonzero(values)
    shown = shown[np.argsort(-np.abs(values[shown]))]
    docids = forward.docids.take(pairs.docs[shown])
    reasons = tuple(
        Contribution(Document(docid), float(values[row]), f"{labels[row]}, similarity {similarity[row]:.3f}")
        for docid, row in zip(docids, shown.tolist(), strict=True)
    )
    label, detail = similar_query(similar, number)
    return Contribution(label, float(parts[own].sum()), detail, reasons)


def similar_query(similar: Similar, number: int) -> tuple[Symbol, Symbol]:
    """The label and the detail of what query `number` of `similar` adds."""
    text = similar.queries[number].text
    kernel, clicks, texts = (f"{values[number]:.3f}" for values in (similar.kernel, similar.by_clicks, similar.by_text))
    return (
        Symbol(f"'{text}'", f"clicks of those who searched “{text}”"),
        Symbol(f"k_Q {kernel}, clicks {clicks}, text {texts}", f"similarity {kernel}: {clicks} by clicks, {texts} by text"),
    )
