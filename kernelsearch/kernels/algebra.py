"""What a kernel is here, and how kernels combine.

A kernel compares documents with each other, k_d(m, n), and, where it has a query side, queries with documents, k(q, d). Most
have an explicit feature map: k(q, d) = <φ_Q(q), φ_D(d)> and k_d(m, n) = <φ_D(m), φ_D(n)>.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), Definition 1; Lemma 1 says that scaling, sums and products of
asymmetric kernels are asymmetric kernels, which the operators below follow: `2 * BM25() + VSM()`, `BM25() * Cosine()`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from kernelsearch.core.compiled import PostingRows
from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Query
from kernelsearch.forward import Statistics, StringTable
from kernelsearch.forward.selection import Occurrences


class Collection(Protocol):
    """What kernels need of a field's postings; a ForwardIndex has it."""

    statistics: Statistics

    @property
    def indptr(self) -> NDArray[np.int64]: ...

    @property
    def indices(self) -> NDArray[np.int32]: ...

    @property
    def frequencies(self) -> NDArray[Any]: ...

    df: NDArray[np.int32]
    cf: NDArray[np.int64]
    terms: StringTable

    @property
    def norm_lengths(self) -> NDArray[np.float32]: ...

    def term_ids(self, terms: Iterable[str]) -> NDArray[np.int32]: ...

    def matrix(self, docs: NDArray[np.integer] | None = None, dtype: DTypeLike = np.float64) -> sparse.csr_matrix: ...

    def term_frequencies(self, docs: NDArray[np.integer], terms: NDArray[np.integer]) -> NDArray[np.int32]: ...

    def occurrences(self, docs: NDArray[np.integer], terms: NDArray[np.integer]) -> Occurrences: ...

    def compiled_rows(self, docs: NDArray[np.integer]) -> PostingRows | None: ...

    def __len__(self) -> int: ...


class Kernel:
    """Base of all kernels.

    Parameters of the methods: `collection`, the postings of a field (a ForwardIndex); `docs`, `a` and `b`, row numbers of the
    collection; `query`, an analysed query; `dtype`, the type of the features.

    `has_map`: the feature maps are explicit. `wide`: they have products of features, too many for a table by feature.
    `has_query`: queries can be compared with documents. `meaning`: what the kernel between a query and a document measures, in
    explanations; "": not known.
    """

    has_map: bool = True
    wide: bool = False
    has_query: bool = True
    meaning: ClassVar[str] = ""

    def width(self, collection: Collection) -> int:
        """The number of features."""
        return len(self.feature_terms(collection))

    def feature_terms(self, collection: Collection) -> NDArray[np.int64]:
        """The term number that each feature belongs to, -1 for features that aren't terms; shape (features,)."""
        return np.arange(len(collection.terms), dtype=np.int64)

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        """φ_D of each document, shape (documents, features)."""
        raise OptionError(f"kernel {self}: has no explicit feature map")

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        """φ_Q of a query, shape (1, features)."""
        reason = "has no explicit feature map" if self.has_query else "compares documents only, not queries with documents"
        raise OptionError(f"kernel {self}: {reason}")

    def scores(self, collection: Collection, query: Query, docs: NDArray[np.integer]) -> NDArray[np.floating]:
        """k(q, d) of each document, shape (documents,)."""
        weights = self.query_features(collection, query)
        return np.asarray((self.document_features(collection, docs) @ weights.T).todense()).ravel()

    def documents(self, collection: Collection, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.floating]:
        """k_d between two sets of documents, shape (len(a), len(b))."""
        left = self.document_features(collection, a)
        right = left if a is b else self.document_features(collection, b)
        return np.asarray((left @ right.T).todense())

    def __mul__(self, other: Kernel | float) -> Kernel:
        return Product(self, other) if isinstance(other, Kernel) else Scaled(float(other), self)

    def __rmul__(self, factor: float) -> Kernel:
        return Scaled(float(factor), self)

    def __add__(self, other: Kernel) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented


@dataclass(frozen=True)
class Scaled(Kernel):
    """α·k (Lemma 1.1). √|α| is on either side, so that the document kernel is |α|·k_d and stays positive semi-definite."""

    factor: float
    kernel: Kernel

    def __post_init__(self) -> None:
        if not math.isfinite(self.factor):
            raise OptionError(f"kernel: factor {self.factor} is not a finite number")

    def __str__(self) -> str:
        return f"{self.factor:.15g}*{_in_product(self.kernel)}"

    @property
    def has_map(self) -> bool:  # type: ignore[override]
        return self.kernel.has_map

    @property
    def wide(self) -> bool:  # type: ignore[override]
        return self.kernel.wide

    @property
    def has_query(self) -> bool:  # type: ignore[override]
        return self.kernel.has_query

    def width(self, collection: Collection) -> int:
        return self.kernel.width(collection)

    def feature_terms(self, collection: Collection) -> NDArray[np.int64]:
        return self.kernel.feature_terms(collection)

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        return self.kernel.document_features(collection, docs, dtype) * np.asarray(math.sqrt(abs(self.factor)), dtype)[()]

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        return self.kernel.query_features(collection, query) * math.copysign(math.sqrt(abs(self.factor)), self.factor)

    def scores(self, collection: Collection, query: Query, docs: NDArray[np.integer]) -> NDArray[np.floating]:
        return self.factor * self.kernel.scores(collection, query, docs)

    def documents(self, collection: Collection, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.floating]:
        return abs(self.factor) * self.kernel.documents(collection, a, b)


