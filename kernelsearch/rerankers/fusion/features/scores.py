"""Features that are not feedback: first-stage scores, kernels, votes of training queries, other rerankers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.options import Settings, option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import ranking_models, registry
from kernelsearch.kernels.ranking_models import BM25Query
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers.base import CannotAct, Context, Reranker
from kernelsearch.rerankers.fusion.features.base import (
    FEEDBACK,
    MATCH,
    F,
    FeatureContext,
    FieldFeature,
    FieldSettings,
    Floats,
    PoolFeature,
)
from kernelsearch.rerankers.fusion.pool import CandidateField, Pool
from kernelsearch.rerankers.registry import Method


class First(PoolFeature[Settings]):
    """The first stage's score."""

    meaning = "score of the first stage"

    def pool_values(self, pool: Pool) -> Floats:
        return np.asarray(pool.candidates.scores, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class BM25FeatureSettings(FieldSettings):
    """Parameters of the feature `bm25`."""

    owner: ClassVar[str] = "bm25"

    k1: float = option(0.9, "BM25's k1: saturation of term frequencies", low=0)
    b: float = option(0.4, "BM25's b: normalisation by document length", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class DirichletFeatureSettings(FieldSettings):
    """Parameters of the feature `dirichlet`."""

    owner: ClassVar[str] = "dirichlet"

    mu: float = option(1000.0, "mu of Dirichlet smoothing", low=1e-9)


@dataclass(frozen=True, kw_only=True)
class JelinekMercerFeatureSettings(FieldSettings):
    """Parameters of the feature `jm`."""

    owner: ClassVar[str] = "jm"

    lam: float = option(0.1, "lambda of Jelinek-Mercer smoothing", low=1e-9, high=1)


class KernelFeature(FieldFeature[F]):
    """The kernel `kernel_name` between query and documents, on a field."""

    def __init__(self, kernel_name: str, settings: F, context: FeatureContext) -> None:
        super().__init__(settings, context)
        self.kernel_name = kernel_name
        in_text = settings.field == "contents"
        self.meaning = registry.kernel(kernel_name).meaning if in_text else f"match in the {settings.field}"

    def bm25_queries(self, pools: Sequence[Pool]) -> list[tuple[str, BM25Query]] | None:
        settings = self.settings
        if self.absent or not isinstance(settings, BM25FeatureSettings):
            return None
        queries = [(pool.field(settings.field).term_ids(pool.query.terms), pool.query.weights) for pool in pools]
        return [(settings.field, BM25Query(terms, weights, settings.k1, settings.b)) for terms, weights in queries]

    def field_values(self, pool: Pool, field: CandidateField) -> Floats:
        settings, query = self.settings, pool.query
        # Kernels that need the query's terms alone have a path that doesn't read whole documents.
        terms = field.term_ids(query.terms)
        if isinstance(settings, BM25FeatureSettings):
            scores = ranking_models.bm25_scores(field, terms, query.weights, field.rows, k1=settings.k1, b=settings.b)
            return scores.astype(np.float64)
        if isinstance(settings, DirichletFeatureSettings):
            return ranking_models.dirichlet_scores(field, terms, query.weights, field.rows, mu=settings.mu)
        if isinstance(settings, JelinekMercerFeatureSettings):
            return ranking_models.jelinek_mercer_scores(field, terms, query.weights, field.rows, lam=settings.lam)
        if self.kernel_name == "cosine":
            return field.vectors.query_cosines(terms, query.weights)
        return registry.kernel(self.kernel_name).scores(field, query, field.rows).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class VotesSettings(Settings):
    """Parameters of the feature `votes`."""

    owner: ClassVar[str] = "votes"

    power: float = option(2.0, "exponent of the queries' similarity; a high one lets only the nearest queries count", low=0.1)
    fade: float = option(
        0.0,
        "exponent of the nearest training query's similarity, by which normalised votes are multiplied: the further away the "
        "training queries, the less votes count; 0: the same for all queries",
        low=0,
    )


class Votes(PoolFeature[VotesSettings]):
    """Votes of similar training queries for their relevant documents, weighted by the similarity of the queries.

    A document can get votes without a term of either query. Without training queries the feature is 0 for all documents.
    Normalised within a query, the votes of distant training queries would count as much as those of near ones; with `fade` they
    count less the further away the nearest one is.
    """

    retrieves = True
    settings_type = VotesSettings
    meaning = "votes of training queries"

    def pool_values(self, pool: Pool) -> Floats:
        votes = self._votes(pool.query)
        return np.zeros(pool.depth) if votes is None else votes[pool.candidates.docs]

    def strengths(self, pools: Sequence[Pool]) -> Floats:
        training = self.context.training_votes
        if training is None or not self.settings.fade:
            return np.ones(len(pools))
        return np.array([training.nearness(pool.query) for pool in pools]) ** self.settings.fade

    def retrieve(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        return [self._best(query, depth) for query in queries]

    def _votes(self, query: Query) -> Floats | None:
        """Votes for all documents of the index, shape (documents,); None without training queries."""
        training = self.context.training_votes
        return None if training is None else training.votes(query, self.settings.power)

    def _best(self, query: Query, depth: int) -> NDArray[np.int32]:
        votes = self._votes(query)
        if votes is None:
            return np.zeros(0, dtype=np.int32)
        voted = np.flatnonzero(votes > 0)
        return voted[np.argsort(-votes[voted], kind="stable")][:depth].astype(np.int32)


class MethodFeature(PoolFeature[Settings]):
    """The scores of another reranker, of the declaration `method`; 0 for all documents where it can't act on a query."""

    retrieves = True

    def __init__(self, method: Method, settings: Settings, context: FeatureContext) -> None:
        super().__init__(settings, context)
        self.reranker: Reranker[Any] = method.make(context.index, **settings.to_dict())
        self.meaning, self.role = method.meaning or method.summary, FEEDBACK if method.feedback else MATCH
        self.reranker_context = Context(context.model, threads=context.threads)

    def bm25_queries(self, pools: Sequence[Pool]) -> list[tuple[str, BM25Query]] | None:
        model, out = self.context.model, []
        if not isinstance(model, BM25Model):
            return None
        for pool in pools:
            try:
                query = self.reranker.scoring_query(pool.query, pool.candidates, self.reranker_context)
            except CannotAct:
                query = Query(pool.query.text, (), ())  # scores 0
            if query is None:
                return None
            terms = self.index.forward.term_ids(query.terms)
            out.append(("contents", BM25Query(terms, query.weights, model.k1, model.b)))
        return out

    def pool_values(self, pool: Pool) -> Floats:
        try:
            scores = self.reranker.score(pool.query, pool.candidates, self.reranker_context)
        except CannotAct:
            return np.zeros(pool.depth)
        return np.asarray(scores, dtype=np.float64)

    def retrieve(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        context = replace(self.reranker_context, hits=depth)
        return [reranked.docs[:depth] for reranked in self.reranker.apply_batch(queries, lists, context)]
