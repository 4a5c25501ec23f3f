"""The walk of a query: first stage, candidates, rerankers one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelsearch import rerankers
from kernelsearch.api.index import Index
from kernelsearch.core.errors import InputError
from kernelsearch.core.options import Option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene.models import BM25, RM3, Dirichlet, Feedback, JelinekMercer, Model, Rocchio
from kernelsearch.lucene.rounding import anserini_scores

if TYPE_CHECKING:
    from kernelsearch.rerankers.base import Reranker

#: The first stage's parameters, with Pyserini's names.
FIRST_STAGE = (
    Option("hits", int, 1000, "documents a query", low=1),
    Option("bm25", bool, True, "rank with BM25"),
    Option("k1", float, 0.9, "BM25's k1", low=0),
    Option("b", float, 0.4, "BM25's b", low=0, high=1),
    Option("qld", bool, False, "query likelihood with Dirichlet smoothing instead of BM25"),
    Option("mu", float, 1000.0, "its mu", low=0),
    Option("qljm", bool, False, "query likelihood with Jelinek-Mercer smoothing instead of BM25"),
    Option("lambda", float, 0.1, "its lambda", low=1e-6, high=1),
    Option("rm3", bool, False, "expand with Anserini's RM3"),
    Option("rm3-terms", int, 10, "RM3: expansion terms", low=1),
    Option("rm3-docs", int, 10, "RM3: feedback documents", low=1),
    Option("rm3-weight", float, 0.5, "RM3: weight of the original query", low=0, high=1),
    Option("rocchio", bool, False, "expand with Anserini's Rocchio"),
    Option("rocchio-terms", int, 10, "Rocchio: expansion terms", low=1),
    Option("rocchio-docs", int, 10, "Rocchio: feedback documents", low=1),
    Option("rocchio-alpha", float, 1.0, "Rocchio: weight of the original query", low=0),
    Option("rocchio-beta", float, 0.75, "Rocchio: weight of the feedback documents", low=0),
    Option("rocchio-gamma", float, 0.15, "Rocchio: weight of the bottom documents, with --rocchio-use-negative", low=0),
    Option("rocchio-use-negative", bool, False, "Rocchio: learn from the bottom of the list too"),
)


@dataclass(frozen=True)
class FirstStage:
    """How candidates are found.

    `fields` (names and weights), `dismax` (its tie breaker) and `query_side` (BM25 of the query's words too) are left to
    Anserini's own searcher, which rounds its scores; with `rounded`, ours are rounded as well.
    """

    model: Model = field(default_factory=BM25)
    feedback: Feedback | None = None
    hits: int = 1000
    fields: tuple[tuple[str, float], ...] = ()
    dismax: float | None = None
    query_side: bool = False
    rounded: bool = False

    @classmethod
    def from_settings(cls, given: dict[str, Any]) -> FirstStage:
        """From resolved FIRST_STAGE options."""
        if given["qld"] and given["qljm"]:
            raise InputError("--qld and --qljm exclude each other")
        if given["rm3"] and given["rocchio"]:
            raise InputError("--rm3 and --rocchio exclude each other")
        model: Model = BM25(given["k1"], given["b"])
        if given["qld"]:
            model = Dirichlet(given["mu"])
        elif given["qljm"]:
            model = JelinekMercer(given["lambda"])
        feedback: Feedback | None = None
        if given["rm3"]:
            feedback = RM3(given["rm3_terms"], given["rm3_docs"], given["rm3_weight"])
        elif given["rocchio"]:
            feedback = Rocchio(
                top_terms=given["rocchio_terms"],
                top_docs=given["rocchio_docs"],
                alpha=given["rocchio_alpha"],
                beta=given["rocchio_beta"],
                gamma=given["rocchio_gamma"],
                negative=given["rocchio_use_negative"],
                hits=given["hits"],
            )
        return cls(model, feedback, given["hits"])

    def search(self, index: Index, queries: Sequence[Query], *, threads: int = 1) -> list[Candidates]:
        """The list of each query."""
        if self.fields or self.query_side:
            from kernelsearch.lucene.simple import search_by_text

            return search_by_text(index.lucene, queries, self.hits, self.model, self.feedback, self.fields, self.dismax)
        found = index.lucene.search(queries, self.hits, model=self.model, feedback=self.feedback, threads=threads)
        return [Candidates(one.docs, anserini_scores(one.scores)) for one in found] if self.rounded else found


class Pipeline:
    """A first stage and rerankers over one index."""

    def __init__(self, index: Index, first: FirstStage, methods: Sequence[tuple[str, dict[str, Any]]] = ()) -> None:
        self.index = index
        self.first = first
        self.rerankers: list[Reranker] = []
        for name, options in methods:
            reranker = rerankers.method(name)(index, **options)
            reranker.first_stage, reranker.hits = first.model, first.hits
            self.rerankers.append(reranker)

    def search(self, queries: Sequence[Query], *, threads: int = 1) -> list[Candidates]:
        """The final list of each query."""
        return self.rerank(queries, self.first.search(self.index, queries, threads=threads), threads=threads)

    def rerank(self, queries: Sequence[Query], lists: Sequence[Candidates], *, threads: int = 1) -> list[Candidates]:
        """The lists after all rerankers."""
        current = list(lists)
        for reranker in self.rerankers:
            reranker.threads = threads
            current = reranker.apply_batch(queries, current)
        return current

    def kept(self) -> list[str]:
        """What the rerankers have to say about queries that they left alone, one line each."""
        return [
            f"{reranker.name}: {count} {'query keeps' if count == 1 else 'queries keep'} the first stage's list: {reason}"
            for reranker in self.rerankers
            for reason, count in reranker.kept.most_common()
        ]


def candidates_from_run(index: Index, ranked: Sequence[tuple[str, float]], qid: str, source: str) -> Candidates:
    """A run's list as candidates; a document that the index doesn't have is refused by name."""
    docids = [docid for docid, _ in ranked]
    rows = index.forward.rows_of(docids)
    if (rows < 0).any():
        missing = [docids[place] for place in np.flatnonzero(rows < 0)[:3]]
        raise InputError(
            f"{source}: topic {qid} lists {int((rows < 0).sum())} documents that are not in {index.name}, "
            f"such as {', '.join(missing)}"
        )
    return Candidates(rows, np.array([score for _, score in ranked], dtype=np.float64))


def chunks(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    """Runs of at most `size` items."""
    return (items[start : start + size] for start in range(0, len(items), size))
