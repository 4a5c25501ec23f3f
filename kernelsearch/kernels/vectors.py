"""The kernel of vectors: the cosine of the vectors that an encoder computed for documents and queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from kernelsearch.core.errors import OptionError
from kernelsearch.core.rows import unit_rows
from kernelsearch.core.types import Query
from kernelsearch.kernels.algebra import Collection, Kernel
from kernelsearch.kernels.documents import Cosine
from kernelsearch.vectors.opened import Vectors

#: The feature term of a vector's dimensions; -1 are other features that aren't terms.
VECTOR_FEATURE = -2


@dataclass(frozen=True)
class VectorKernel(Kernel):
    """The cosine of vectors. A document or a query without a vector has 0 with everything."""

    vectors: Vectors

    def __str__(self) -> str:
        return f"vectors:{self.vectors.name}"

    def feature_terms(self, collection: Collection) -> NDArray[np.int64]:
        return np.full(self.vectors.documents.dims, VECTOR_FEATURE, dtype=np.int64)

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        return _as_sparse(self._rows(collection, docs, dtype))

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        vector = self.vectors.queries.find([query])[0]
        if vector is None:
            return sparse.csr_matrix((1, self.vectors.documents.dims))
        return _as_sparse(unit_rows(vector[None]).astype(np.float64))

    def scores(self, collection: Collection, query: Query, docs: NDArray[np.integer]) -> NDArray[np.floating]:
        weights = self.query_features(collection, query).toarray()[0]
        return np.asarray(self._rows(collection, docs, np.float64) @ weights)

    def documents(self, collection: Collection, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.floating]:
        left = self._rows(collection, a, np.float64)
        right = left if a is b else self._rows(collection, b, np.float64)
        return np.asarray(left @ right.T)

    def _rows(self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike) -> NDArray[np.floating]:
        if len(collection) != len(self.vectors.documents):
            raise OptionError(f"kernel {self}: has {len(self.vectors.documents)} rows, the collection {len(collection)}")
        return self.vectors.documents.unit(docs).astype(dtype)


class Normalised(Cosine):
    """The cosine of another kernel's features, under that kernel's name: the other summand of a sum with vectors."""

    def __str__(self) -> str:
        return str(self.base)


def _as_sparse(rows: NDArray[np.floating]) -> sparse.csr_matrix:
    """A dense table as CSR, every entry stored."""
    count, width = rows.shape
    indices = np.tile(np.arange(width, dtype=np.int32), count)
    return sparse.csr_matrix((rows.ravel(), indices, np.arange(count + 1, dtype=np.int64) * width), shape=rows.shape)
