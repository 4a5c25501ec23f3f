"""tf·idf vectors of a few documents, and their cosines with a query or with each other, from one reading of the postings."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kernelsearch.core import compiled
from kernelsearch.core.caching import once_per_object
from kernelsearch.core.types import Query
from kernelsearch.forward import ForwardIndex
from kernelsearch.forward.selection import Selection
from kernelsearch.kernels import ranking_models

Floats = NDArray[np.float64]


@once_per_object
def vocabulary_idf(forward: ForwardIndex) -> Floats:
    """Lucene's inverse document frequency of every term of `forward`, shape (terms,); computed once per index."""
    return ranking_models.idf(forward.df, forward.statistics.documents).astype(np.float64)


@once_per_object
def known_inverse_norms(forward: ForwardIndex) -> Floats:
    """1 over the length of each tf·idf vector of `forward` that was needed, else 0, shape (documents,); one array per index.

    Untouched pages of it take no memory.
    """
    return np.zeros(len(forward))


def unit_query(forward: ForwardIndex, query: Query) -> tuple[NDArray[np.int64], Floats]:
    """The tf·idf vector of `query` at unit length, as the kernel `cosine` has it: term numbers and values, both (terms,).

    Terms that `forward` doesn't have are left out.
    """
    numbers, weights = ranking_models.known_terms(forward.term_ids(query.terms), query.weights)
    vector = weights * vocabulary_idf(forward)[numbers]
    length = float(np.sqrt(vector @ vector))
    return numbers, vector / length if length else vector


class TfidfVectors:
    """The tf·idf vectors of the rows `docs` of a forward index, as the kernel `cosine` has them."""

    def __init__(self, forward: ForwardIndex, docs: NDArray[np.integer]) -> None:
        self.forward, self.docs = forward, docs

    @cached_property
    def _compiled(self) -> compiled.PostingRows | None:
        """The documents as compiled loops take them; None without loops."""
        return self.forward.compiled_rows(self.docs)

    @cached_property
    def selection(self) -> Selection:
        """The postings of the documents."""
        return self.forward.select(self.docs)

    @cached_property
    def matrix(self) -> sparse.csr_matrix:
        """The vectors, not normalised, shape (documents, terms)."""
        selection = self.selection
        data = vocabulary_idf(self.forward).take(selection.indices)
        data *= selection.frequencies
        return sparse.csr_matrix((data, selection.terms, selection.indptr), shape=(len(selection), selection.width))

    @cached_property
    def inverse_norms(self) -> Floats:
        """1 over the length of each vector, 0 for an empty document, shape (documents,)."""
        if self._compiled is not None:
            known = known_inverse_norms(self.forward)
            norms: Floats = known[self.docs]
            missing = np.flatnonzero(norms == 0)
            if len(missing):
                rows = self._compiled._replace(docs=self._compiled.docs[missing])
                # Threads may do this for the same documents: all write the same numbers.
                known[rows.docs] = norms[missing] = compiled_inverse_norms(rows, vocabulary_idf(self.forward))
            return norms
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
        numbers, weight = ranking_models.known_terms(terms, weights)
        idf = vocabulary_idf(self.forward)[numbers]
        vector = weight * idf
        length = float(np.sqrt(vector @ vector))
        if length == 0:
            return np.zeros(len(self.docs))
        if self._compiled is not None:
            return compiled_products(self._compiled, numbers, vector * idf, self.inverse_norms) / length
        rows, columns, frequencies = self.selection.occurrences(numbers)
        products = np.bincount(rows, (vector * idf)[columns] * frequencies, len(self.selection))
        return products * self.inverse_norms / length

    def mean_cosines(self, weights: Floats) -> Floats:
        """The weighted sum of the cosines with the first len(weights) documents, shape (documents,)."""
        if self._compiled is not None:
            return compiled_cosines(self._compiled, vocabulary_idf(self.forward), weights, self.inverse_norms)
        first, end = len(weights), int(self.matrix.indptr[len(weights)])
        scale = np.repeat(weights * self.inverse_norms[:first], np.diff(self.matrix.indptr[: first + 1]))
        centre = np.bincount(self.selection.indices[:end], self.matrix.data[:end] * scale, self.selection.width)
        return np.asarray(self.matrix @ centre) * self.inverse_norms


def compiled_inverse_norms(rows: compiled.PostingRows, idf: Floats) -> Floats:
    """1 over the lengths of the tf·idf vectors of the documents `rows`, 0 for empty ones, shape (documents,).

    `idf` is that of all terms of the field.
    """
    count, out = len(rows.docs), np.empty(len(rows.docs))
    compiled.call(
        rows.library.kernelsearch_inverse_norms,
        *(*rows.postings, (rows.docs, np.int32, count), count, (idf, np.float64, rows.postings[-1]), (out, np.float64, count)),
    )
    return out


def compiled_cosines(rows: compiled.PostingRows, idf: Floats, weights: Floats, inverse_norms: Floats) -> Floats:
    """The sum of each document's cosines with the first ones times their `weights`, shape (documents,).

    `rows` are the documents as the compiled loop takes them, `idf` is that of all terms of the field, `inverse_norms`
    (documents,) are those of the documents.
    """
    count, first, out = len(rows.docs), len(weights), np.empty(len(rows.docs))
    compiled.call(
        rows.library.kernelsearch_mean_cosines,
        *(*rows.postings, (rows.docs, np.int32, count), count, (idf, np.float64, rows.postings[-1])),
        *((weights, np.float64, first), first, (inverse_norms, np.float64, count), (out, np.float64, count)),
    )
    return out


def compiled_products(rows: compiled.PostingRows, terms: NDArray[np.int64], weights: Floats, factors: Floats) -> Floats:
    """The sum of each document's frequencies of `terms` times their `weights` (terms,), times its factor, shape (documents,).

    `rows` are the documents as the compiled loop takes them, `terms` are distinct, `factors` (documents,) those of the
    documents.
    """
    count, size, out = len(rows.docs), len(terms), np.empty(len(rows.docs))
    compiled.call(
        rows.library.kernelsearch_query_products,
        *(*rows.postings, (rows.docs, np.int32, count), count, (terms, np.int64, size), (weights, np.float64, size), size),
        *((factors, np.float64, count), (out, np.float64, count)),
    )
    return out
