"""tf·idf vectors of a few documents, and their cosines with a query or with each other, from one reading of the postings."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels import bm25

Floats = NDArray[np.float64]

_IDF: WeakKeyDictionary[ForwardIndex, Floats] = WeakKeyDictionary()


def vocabulary_idf(index: ForwardIndex) -> Floats:
    """Lucene's inverse document frequency of every term, shape (terms,); computed once per index."""
    idf = _IDF.get(index)
    if idf is None:
        idf = _IDF[index] = bm25.idf(index.df, index.statistics.documents).astype(np.float64)
    return idf


class DocumentVectors:
    """The tf·idf vectors of the rows `docs` of a forward index, as the kernel `cosine` has them.

    Attributes: `matrix` (documents, terms), CSR, not normalised; `inverse_norms` (documents,), 0 for an empty document.
    """

    def __init__(self, index: ForwardIndex, docs: NDArray[np.integer]) -> None:
        self.index = index
        self.selection = selection = index.select(docs)
        data = vocabulary_idf(index).take(selection.indices)
        data *= selection.frequencies
        self.matrix = sparse.csr_matrix((data, selection.terms, selection.indptr), shape=(len(selection), selection.width))
        self.inverse_norms: Floats = np.zeros(len(selection))
        filled = np.flatnonzero(np.diff(selection.indptr))
        if len(filled):  # reduceat can't add up an empty range
            norms = np.sqrt(np.add.reduceat(data * data, selection.indptr[filled]))
            self.inverse_norms[filled] = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)

    def query_cosines(self, terms: ArrayLike, weights: ArrayLike) -> Floats:
        """The cosine of each document with a query of weighted terms, shape (documents,); terms -1 are ignored."""
        numbers, weight = bm25.known_terms(terms, weights)
        idf = vocabulary_idf(self.index)[numbers]
        vector = weight * idf
        length = float(np.sqrt(vector @ vector))
        if length == 0:
            return np.zeros(len(self.selection))
        rows, columns, frequencies = self.selection.occurrences(numbers)
        products = np.bincount(rows, (vector * idf)[columns] * frequencies, len(self.selection))
        return products * self.inverse_norms / length

    def mean_cosines(self, weights: Floats) -> Floats:
        """The weighted sum of the cosines with the first len(weights) documents, shape (documents,)."""
        first, end = len(weights), int(self.matrix.indptr[len(weights)])
        scale = np.repeat(weights * self.inverse_norms[:first], np.diff(self.matrix.indptr[: first + 1]))
        centre = np.bincount(self.selection.indices[:end], self.matrix.data[:end] * scale, self.selection.width)
        return np.asarray(self.matrix @ centre) * self.inverse_norms
