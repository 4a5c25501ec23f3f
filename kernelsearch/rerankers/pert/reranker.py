"""`pert`: expands the query with terms of its best documents, chosen by relevance and risk, and searches again.

Collins-Thompson, "Robust Word Similarity Estimation Using Perturbation Kernels" (ICTIR 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.ranking_models import first_stage_scores
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Explanation, OpenedIndex, Reranker
from kernelsearch.rerankers.pert import PERTURBATION
from kernelsearch.rerankers.pert.expansion import PertExpander, PertExpansion
from kernelsearch.rerankers.pert.settings import PerturbationSettings


class PerturbationReranker(Reranker[PerturbationSettings]):
    """Query expansion as a second search."""

    method = PERTURBATION
    #: Largest number of groups of terms in explanations and plots.
    groups = 4

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self.expander = PertExpander(index.forward, self.settings)
        self.alpha = self.settings.alpha

    def expansion(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> PertExpansion:
        """The terms that the query is expanded with, before they are mixed with the query; raises CannotAct without any."""
        return self.expander.expand(query, candidates, context.model, self.single_terms([query], context)[0])

    def expanded(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> Query:
        """The weighted query of the second search; raises CannotAct where there is none."""
        return self.expanded_with(query, candidates, context, self.single_terms([query], context)[0])

    def expanded_with(
        self, query: Query, candidates: Candidates, context: Context, single_terms: list[Candidates] | None
    ) -> Query:
        """As `expanded`, with the query's lists of `single_terms`."""
        return self.expander.expand(query, candidates, context.model, single_terms).mixed(self.alpha)

    def scoring_query(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> Query:
        """As `expanded`."""
        return self.expanded(query, candidates, context)

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> NDArray[np.floating]:
        """The candidates' scores for the expanded query, equal to those of a second search."""
        return self.scores(self.expanded(query, candidates, context), candidates.docs, context)

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The lists of the expanded queries; all second searches are one call into Lucene."""
        out = list(lists)
        if self.alpha == 0:
            return out
        expanded: dict[int, Query] = {}
        single_terms = self.single_terms(queries, context)
        for number, (query, candidates) in enumerate(zip(queries, lists, strict=True)):
            try:
                expanded[number] = self.expanded_with(query, candidates, context, single_terms[number])
            except CannotAct as reason:
                out[number] = self.keep(candidates, reason)
        hits = self.settings.hits or context.hits or max((listed.depth for listed in lists), default=0)
        results = self.results(list(expanded.values()), [lists[number] for number in expanded], hits, context)
        for number, result in zip(expanded, results, strict=True):
            out[number] = result
        return out

    def results(self, expanded: Sequence[Query], lists: Sequence[Candidates], hits: int, context: Context) -> list[Candidates]:
        """The lists of `hits` documents for the `expanded` queries, whose first lists are `lists`."""
        return self.index.lucene.search(expanded, hits, model=context.model, threads=context.threads)

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """The document's score by term of the expanded query, and every term's relevance, risk, group and source."""
        from kernelsearch.rerankers.pert.explanation import explain

        if self.alpha == 0:  # the score is the first stage's
            raise CannotAct("alpha is 0")
        expansion = self.expansion(query, candidates, context)
        return explain(self, query, expansion.mixed(self.alpha), expansion, doc, context)

    def plot(
        self, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context = DEFAULT_CONTEXT
    ) -> None:
        """Draws the expansion's terms in perturbation coordinates."""
        from kernelsearch.rerankers.pert.explanation import grouped
        from kernelsearch.rerankers.pert.plot import plot

        expansion = self.expansion(query, candidates, context)
        plot(expansion, grouped(expansion, self.groups), path)

    def scores(self, query: Query, docs: NDArray[np.int32], context: Context) -> NDArray[np.float32]:
        """The scores of the documents in the rows `docs` for an expanded query."""
        scores = first_stage_scores(self.index.forward, context.model, query, docs)
        return np.asarray(scores, dtype=np.float32)

    def single_terms(self, queries: Sequence[Query], context: Context) -> list[list[Candidates] | None]:
        """The lists of each query's terms alone, where those are the variants; None elsewhere. One call into Lucene."""
        needed = [query if self.expander.needs_single_terms(query) else None for query in queries]
        alone = [
            Query(term, (term,), (weight,), query.qid)
            for query in needed
            if query is not None
            for term, weight in zip(query.terms, query.weights, strict=True)
        ]
        lists = iter(self.index.lucene.search(alone, self.settings.docs, model=context.model, threads=context.threads))
        return [None if query is None else [next(lists) for _ in query.terms] for query in needed]
