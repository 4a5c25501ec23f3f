"""Further kernels between queries: clicks correlated over the union as printed, and BM25's weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.kernels.queries import Queries, moments, weighted


def union_correlation(u: sparse.csr_matrix, v: sparse.csr_matrix) -> NDArray[np.float64]:
    """Correlation of two queries' clicks over the documents that either query's users clicked (section 5.3 as printed).

    It is not positive semi-definite, because its mean changes from pair to pair. `u` and `v` have shape (queries, documents of
    the log), the result (len(u), len(v)). A query without clicks correlates with none.
    """
    (sum_u, square_u), (sum_v, square_v) = moments(u), moments(v)
    clicked_u, clicked_v = (u > 0).astype(np.float64), (v > 0).astype(np.float64)
    size = u.getnnz(axis=1)[:, None] + v.getnnz(axis=1) - (clicked_u @ clicked_v.T).toarray()
    size = np.maximum(size, 1)
    covariance = (u @ v.T).toarray() - sum_u[:, None] * sum_v / size
    variance = (square_u[:, None] - sum_u[:, None] ** 2 / size) * (square_v - sum_v**2 / size)
    defined = variance > 1e-12
    return np.where(defined, np.clip(covariance / np.sqrt(np.where(defined, variance, 1.0)), -1.0, 1.0), 0.0)


class BM25Cosine:
    """Cosine of BM25's weights √idf · c/(c + .9): BM25's document kernel, with both queries as documents of equal length."""

    def features(self, queries: Queries) -> sparse.csr_matrix:
        """Unit-length rows of BM25's weights of `queries`, shape (queries, COLUMNS)."""
        counts = queries.terms.data
        return weighted(queries.terms, np.sqrt(queries.idf.data) * counts / (counts + 0.9))
