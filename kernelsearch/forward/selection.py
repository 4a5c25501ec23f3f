"""Postings in memory: those of a few documents, which everything that scores the same candidates shares, and those of terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    from scipy import sparse


class Occurrences(NamedTuple):
    """Where some terms occur in some documents: rows of the selection, ascending, columns (terms), and frequencies."""

    rows: NDArray[np.integer]
    columns: NDArray[np.intp]
    frequencies: NDArray[np.integer]


class Selection:
    """Postings of the documents `docs`; rows 0..n-1 are the documents in their order.

    Attributes: `docs` (n,); `indptr` (n+1,), `terms` (nnz,) and `frequencies` (nnz,) as in a forward index; `indices`, the
    terms in the type that numpy indexes with, since it converts other types on every use; `width`, the number of terms of the
    whole field.
    """

    def __init__(
        self,
        docs: NDArray[np.integer],
        indptr: NDArray[np.integer],
        terms: NDArray[np.int32],
        frequencies: NDArray[np.integer],
        width: int,
    ) -> None:
        self.docs = docs
        self.indptr = indptr
        self.terms = terms
        self.indices: NDArray[np.intp] = terms.astype(np.intp)
        self.frequencies = frequencies
        self.width = width
        self._columns: NDArray[np.int32] | None = None  # of each term of the field, -1 between two calls
        self._occurrences: dict[bytes, Occurrences] = {}

    def __len__(self) -> int:
        return len(self.docs)

    def occurrences(self, terms: NDArray[np.integer]) -> Occurrences:
        """Returns where distinct terms occur; term -1 occurs nowhere. Answers are cached: features share a query's terms."""
        terms = np.asarray(terms, dtype=np.int64)
        key = terms.tobytes()
        if key not in self._occurrences:
            known = np.flatnonzero(terms >= 0)
            columns = np.full(self.width, -1, dtype=np.int32) if self._columns is None else self._columns
            columns[terms[known]] = known
            matched = columns.take(self.indices)
            columns[terms[known]] = -1
            self._columns = columns
            places = np.flatnonzero(matched >= 0)
            rows = np.searchsorted(self.indptr, places, side="right") - 1
            self._occurrences[key] = Occurrences(rows, matched[places].astype(np.intp), self.frequencies[places])
        return self._occurrences[key]

    def term_frequencies(self, terms: NDArray[np.integer]) -> NDArray[np.int32]:
        """Returns the frequencies of terms, dense, shape (n, terms); zeros for term -1. A term may be there twice."""
        terms = np.asarray(terms)
        distinct, column = np.unique(terms, return_inverse=True)
        occurrences = self.occurrences(distinct)
        table = np.zeros((len(self), len(distinct)), dtype=np.int32)
        table[occurrences.rows, occurrences.columns] = occurrences.frequencies
        return table if np.array_equal(distinct, terms) else table[:, column]

    def matrix(self, dtype: DTypeLike = np.float64) -> sparse.csr_matrix:
        """Returns the term frequencies as CSR of `dtype`, shape (n, width)."""
        from scipy import sparse

        return sparse.csr_matrix((self.frequencies.astype(dtype), self.terms, self.indptr), shape=(len(self), self.width))


class TermPostings(NamedTuple):
    """All postings of a field by term: those of term t are at indptr[t] to indptr[t+1]-1, documents ascending."""

    indptr: NDArray[np.int64]
    docs: NDArray[np.int32]
    frequencies: NDArray[np.integer]

    def occurrences(self, terms: NDArray[np.integer]) -> Occurrences:
        """Returns where `terms` occur in all documents, one term after the other."""
        starts = self.indptr[terms]
        sizes = self.indptr[terms + 1] - starts
        columns = np.repeat(np.arange(len(terms)), sizes)
        places = np.arange(len(columns)) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        return Occurrences(self.docs[places], columns, self.frequencies[places])
