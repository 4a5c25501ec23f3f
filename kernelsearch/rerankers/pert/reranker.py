"""`pert`: expands the query by what its best documents say, with an eye on the risk, and searches again.

Collins-Thompson, "Robust Word Similarity Estimation Using Perturbation Kernels" (ICTIR 2009).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.term_scores import term_scores
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Explanation, OpenedIndex, Reranker
from kernelsearch.rerankers.pert import PERTURBATION
from kernelsearch.rerankers.pert.expansion import Expander, Expansion, read_vectors
from kernelsearch.rerankers.pert.explanation import contributions, grouped, word_records
from kernelsearch.rerankers.pert.plot import draw, plane
from kernelsearch.rerankers.pert.settings import PerturbationSettings
from kernelsearch.trec.weighted_queries import read_weighted_queries, weighted_line, write_weighted_queries


class PerturbationReranker(Reranker[PerturbationSettings]):
    """Query expansion as a second search (default) or as rescoring of the candidates."""

    method = PERTURBATION

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        vectors = read_vectors(self.settings.vectors) if self.settings.vectors else None
        self.expander = Expander(index.forward, self.settings, vectors)
        self.read = read_weighted_queries(self.settings.queries) if self.settings.queries else None
        self.made: dict[str, Query] = {}  #: expanded queries so far, where they are to be saved
        self.alpha = 1.0 if self.settings.method == "rm1" else self.settings.alpha

    def expansion(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> Expansion:
        """What the query grows into, before it is mixed with the query."""
        return self.expander.expand(query, candidates, context.model)

    def expanded(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> Query:
        """The weighted query of the second search."""
        if self.read is not None:
            if query.qid not in self.read:
                raise CannotAct(f"{self.settings.queries} has no expanded query for it")
            return self.read[query.qid]
        return self.expansion(query, candidates, context).mixed(self.alpha)

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> NDArray[np.floating]:
        """The candidates' scores for the expanded query, equal to those of a second search."""
        return self._scores(self.expanded(query, candidates, context), candidates.docs, context)

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The lists of the expanded queries; all second searches are one call into Lucene."""
        found = list(lists)
        if self.alpha == 0:
            return found
        wanted: list[int] = []
        expanded: list[Query] = []
        for place, (query, candidates) in enumerate(zip(queries, lists, strict=True)):
            try:
                expanded.append(self.expanded(query, candidates, context))
                wanted.append(place)
            except CannotAct as reason:
                found[place] = self.keep(candidates, reason)
        self._save(expanded)
        if self.settings.rescore:
            again = [
                self.ordered(lists[place].docs, self._scores(query, lists[place].docs, context))
                for place, query in zip(wanted, expanded, strict=True)
            ]
        else:
            again = self._search(expanded, max((one.depth for one in lists), default=0), context)
        for place, better in zip(wanted, again, strict=True):
            found[place] = better
        return found

    def sweep(
        self,
        queries: Sequence[Query],
        lists: Sequence[Candidates],
        alphas: Sequence[float],
        context: Context = DEFAULT_CONTEXT,
    ) -> list[list[Candidates]]:
        """The lists at several values of alpha, [alpha][query]: one expansion a query, one call into Lucene for them all."""
        grown: list[Expansion | None] = []
        for query, candidates in zip(queries, lists, strict=True):
            try:
                grown.append(self.expansion(query, candidates, context))
            except CannotAct:
                grown.append(None)
        mixed = [one.mixed(alpha) for alpha in alphas if alpha > 0 for one in grown if one is not None]
        results = iter(self._search(mixed, max((one.depth for one in lists), default=0), context))
        return [
            [candidates if one is None or alpha == 0 else next(results) for one, candidates in zip(grown, lists, strict=True)]
            for alpha in alphas
        ]

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """The document's score by word of the expanded query, and every word's relevance, risk, group and source."""
        index = self.index.forward
        records: list[dict[str, Any]] = []
        expanded = self.expanded(query, candidates, context)
        if self.read is None:
            expansion = self.expansion(query, candidates, context)
            records = word_records(index, expansion, grouped(expansion, self.settings.groups))
        rows = np.array([doc], dtype=np.int32)
        parts = term_scores(index, context.model, index.term_ids(expanded.terms), expanded.weights, rows)[0].astype(np.float64)
        notes: dict[str, Any] = {"expanded_query": dict(zip(expanded.terms, expanded.weights, strict=True)), "words": records}
        if self.read is None and expansion.coordinates.size:
            points, axes = plane(expansion, self._strategy())
            notes["axes"] = list(axes)
            for record, (x, y) in zip(records, points.tolist(), strict=True):
                record.update(x=x, y=y)
        reasons = contributions(query, expanded, parts, records)
        return Explanation(self.name, index.docids[doc], float(sum(one.value for one in reasons)), reasons, notes)

    def plot(
        self, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context = DEFAULT_CONTEXT
    ) -> None:
        """Draws the expansion's words in perturbation coordinates."""
        expansion = self.expansion(query, candidates, context)
        if not expansion.coordinates.size:
            raise OptionError(
                "--plot: only --pert.method program with --pert.kernel perturbation or gram has coordinates to draw"
            )
        draw(expansion, grouped(expansion, self.settings.groups), self._strategy(), path)

    def _strategy(self) -> str:
        return "given" if self.settings.vectors else self.settings.strategy

    def _save(self, queries: Sequence[Query]) -> None:
        target = self.settings.save_queries
        if target == "-":
            sys.stdout.writelines(weighted_line(query) + "\n" for query in queries)
        elif target:
            self.made.update((query.qid, query) for query in queries)
            write_weighted_queries(target, self.made.values())

    def _search(self, queries: Sequence[Query], depth: int, context: Context) -> list[Candidates]:
        hits = self.settings.hits or context.hits or depth
        return self.index.lucene.search(queries, hits, model=context.model, threads=context.threads)

    def _scores(self, query: Query, docs: NDArray[np.int32], context: Context) -> NDArray[np.float32]:
        index = self.index.forward
        parts = term_scores(index, context.model, index.term_ids(query.terms), query.weights, docs)
        return parts.sum(axis=1, dtype=np.float64).astype(np.float32)
