"""The kinds of features: first-stage scores, kernels, feedback, likeness to the top documents, other rerankers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import bm25, likelihood, registry
from kernelsearch.kernels.documents import Cosine
from kernelsearch.lucene.models import RM3, BM25Model, Feedback, Model, Rocchio
from kernelsearch.rerankers.base import CannotAct, Context, OpenedIndex, Reranker
from kernelsearch.rerankers.fusion.pool import FieldOfPool, Pool
from kernelsearch.rerankers.fusion.training_memory import Recollection
from kernelsearch.rerankers.registry import Method

Floats = NDArray[np.float64]

#: The parameters of a feature.
P = TypeVar("P", bound=Settings)
#: The parameters of a feature of one field.
F = TypeVar("F", bound="FieldSettings")


@dataclass(frozen=True, kw_only=True)
class FieldSettings(Settings):
    """Parameters of a feature of one field."""

    field: str = option("contents", "field that the kernel looks at")


class Feature(ABC, Generic[P]):
    """One column of the table. `sources` says whether it can bring candidates of its own."""

    settings_type: ClassVar[type[Settings]] = Settings
    sources: ClassVar[bool] = False

    def __init__(self, index: OpenedIndex, settings: P, model: Model, threads: int) -> None:
        self.index, self.settings, self.model, self.threads = index, settings, model, threads

    @abstractmethod
    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        """A value for each candidate of each pool."""

    def found(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        """The best documents of each query by this feature, from the whole index."""
        raise OptionError(f"feature {type(self).__name__}: brings no candidates of its own")


class PoolFeature(Feature[P]):
    """A feature that looks at one query's candidates at a time."""

    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        return [self.one(pool) for pool in pools]

    @abstractmethod
    def one(self, pool: Pool) -> Floats:
        """A value for each candidate."""


class First(PoolFeature[Settings]):
    """The first stage's score."""

    def one(self, pool: Pool) -> Floats:
        return np.asarray(pool.candidates.scores, dtype=np.float64)


class FieldFeature(PoolFeature[F]):
    """A feature of one field; on an index that doesn't have the field it is 0 for all documents."""

    def __init__(self, index: OpenedIndex, settings: F, model: Model, threads: int) -> None:
        super().__init__(index, settings, model, threads)
        name = settings.field
        self.absent = name != "contents" and index.lucene.field_statistics(name).documents == 0

    def one(self, pool: Pool) -> Floats:
        return np.zeros(pool.depth) if self.absent else self.on(pool, pool.field(self.settings.field))

    @abstractmethod
    def on(self, pool: Pool, field: FieldOfPool) -> Floats:
        """A value for each candidate from a field that the index has."""


