"""Features that take the first stage's best documents for relevant: expanded queries, their posterior, similarity to them."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.options import Settings, option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import relevance
from kernelsearch.kernels.feedback import FeedbackQuery
from kernelsearch.kernels.ranking_models import (
    POSTERIOR_DOCUMENTS,
    POSTERIOR_SHARPNESS,
    BM25Query,
    bm25_search,
    posterior_weights,
)
from kernelsearch.lucene.models import RM3, BM25Model, Feedback, Rocchio
from kernelsearch.rerankers.fusion.features.base import (
    CERTAINTY,
    FEEDBACK,
    BM25Feature,
    FeatureContext,
    FieldFeature,
    FieldSettings,
    Floats,
    PoolFeature,
)
from kernelsearch.rerankers.fusion.pool import CandidateField, Pool


@dataclass(frozen=True, kw_only=True)
class FeedbackSettings(Settings):
    """Parameters of a feature that expands the query."""

    terms: int = option(10, "number of expansion terms", low=1)
    docs: int = option(10, "number of feedback documents", low=1)
    k1: float = option(0.9, "BM25's k1: saturation of term frequencies", low=0)
    b: float = option(0.4, "BM25's b: normalisation by document length", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class RM3Settings(FeedbackSettings):
    """Parameters of the feature `rm3`."""

    owner: ClassVar[str] = "rm3"

    weight: float = option(0.5, "weight of the original query in the expanded one", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class RocchioSettings(FeedbackSettings):
    """Parameters of the feature `rocchio`."""

    owner: ClassVar[str] = "rocchio"

    beta: float = option(0.75, "weight of the feedback documents in the expanded query", low=0)


#: The parameters of a feature that expands the query.
E = TypeVar("E", bound=FeedbackSettings)


class FeedbackFeature(BM25Feature[E]):
    """BM25 of the query as a feedback method of Anserini's expands it from the first stage's best documents."""

    retrieves = True
    role = FEEDBACK

    def __init__(self, settings: E, context: FeatureContext) -> None:
        super().__init__(settings, context)
        self.bm25 = BM25Model(settings.k1, settings.b)
        self.search = context.feedback_search(self.bm25, self.feedback().depth)
        self._cache = threading.local()

    @abstractmethod
    def feedback(self) -> Feedback:
        """The feedback method with this feature's settings."""

    def expansions(self, queries: list[Query]) -> list[FeedbackQuery]:
        """The expanded queries. A thread's last batch is cached: retrieving candidates and scoring them need the same ones."""
        last_queries, expansions = getattr(self._cache, "last", ([], []))
        if last_queries != queries:
            feedback = self.feedback()
            expansions = self.context.expander.expand(queries, self.search.lists(queries, feedback.depth), feedback)
            self._cache.last = queries, expansions
        return expansions

    def bm25_queries(self, pools: Sequence[Pool]) -> list[tuple[str, BM25Query]]:
        return [("contents", query) for query in self._weighted(self.expansions([pool.query for pool in pools]))]

    def _weighted(self, expansions: Sequence[FeedbackQuery]) -> list[BM25Query]:
        return [BM25Query(expansion.terms, expansion.weights, self.bm25.k1, self.bm25.b) for expansion in expansions]

    def retrieve(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        expansions = self.expansions(list(queries))
        forward = self.index.forward
        if (postings := forward.by_term) is not None:
            return [bm25_search(forward, postings, query, depth).docs for query in self._weighted(expansions)]
        expanded = [made.to_query(forward, query) for query, made in zip(queries, expansions, strict=True)]
        lists = self.index.lucene.search(expanded, depth, model=self.bm25, threads=self.context.threads)
        return [ranked.docs for ranked in lists]


class RM3Feature(FeedbackFeature[RM3Settings]):
    """Anserini's RM3."""

    settings_type = RM3Settings
    meaning = "query expanded from the best documents (RM3)"

    def feedback(self) -> Feedback:
        return RM3(self.settings.terms, self.settings.docs, self.settings.weight)


class RocchioFeature(FeedbackFeature[RocchioSettings]):
    """Anserini's Rocchio, without negative feedback."""

    settings_type = RocchioSettings
    meaning = "query expanded from the best documents (Rocchio)"

    def feedback(self) -> Feedback:
        return Rocchio(top_terms=self.settings.terms, top_docs=self.settings.docs, beta=self.settings.beta)


@dataclass(frozen=True, kw_only=True)
class RelevanceModelSettings(FeedbackSettings):
    """Parameters of the feature `rm`."""

    owner: ClassVar[str] = "rm"

    terms: int = option(40, "number of expansion terms", low=1)
    docs: int = option(POSTERIOR_DOCUMENTS, "number of feedback documents", low=1)
    sharpness: float = option(
        POSTERIOR_SHARPNESS, "how fast a feedback document's weight falls with its score; 0: equal weights", low=0, high=1000
    )
    weight: float = option(0.5, "weight of the original query in the expanded one", low=0, high=1)


#: A query in term numbers and their weights, both of shape (terms,).
WeightedTerms = tuple[NDArray[np.int64], Floats]


class RelevanceModel(BM25Feature[RelevanceModelSettings]):
    """BM25 of the query expanded by a relevance model whose documents are weighted by their posterior.

    `ranking_models.posterior_weights` gives p(d|q) from the first stage's own scores: how far a query is expanded beyond its
    best document depends on whether other documents score as well.
    """

    retrieves = True
    settings_type = RelevanceModelSettings
    meaning = "words typical of the best documents"
    role = FEEDBACK

    def __init__(self, settings: RelevanceModelSettings, context: FeatureContext) -> None:
        super().__init__(settings, context)
        self._cache = threading.local()

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """The terms that may expand a query, shape (terms,)."""
        return relevance.usable_words(self.index.forward)

    def expansions(self, queries: Sequence[Query], lists: Sequence[Candidates]) -> list[WeightedTerms]:
        """The expanded queries, by the best documents of their `lists`.

        A thread's last batch is cached: retrieving candidates and scoring them need the same ones.
        """
        last: dict[tuple[Query, bytes, bytes], WeightedTerms] = getattr(self._cache, "last", {})
        batch, out = {}, []
        for query, candidates in zip(queries, lists, strict=True):
            weights = posterior_weights(candidates.scores, self.settings.docs, self.settings.sharpness)
            docs = candidates.docs[: len(weights)]
            key = (query, docs.tobytes(), weights.tobytes())
            expansion = last.get(key)
            batch[key] = expansion = self._expanded(query, docs, weights) if expansion is None else expansion
            out.append(expansion)
        self._cache.last = batch
        return out

    def _expanded(self, query: Query, docs: NDArray[np.int32], weights: Floats) -> WeightedTerms:
        """The query mixed with the relevance model of the feedback documents `docs`, whose weights are given."""
        forward, share = self.index.forward, self.settings.weight
        words = relevance.feedback_words(forward, docs, weights, self.usable)
        words = relevance.strongest(words, self.settings.terms)
        own = np.asarray(forward.term_ids(query.terms), dtype=np.int64)
        own_weights = np.array(query.weights)[own >= 0]
        own = own[own >= 0]
        terms, columns = np.unique(np.concatenate([own, words.terms]), return_inverse=True)
        parts = [share * own_weights / max(own_weights.sum(), 1e-12), (1 - share) * words.p / max(words.p.sum(), 1e-12)]
        return terms, np.bincount(columns, weights=np.concatenate(parts), minlength=len(terms)).astype(np.float64)

    def bm25_queries(self, pools: Sequence[Pool]) -> list[tuple[str, BM25Query]]:
        expansions = self.expansions([pool.query for pool in pools], [pool.candidates for pool in pools])
        return [("contents", query) for query in self._weighted(expansions)]

    def _weighted(self, expansions: Sequence[WeightedTerms]) -> list[BM25Query]:
        return [BM25Query(terms, weights, self.settings.k1, self.settings.b) for terms, weights in expansions]

    def retrieve(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        expansions = self.expansions(queries, lists)
        forward = self.index.forward
        if (postings := forward.by_term) is not None:
            return [bm25_search(forward, postings, query, depth).docs for query in self._weighted(expansions)]
        expanded = [
            Query(query.text, tuple(forward.terms.take(terms)), tuple(weights.tolist()), query.qid)
            for query, (terms, weights) in zip(queries, expansions, strict=True)
        ]
        model, threads = BM25Model(self.settings.k1, self.settings.b), self.context.threads
        return [ranked.docs for ranked in self.index.lucene.search(expanded, depth, model=model, threads=threads)]


@dataclass(frozen=True, kw_only=True)
class PosteriorSettings(Settings):
    """Parameters of the feature `posterior`."""

    owner: ClassVar[str] = "posterior"

    docs: int = option(POSTERIOR_DOCUMENTS, "number of the first stage's best documents that share the probability", low=1)
    sharpness: float = option(
        POSTERIOR_SHARPNESS, "how fast a document's probability falls with its score; 0: equal ones", low=0, high=1000
    )


class Posterior(PoolFeature[PosteriorSettings]):
    """The probability p(d|q) of the first stage's best documents (`ranking_models.posterior_weights`), 0 for the others.

    A document that scores far above all others has nearly all of it. Where many documents score alike, it distinguishes none of
    them.
    """

    settings_type = PosteriorSettings
    meaning = "how far the first stage puts it above the others"
    role = CERTAINTY

    def pool_values(self, pool: Pool) -> Floats:
        weights = posterior_weights(pool.candidates.scores, self.settings.docs, self.settings.sharpness)
        return np.concatenate([weights, np.zeros(pool.depth - len(weights))])


@dataclass(frozen=True, kw_only=True)
class TopSettings(FieldSettings):
    """Parameters of the feature `top`."""

    owner: ClassVar[str] = "top"

    docs: int = option(5, "number of the first stage's best documents to compare with", low=1)
    sharpness: float = option(
        0.0, "how fast a document's weight falls with its score; 0: weights in proportion to the scores", low=0, high=1000
    )


class Top(FieldFeature[TopSettings]):
    """The mean cosine to the first stage's best documents.

    With a `sharpness` they are weighted by their posterior (`ranking_models.posterior_weights`). Without one they are
    weighted by their scores, and a document is no evidence for itself: its own share is left out and the weights of the
    others are scaled to sum to 1. A single document, which has no others, keeps its cosine of 1 with itself.
    """

    settings_type = TopSettings
    role = FEEDBACK

    def __init__(self, settings: TopSettings, context: FeatureContext) -> None:
        super().__init__(settings, context)
        self.meaning = f"likeness to the {settings.docs} best documents"

    def field_values(self, pool: Pool, field: CandidateField) -> Floats:
        best = min(self.settings.docs, pool.depth)
        if self.settings.sharpness:
            posterior = posterior_weights(pool.candidates.scores, best, self.settings.sharpness)
            return field.vectors.mean_cosines(posterior)
        scores = np.maximum(np.asarray(pool.candidates.scores[:best], dtype=np.float64), 1e-9)
        weights = scores / scores.sum()
        values = field.vectors.mean_cosines(weights)
        if best == 1:
            return values
        own = np.where(field.vectors.inverse_norms[:best] > 0, weights, 0.0)  # a document's cosine with itself is 1, or 0
        values[:best] = (values[:best] - own) / (1 - weights)
        return values
