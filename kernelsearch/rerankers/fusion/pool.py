"""The candidates of one query as a small collection in memory: the postings are read once for all features."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.kernels.documents import Cosine
from kernelsearch.rerankers.base import OpenedIndex


class CandidateField:
    """One field of some documents, in memory.

    Rows 0..n-1 are the documents in their order; statistics are those of the whole field. It has the interface that kernels
    require of a collection, so they work on it as on a forward index.
    """

    def __init__(self, field: ForwardIndex, docs: NDArray[np.int32]) -> None:
        indptr, places = field.gather(docs)
        self.indptr: NDArray[np.int64] = indptr
        self.indices: NDArray[np.int32] = np.asarray(field.indices[places])
        self.frequencies: NDArray[np.integer] = np.asarray(field.frequencies[places])
        self.norm_lengths: NDArray[np.float32] = np.asarray(field.norm_lengths[docs])
        self.statistics, self.df, self.cf, self.terms = field.statistics, field.df, field.cf, field.terms
        self.term_ids = field.term_ids
        self.rows = np.arange(len(docs))
        self._row_of_posting = np.repeat(np.arange(len(docs), dtype=np.int32), np.diff(indptr))
        self._column_of_term = np.full(len(field.terms), -1, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def cosine_features(self) -> sparse.csr_matrix:
        """Unit tf·idf vectors of all rows, which several features share, shape (rows, terms)."""
        return Cosine().document_features(self, self.rows)

    def matrix(self, docs: NDArray[np.integer] | None = None, dtype: DTypeLike = np.float64) -> sparse.csr_matrix:
        """Term frequencies of rows, all of them for None, shape (rows, terms)."""
        parts = (self.frequencies.astype(dtype), self.indices, self.indptr)
        whole = sparse.csr_matrix(parts, shape=(len(self), len(self.terms)))
        return whole if docs is None else whole[docs]

    def term_frequencies(self, docs: NDArray[np.integer], terms: NDArray[np.integer]) -> NDArray[np.int32]:
        """Frequencies of a few terms in rows, dense, shape (rows, terms). Term -1 occurs nowhere."""
        wanted = np.asarray(terms)
        distinct, column = np.unique(wanted[wanted >= 0], return_inverse=True)
        table = np.zeros((len(self), len(distinct)), dtype=np.int32)
        self._column_of_term[distinct] = np.arange(len(distinct))
        columns = self._column_of_term[self.indices]
        matching = np.flatnonzero(columns >= 0)
        table[self._row_of_posting[matching], columns[matching]] = self.frequencies[matching]
        self._column_of_term[distinct] = -1
        out = np.zeros((len(docs), len(wanted)), dtype=np.int32)
        out[:, wanted >= 0] = table[docs][:, column]
        return out


class Pool:
    """A query and its candidates, in the first stage's order; fields are read at first use."""

    def __init__(self, index: OpenedIndex, query: Query, candidates: Candidates) -> None:
        self.index, self.query, self.candidates = index, query, candidates
        self._fields: dict[str, CandidateField] = {}

    @property
    def depth(self) -> int:
        """The number of candidates."""
        return self.candidates.depth

    def field(self, name: str) -> CandidateField:
        """The candidates' texts in a field of the index."""
        if name not in self._fields:
            self._fields[name] = CandidateField(self.index.field(name), self.candidates.docs)
        return self._fields[name]
