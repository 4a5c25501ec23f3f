"""Kernels between queries: the clicks they share, their characters, their terms.

Each is a positive semi-definite function of two batches of queries, and so is every sum of them with non-negative weights
(Theorem 4 of Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning", 2010).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.core.types import Query
from kernelsearch.forward import Statistics
from kernelsearch.kernels import ranking_models

#: Columns that n-grams and terms are hashed into; two of a query's few dozen rarely collide. scikit-learn's HashingVectorizer
#: is not used: its collisions are others, which would change scores, and importing scikit-learn takes seconds.
COLUMNS = 1 << 22


class Vocabulary(Protocol):
    """What weighting a query's terms needs; a ForwardIndex has it, and the terms that `rbm25` keeps in memory."""

    @property
    def df(self) -> NDArray[np.int32]: ...

    @property
    def statistics(self) -> Statistics: ...

    def term_ids(self, terms: Sequence[str]) -> NDArray[np.int32]: ...


@dataclass(frozen=True)
class Queries:
    """A batch of queries as the kernels see them: texts, term counts with idf, clicks by document of the log.

    `terms` is CSR of shape (n, COLUMNS) with counts, `idf` has the idf in the same places; `clicks` is CSR of shape
    (n, documents of the log). Parts that no kernel in use needs may be empty matrices.
    """

    texts: tuple[str, ...]
    terms: sparse.csr_matrix = field(default_factory=lambda: sparse.csr_matrix((0, COLUMNS)))
    idf: sparse.csr_matrix = field(default_factory=lambda: sparse.csr_matrix((0, COLUMNS)))
    clicks: sparse.csr_matrix = field(default_factory=lambda: sparse.csr_matrix((0, 0)))

    @classmethod
    def make(cls, queries: Sequence[Query], vocabulary: Vocabulary, clicks: sparse.csr_matrix | None = None) -> Queries:
        """Queries with their terms weighted by the idf of the index `vocabulary`; a term that the index lacks is the rarest.

        A query without terms, of stop words only, has no text either: what its characters share with others means nothing.
        `clicks` (queries, documents of the log) are the clicks of each of `queries`, None where no kernel needs them.
        """
        names = [term for query in queries for term in query.terms]
        counts = np.array([weight for query in queries for weight in query.weights], dtype=np.float64)
        numbers = vocabulary.term_ids(names)
        known = np.maximum(numbers, 0)
        df = np.where(numbers >= 0, vocabulary.df[known] if len(vocabulary.df) else 0, 0)
        indptr = np.concatenate([[0], np.cumsum([len(query.terms) for query in queries])])
        columns, shape = _columns(names), (len(queries), COLUMNS)
        terms = sparse.csr_matrix((counts, columns, indptr), shape=shape)
        idf = sparse.csr_matrix(
            (ranking_models.idf(df, vocabulary.statistics.documents).astype(np.float64), columns, indptr), shape=shape
        )
        texts = tuple(query.text if query.terms else "" for query in queries)
        return cls(texts, terms, idf, clicks if clicks is not None else sparse.csr_matrix((len(queries), 0)))


class TextKernel(Protocol):
    """A kernel between queries with explicit features: sparse rows whose inner products are its values."""

    def features(self, queries: Queries) -> sparse.csr_matrix:
        """Unit-length rows, shape (n, COLUMNS)."""
        ...


def pearson_of_sums(
    products: NDArray[np.floating],
    sums: tuple[NDArray[np.floating], NDArray[np.floating]],
    squares: tuple[NDArray[np.floating], NDArray[np.floating]],
    documents: int,
) -> NDArray[np.float64]:
    """Correlation over `documents` documents, shape as `products`; 0 where it is undefined.

    `products` is Σuv, `sums` are (Σu, Σv), `squares` (Σu², Σv²), each of a shape that broadcasts to that of `products`.
    """
    size = max(documents, 1)
    covariance = products - sums[0] * sums[1] / size
    variance = (squares[0] - sums[0] ** 2 / size) * (squares[1] - sums[1] ** 2 / size)
    # Clicks spread evenly over every document leave rounding error where the variance should be zero.
    defined = variance > 1e-12 * np.maximum(squares[0] * squares[1], 1e-300)
    root = np.sqrt(np.where(defined, variance, 1.0))
    return np.where(defined, np.clip(covariance / root, -1.0, 1.0), 0.0)


