"""Features from outside the index's words: vectors of an encoder, and runs of other systems."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.ranking_models import POSTERIOR_DOCUMENTS, posterior_weights
from kernelsearch.rerankers.fusion.features.base import FEEDBACK, Feature, FeatureContext, Floats
from kernelsearch.rerankers.fusion.pool import Pool
from kernelsearch.trec import read_run

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class DenseFeatureSettings(Settings):
    """Parameters of the feature `dense`."""

    owner: ClassVar[str] = "dense"

    vectors: str | None = option(None, "name of the vectors; default: --vectors.name, or the only ones of the index")


class DenseFeature(Feature[DenseFeatureSettings]):
    """The inner product of the query's vector with the documents'.

    A document without a vector gets the value that its first-stage score predicts: that of the straight line through the others
    (least squares over the pool). With their mean instead, a document that words put first would fall behind all those that
    have a vector near to the query's. For a query without a vector all documents get 0.
    """

    settings_type = DenseFeatureSettings
    positional = "vectors"
    retrieves = True
    meaning = "likeness of vectors to the query"
    evidence = "vectors"

    def __init__(self, settings: DenseFeatureSettings, context: FeatureContext) -> None:
        super().__init__(settings, context)
        self.vectors = context.index.vectors(settings.vectors)
        self.vectors.queries.require()

    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        vectors = self.vectors.queries.find([pool.query for pool in pools])
        return [
            np.zeros(pool.depth) if vector is None else self.pool_values(pool, vector)
            for pool, vector in zip(pools, vectors, strict=True)
        ]

    def pool_values(self, pool: Pool, vector: NDArray[np.float32]) -> Floats:
        """The feature's values for one pool and the query's vector, shape (candidates,)."""
        return self._known_or_expected(self.products(pool, vector), pool)

    def products(self, pool: Pool, vector: NDArray[np.float32]) -> Floats:
        """The inner products of a pool's documents with the query's `vector`, NaN for those without one, shape (candidates,).

        Computed once per pool for all features of these vectors, in an array of the caller's own.
        """
        name = self.vectors.name
        if name not in pool.products:
            pool.products[name] = self.vectors.documents.scores(vector, pool.candidates.docs).astype(np.float64)
        return pool.products[name].copy()

    @staticmethod
    def _known_or_expected(scores: Floats, pool: Pool) -> Floats:
        missing = np.isnan(scores)
        if missing.all():
            return np.zeros(pool.depth)
        if missing.any():
            known, first = scores[~missing], np.asarray(pool.candidates.scores, dtype=np.float64)
            deviations = first - first[~missing].mean()
            spread = np.square(deviations[~missing]).sum()
            # The pool joins lists by words and by vectors. In such a union one score tends to fall as the other rises, whatever
            # the documents are, so a negative slope is not used.
            slope = max(0.0, deviations[~missing] @ known / spread) if spread else 0.0
            scores[missing] = known.mean() + slope * deviations[missing]
        return scores

    def retrieve(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        live = self.index.forward.live
        return [docs[live[docs]] for docs, _ in self.vectors.nearest(queries, depth)]


class DenseRelevanceModel(DenseFeature):
    """The inner product of documents' vectors with the posterior mean of the candidates nearest to the query.

    Feedback in the space of the vectors, as `rm` is among words: `ranking_models.posterior_weights` of the inner products
    weights the nearest candidates. Documents and queries without a vector are treated as `dense` treats them.
    """

    meaning = "likeness of vectors to the best documents"
    role = FEEDBACK

    def pool_values(self, pool: Pool, vector: NDArray[np.float32]) -> Floats:
        documents, rows = self.vectors.documents, pool.candidates.docs
        scores = self.products(pool, vector)
        order = np.argsort(-scores, kind="stable")[: min(POSTERIOR_DOCUMENTS, int((~np.isnan(scores)).sum()))]
        if not len(order):
            return np.zeros(pool.depth)
        mean = posterior_weights(scores[order]) @ documents.take(rows[order])
        return self._known_or_expected(documents.scores(mean.astype(np.float32), rows).astype(np.float64), pool)


@dataclass(frozen=True, kw_only=True)
class RunFeatureSettings(Settings):
    """Parameters of the feature `run`."""

    owner: ClassVar[str] = "run"

    file: str | None = option(None, "the run file, or the name that --fusion.runs gives to one")


class RunFeature(Feature[RunFeatureSettings]):
    """The scores of a run file by topic id: any system's list as evidence.

    A document that the run doesn't list gets the lowest score of the run's list. For a topic that the run lacks all documents
    get 0.
    """

    settings_type = RunFeatureSettings
    positional = "file"
    retrieves = True
    meaning = "score of a run"
    evidence = "runs"

    def __init__(self, settings: RunFeatureSettings, context: FeatureContext) -> None:
        super().__init__(settings, context)
        if not settings.file:
            raise OptionError("feature run: names no file; run:FILE, or run:NAME with ", Flag("runs", "fusion"), " NAME=FILE")
        self.path = context.runs.get(settings.file, settings.file)
        context.used_runs.add(settings.file)
        if settings.file not in context.runs and not Path(settings.file).exists():
            raise InputError(
                f"run:{settings.file}: no such file; ", Flag("runs", "fusion"), f" {settings.file}=FILE gives one for that name"
            )
        self.lists: dict[str, Candidates] = {}
        self._incomplete = False
        unknown = 0
        for qid, listed in read_run(self.path).items():
            rows = self.index.forward.rows_of([docid for docid, _ in listed])
            scores = np.array([score for _, score in listed], dtype=np.float64)
            known = rows >= 0
            unknown += int((~known).sum())
            self.lists[qid] = Candidates(rows[known], scores[known])
        if self.lists and not any(listed.depth for listed in self.lists.values()):
            raise InputError(f"none of its {unknown} documents is in {self.index.name}", path=self.path)
        if unknown:
            logger.warning("%s: %d of its documents are not in %s and are left out", self.path, unknown, self.index.name)

    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        return [self._pool_values(pool) for pool in pools]

    def _pool_values(self, pool: Pool) -> Floats:
        listed = self.lists.get(pool.query.qid)
        if listed is None and not self._incomplete:
            self._incomplete = True
            logger.info("%s: has no list for query %s (and maybe others); its documents get 0", self.path, pool.query.qid)
        if listed is None or not listed.depth:
            return np.zeros(pool.depth)
        order = np.argsort(listed.docs, kind="stable")
        docs, scores = listed.docs[order], listed.scores[order]
        places = np.minimum(np.searchsorted(docs, pool.candidates.docs), len(docs) - 1)
        return np.where(docs[places] == pool.candidates.docs, scores[places], scores.min())

    def retrieve(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        none = np.zeros(0, dtype=np.int32)
        return [self.lists[query.qid].docs[:depth] if query.qid in self.lists else none for query in queries]


def read_runs(runs: Sequence[str] | None, option: Flag) -> dict[str, str]:
    """{name: file} of `runs`, an option's values NAME=FILE; raises OptionError, which names `option`, for other values."""
    files: dict[str, str] = {}
    for text in runs or ():
        name, equals, file = text.partition("=")
        if not equals or not name or not file:
            raise OptionError(f"{text!r} should read NAME=FILE", option=option)
        if name in files:
            raise OptionError(f"{name} names two files, {files[name]} and {file}", option=option)
        files[name] = file
    return files
