"""Hyper asymmetric kernels: kernels between (query, document) pairs whose functions are asymmetric kernels again.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), section 4.3. Queries and documents are numbers here, whose meaning
is defined by the kernels that are combined:

>>> import numpy as np
>>> from kernelsearch.papers.rbm25.hyper import Hyper, Pairs, precomputed
>>> users, items = np.eye(2), np.array([[1.0, 0.5], [0.5, 1.0]])
>>> pairwise = Hyper(precomputed(users), precomputed(items))  # the pairwise kernel of collaborative filtering
>>> pairwise(Pairs([0], [0]), Pairs([0, 1], [1, 1])).tolist()
[[0.5, 0.0]]
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Query
from kernelsearch.kernels.algebra import Kernel

Numbers = NDArray[np.integer]
#: A symmetric kernel: two lists of numbers to a matrix.
Gram = Callable[[Numbers, Numbers], NDArray[np.floating]]
#: An asymmetric kernel on parallel lists of queries and documents.
Relevance = Callable[[Numbers, Numbers], NDArray[np.floating]]

#: Largest asymmetry and negative eigenvalue of a precomputed kernel that count as rounding, as a share of its largest value.
ROUNDING = 1e-8


class Pairs:
    """Parallel lists of numbers of `queries` and `docs`, whole numbers from 0 on. Raises OptionError for others."""

    def __init__(self, queries: ArrayLike, docs: ArrayLike) -> None:
        self.queries, self.docs = _whole_numbers(queries, "queries"), _whole_numbers(docs, "documents")
        if self.queries.shape != self.docs.shape or self.queries.ndim != 1:
            raise OptionError(f"pairs: {self.queries.shape} queries but {self.docs.shape} documents")

    def __len__(self) -> int:
        return len(self.queries)


def _whole_numbers(values: ArrayLike, name: str) -> NDArray[np.int64]:
    numbers = np.asarray(values)
    if numbers.size and not (
        np.issubdtype(numbers.dtype, np.number) and np.all(np.mod(numbers, 1) == 0) and numbers.min() >= 0
    ):
        raise OptionError(f"pairs: {name} must be whole numbers from 0 on")
    return numbers.astype(np.int64)


def _not_negative(values: Sequence[float]) -> bool:
    return bool(np.all(np.isfinite(values)) and np.min(values) >= 0)


def precomputed(matrix: NDArray[np.floating]) -> Gram:
    """A kernel from its matrix of values, shape (items, items).

    Raises OptionError for a matrix that is not symmetric and positive semi-definite (up to rounding): no kernel has those.
    """
    values = np.asarray(matrix, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not np.isfinite(values).all():
        raise OptionError(f"precomputed kernel: a square matrix of finite numbers is needed, not one of shape {values.shape}")
    scale = float(np.abs(values).max(initial=0.0))
    if np.abs(values - values.T).max(initial=0.0) > ROUNDING * scale:
        raise OptionError("precomputed kernel: the matrix is not symmetric")
    smallest = float(np.linalg.eigvalsh(values).min(initial=0.0))
    if smallest < -ROUNDING * scale * max(len(values), 1):
        raise OptionError(f"precomputed kernel: the matrix has the eigenvalue {smallest:.3g}, it is not positive semi-definite")
    return lambda a, b: values[np.ix_(a, b)]


def precomputed_relevance(matrix: NDArray[np.floating]) -> Relevance:
    """An asymmetric kernel from its matrix of values, shape (queries, documents). Raises OptionError where one isn't finite."""
    values = np.asarray(matrix, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise OptionError(f"precomputed relevance: a matrix of finite numbers is needed, not one of shape {values.shape}")
    return lambda queries, docs: values[queries, docs]


class HyperKernel(ABC):
    """Base: kernels on pairs, closed under sums and positive multiples."""

    @abstractmethod
    def __call__(self, a: Pairs, b: Pairs) -> NDArray[np.float64]:
        """Values of shape (pairs of a, pairs of b)."""

    def __add__(self, other: HyperKernel) -> Combined:
        return Combined((1.0, 1.0), (self, other))

    def __rmul__(self, weight: float) -> Combined:
        return Combined((float(weight),), (self,))


@dataclass(frozen=True)
class CollectionParts:
    """What numbers in a `Hyper` mean in a collection: query number i is `queries[i]`, document number j the row `docs[j]`."""

    queries: Sequence[Query]
    docs: NDArray[np.int64]
    query_kernel: Kernel
    document_kernel: Kernel
    relevance: Kernel | None


@dataclass(frozen=True)
class Hyper(HyperKernel):
    """g(q, d) · k_Q(q, q') · k_D(d, d') · g(q', d') (Eq. 4); without g, the pairwise kernel of Basilico & Hofmann (2004).

    `parts` are the kernels that its values were computed with, for those that `papers.rbm25.learned.hyper_kernel` makes.
    """

    query_kernel: Gram
    document_kernel: Gram
    relevance: Relevance | None = None
    parts: CollectionParts | None = None

    def inner(self, a: Pairs, b: Pairs) -> NDArray[np.float64]:
        """k_Q · k_D, without g, shape (pairs of `a`, pairs of `b`)."""
        return np.asarray(self.query_kernel(a.queries, b.queries) * self.document_kernel(a.docs, b.docs), dtype=np.float64)

    def outer(self, a: Pairs, b: Pairs) -> NDArray[np.float64]:
        """g · g', ones where there is no g, shape (pairs of `a`, pairs of `b`)."""
        if self.relevance is None:
            return np.ones((len(a), len(b)))
        return np.outer(self.relevance(a.queries, a.docs), self.relevance(b.queries, b.docs))

    def __call__(self, a: Pairs, b: Pairs) -> NDArray[np.float64]:
        return self.outer(a, b) * self.inner(a, b)


@dataclass(frozen=True)
class PowerSeries(HyperKernel):
    """Σ_i c_i · g (k_Q k_D)^i g' with c_i ≥ 0 (Theorem 3), for finitely many c_0, c_1, ..."""

    base: Hyper
    coefficients: Sequence[float]

    def __post_init__(self) -> None:
        if not len(self.coefficients) or not _not_negative(self.coefficients):
            raise OptionError("power series: needs at least one coefficient, and finite ones that are not negative")

    def __call__(self, a: Pairs, b: Pairs) -> NDArray[np.float64]:
        inner = self.base.inner(a, b)
        return self.base.outer(a, b) * np.polynomial.polynomial.polyval(inner, np.asarray(self.coefficients, dtype=np.float64))


@dataclass(frozen=True)
class Series:
    """A power series f(x) = Σ_i c_i x^i with all c_i ≥ 0 in closed form, and its radius of convergence R."""

    name: str
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    radius: float


#: e^x = Σ x^i / i!
EXPONENTIAL = Series("exponential", np.exp, math.inf)
#: 1 / (1 - x) = Σ x^i
GEOMETRIC = Series("geometric", lambda x: np.asarray(1.0 / (1.0 - x)), 1.0)
#: -log(1 - x) = Σ_{i ≥ 1} x^i / i
LOGARITHMIC = Series("logarithmic", lambda x: np.asarray(-np.log1p(-x)), 1.0)
#: cosh x = Σ x^(2i) / (2i)!
HYPERBOLIC = Series("hyperbolic", np.cosh, math.inf)


@dataclass(frozen=True)
class ClosedSeries(HyperKernel):
    """Σ_i c_i · g (k_Q k_D)^i g' over infinitely many c_i ≥ 0 (Theorem 3), by the series' closed form.

    The theorem needs |k_Q| < √R and |k_D| < √R for the radius of convergence R. Values that don't meet it raise OptionError:
    the closed form has a value there, but the series does not, and the result need not be positive semi-definite.
    """

    base: Hyper
    series: Series

    def __call__(self, a: Pairs, b: Pairs) -> NDArray[np.float64]:
        self._check("query", self.base.query_kernel(a.queries, b.queries))
        self._check("document", self.base.document_kernel(a.docs, b.docs))
        return self.base.outer(a, b) * self.series.function(self.base.inner(a, b))

    def _check(self, side: str, values: NDArray[np.floating]) -> None:
        largest, limit = float(np.abs(values).max(initial=0.0)), math.sqrt(self.series.radius)
        if not largest < limit:
            raise OptionError(
                f"{self.series.name} series: a {side} kernel value of {largest:.6g} is not below {limit:g}, the square root of "
                f"the radius of convergence; scale the kernel down"
            )


@dataclass(frozen=True)
class Combined(HyperKernel):
    """Σ_i c_i k̄_i with c_i ≥ 0 (Theorem 4)."""

    weights: tuple[float, ...]
    kernels: tuple[HyperKernel, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.kernels) or not self.weights or not _not_negative(self.weights):
            raise OptionError("combined kernels: one finite weight per kernel is needed, none negative")

    def __call__(self, a: Pairs, b: Pairs) -> NDArray[np.float64]:
        return np.asarray(sum(weight * kernel(a, b) for weight, kernel in zip(self.weights, self.kernels, strict=True)))
