"""A query's candidates as a small collection of their own, so that many features share one look at the postings."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.kernels.documents import Cosine
from kernelsearch.rerankers.base import OpenedIndex


class FieldOfPool:
    """One field of some documents, in memory: rows 0..n-1 are the documents in their order, statistics are the whole field's.

    It is what kernels ask of a collection, so they work on it as on a forward index.
    """

    def __init__(self, field: ForwardIndex, docs: NDArray[np.int32]) -> None:
        indptr, places = field.gather(docs)
        self.indptr: NDArray[np.int64] = indptr
        self.indices: NDArray[np.int32] = np.asarray(field.indices[places])
        self.frequencies: NDArray[Any] = np.asarray(field.frequencies[places])
        self.norm_lengths: NDArray[np.float32] = np.asarray(field.norm_lengths[docs])
        self.statistics, self.df, self.cf, self.terms = field.statistics, field.df, field.cf, field.terms
        self.term_ids = field.term_ids
        self.rows = np.arange(len(docs))
        self._owners = np.repeat(np.arange(len(docs), dtype=np.int32), np.diff(indptr))
        self._slots = np.full(len(field.terms), -1, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def cosine_features(self) -> sparse.csr_matrix:
        """Unit tf·idf vectors of all rows, which several features share, shape (rows, terms)."""
        return Cosine().document_features(self, self.rows)

    def matrix(self, docs: NDArray[np.integer] | None = None, dtype: Any = np.float64) -> sparse.csr_matrix:
        """Term frequencies of rows, shape (rows, terms)."""
        parts = (self.frequencies.astype(dtype), self.indices, self.indptr)
        whole = sparse.csr_matrix(parts, shape=(len(self), len(self.terms)))
        return whole if docs is None else whole[docs]

    def term_frequencies(self, docs: NDArray[np.integer], terms: NDArray[np.integer]) -> NDArray[np.int32]:
        """Frequencies of a few terms in rows, dense, shape (rows, terms). Term -1 occurs nowhere."""
        wanted = np.asarray(terms)
        distinct, column = np.unique(wanted[wanted >= 0], return_inverse=True)
        table = np.zeros((len(self), len(distinct)), dtype=np.int32)
        self._slots[distinct] = np.arange(len(distinct))
        slots = self._slots[self.indices]
        hit = np.flatnonzero(slots >= 0)
        table[self._owners[hit], slots[hit]] = self.frequencies[hit]
        self._slots[distinct] = -1
        out = np.zeros((len(docs), len(wanted)), dtype=np.int32)
        out[:, wanted >= 0] = table[docs][:, column]
        return out


class Pool:
    """A query and its candidates, in the first stage's order; fields are read when first asked for."""

    def __init__(self, index: OpenedIndex, query: Query, candidates: Candidates) -> None:
        self.index, self.query, self.candidates = index, query, candidates
        self._fields: dict[str, FieldOfPool] = {}

    @property
    def depth(self) -> int:
        return self.candidates.depth

    def field(self, name: str) -> FieldOfPool:
        if name not in self._fields:
            self._fields[name] = FieldOfPool(self.index.field(name), self.candidates.docs)
        return self._fields[name]
