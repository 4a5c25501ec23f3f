"""The first stage: how candidates are retrieved from Lucene."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernelsearch.core.errors import InputError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene.models import RM3, BM25Model, DirichletModel, Feedback, JelinekMercerModel, Model, Rocchio
from kernelsearch.lucene.rounding import anserini_scores

if TYPE_CHECKING:
    from kernelsearch.lucene.index import LuceneIndex


@dataclass(frozen=True, kw_only=True)
class FirstStageSettings(Settings):
    """Options of the first stage, with Pyserini's names."""

    hits: int = option(1000, "documents a query", low=1)
    bm25: bool = option(True, "rank with BM25")
    k1: float = option(0.9, "BM25's k1", low=0)
    b: float = option(0.4, "BM25's b", low=0, high=1)
    qld: bool = option(False, "query likelihood with Dirichlet smoothing instead of BM25")
    mu: float = option(1000.0, "its mu", low=0)
    qljm: bool = option(False, "query likelihood with Jelinek-Mercer smoothing instead of BM25")
    lambda_: float = option(0.1, "its lambda", low=1e-06, high=1)
    rm3: bool = option(False, "expand with Anserini's RM3")
    rm3_terms: int = option(10, "RM3: expansion terms", low=1)
    rm3_docs: int = option(10, "RM3: feedback documents", low=1)
    rm3_weight: float = option(0.5, "RM3: weight of the original query", low=0, high=1)
    rocchio: bool = option(False, "expand with Anserini's Rocchio")
    rocchio_terms: int = option(10, "Rocchio: expansion terms", low=1)
    rocchio_docs: int = option(10, "Rocchio: feedback documents", low=1)
    rocchio_alpha: float = option(1.0, "Rocchio: weight of the original query", low=0)
    rocchio_beta: float = option(0.75, "Rocchio: weight of the feedback documents", low=0)
    rocchio_gamma: float = option(0.15, "Rocchio: weight of the bottom documents, with --rocchio-use-negative", low=0)
    rocchio_use_negative: bool = option(False, "Rocchio: learn from the bottom of the list too")


@dataclass(frozen=True)
class FirstStage:
    """How candidates are found.

    `fields` (names and weights), `dismax` (its tie breaker) and `query_side` (BM25 of the query's words too) are left to
    Anserini's own searcher, which rounds its scores; with `rounded`, ours are rounded as well.
    """

    model: Model = field(default_factory=BM25Model)
    feedback: Feedback | None = None
    hits: int = 1000
    fields: tuple[tuple[str, float], ...] = ()
    dismax: float | None = None
    query_side: bool = False
    rounded: bool = False

    @classmethod
    def from_settings(cls, given: FirstStageSettings) -> FirstStage:
        """The first stage that the options describe."""
        if given.qld and given.qljm:
            raise InputError("--qld and --qljm exclude each other")
        if given.rm3 and given.rocchio:
            raise InputError("--rm3 and --rocchio exclude each other")
        model: Model = BM25Model(given.k1, given.b)
        if given.qld:
            model = DirichletModel(given.mu)
        elif given.qljm:
            model = JelinekMercerModel(given.lambda_)
        feedback: Feedback | None = None
        if given.rm3:
            feedback = RM3(given.rm3_terms, given.rm3_docs, given.rm3_weight)
        elif given.rocchio:
            feedback = Rocchio(
                top_terms=given.rocchio_terms,
                top_docs=given.rocchio_docs,
                alpha=given.rocchio_alpha,
                beta=given.rocchio_beta,
                gamma=given.rocchio_gamma,
                negative=given.rocchio_use_negative,
                hits=given.hits,
            )
        return cls(model, feedback, given.hits)

    def search(self, lucene: LuceneIndex, queries: Sequence[Query], *, threads: int = 1) -> list[Candidates]:
        """The list of each query."""
        if self.fields or self.query_side:
            from kernelsearch.lucene.simple import search_by_text

            return search_by_text(lucene, queries, self.hits, self.model, self.feedback, self.fields, self.dismax)
        found = lucene.search(queries, self.hits, model=self.model, feedback=self.feedback, threads=threads)
        return [Candidates(one.docs, anserini_scores(one.scores)) for one in found] if self.rounded else found
