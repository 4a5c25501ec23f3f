"""Kernels learned from pairs of queries and documents, with their feature maps.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), Theorem 2 with Lemma 2 of its proof: the learned function
k*(q, d) = g(q, d) · Σ_i α_i g(q_i, d_i) k_Q(q, q_i) k_D(d, d_i) is an asymmetric kernel. The sum is a `PairExpansion`; k* is
its product with g, which `AsymmetricKernelLearner.as_kernel` makes: it can be added, multiplied and scaled as any other kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Query
from kernelsearch.kernels.algebra import Collection, Kernel
from kernelsearch.kernels.hyper import Hyper


@dataclass(frozen=True)
class PairExpansion(Kernel):
    """Σ_i c_i k_Q(q, q_i) k_D(d, d_i) over m pairs of a query and a document of one collection.

    k_Q(q, q') = <φ_Q(q), φ_Q(q')> by the query side of `query_kernel`, k_D is the document kernel of `document_kernel`.
    The maps are those of Lemma 2: φ_Q(q) is that of `query_kernel`, and φ_D(d) = Σ_i c_i φ_Q(q_i) k_D(d_i, d).
    """

    query_kernel: Kernel
    document_kernel: Kernel
    queries: tuple[Query, ...]
    docs: tuple[int, ...]
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.queries) == len(self.docs) == len(self.coefficients) or not self.queries:
            raise OptionError("expansion: needs as many queries as documents and coefficients, and at least one")
        if not np.isfinite(self.coefficients).all():
            raise OptionError("expansion: coefficients must be finite numbers")

    def __str__(self) -> str:
        return f"expansion({self.query_kernel}, {self.document_kernel}, {len(self.docs)} pairs)"

    def feature_terms(self, collection: Collection) -> NDArray[np.int64]:
        return self.query_kernel.feature_terms(collection)

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        return self.query_kernel.query_features(collection, query)

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        rows = _query_rows(self.query_kernel, collection, self.queries)
        # The pairs' documents as they come: a kernel may return its features only for rows of the collection.
        similar = self.document_kernel.documents(collection, np.asarray(docs), np.asarray(self.docs))
        return sparse.csr_matrix((similar * np.asarray(self.coefficients)) @ rows.toarray(), dtype=dtype)


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
    )


def _query_rows(kernel: Kernel, collection: Collection, queries: Sequence[Query]) -> sparse.csr_matrix:
    return sparse.vstack([kernel.query_features(collection, query) for query in queries], format="csr")
