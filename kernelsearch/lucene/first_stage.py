"""The first stage: how candidates are retrieved from Lucene."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kernelsearch.core.errors import InputError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene.models import (
    RM3,
    BM25Model,
    DirichletModel,
    Feedback,
    JelinekMercerModel,
    Model,
    Rocchio,
    model_of_expanded,
)
from kernelsearch.lucene.rounding import anserini_scores

if TYPE_CHECKING:
    from kernelsearch.lucene.index import LuceneIndex


@dataclass(frozen=True, kw_only=True)
class FirstStageSettings(Settings):
    """Options of the first stage, with Pyserini's names."""

    hits: int = option(1000, "documents to retrieve per query", low=1)
    bm25: bool = option(True, "rank by BM25")
    k1: float = option(0.9, "BM25: saturation of term frequencies (k1)", low=0)
    b: float = option(0.4, "BM25: document length normalisation (b)", low=0, high=1)
    qld: bool = option(False, "rank by query likelihood with Dirichlet smoothing instead of BM25")
    mu: float = option(1000.0, "--qld: Dirichlet prior (mu)", low=0)
    qljm: bool = option(False, "rank by query likelihood with Jelinek-Mercer smoothing instead of BM25")
    lambda_: float = option(0.1, "--qljm: weight of the collection model (lambda)", low=1e-06, high=1)
    rm3: bool = option(False, "expand queries with Anserini's RM3")
    rm3_terms: int = option(10, "RM3: number of expansion terms", low=1)
    rm3_docs: int = option(10, "RM3: number of feedback documents", low=1)
    rm3_weight: float = option(0.5, "RM3: weight of the original query", low=0, high=1)
    rocchio: bool = option(False, "expand queries with Anserini's Rocchio")
    rocchio_terms: int = option(10, "Rocchio: number of expansion terms", low=1)
    rocchio_docs: int = option(10, "Rocchio: number of feedback documents", low=1)
    rocchio_alpha: float = option(1.0, "Rocchio: weight of the original query", low=0)
    rocchio_beta: float = option(0.75, "Rocchio: weight of the feedback documents", low=0)
    rocchio_gamma: float = option(0.15, "Rocchio: weight of the lowest-ranked documents, with --rocchio-use-negative", low=0)
    rocchio_use_negative: bool = option(False, "Rocchio: use the lowest-ranked documents as negative feedback")


class Expander(Protocol):
    """Computes the queries that a feedback method makes of the best `feedback.depth` documents of each query's list."""

    def __call__(self, queries: Sequence[Query], lists: Sequence[Candidates], feedback: Feedback) -> list[Query]: ...


@dataclass(frozen=True)
class FirstStage:
    """How candidates are retrieved: ranking model, feedback method and number of `hits` per query.

    `fields` (names and boosts), `dismax` (tie breaker of a disjunction-max query over the fields) and `query_side` (BM25
    weights for query terms too) are passed to Anserini's own searcher, which rounds its scores; with `rounded`, the scores of
    all other searches are rounded in the same way.
    """

    model: Model = field(default_factory=BM25Model)
    feedback: Feedback | None = None
    hits: int = 1000
    fields: tuple[tuple[str, float], ...] = ()
    dismax: float | None = None
    query_side: bool = False
    rounded: bool = False

    @classmethod
    def from_settings(cls, settings: FirstStageSettings) -> FirstStage:
        """Returns the first stage that the options `settings` describe; InputError for options that exclude each other."""
        if settings.qld and settings.qljm:
            raise InputError("--qld and --qljm exclude each other")
        if not (settings.bm25 or settings.qld or settings.qljm):
            raise InputError("--no-bm25: documents are ranked by BM25, --qld or --qljm; name one of them")
        if settings.rm3 and settings.rocchio:
            raise InputError("--rm3 and --rocchio exclude each other")
        model: Model = BM25Model(settings.k1, settings.b)
        if settings.qld:
            model = DirichletModel(settings.mu)
        elif settings.qljm:
            model = JelinekMercerModel(settings.lambda_)
        feedback: Feedback | None = None
        if settings.rm3:
            feedback = RM3(settings.rm3_terms, settings.rm3_docs, settings.rm3_weight)
        elif settings.rocchio:
            feedback = Rocchio(
                top_terms=settings.rocchio_terms,
                top_docs=settings.rocchio_docs,
                alpha=settings.rocchio_alpha,
                beta=settings.rocchio_beta,
                gamma=settings.rocchio_gamma,
                negative=settings.rocchio_use_negative,
                hits=settings.hits,
            )
        return cls(model, feedback, settings.hits)

    def expand(
        self, lucene: LuceneIndex, queries: Sequence[Query], *, threads: int = 1, expander: Expander | None = None
    ) -> list[Query]:
        """Returns the queries as the feedback method expands them, unchanged without one.

        `lucene` is the index, `threads` the number of Java threads that share the queries. `expander` computes the feedback; by
        default Anserini does, which needs stored document vectors and gives the same.
        """
        if self.feedback is None:
            return list(queries)
        if expander is None:
            return lucene.expand(queries, self.feedback, model=self.model, threads=threads)
        lists = lucene.search(queries, self.feedback.depth, model=self.model, threads=threads)
        return expander(queries, lists, self.feedback)

    def search(
        self, lucene: LuceneIndex, queries: Sequence[Query], *, threads: int = 1, expander: Expander | None = None
    ) -> list[Candidates]:
        """Returns one ranked list per query, of the index `lucene`.

        `threads` is the number of Java threads that share the queries; `expander` is described at `expand`.
        """
        if self.fields or self.query_side:
            from kernelsearch.lucene.simple import search_by_text

            chosen = self.fields, self.dismax, self.query_side
            return search_by_text(lucene, queries, self.hits, self.model, self.feedback, *chosen)
        model = self.model if self.feedback is None else model_of_expanded(self.feedback, self.model)
        expanded = self.expand(lucene, queries, threads=threads, expander=expander)
        lists = lucene.search(expanded, self.hits, model=model, threads=threads)
        return [Candidates(ranked.docs, anserini_scores(ranked.scores)) for ranked in lists] if self.rounded else lists
