"""Kernels learned from pairs of queries and documents, with their feature maps.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), Theorem 2 with Lemma 2 of its proof: the learned function
k*(q, d) = g(q, d) · Σ_i α_i g(q_i, d_i) k_Q(q, q_i) k_D(d, d_i) is an asymmetric kernel. The sum is a `PairExpansion`; k* is
its product with g, which `AsymmetricKernelLearner.as_kernel` makes: it can be added, multiplied and scaled as any other kernel.
So are functions learned with a power series (Theorem 3) or a sum (Theorem 4) of such kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Query
from kernelsearch.kernels.algebra import Collection, Kernel
from kernelsearch.papers.rbm25.hyper import ClosedSeries, CollectionParts, Combined, Hyper, HyperKernel, Pairs, PowerSeries


@dataclass(frozen=True)
class PairExpansion(Kernel):
    """Σ_i c_i Σ_n s_n (k_Q(q, q_i) k_D(d, d_i))^n over m pairs of a query and a document of one collection.

    k_Q(q, q') = <φ_Q(q), φ_Q(q')> by the query side of `query_kernel`, k_D is the document kernel of `document_kernel`, s are
    the coefficients of a power `series` with s_n ≥ 0 (Theorem 3); that of Eq. 4 is (0, 1). The maps have m features per power:
    φ_Q(q) has √s_n k_Q(q, q_i)^n, φ_D(d) has c_i √s_n k_D(d, d_i)^n.
    """

    query_kernel: Kernel
    document_kernel: Kernel
    queries: tuple[Query, ...]
    docs: tuple[int, ...]
    coefficients: tuple[float, ...]
    series: tuple[float, ...] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not len(self.queries) == len(self.docs) == len(self.coefficients) or not self.queries:
            raise OptionError("expansion: needs as many queries as documents and coefficients, and at least one")
        if not np.isfinite(self.coefficients).all():
            raise OptionError("expansion: coefficients must be finite numbers")

    def __str__(self) -> str:
        return f"expansion({self.query_kernel}, {self.document_kernel}, {len(self.docs)} pairs)"

    def feature_terms(self, collection: Collection) -> NDArray[np.int64]:
        return np.full(len(self.docs) * np.count_nonzero(self.series), -1, dtype=np.int64)

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        rows = _query_rows(self.query_kernel, collection, self.queries)
        return self._powers((self.query_kernel.query_features(collection, query) @ rows.T).toarray(), 1.0)

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        # The pairs' documents as they come: a kernel may return its features only for rows of the collection.
        similar = self.document_kernel.documents(collection, np.asarray(docs), np.asarray(self.docs))
        return self._powers(np.asarray(similar, dtype=np.float64), np.asarray(self.coefficients)).astype(dtype)

    def _powers(self, values: NDArray[np.float64], factor: ArrayLike) -> sparse.csr_matrix:
        """`factor` times √s_n times each power of `values` (rows, pairs), side by side."""
        parts = [np.sqrt(s) * values**n * factor for n, s in enumerate(self.series) if s]
        return sparse.csr_matrix(np.hstack(parts) if parts else np.zeros((len(values), 0)))


def learned_kernel(kernel: HyperKernel, collection: Collection, pairs: Pairs, alpha: NDArray[np.float64]) -> Kernel:
    """k*(q, d) = Σ_i α_i k̄((q_i, d_i), (q, d)) as a kernel between any query and document of `collection`.

    `kernel` k̄ is one of `hyper_kernel`, a power series (Theorem 3) or a sum (Theorem 4) of those; `pairs` and `alpha` (pairs,)
    are the expansion. Raises OptionError for other kernels.
    """
    match kernel:
        case Combined(weights, kernels):
            summands = [
                weight * learned_kernel(part, collection, pairs, alpha) for weight, part in zip(weights, kernels, strict=True)
            ]
            return reduce(operator.add, summands)
        case PowerSeries(base, coefficients):
            return _expansion(base, collection, pairs, alpha, tuple(map(float, coefficients)))
        case Hyper():
            return _expansion(kernel, collection, pairs, alpha, (0.0, 1.0))
        case ClosedSeries(_, series):
            raise OptionError(
                f"as_kernel: the {series.name} series has infinitely many features; take a PowerSeries of its coefficients"
            )
    raise OptionError(f"as_kernel: a {type(kernel).__name__} has no known map")


def _expansion(
    kernel: Hyper, collection: Collection, pairs: Pairs, alpha: NDArray[np.float64], series: tuple[float, ...]
) -> Kernel:
    parts = kernel.parts
    if parts is None:
        raise OptionError("as_kernel: the kernel is made of matrices, which have no map; make it with hyper_kernel")
    gains = np.ones(len(pairs)) if kernel.relevance is None else np.asarray(kernel.relevance(pairs.queries, pairs.docs))
    expansion = PairExpansion(
        parts.query_kernel,
        parts.document_kernel,
        tuple(parts.queries[number] for number in pairs.queries.tolist()),
        tuple(parts.docs[pairs.docs].tolist()),
        tuple((alpha * gains).tolist()),
        series,
    )
    return expansion if parts.relevance is None else parts.relevance * expansion


def hyper_kernel(
    collection: Collection,
    queries: Sequence[Query],
    docs: Sequence[int],
    query_kernel: Kernel,
    document_kernel: Kernel,
    relevance: Kernel | None = None,
) -> Hyper:
    """Eq. 4 over numbered queries and documents of a collection, for `AsymmetricKernelLearner`.

    Query number i is `queries[i]`, document number j the row `docs[j]`. k_Q is the query side of `query_kernel`, k_D the
    document kernel of `document_kernel`. `relevance` is g; None makes the pairwise kernel.
    """
    rows = np.asarray(docs, dtype=np.int64)
    query_side = _query_rows(query_kernel, collection, queries)
    gram_of_queries = np.asarray((query_side @ query_side.T).todense(), dtype=np.float64)
    gram_of_documents = np.asarray(document_kernel.documents(collection, rows, rows), dtype=np.float64)
    values = None
    if relevance is not None:
        values = np.stack([np.asarray(relevance.scores(collection, query, rows), dtype=np.float64) for query in queries])
    return Hyper(
        lambda a, b: gram_of_queries[np.ix_(a, b)],
        lambda a, b: gram_of_documents[np.ix_(a, b)],
        None if values is None else lambda a, b: values[a, b],
        CollectionParts(tuple(queries), rows, query_kernel, document_kernel, relevance),
    )


def _query_rows(kernel: Kernel, collection: Collection, queries: Sequence[Query]) -> sparse.csr_matrix:
    return sparse.vstack([kernel.query_features(collection, query) for query in queries], format="csr")
