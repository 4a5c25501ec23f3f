"""`pert`: expands the query with terms of its best documents, chosen by relevance and risk, and searches again.

Collins-Thompson, "Robust Word Similarity Estimation Using Perturbation Kernels" (ICTIR 2009).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.ranking_models import first_stage_scores
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Explanation, OpenedIndex, Reranker
from kernelsearch.rerankers.pert import PERTURBATION
from kernelsearch.rerankers.pert.expansion import PertExpander, PertExpansion, read_perturbations
from kernelsearch.rerankers.pert.settings import PerturbationSettings
from kernelsearch.trec.weighted_queries import read_weighted_queries, weighted_line, write_weighted_queries

#: Lines that the user asked for, as opposed to messages; the command line prints them to stdout.
output = logging.getLogger("kernelsearch.output")


class PerturbationReranker(Reranker[PerturbationSettings]):
    """Query expansion as a second search (default) or as rescoring of the candidates."""

    method = PERTURBATION

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        perturbations = read_perturbations(self.settings.perturbations) if self.settings.perturbations else None
        self.expander = PertExpander(index.forward, self.settings, perturbations)
        #: Expanded queries of a file by qid; None: they are computed.
        self.read_queries = read_weighted_queries(self.settings.queries) if self.settings.queries else None
        self.alpha = 1.0 if self.settings.method == "rm1" else self.settings.alpha
        self._to_save: dict[str, Query] = {}  # all expanded queries so far by qid, where they are saved

    def expansion(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> PertExpansion:
        """The terms that the query is expanded with, before they are mixed with the query; raises CannotAct without any."""
        return self.expander.expand(query, candidates, context.model, self._single_terms([query], context)[0])

    def _single_terms(self, queries: Sequence[Query], context: Context) -> list[list[Candidates] | None]:
        """The lists of each query's terms alone, where those are the variants: most of a term's best documents lie outside the
        query's own list. One call into Lucene."""
        needed = [query if self.expander.needs_single_terms(query) else None for query in queries]
        alone = [
            Query(term, (term,), (weight,), query.qid)
            for query in needed
            if query is not None
            for term, weight in zip(query.terms, query.weights, strict=True)
        ]
        lists = iter(self.index.lucene.search(alone, self.settings.docs, model=context.model, threads=context.threads))
        return [None if query is None else [next(lists) for _ in query.terms] for query in needed]

    def expanded(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> Query:
        """The weighted query of the second search; raises CannotAct where there is none."""
        return self._expanded(query, candidates, context, self._single_terms([query], context)[0])

    def _expanded(self, query: Query, candidates: Candidates, context: Context, single_terms: list[Candidates] | None) -> Query:
        if self.read_queries is not None:
            if query.qid not in self.read_queries:
                raise CannotAct("the file of queries has no expanded query for it")
            if not any(self.read_queries[query.qid].weights):
                raise CannotAct("the file of queries has no term with a weight above 0 for it")
            return self.read_queries[query.qid]
        return self.expander.expand(query, candidates, context.model, single_terms).mixed(self.alpha)

    def scoring_query(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> Query:
        """As `expanded`."""
        return self.expanded(query, candidates, context)

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> NDArray[np.floating]:
        """The candidates' scores for the expanded query, equal to those of a second search."""
        return self._scores(self.expanded(query, candidates, context), candidates.docs, context)

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The lists of the expanded queries; all second searches are one call into Lucene."""
        out = list(lists)
        if self.alpha == 0:
            return out
        numbers: list[int] = []
        expanded: list[Query] = []
        single_terms = self._single_terms(queries, context)
        for number, (query, candidates) in enumerate(zip(queries, lists, strict=True)):
            try:
                expanded.append(self._expanded(query, candidates, context, single_terms[number]))
                numbers.append(number)
            except CannotAct as reason:
                out[number] = self.keep(candidates, reason)
        self._save(expanded)
        if self.settings.rescore:
            results = [
                self.ordered(lists[number].docs, self._scores(query, lists[number].docs, context))
                for number, query in zip(numbers, expanded, strict=True)
            ]
        else:
            results = self._search(expanded, max((listed.depth for listed in lists), default=0), context)
        for number, result in zip(numbers, results, strict=True):
            out[number] = result
        return out

    def sweep(
        self,
        queries: Sequence[Query],
        lists: Sequence[Candidates],
        alphas: Sequence[float],
        context: Context = DEFAULT_CONTEXT,
    ) -> list[list[Candidates]]:
        """The lists at each of `alphas`, values of alpha, as [alpha][query]: one expansion per query, one call into Lucene."""
        expansions: list[PertExpansion | None] = []
        for query, candidates, single_terms in zip(queries, lists, self._single_terms(queries, context), strict=True):
            try:
                expansions.append(self.expander.expand(query, candidates, context.model, single_terms))
            except CannotAct:
                expansions.append(None)
        mixed = [expansion.mixed(alpha) for alpha in alphas if alpha > 0 for expansion in expansions if expansion is not None]
        results = iter(self._search(mixed, max((listed.depth for listed in lists), default=0), context))
        return [
            [
                candidates if expansion is None or alpha == 0 else next(results)
                for expansion, candidates in zip(expansions, lists, strict=True)
            ]
            for alpha in alphas
        ]

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """The document's score by term of the expanded query, and every term's relevance, risk, group and source."""
        from kernelsearch.rerankers.pert.explanation import explain

        return explain(self, query, candidates, doc, context)

    def plot(
        self, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context = DEFAULT_CONTEXT
    ) -> None:
        """Draws the expansion's terms in perturbation coordinates."""
        from kernelsearch.rerankers.pert.explanation import grouped
        from kernelsearch.rerankers.pert.plot import plot

        expansion = self.expansion(query, candidates, context)
        if not expansion.coordinates.size:
            raise OptionError(
                "only ",
                Flag("method", "pert", value="program"),
                " with ",
                Flag("kernel", "pert", value="perturbation"),
                " or gram has coordinates to draw",
                option=Flag("plot"),
            )
        plot(expansion, grouped(expansion, self.settings.groups), self.strategy, path)

    @property
    def strategy(self) -> str:
        """How the query is perturbed: the option's value, or "file" where --pert.perturbations names a file."""
        return "file" if self.settings.perturbations else self.settings.strategy

    @property
    def in_one_process(self) -> bool:
        """Whether the expanded queries of the run are saved to one file."""
        return bool(self.settings.save_queries)

    def _save(self, queries: Sequence[Query]) -> None:
        target = self.settings.save_queries
        if target == "-":
            for query in queries:
                output.info("%s", weighted_line(query))
        elif target:
            self._to_save.update((query.qid, query) for query in queries)
            write_weighted_queries(target, self._to_save.values())

    def _search(self, queries: Sequence[Query], depth: int, context: Context) -> list[Candidates]:
        hits = self.settings.hits or context.hits or depth
        return self.index.lucene.search(queries, hits, model=context.model, threads=context.threads)

    def _scores(self, query: Query, docs: NDArray[np.int32], context: Context) -> NDArray[np.float32]:
        scores = first_stage_scores(self.index.forward, context.model, query, docs)
        return np.asarray(scores, dtype=np.float32)
