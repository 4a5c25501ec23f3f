"""The feature `parts`: BM25 that finds the words of a query inside identifiers of source code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.core.options import Settings, option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import ranking_models
from kernelsearch.kernels.identifiers import word_parts
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers.fusion.features.base import Floats, PoolFeature
from kernelsearch.rerankers.fusion.pool import Pool

#: Identifiers per word of a query that candidates are searched by, those in most documents: Lucene allows 1,024 terms.
SEARCHED, MOST_TERMS = 60, 1000


@dataclass(frozen=True, kw_only=True)
class PartsSettings(Settings):
    """Parameters of the feature `parts`."""

    owner: ClassVar[str] = "parts"

    k1: float = option(0.9, "BM25's k1: saturation of term frequencies", low=0)
    b: float = option(0.4, "BM25's b: normalisation by document length", low=0, high=1)


class Parts(PoolFeature[PartsSettings]):
    """BM25 where a term counts as an occurrence of every word inside it (`kernels.identifiers`)."""

    settings_type = PartsSettings
    retrieves = True
    meaning = "query's words, also those inside identifiers"

    @cached_property
    def words(self) -> sparse.csc_matrix:
        """The terms that have each word inside, the word itself included, shape (terms, words)."""
        parts = word_parts(self.index.forward, self.index.lucene.analyze)
        return (parts + sparse.identity(parts.shape[0])).tocsc()

    @cached_property
    def idf(self) -> Floats:
        """The idf of each word, shape (words,): the documents that have one of its terms, as if terms were independent."""
        forward = self.index.forward
        documents = forward.statistics.documents
        absent = np.log1p(-np.minimum(np.asarray(forward.df) / (documents + 1), 1.0))
        return ranking_models.idf(documents * -np.expm1(self.words.T @ absent), documents).astype(np.float64)

    def known(self, query: Query) -> tuple[NDArray[np.int64], Floats]:
        """The numbers of the query's terms that the index has, and their weights times idf."""
        numbers, weights = ranking_models.known_terms(self.index.forward.term_ids(query.terms), query.weights)
        return numbers, weights * self.idf[numbers]

    def pool_values(self, pool: Pool) -> Floats:
        field, (numbers, weights) = pool.field("contents"), self.known(pool.query)
        average = float(field.statistics.average_length)
        factor = ranking_models.length_factor(field.norm_lengths, average, self.settings.k1, self.settings.b).astype(np.float64)
        frequencies = (field.matrix() @ self.words[:, numbers]).tocoo()
        gains = weights[frequencies.col] * (1 - 1 / (1 + frequencies.data * factor[frequencies.row]))
        return np.asarray(np.bincount(frequencies.row, gains, minlength=pool.depth), dtype=np.float64)

    def retrieve(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        model = BM25Model(self.settings.k1, self.settings.b)
        expanded = [self.expanded(query) for query in queries]
        return [listed.docs for listed in self.index.lucene.search(expanded, depth, model=model, threads=self.context.threads)]

    def expanded(self, query: Query) -> Query:
        """The query with the most frequent identifiers of each of its words, weighted as if they had the word's own idf."""
        forward = self.index.forward
        weights: dict[int, float] = {}
        numbers, known_weights = self.known(query)
        limit = max(1, min(SEARCHED, MOST_TERMS // max(len(numbers), 1)))
        for number, weight in zip(numbers.tolist(), known_weights.tolist(), strict=True):
            terms = self.words.indices[self.words.indptr[number] : self.words.indptr[number + 1]]
            frequent = terms[np.argsort(-np.asarray(forward.df[terms]), kind="stable")[:limit]]
            own = ranking_models.idf(forward.df[frequent], forward.statistics.documents)
            for term, idf in zip(frequent.tolist(), own.tolist(), strict=True):
                weights[term] = weights.get(term, 0.0) + weight / max(idf, 1e-6)
        return Query(query.text, tuple(forward.terms.take(list(weights))), tuple(weights.values()), query.qid)
