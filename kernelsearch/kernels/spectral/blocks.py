"""A feature matrix Φ that is read in blocks of rows, so that a collection larger than memory can be decomposed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

Block = Any  #: a CSR matrix or a dense array


class Rows(Protocol):
    """What the solver asks of Φ, shape (rows, width)."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def times(self, right: NDArray[np.floating]) -> NDArray[np.floating]: ...

    def transposed_times(self, left: NDArray[np.floating]) -> NDArray[np.floating]: ...

    def gram_times(self, right: NDArray[np.floating]) -> NDArray[np.floating]: ...

    def project(self, right: NDArray[np.floating], scale: NDArray[np.floating]) -> Iterator[tuple[int, int, Any]]: ...

    def squared_norm(self) -> float: ...

    def forget(self) -> None: ...


class RowBlocks:
    """Φ, shape (rows, width), by blocks of rows that are made when they are needed.

    `make(start, end)` gives rows start..end-1, sparse or dense. Blocks are kept while they fit in `memory` bytes altogether;
    what doesn't fit is made again at every pass. `size` is the number of rows of a block, `dtype` the type of the numbers.
    """

    def __init__(
        self,
        make: Callable[[int, int], Block],
        shape: tuple[int, int],
        *,
        size: int = 50_000,
        memory: float = 2e9,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._make, self._size, self._free_bytes = make, size, memory
        self._cached: dict[int, Block] = {}

    @classmethod
    def of(cls, matrix: Block, **options: Any) -> RowBlocks:
        """The rows of `matrix`, which is in memory already; `options` are the constructor's `size` and `memory`."""
        return cls(lambda start, end: matrix[start:end], matrix.shape, dtype=matrix.dtype, **options)

    def __iter__(self) -> Iterator[tuple[int, int, Block]]:
        """(start, end, rows start..end-1) over all rows."""
        for start in range(0, self.shape[0], self._size):
            end = min(start + self._size, self.shape[0])
            block = self._cached.get(start)
            if block is None:
                block = self._make(start, end)
                if (size := _bytes(block)) <= self._free_bytes:
                    self._free_bytes -= size
                    self._cached[start] = block
            yield start, end, block

    def forget(self) -> None:
        """Frees the blocks that are kept; they are made again when they are needed."""
        self._free_bytes += sum(map(_bytes, self._cached.values()))
        self._cached.clear()

    def times(self, right: NDArray[np.floating]) -> NDArray[np.floating]:
        """Φ·X, shape (rows, k), for X = `right` of shape (width, k)."""
        out = np.empty((self.shape[0], right.shape[1]), dtype=self.dtype)
        for start, end, block in self:
            out[start:end] = block @ right
        return out

    def transposed_times(self, left: NDArray[np.floating]) -> NDArray[np.floating]:
        """Φᵀ·Y, shape (width, k), for Y = `left` of shape (rows, k).

        A few columns at a time: each product makes a new array of the features' size.
        """
        out = np.zeros((self.shape[1], left.shape[1]), dtype=self.dtype)
        for start, end, block in self:
            for first in range(0, left.shape[1], 32):
                columns = slice(first, first + 32)
                out[:, columns] += block.T @ np.ascontiguousarray(left[start:end, columns])
        return out

    def gram_times(self, right: NDArray[np.floating]) -> NDArray[np.floating]:
        """ΦᵀΦ·X, shape (width, k), for X = `right` (width, k), in one pass, without anything of the size of the rows."""
        out = np.zeros((self.shape[1], right.shape[1]), dtype=self.dtype)
        for _, _, block in self:
            out += block.T @ (block @ right)
        return out

    def project(self, right: NDArray[np.floating], scale: NDArray[np.floating]) -> Iterator[tuple[int, int, Any]]:
        """(start, end, rows start..end-1 of Φ·X divided by `scale` (k,)) over all rows, X = `right` (width, k).

        Rows of which X captures nothing but rounding errors are zeros, see `captured`.
        """
        for start, end, block in self:
            yield start, end, captured(block @ right, block) / scale

    def squared_norm(self) -> float:
        """|Φ|², the sum of all squared entries: the energy that there is to capture."""
        total = 0.0
        for _, _, block in self:
            values = block.data if sparse.issparse(block) else block
            total += float(np.vdot(values, values))
        return total


def captured(images: NDArray[np.floating], block: Block) -> NDArray[np.floating]:
    """The rows Φ·X of a block of Φ, `images`, with zeros in those that are shorter than √ε of their row of Φ.

    A document that shares no feature with the directions X has an image of rounding errors. Whoever divides it by its length
    would get a unit vector in a random direction.
    """
    if sparse.issparse(block):
        squared = sparse.csr_matrix((block.data**2, block.indices, block.indptr), shape=block.shape)
        squares = squared @ np.ones(block.shape[1], dtype=block.dtype)
    else:
        squares = np.einsum("ij,ij->i", block, block)
    images[np.einsum("ij,ij->i", images, images) <= np.finfo(images.dtype).eps * squares] = 0
    return images


def _bytes(block: Any) -> int:
    arrays = (block.data, block.indices, block.indptr) if sparse.issparse(block) else (block,)
    return sum(int(array.nbytes) for array in arrays)