class KernelFeature(FieldFeature[Any]):
    """A kernel between query and documents, on a field."""

    def __init__(self, kernel_name: str, index: OpenedIndex, settings: FieldSettings, model: Model, threads: int) -> None:
        super().__init__(index, settings, model, threads)
        self.kernel_name = kernel_name

    def on(self, pool: Pool, field: FieldOfPool) -> Floats:
        settings, query = self.settings, pool.query
        # Kernels that look at the query's terms alone have a path that doesn't read whole documents.
        terms = field.term_ids(query.terms)
        if self.kernel_name == "bm25":
            return bm25.scores(field, terms, query.weights, field.rows, k1=settings.k1, b=settings.b).astype(float)
        if self.kernel_name == "dirichlet":
            parts = likelihood.dirichlet_term_scores(field, terms, query.weights, field.rows, mu=settings.mu)
            return np.asarray(parts.sum(axis=1))
        if self.kernel_name == "jm":
            parts = likelihood.jelinek_mercer_term_scores(field, terms, query.weights, field.rows, lam=settings.lam)
            return np.asarray(parts.sum(axis=1))
        if self.kernel_name == "cosine":
            return (field.cosine_features @ Cosine().query_features(field, query).T).toarray().ravel()
        return registry.kernel(self.kernel_name).scores(field, query, field.rows).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class FeedbackSettings(Settings):
    """Parameters of a feature that expands the query."""

    terms: int = option(10, "expansion terms", low=1)
    docs: int = option(10, "feedback documents", low=1)
    k1: float = option(0.9, "BM25's k1", low=0)
    b: float = option(0.4, "BM25's b", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class RM3Settings(FeedbackSettings):
    """Parameters of the feature `rm3`."""

    owner: ClassVar[str] = "rm3"

    weight: float = option(0.5, "weight of the original query", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class RocchioSettings(FeedbackSettings):
    """Parameters of the feature `rocchio`."""

    owner: ClassVar[str] = "rocchio"

    beta: float = option(0.75, "weight of the feedback documents", low=0)


#: The parameters of a feature that expands the query.
E = TypeVar("E", bound=FeedbackSettings)


class FeedbackFeature(Feature[E]):
    """BM25 of the query that a feedback method of Anserini's makes of the first stage's best documents."""

    sources = True

    def __init__(self, index: OpenedIndex, settings: E, model: Model, threads: int) -> None:
        super().__init__(index, settings, model, threads)
        self.bm25 = BM25Model(settings.k1, settings.b)
        self._expanded: tuple[list[Query], list[Query]] = [], []

    @abstractmethod
    def feedback(self) -> Feedback:
        """The feedback method with this feature's settings."""

    def expanded(self, queries: list[Query]) -> list[Query]:
        """The feedback's queries. The last batch is kept: finding candidates and scoring them ask for the same ones."""
        if self._expanded[0] != queries:
            made = self.index.lucene.expand(queries, self.feedback(), model=self.bm25, threads=self.threads)
            self._expanded = queries, made
        return self._expanded[1]

    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        out = []
        for pool, query in zip(pools, self.expanded([pool.query for pool in pools]), strict=True):
            field = pool.field("contents")
            terms = field.term_ids(query.terms)
            scores = bm25.scores(field, terms, query.weights, field.rows, k1=self.bm25.k1, b=self.bm25.b)
            out.append(scores.astype(np.float64))
        return out

    def found(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        again = self.index.lucene.search(self.expanded(list(queries)), depth, model=self.bm25, threads=self.threads)
        return [one.docs for one in again]


class RM3Feature(FeedbackFeature[RM3Settings]):
    """Anserini's RM3."""

    settings_type = RM3Settings

    def feedback(self) -> Feedback:
        return RM3(self.settings.terms, self.settings.docs, self.settings.weight)


class RocchioFeature(FeedbackFeature[RocchioSettings]):
    """Anserini's Rocchio, without negative feedback."""

    settings_type = RocchioSettings

    def feedback(self) -> Feedback:
        return Rocchio(top_terms=self.settings.terms, top_docs=self.settings.docs, beta=self.settings.beta)


@dataclass(frozen=True, kw_only=True)
class TopSettings(FieldSettings):
    """Parameters of the feature `top`."""

    owner: ClassVar[str] = "top"

    docs: int = option(5, "best documents to compare with", low=1)


class Top(FieldFeature[TopSettings]):
    """The mean cosine to the first stage's best documents, weighted by their scores: how well a document fits in with them.

    A document is no evidence for itself, so its own share is left out and the others count in full.
    """

    settings_type = TopSettings

    def on(self, pool: Pool, field: FieldOfPool) -> Floats:
        features = field.cosine_features
        best = min(self.settings.docs, pool.depth)
        scores = np.maximum(np.asarray(pool.candidates.scores[:best], dtype=np.float64), 1e-9)
        weights = scores / scores.sum()
        top = features[:best]
        values = np.asarray(features @ np.asarray(top.T @ weights).ravel())
        if best == 1:
            values[0] = values.max(initial=0.0)  # the very document that all others are compared with
            return values
        own = np.asarray(top.multiply(top).sum(axis=1)).ravel() * weights
        values[:best] = (values[:best] - own) / (1 - weights)
        return values


@dataclass(frozen=True, kw_only=True)
class VotesSettings(Settings):
    """Parameters of the feature `votes`."""

    owner: ClassVar[str] = "votes"

    power: float = option(2.0, "exponent of the queries' similarity: a high one counts only the nearest", low=0.1)


class Votes(PoolFeature[VotesSettings]):
    """What training queries say that resemble this one: their relevant documents, each with the queries' likeness.

    The words of neither query need stand in such a document. Without a memory it is 0 everywhere.
    """

    sources = True
    settings_type = VotesSettings
    recollection: Recollection | None = None

    def one(self, pool: Pool) -> Floats:
        if self.recollection is None:
            return np.zeros(pool.depth)
        return self.recollection.votes(pool.query, self.settings.power)[pool.candidates.docs]

    def found(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        out = []
        for query in queries:
            if self.recollection is None:
                out.append(np.zeros(0, dtype=np.int32))
                continue
            votes = self.recollection.votes(query, self.settings.power)
            named = np.flatnonzero(votes > 0)
            out.append(named[np.argsort(-votes[named], kind="stable")][:depth].astype(np.int32))
        return out


class MethodFeature(PoolFeature[Settings]):
    """The scores of another reranker, zeros where it can't act on a query."""

    sources = True

    def __init__(self, method: Method, index: OpenedIndex, settings: Settings, model: Model, threads: int) -> None:
        super().__init__(index, settings, model, threads)
        self.reranker: Reranker[Any] = method.make(index, **settings.to_dict())
        self.context = Context(model, threads=threads)

    def one(self, pool: Pool) -> Floats:
        try:
            return np.asarray(self.reranker.score(pool.query, pool.candidates, self.context), dtype=np.float64)
        except CannotAct:
            return np.zeros(pool.depth)

    def found(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        context = replace(self.context, hits=depth)
        return [one.docs[:depth] for one in self.reranker.apply_batch(queries, lists, context)]