@dataclass(frozen=True)
class Sum(Kernel):
    """k₁ + k₂ (Lemma 1.2): the features are concatenated."""

    left: Kernel
    right: Kernel

    def __str__(self) -> str:
        return f"{self.left}+{self.right}"

    @property
    def has_map(self) -> bool:  # type: ignore[override]
        return self.left.has_map and self.right.has_map

    @property
    def wide(self) -> bool:  # type: ignore[override]
        return self.left.wide or self.right.wide

    @property
    def has_query(self) -> bool:  # type: ignore[override]
        return self.left.has_query and self.right.has_query

    def width(self, collection: Collection) -> int:
        return self.left.width(collection) + self.right.width(collection)

    def feature_terms(self, collection: Collection) -> NDArray[np.int64]:
        return np.concatenate([self.left.feature_terms(collection), self.right.feature_terms(collection)])

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        parts = [kernel.document_features(collection, docs, dtype) for kernel in (self.left, self.right)]
        return sparse.csr_matrix(sparse.hstack(parts, format="csr"))

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        parts = [kernel.query_features(collection, query) for kernel in (self.left, self.right)]
        return sparse.csr_matrix(sparse.hstack(parts, format="csr"))

    def scores(self, collection: Collection, query: Query, docs: NDArray[np.integer]) -> NDArray[np.floating]:
        left = self.left.scores(collection, query, docs).astype(np.float64)
        return left + self.right.scores(collection, query, docs)

    def documents(self, collection: Collection, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.floating]:
        return self.left.documents(collection, a, b) + self.right.documents(collection, a, b)


@dataclass(frozen=True)
class Product(Kernel):
    """k₁·k₂ (Lemma 1.3). Its map is the tensor product of the two: feature i·w₂ + j is the product of features i and j."""

    left: Kernel
    right: Kernel
    wide = True

    def __str__(self) -> str:
        return f"{_in_product(self.left)}*{_in_product(self.right)}"

    @property
    def has_map(self) -> bool:  # type: ignore[override]
        return self.left.has_map and self.right.has_map

    @property
    def has_query(self) -> bool:  # type: ignore[override]
        return self.left.has_query and self.right.has_query

    def width(self, collection: Collection) -> int:
        return self.left.width(collection) * self.right.width(collection)

    def feature_terms(self, collection: Collection) -> NDArray[np.int64]:
        return np.full(self.width(collection), -1, dtype=np.int64)

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        if not self.has_map:
            return super().document_features(collection, docs, dtype)
        return _tensor(*(kernel.document_features(collection, docs, dtype) for kernel in (self.left, self.right)))

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        if not (self.has_map and self.has_query):
            return super().query_features(collection, query)
        return _tensor(*(kernel.query_features(collection, query) for kernel in (self.left, self.right)))

    def scores(self, collection: Collection, query: Query, docs: NDArray[np.integer]) -> NDArray[np.floating]:
        left = self.left.scores(collection, query, docs).astype(np.float64)
        return left * self.right.scores(collection, query, docs)

    def documents(self, collection: Collection, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.floating]:
        return self.left.documents(collection, a, b) * self.right.documents(collection, a, b)


def _tensor(left: sparse.csr_matrix, right: sparse.csr_matrix) -> sparse.csr_matrix:
    """The tensor product of each row of `left` (rows, a) with that of `right` (rows, b), shape (rows, a·b)."""
    sizes = np.diff(right.indptr)
    rows = np.repeat(np.arange(left.shape[0]), np.diff(left.indptr))
    copies = sizes[rows]
    first = np.repeat(np.arange(left.nnz), copies)
    within = np.arange(len(first)) - np.repeat(np.cumsum(copies) - copies, copies)
    second = right.indptr[rows[first]] + within
    columns = left.indices[first].astype(np.int64) * right.shape[1] + right.indices[second]
    ends = np.append(0, np.cumsum(np.diff(left.indptr) * sizes))
    shape = (left.shape[0], left.shape[1] * right.shape[1])
    return sparse.csr_matrix((left.data[first] * right.data[second], columns, ends), shape=shape)


def _in_product(kernel: Kernel) -> str:
    """A kernel's name as a factor of a product."""
    return f"({kernel})" if isinstance(kernel, Sum) else str(kernel)


def counts(collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64) -> sparse.csr_matrix:
    """Term frequencies of the rows `docs` of `collection` as `dtype`, shape (documents, terms).

    Rows that follow each other are cut out, not gathered.
    """
    docs = np.asarray(docs)
    if len(docs) < 2 or np.any(np.diff(docs) != 1):
        return collection.matrix(docs, dtype)
    indptr = np.asarray(collection.indptr[docs[0] : docs[-1] + 2])
    first, last = int(indptr[0]), int(indptr[-1])
    indptr = indptr - first
    parts = (
        np.asarray(collection.frequencies[first:last]).astype(dtype),
        np.asarray(collection.indices[first:last]),
        indptr.astype(np.int32) if last - first < 2**31 else indptr,
    )
    return sparse.csr_matrix(parts, shape=(len(docs), len(collection.terms)))


def weighted_terms(
    collection: Collection, query: Query, weights: NDArray[np.floating], width: int | None = None
) -> sparse.csr_matrix:
    """A query's row of features from `weights`, one per term of the query, shape (1, `width`).

    `width` is the number of terms of `collection` by default. Terms that the collection doesn't have are left out.
    """
    numbers = collection.term_ids(query.terms)
    known = numbers >= 0
    places = (np.zeros(int(known.sum()), dtype=np.int64), numbers[known])
    return sparse.csr_matrix((np.asarray(weights, dtype=np.float64)[known], places), shape=(1, width or len(collection.terms)))
