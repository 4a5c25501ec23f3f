"""tf·idf vectors of a few documents, and their cosines with a query or with each other, from one reading of the postings."""

from __future__ import annotations

from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kernelsearch.core import compiled
from kernelsearch.forward import ForwardIndex
from kernelsearch.forward.selection import Selection
from kernelsearch.kernels import bm25

Floats = NDArray[np.float64]

_IDF: WeakKeyDictionary[ForwardIndex, Floats] = WeakKeyDictionary()


def vocabulary_idf(index: ForwardIndex) -> Floats:
    """Lucene's inverse document frequency of every term, shape (terms,); computed once per index."""
    idf = _IDF.get(index)
    if idf is None:
        idf = _IDF[index] = bm25.idf(index.df, index.statistics.documents).astype(np.float64)
    return idf


class TfidfVectors:
    """The tf·idf vectors of the rows `docs` of a forward index, as the kernel `cosine` has them."""

    def __init__(self, index: ForwardIndex, docs: NDArray[np.integer]) -> None:
        self.index, self.docs = index, docs

    @cached_property
    def selection(self) -> Selection:
        """The postings of the documents."""
        return self.index.select(self.docs)

    @cached_property
    def matrix(self) -> sparse.csr_matrix:
        """The vectors, not normalised, shape (documents, terms)."""
        selection = self.selection
        data = vocabulary_idf(self.index).take(selection.indices)
        data *= selection.frequencies
        return sparse.csr_matrix((data, selection.terms, selection.indptr), shape=(len(selection), selection.width))

    @cached_property
    def inverse_norms(self) -> Floats:
        """1 over the length of each vector, 0 for an empty document, shape (documents,)."""
        if (rows := self.index.compiled_rows(self.docs)) is not None:
            return compiled_cosines(rows, vocabulary_idf(self.index), np.zeros(0))[1]
        out, data, starts = np.zeros(len(self.docs)), self.matrix.data, self.selection.indptr
        filled = np.flatnonzero(np.diff(starts))
        if len(filled):  # reduceat can't add up an empty range
            norms = np.sqrt(np.add.reduceat(data * data, starts[filled]))
            out[filled] = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        return out

    def query_cosines(self, terms: ArrayLike, weights: ArrayLike) -> Floats:
        """The cosine of each document with a query, shape (documents,).

        `terms` are the numbers of the query's terms, -1 for unknown ones, which are ignored, `weights` their weights, both
        (terms,).
        """
        numbers, weight = bm25.known_terms(terms, weights)
        idf = vocabulary_idf(self.index)[numbers]
        vector = weight * idf
        length = float(np.sqrt(vector @ vector))
        if length == 0:
            return np.zeros(len(self.docs))
        rows, columns, frequencies = self.selection.occurrences(numbers)
        products = np.bincount(rows, (vector * idf)[columns] * frequencies, len(self.selection))
        return products * self.inverse_norms / length

    def mean_cosines(self, weights: Floats) -> Floats:
        """The weighted sum of the cosines with the first len(weights) documents, shape (documents,)."""
        if (rows := self.index.compiled_rows(self.docs)) is not None:
            cosines, self.inverse_norms = compiled_cosines(rows, vocabulary_idf(self.index), weights)
            return cosines
        first, end = len(weights), int(self.matrix.indptr[len(weights)])
        scale = np.repeat(weights * self.inverse_norms[:first], np.diff(self.matrix.indptr[: first + 1]))
        centre = np.bincount(self.selection.indices[:end], self.matrix.data[:end] * scale, self.selection.width)
        return np.asarray(self.matrix @ centre) * self.inverse_norms


def compiled_cosines(rows: compiled.PostingRows, idf: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The sum of each document's cosines with the first ones times their `weights`, and inverse norms, both (documents,).

    `rows` are the documents as the compiled loop takes them, `idf` is that of all terms of the field.
    """
    count, first, width = len(rows.docs), len(weights), rows.postings[-1]
    inverse_norms, out = np.empty(count), np.empty(count)
    compiled.call(
        rows.library.kernelsearch_mean_cosines,
        *(*rows.postings, (rows.docs, np.int32, count), count, (idf, np.float64, width), (weights, np.float64, first), first),
        *((inverse_norms, np.float64, count), (out, np.float64, count)),
    )
    return out, inverse_norms
