"""Documents in kernel LSA's latent space: cosines, and nearest documents by FAISS."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelsearch.neighbours import Neighbours
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.klsa.reranker import KernelLSA, has_basis


class LatentSpace:
    """The latent rows of klsa's basis, scaled by the singular values and brought to unit length."""

    def __init__(self, index: OpenedIndex) -> None:
        self._basis = KernelLSA(index).basis

    @staticmethod
    def available(index: OpenedIndex) -> bool:
        """Whether a basis is fitted, or quick to fit."""
        return has_basis(index)

    def vectors(self, docs: NDArray[np.integer], dims: int | None = None) -> NDArray[np.float32]:
        """Unit vectors of documents, shape (documents, dims); zeros for an empty document."""
        dims = min(dims or self._basis.dims, self._basis.dims)
        found = self._basis.rows[docs, :dims] * self._basis.values[:dims].astype(np.float32)
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        return np.divide(found, norms, out=np.zeros_like(found), where=norms > 0)

    def likeness(self, doc: int, others: NDArray[np.int32], dims: int | None = None) -> NDArray[np.float64]:
        """Cosines between a document and others."""
        return (self.vectors(others, dims) @ self.vectors(np.array([doc]), dims)[0]).astype(np.float64)

    def nearest(self, doc: int, count: int) -> NDArray[np.int32]:
        """The documents nearest by angle."""
        rows, likeness = self._neighbours.search(self.vectors(np.array([doc])), count + 1)
        return rows[0][(rows[0] >= 0) & (likeness[0] > 0)].astype(np.int32)

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours.build(self.vectors(np.arange(len(self._basis.rows))))
