"""What Robust BM25 is compared with, in the same interface: the pairwise kernel, query substitution, a click prior."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.options import Option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.rerankers.rbm25.click_base import LOG_OPTIONS, ClickReranker
from kernelsearch.rerankers.rbm25.reranker import RobustBM25
from kernelsearch.rerankers.rbm25.similar_queries import Similar


class PairwiseKernel(RobustBM25):
    """k_Q · k_D alone: Basilico & Hofmann, "Unifying Collaborative and Content-Based Filtering" (ICML 2004)."""

    name = "pairwise"
    summary = "pairwise kernel: Robust BM25 without BM25 in the kernel"
    uses_bm25 = False
    options: ClassVar[tuple[Option, ...]] = tuple(
        Option("form", str, "paper", option.help, choices=option.choices) if option.name == "form" else option
        for option in RobustBM25.options
    )


class QuerySubstitution(ClickReranker):
    """The list of the most similar clicked query in place of the query's own, when it is another one; then the rest."""

    name = "substitution"
    summary = "query substitution: BM25's list of the most similar logged query"

    def rank(
        self, query: Query, candidates: Candidates, similar: Similar, retrieved: list[Candidates]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        other = next((n for n, near in enumerate(similar.queries) if near.text != query.text.casefold()), None)
        if other is None:
            raise CannotAct("no other query in the click log is similar")
        docs = self.merged(candidates, [retrieved[other]], np.empty(0, dtype=np.int32))
        scores = self.bm25(similar.queries[other], docs)
        # Documents that only the query itself finds come after all others, in its own order.
        own = self.bm25(query, docs)
        return docs, np.where(scores > 0, scores, own / (1.0 + own.max(initial=0.0)) - 1.0)


class ClickPrior(ClickReranker):
    """BM25 plus the clicks of similar queries as a prior: g(q, d) + weight · Σ_i k_Q(q, q_i) · share of q_i's clicks on d."""

    name = "clickprior"
    summary = "click prior: BM25 plus the clicks of similar queries on a document"
    options: ClassVar[tuple[Option, ...]] = (
        *LOG_OPTIONS,
        Option("weight", float, 1.0, "weight of the clicks against BM25 scaled to 1", low=0),
    )

    def rank(
        self, query: Query, candidates: Candidates, similar: Similar, retrieved: list[Candidates]
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
        return docs, scores / max(scores.max(initial=0.0), 1e-9) + self.settings["weight"] * prior
