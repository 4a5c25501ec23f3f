"""The common part of methods that use a click log: the log, similar queries, BM25's lists for them, and the merged list."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.importing import WRITER_TIMEOUT, import_log
from kernelsearch.clicks.store import ClickLog, new_database, replace_database
from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.options import Settings
from kernelsearch.core.replacing import lock_folder
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import ranking_models
from kernelsearch.lucene.models import BM25Model, Model
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, OpenedIndex, Reranker, TrainingData
from kernelsearch.rerankers.rbm25.query_vectors import parse_query_kernel
from kernelsearch.rerankers.rbm25.settings import ClickSettings
from kernelsearch.rerankers.rbm25.similar_queries import QueryKernel, Similar, SimilarQueries, check_log, open_log

logger = logging.getLogger(__name__)

#: Why a method does nothing on an empty log, such as one that a service has just begun.
NO_CLICKS = "the click log has no clicks yet"

#: The settings of a method on a click log.
L = TypeVar("L", bound=ClickSettings)


class ClickReranker(Reranker[L]):
    """Base class of the methods on a click log, which add documents that similar queries retrieve; they implement `rank`."""

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self._query_kernel = self.query_kernel()
        self.log = open_log(index, self.settings.clicks, self.name)
        self.has_clicks = self.log.clicked_queries() > 0
        if self.has_clicks:
            _ = self.similar  # so that a log of another index is an error here and not in the first search
        self.model = BM25Model()

    def query_kernel(self) -> QueryKernel:
        """k_Q, by which similar queries are found."""
        vectors = parse_query_kernel(self.settings.queries, self.index.vectors, Flag("queries", self.name))
        return QueryKernel(clicks=self.settings.click_weight, vectors=vectors)

    @cached_property
    def similar(self) -> SimilarQueries:
        """The search for similar queries in the log."""
        return SimilarQueries(self.index, self.log, self._query_kernel, least=self.settings.min_similarity)

    @classmethod
    def fit(cls, index: OpenedIndex, data: TrainingData, settings: Settings) -> Path:
        """Imports the click log `data.clicks`, builds the search for similar queries and returns the imported log's path.

        A log without clicks, or whose documents the index doesn't have, is refused and leaves the previous log as it was. The
        log that is replaced is kept beside it: a service may have recorded it, and clicks can't be made again.
        """
        if data.clicks is None:
            raise OptionError("needs ", Flag("clicks"), ", the log to import", option=Flag("rerank", value=cls.method.name))
        path = (data.output or index.artefacts) / "clicks.db"
        with new_database(path) as imported:
            import_log([data.clicks], imported, progress=data.progress)
            rows = check_log(index, ClickLog(imported), str(data.clicks))
            with lock_folder(path.parent, WRITER_TIMEOUT):
                saved = replace_database(path, imported)
            if saved is not None:
                logger.warning(
                    "%s: another click log belonged to the index; it is kept as %s", path, saved.relative_to(path.parent)
                )
        logger.info("%s: %d of the log's %d documents are in the index", cls.method.name, (rows >= 0).sum(), len(rows))
        SimilarQueries(index, open_log(index, str(path), cls.method.name))
        return path

    @abstractmethod
    def rank(
        self,
        query: Query,
        candidates: Candidates,
        similar: Similar,
        retrieved: list[Candidates],
        context: Context = DEFAULT_CONTEXT,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The merged documents and their scores, in any order; `retrieved` are the lists of the similar queries.

        Raises CannotAct where the log has no evidence for the query.
        """

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The reranked lists; the log and the index are searched once for all queries."""
        if not self.has_clicks:
            return [self.keep(candidates, CannotAct(NO_CLICKS)) for candidates in lists]
        out = []
        similar = self.similar.find(queries, self.settings.similar, lists)
        retrieved = self.retrieve(similar, context)
        for query, candidates, near in zip(queries, lists, similar, strict=True):
            try:
                lists_of_similar = [retrieved[number] for number in near.ids.tolist()]
                ranked = self.ordered(*self.rank(query, candidates, near, lists_of_similar, context))
                out.append(ranked.top(context.hits))
            except CannotAct as reason:
                out.append(self.keep(candidates, reason))
        return out

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> NDArray[np.floating]:
        """The candidates' scores in the merged list."""
        docs, scores = self.rank(query, candidates, *self.find(query, candidates, context), context)
        return scores[np.searchsorted(docs, candidates.docs)]

    def find(self, query: Query, candidates: Candidates, context: Context) -> tuple[Similar, list[Candidates]]:
        """The similar queries of one query, and their lists. Raises CannotAct for a log without clicks."""
        if not self.has_clicks:
            raise CannotAct(NO_CLICKS)
        similar = self.similar.find([query], self.settings.similar, [candidates])[0]
        retrieved = self.retrieve([similar], context)
        return similar, [retrieved[number] for number in similar.ids.tolist()]

    def retrieve(self, similar: Sequence[Similar], context: Context) -> dict[int, Candidates]:
        """The lists of all similar queries, by their number in the log."""
        wanted = {number: query for near in similar for number, query in zip(near.ids.tolist(), near.queries, strict=True)}
        lists = self.index.lucene.search(
            list(wanted.values()), max(self.settings.hits, 1), model=self.retrieval_model(context), threads=context.threads
        )
        return dict(zip(wanted, lists, strict=True))

    def retrieval_model(self, context: Context) -> Model:
        """The ranking model that documents of similar queries are retrieved with."""
        return self.model

    def merged(self, candidates: Candidates, retrieved: list[Candidates], more: NDArray[np.integer]) -> NDArray[np.int32]:
        """The rows of all listed documents and of `more`, each once, ascending.

        `retrieved` are the similar queries' lists, which don't count where the option `hits` is 0.
        """
        lists = [listed.docs for listed in retrieved] if self.settings.hits else []
        return np.unique(np.concatenate([candidates.docs, *lists, more])).astype(np.int32)

    def bm25_of_all(self, queries: Sequence[Query], docs: NDArray[np.integer]) -> NDArray[np.float64]:
        """BM25 of every query with every document, shape (queries, documents)."""
        names = list(dict.fromkeys(term for query in queries for term in query.terms))
        column = {name: number for number, name in enumerate(names)}
        weights = np.zeros((len(queries), len(names)))
        for row, query in enumerate(queries):
            weights[row, [column[term] for term in query.terms]] = query.weights
        numbers = self.similar.vocabulary.term_ids(names)
        parts = ranking_models.bm25_term_scores(
            self.index.forward, numbers, np.ones(len(names)), docs, k1=self.model.k1, b=self.model.b
        )
        return np.asarray(weights @ parts.T.astype(np.float64))
