"""Kernels between documents: cosine over any field, and RBF, polynomial or any function over another kernel's features.

A kernel works on the field whose postings it is given: `Cosine().documents(index.field("title"), rows_a, rows_b)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Query
from kernelsearch.kernels.algebra import Collection, Kernel
from kernelsearch.kernels.asymmetric import VSM


@dataclass(frozen=True)
class Cosine(Kernel):
    """The cosine of another kernel's features (tf·idf by default); 0 for an empty document."""

    meaning = "cosine of the query and the text"

    base: Kernel = field(default_factory=VSM)

    def __post_init__(self) -> None:
        _need_features(self.base, "cosine")

    def __str__(self) -> str:
        return "cosine" if self.base == VSM() else f"cosine({self.base})"

    @property
    def has_query(self) -> bool:  # type: ignore[override]
        return self.base.has_query

    def feature_terms(self, collection: Collection) -> NDArray[np.int64]:
        return self.base.feature_terms(collection)

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        return _unit_rows(self.base.document_features(collection, docs, dtype))

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        return _unit_rows(self.base.query_features(collection, query))


@dataclass(frozen=True)
class RBF(Kernel):
    """exp(-γ·|x - y|²) over another kernel's features (unit-length tf·idf by default)."""

    gamma: float = 1.0
    base: Kernel = field(default_factory=Cosine)
    has_map = False
    has_query = False

    def __post_init__(self) -> None:
        _need_features(self.base, "rbf")
        if not 0 < self.gamma < math.inf:
            raise OptionError(f"kernel rbf: gamma {self.gamma} must be positive and finite")

    def __str__(self) -> str:
        return "rbf" if self.base == Cosine() else f"rbf({self.base})"

    def documents(self, collection: Collection, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.floating]:
        """The function's values for documents `a` and `b` of the collection, shape (len(a), len(b))."""
        x, y = (self.base.document_features(collection, docs) for docs in (a, b))
        distance = _squares(x)[:, None] + _squares(y)[None, :] - 2 * np.asarray((x @ y.T).todense())
        result: NDArray[np.floating] = np.exp(-self.gamma * np.maximum(distance, 0))
        return result


@dataclass(frozen=True)
class Polynomial(Kernel):
    """(<x, y> + c)^p over another kernel's features (unit-length tf·idf by default)."""

    degree: int = 2
    offset: float = 1.0
    base: Kernel = field(default_factory=Cosine)
    has_map = False
    has_query = False

    def __post_init__(self) -> None:
        # A fractional power of a negative kernel value is not a number.
        if not (self.degree >= 1 and self.degree == int(self.degree) and 0 <= self.offset < math.inf):
            raise OptionError(
                f"kernel polynomial: degree {self.degree} must be a whole number from 1 on, offset {self.offset} finite and "
                "not negative"
            )

    def __str__(self) -> str:
        return "polynomial" if self.base == Cosine() else f"polynomial({self.base})"

    def documents(self, collection: Collection, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.floating]:
        return (self.base.documents(collection, a, b) + self.offset) ** self.degree


@dataclass(frozen=True)
class Custom(Kernel):
    """Any positive semi-definite function of two feature matrices: `function(X, Y)` gives shape (rows of X, rows of Y).

    X and Y are CSR matrices of the base kernel's features. Fitting checks on its landmarks that the function is a kernel.
    """

    function: Callable[[sparse.csr_matrix, sparse.csr_matrix], Any]
    base: Kernel = field(default_factory=Cosine)
    has_map = False
    has_query = False

    def __str__(self) -> str:
        return getattr(self.function, "__name__", "custom")

    def documents(self, collection: Collection, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.floating]:
        """The function's values for documents `a` and `b` of the collection, shape (len(a), len(b))."""
        x, y = (self.base.document_features(collection, docs) for docs in (a, b))
        values = self.function(x, y)
        values = np.asarray(values.todense() if sparse.issparse(values) else values, dtype=np.float64)
        if values.shape != (len(a), len(b)):
            raise OptionError(f"kernel {self}: gave shape {values.shape} where {(len(a), len(b))} was expected")
        return values


def _need_features(base: Kernel, name: str) -> None:
    """Raises OptionError where the kernel `name` can't be computed from features of `base`, because it has too many or none."""
    if not base.has_map or base.wide:
        raise OptionError(f"kernel {name}: needs a kernel with a feature map, {base} has none of a size to compute with")


def _squares(features: sparse.csr_matrix) -> NDArray[np.float64]:
    return np.asarray(features.multiply(features).sum(axis=1), dtype=np.float64).ravel()


def _unit_rows(features: sparse.csr_matrix) -> sparse.csr_matrix:
    """Rows of unit length; empty rows stay empty."""
    norms = np.sqrt(_squares(features))
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    features.data *= np.repeat(scale, np.diff(features.indptr)).astype(features.dtype)
    return features