def moments(clicks: sparse.csr_matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums and sums of squares of the rows of `clicks`, each of shape (queries,)."""
    return np.asarray(clicks.sum(axis=1)).ravel(), np.asarray(clicks.multiply(clicks).sum(axis=1)).ravel()


def click_correlation(u: sparse.csr_matrix, v: sparse.csr_matrix) -> NDArray[np.float64]:
    """Correlation of the clicks `u` and `v`, shapes (queries, documents of the log); the result has shape (len(u), len(v)).

    Centred over all documents of the log it is the cosine of centred vectors, hence a kernel. A query without clicks correlates
    with none.
    """
    (sum_u, square_u), (sum_v, square_v) = moments(u), moments(v)
    return pearson_of_sums((u @ v.T).toarray(), (sum_u[:, None], sum_v), (square_u[:, None], square_v), u.shape[1])


class NgramCosine:
    """Cosine of counts of character 3-grams: high for misspellings and for words written together or apart."""

    def features(self, queries: Queries) -> sparse.csr_matrix:
        """Unit-length rows of 3-gram counts of `queries`, shape (queries, COLUMNS)."""
        return ngrams(queries.texts)


class TermCosine:
    """Cosine of count · idf over the index's terms."""

    def features(self, queries: Queries) -> sparse.csr_matrix:
        """Unit-length rows of count · idf of `queries`, shape (queries, COLUMNS)."""
        return weighted(queries.terms, queries.terms.data * queries.idf.data)


def ngrams(texts: Sequence[str], n: int = 3) -> sparse.csr_matrix:
    """Unit-length rows of hashed character n-gram counts, shape (len(texts), COLUMNS).

    Texts get a blank on both sides; blank ones have no n-grams.
    """
    padded = [f" {' '.join(text.casefold().split())} ".ljust(n) if text.strip() else "" for text in texts]
    sizes = np.array([len(text) for text in padded], dtype=np.int64)
    codes = np.frombuffer("".join(padded).encode("utf-32-le", errors="replace"), dtype="<u4").astype(np.uint64)
    if not len(codes):
        return sparse.csr_matrix((len(texts), COLUMNS))
    windows = np.zeros(len(codes) - n + 1, dtype=np.uint64)
    for shift in range(n):
        windows = windows * np.uint64(0x100000001B3) + codes[shift : len(codes) - n + 1 + shift] + np.uint64(1)
    windows = (windows ^ (windows >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    columns = (windows >> np.uint64(64 - 22)).astype(np.int64)
    # Windows that begin in the last n - 1 characters of a text reach into the next one.
    place = np.arange(len(columns)) - np.repeat(np.cumsum(sizes) - sizes, sizes)[: len(columns)]
    owner = np.repeat(np.arange(len(texts)), sizes)[: len(columns)]
    inside = place <= sizes[owner] - n
    rows = sparse.csr_matrix((np.ones(int(inside.sum())), (owner[inside], columns[inside])), shape=(len(texts), COLUMNS))
    return _unit(rows)


def _columns(names: Sequence[str]) -> NDArray[np.int64]:
    digest = b"".join(hashlib.blake2b(name.encode("utf-8", errors="replace"), digest_size=8).digest() for name in names)
    return (np.frombuffer(digest, dtype="<u8") % np.uint64(COLUMNS)).astype(np.int64)


def weighted(terms: sparse.csr_matrix, values: NDArray[np.floating]) -> sparse.csr_matrix:
    """Unit-length rows with these `values` in the places of `terms`."""
    # A copy of the places: normalising sorts them.
    return _unit(sparse.csr_matrix((values, terms.indices.copy(), terms.indptr.copy()), shape=terms.shape))


def _unit(rows: sparse.csr_matrix) -> sparse.csr_matrix:
    """Rows of length 1; empty rows stay empty."""
    rows.sum_duplicates()
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    rows.data = rows.data * np.repeat(scale, np.diff(rows.indptr))
    return rows


def compact(*matrices: sparse.csr_matrix) -> list[sparse.csr_matrix]:
    """The same matrices without columns that are empty in all of them, so that products don't iterate over millions of them."""
    indices = [matrix.indices for matrix in matrices]
    used, numbers = np.unique(np.concatenate(indices), return_inverse=True)
    parts = np.split(numbers, np.cumsum([len(part) for part in indices])[:-1])
    return [
        sparse.csr_matrix((matrix.data, part, matrix.indptr), shape=(matrix.shape[0], len(used)))
        for matrix, part in zip(matrices, parts, strict=True)
    ]
