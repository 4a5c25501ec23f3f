"""Documents in kernel LSA's latent space: cosines, and nearest documents by FAISS."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.rows import unit_rows
from kernelsearch.neighbours import Neighbours
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.klsa.reranker import KernelLSA, has_basis


class LatentSpace:
    """The latent vectors of klsa's basis of `index`, scaled by the singular values and then to unit length."""

    def __init__(self, index: OpenedIndex) -> None:
        self._basis = KernelLSA(index).basis

    @staticmethod
    def available(index: OpenedIndex) -> bool:
        """Whether a basis of `index` is fitted, or can be fitted on first use."""
        return has_basis(index)

    def vectors(self, docs: NDArray[np.integer], dims: int | None = None) -> NDArray[np.float32]:
        """Unit vectors of the rows `docs`, shape (documents, dims); zeros for an empty document.

        `dims` is the number of dimensions, the first ones; None: all.
        """
        dims = min(dims or self._basis.dims, self._basis.dims)
        vectors = self._basis.rows[docs, :dims] * self._basis.values[:dims].astype(np.float32)
        return unit_rows(vectors)

    def similarity(self, doc: int, others: NDArray[np.int32], dims: int | None = None) -> NDArray[np.float64]:
        """Cosines between the document in row `doc` and others, shape (others,), in the first `dims` dimensions (None: all)."""
        return np.asarray(self.vectors(others, dims) @ self.vectors(np.array([doc]), dims)[0], dtype=np.float64)

    def nearest(self, doc: int, count: int) -> NDArray[np.int32]:
        """Rows of the at most `count` + 1 documents of the largest cosine above 0 with that in row `doc`, itself included."""
        rows, cosines = self._neighbours.search(self.vectors(np.array([doc])), count + 1)
        return np.asarray(rows[0][(rows[0] >= 0) & (cosines[0] > 0)], dtype=np.int32)

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours.build(self.vectors(np.arange(len(self._basis.rows))))
