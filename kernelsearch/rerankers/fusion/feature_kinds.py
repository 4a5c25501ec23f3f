"""The kinds of features: first-stage scores, kernels, feedback, likeness to the top documents, other rerankers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch import rerankers
from kernelsearch.api.index import Index
from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import bm25, likelihood, registry
from kernelsearch.kernels.documents import Cosine
from kernelsearch.lucene.models import BM25, RM3, Feedback, Model, Rocchio
from kernelsearch.rerankers.base import CannotAct, Reranker
from kernelsearch.rerankers.fusion.pool import FieldOfPool, Pool
from kernelsearch.rerankers.fusion.training_memory import Recollection

Floats = NDArray[np.float64]

FIELD = Option("field", str, "contents", "field that the kernel looks at")


class Feature(ABC):
    """One column of the table. `sources` says whether it can bring candidates of its own."""

    options: tuple[Option, ...] = ()
    sources = False

    def __init__(self, index: Index, settings: dict[str, Any], model: Model, threads: int) -> None:
        self.index, self.settings, self.model, self.threads = index, settings, model, threads

    @abstractmethod
    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        """A value for each candidate of each pool."""

    def found(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        """The best documents of each query by this feature, from the whole index."""
        raise OptionError(f"feature {type(self).__name__}: brings no candidates of its own")


class PoolFeature(Feature):
    """A feature that looks at one query's candidates at a time."""

    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        return [self.one(pool) for pool in pools]

    @abstractmethod
    def one(self, pool: Pool) -> Floats:
        """A value for each candidate."""


class First(PoolFeature):
    """The first stage's score."""

    def one(self, pool: Pool) -> Floats:
        return np.asarray(pool.candidates.scores, dtype=np.float64)


class FieldFeature(PoolFeature):
    """A feature of one field; on an index that doesn't have the field it is 0 for all documents."""

    def __init__(self, index: Index, settings: dict[str, Any], model: Model, threads: int) -> None:
        super().__init__(index, settings, model, threads)
        name = settings["field"]
        self.absent = name != "contents" and index.lucene.field_statistics(name).documents == 0

    def one(self, pool: Pool) -> Floats:
        return np.zeros(pool.depth) if self.absent else self.on(pool, pool.field(self.settings["field"]))

    @abstractmethod
    def on(self, pool: Pool, field: FieldOfPool) -> Floats:
        """A value for each candidate from a field that the index has."""


class KernelFeature(FieldFeature):
    """A kernel between query and documents, on a field."""

    kernel_name = ""

    def on(self, pool: Pool, field: FieldOfPool) -> Floats:
        settings, query = self.settings, pool.query
        # Kernels that look at the query's terms alone have a path that doesn't read whole documents.
        terms = field.term_ids(query.terms)
        if self.kernel_name == "bm25":
            return bm25.scores(field, terms, query.weights, field.rows, k1=settings["k1"], b=settings["b"]).astype(float)
        if self.kernel_name == "dirichlet":
            parts = likelihood.dirichlet_term_scores(field, terms, query.weights, field.rows, mu=settings["mu"])
            return np.asarray(parts.sum(axis=1))
        if self.kernel_name == "jm":
            parts = likelihood.jelinek_mercer_term_scores(field, terms, query.weights, field.rows, lam=settings["lam"])
            return np.asarray(parts.sum(axis=1))
        if self.kernel_name == "cosine":
            return (field.cosine_features @ Cosine().query_features(field, query).T).toarray().ravel()
        return registry.kernel(self.kernel_name).scores(field, query, field.rows).astype(np.float64)


class FeedbackFeature(Feature):
    """BM25 of the query that a feedback method of Anserini's makes of the first stage's best documents."""

    sources = True
    options: tuple[Option, ...] = (
        Option("terms", int, 10, "expansion terms", low=1),
        Option("docs", int, 10, "feedback documents", low=1),
        Option("k1", float, 0.9, "BM25's k1", low=0),
        Option("b", float, 0.4, "BM25's b", low=0, high=1),
    )

    def __init__(self, index: Index, settings: dict[str, Any], model: Model, threads: int) -> None:
        super().__init__(index, settings, model, threads)
        self.bm25 = BM25(settings["k1"], settings["b"])
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


class RM3Feature(FeedbackFeature):
    """Anserini's RM3."""

    options = (*FeedbackFeature.options, Option("weight", float, 0.5, "weight of the original query", low=0, high=1))

    def feedback(self) -> Feedback:
        return RM3(self.settings["terms"], self.settings["docs"], self.settings["weight"])


class RocchioFeature(FeedbackFeature):
    """Anserini's Rocchio, without negative feedback."""

    options = (*FeedbackFeature.options, Option("beta", float, 0.75, "weight of the feedback documents", low=0))

    def feedback(self) -> Feedback:
        return Rocchio(top_terms=self.settings["terms"], top_docs=self.settings["docs"], beta=self.settings["beta"])


class Top(FieldFeature):
    """The mean cosine to the first stage's best documents, weighted by their scores: how well a document fits in with them.

    A document is no evidence for itself, so its own share is left out and the others count in full.
    """

    options = (Option("docs", int, 5, "best documents to compare with", low=1), FIELD)

    def on(self, pool: Pool, field: FieldOfPool) -> Floats:
        features = field.cosine_features
        best = min(self.settings["docs"], pool.depth)
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


class Votes(PoolFeature):
    """What training queries say that resemble this one: their relevant documents, each with the queries' likeness.

    The words of neither query need stand in such a document. Without a memory it is 0 everywhere.
    """

    sources = True
    options = (Option("power", float, 2.0, "of the likeness of queries: a high one listens to near ones only", low=0.1),)
    recollection: Recollection | None = None

    def one(self, pool: Pool) -> Floats:
        if self.recollection is None:
            return np.zeros(pool.depth)
        return self.recollection.votes(pool.query, self.settings["power"])[pool.candidates.docs]

    def found(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        out = []
        for query in queries:
            if self.recollection is None:
                out.append(np.zeros(0, dtype=np.int32))
                continue
            votes = self.recollection.votes(query, self.settings["power"])
            named = np.flatnonzero(votes > 0)
            out.append(named[np.argsort(-votes[named], kind="stable")][:depth].astype(np.int32))
        return out


class Method(PoolFeature):
    """The scores of another reranker, zeros where it can't act on a query."""

    reranker_name = ""
    sources = True

    def __init__(self, index: Index, settings: dict[str, Any], model: Model, threads: int) -> None:
        super().__init__(index, settings, model, threads)
        self.reranker: Reranker = rerankers.method(self.reranker_name)(index, **settings)
        self.reranker.first_stage, self.reranker.threads = model, threads

    def one(self, pool: Pool) -> Floats:
        try:
            return np.asarray(self.reranker.score(pool.query, pool.candidates), dtype=np.float64)
        except CannotAct:
            return np.zeros(pool.depth)

    def found(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        self.reranker.hits = depth
        return [one.docs[:depth] for one in self.reranker.apply_batch(queries, lists)]
