"""`pert-paper`: `pert` with the controls of its papers, and with queries that are saved and read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.papers.pert import PAPER_PERTURBATION
from kernelsearch.papers.pert.expansion import PaperExpander
from kernelsearch.papers.pert.settings import PaperPerturbationSettings
from kernelsearch.papers.pert.weighted_queries import read_weighted_queries, weighted_line, write_weighted_queries
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Explanation, OpenedIndex
from kernelsearch.rerankers.pert.reranker import PerturbationReranker

#: Lines that the user asked for, as opposed to messages; the command line prints them to stdout.
output = logging.getLogger("kernelsearch.output")


class PaperPerturbationReranker(PerturbationReranker):
    """Query expansion as a second search (default) or as rescoring of the candidates."""

    method = PAPER_PERTURBATION
    settings: PaperPerturbationSettings
    expander: PaperExpander

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self.expander = PaperExpander(index.forward, self.settings)
        self.alpha = 1.0 if self.settings.method == "rm1" else self.settings.alpha
        self.groups = self.settings.groups
        #: Expanded queries of a file by qid; None: they are computed.
        self.read_queries = read_weighted_queries(self.settings.queries) if self.settings.queries else None
        self._to_save: dict[str, Query] = {}  # all expanded queries so far by qid, where they are saved

    @property
    def in_one_process(self) -> bool:
        """Whether the expanded queries of the run are saved to one file."""
        return bool(self.settings.save_queries)

    def expanded_with(
        self, query: Query, candidates: Candidates, context: Context, single_terms: list[Candidates] | None
    ) -> Query:
        """The weighted query of the second search, computed or from the file of queries.

        The parameters are those of `PerturbationReranker.expanded_with`.
        """
        if self.read_queries is None:
            return super().expanded_with(query, candidates, context, single_terms)
        if query.qid not in self.read_queries:
            raise CannotAct("the file of queries has no expanded query for it")
        if not any(self.read_queries[query.qid].weights):
            raise CannotAct("the file of queries has no term with a weight above 0 for it")
        return self.read_queries[query.qid]

    def results(self, expanded: Sequence[Query], lists: Sequence[Candidates], hits: int, context: Context) -> list[Candidates]:
        """Saves the `expanded` queries where asked to, and searches again or rescores `lists`.

        The parameters are those of `PerturbationReranker.results`.
        """
        self._save(expanded)
        if not self.settings.rescore:
            return super().results(expanded, lists, hits, context)
        return [
            self.ordered(listed.docs, self.scores(query, listed.docs, context))
            for query, listed in zip(expanded, lists, strict=True)
        ]

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """The document's score by term of the expanded query; without records of terms where it was read from a file."""
        from kernelsearch.rerankers.pert.explanation import explain

        if self.read_queries is None or self.alpha == 0:
            return super().explain(query, candidates, doc, context)
        return explain(self, query, self.expanded(query, candidates, context), None, doc, context)

    def plot(
        self, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context = DEFAULT_CONTEXT
    ) -> None:
        """Draws the expansion's terms in perturbation coordinates."""
        if not self.expander.perturbed:
            raise OptionError(
                "only ",
                Flag("method", self.name, value="program"),
                " with ",
                Flag("kernel", self.name, value="perturbation"),
                " or gram has coordinates to draw",
                option=Flag("plot"),
            )
        super().plot(query, candidates, doc, path, context)

    def _save(self, queries: Sequence[Query]) -> None:
        target = self.settings.save_queries
        if target == "-":
            for query in queries:
                output.info("%s", weighted_line(query))
        elif target:
            self._to_save.update((query.qid, query) for query in queries)
            write_weighted_queries(target, self._to_save.values())
