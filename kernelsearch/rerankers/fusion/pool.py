"""The candidates of one query as a small collection in memory: the postings are read once for all features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from kernelsearch.core.compiled import PostingRows
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.forward.selection import Occurrences
from kernelsearch.kernels.ranking_models import BM25Query, bm25_table
from kernelsearch.kernels.tfidf import TfidfVectors
from kernelsearch.rerankers.base import OpenedIndex


class CandidateField:
    """The documents `docs` of one field, in memory.

    Rows 0..n-1 are the documents in their order; statistics are those of the whole field. It has the interface that kernels
    require of a collection, so they work on it as on a forward index.
    """

    def __init__(self, field: ForwardIndex, docs: NDArray[np.int32]) -> None:
        self.index, self.docs = field, docs
        self.rows = np.arange(len(docs))
        self.norm_lengths: NDArray[np.float32] = np.asarray(field.norm_lengths[docs])
        self.statistics, self.df, self.cf, self.terms = field.statistics, field.df, field.cf, field.terms
        self.term_ids = field.term_ids

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def indptr(self) -> NDArray[np.int64]:
        """Where each row's postings start, shape (n+1,)."""
        return self.index.select(self.docs).indptr.astype(np.int64)

    @cached_property
    def indices(self) -> NDArray[np.int32]:
        """The postings' term numbers, ascending within a row."""
        return self.index.select(self.docs).terms

    @cached_property
    def frequencies(self) -> NDArray[np.integer]:
        """The postings' frequencies."""
        return self.index.select(self.docs).frequencies

    @cached_property
    def vectors(self) -> TfidfVectors:
        """tf·idf vectors of all rows, which several features share."""
        return TfidfVectors(self.index, self.docs)

    def matrix(self, docs: NDArray[np.integer] | None = None, dtype: DTypeLike = np.float64) -> sparse.csr_matrix:
        """Term frequencies of the rows `docs`, all of them for None, as `dtype`, shape (rows, terms)."""
        return self.index.select(self.docs if docs is None else self.docs[docs]).matrix(dtype)

    def term_frequencies(self, docs: NDArray[np.integer], terms: NDArray[np.integer]) -> NDArray[np.int32]:
        """Frequencies of a few terms in the rows `docs`, dense, shape (rows, terms). Term -1 occurs nowhere."""
        return self.index.term_frequencies(self.docs[docs], terms)

    def compiled_rows(self, docs: NDArray[np.integer]) -> PostingRows | None:
        """The rows `docs` as the compiled loops over the field's postings take them; None without loops."""
        return self.index.compiled_rows(self.docs if docs is self.rows else self.docs[docs])

    def occurrences(self, docs: NDArray[np.integer], terms: NDArray[np.integer]) -> Occurrences:
        """Where distinct terms occur in the rows `docs`."""
        return self.index.occurrences(self.docs[docs], terms)


class Pool:
    """A query and its candidates in `index`, in the first stage's order; fields are read at first use.

    Attributes: `index`, `query`, `candidates`; `products`, inner products of vectors with the query's by name of the vectors,
    where a feature has computed them.
    """

    def __init__(self, index: OpenedIndex, query: Query, candidates: Candidates) -> None:
        self.index, self.query, self.candidates = index, query, candidates
        self.products: dict[str, NDArray[np.float64]] = {}
        self._fields: dict[str, CandidateField] = {}
        self._reordered: dict[str, tuple[Pool, NDArray[np.int64]]] = {}

    def reordered(self, name: str, scores: Callable[[], NDArray[np.float64]]) -> tuple[Pool, NDArray[np.int64]]:
        """The pool by other scores, and the places of its candidates in this one; made once per `name`.

        `scores` returns one score per candidate. Equal scores keep this pool's order.
        """
        if name not in self._reordered:
            values = scores()
            order = np.argsort(-values, kind="stable")
            listed = Candidates(self.candidates.docs[order], values[order])
            self._reordered[name] = Pool(self.index, self.query, listed), order
        return self._reordered[name]

    @property
    def depth(self) -> int:
        """The number of candidates."""
        return self.candidates.depth

    def field(self, name: str) -> CandidateField:
        """The candidates' texts in the field `name` of the index."""
        if name not in self._fields:
            self._fields[name] = CandidateField(self.index.field(name), self.candidates.docs)
        return self._fields[name]

    def bm25(self, queries: Sequence[tuple[str, BM25Query]]) -> list[NDArray[np.float64]]:
        """BM25 of the candidates for each pair of a field's name and a query in its terms, each of shape (candidates,).

        Queries of one field are scored together, because most of the time goes into reading postings.
        """
        out: list[NDArray[np.float64]] = [np.zeros(0)] * len(queries)
        for name in {name: None for name, _ in queries}:
            numbers = [number for number, (other, _) in enumerate(queries) if other == name]
            field = self.field(name)
            table = bm25_table(field, [queries[number][1] for number in numbers], field.rows).astype(np.float64)
            for number, scores in zip(numbers, table, strict=True):
                out[number] = scores
        return out
