"""Rows of dense matrices at unit length, and inner products with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import compiled

Floats = NDArray[np.float32]
#: Most dimensions of a stored vector. Encoders make a few thousand; more would be a mistake that fills memory or the disk.
MAX_DIMS = 1 << 16


def unit_rows(vectors: Floats) -> Floats:
    """Returns the rows of `vectors` (n, dims) at unit length; rows of zeros stay.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    return divide_rows(vectors, np.linalg.norm(vectors, axis=1))


def divide_rows(vectors: Floats, lengths: NDArray[np.floating]) -> Floats:
    """Returns the rows of `vectors` (n, dims) divided by `lengths` (n,); zeros where a length is 0, NaN where it is NaN."""
    column = lengths[:, None]
    return np.asarray(np.divide(vectors, column, out=np.zeros_like(vectors), where=column != 0))


def scaled_unit_rows(table: Floats, scale: Floats, numbers: NDArray[np.integer]) -> Floats:
    """Returns the rows `numbers` (n,) of a table times `scale` (dims,) at unit length, shape (n, dims); rows of zeros stay.

    Only the first `dims` columns of the table are used.
    """
    scaled = table[numbers, : len(scale)] * scale
    return divide_rows(scaled, np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))


def unit_products(table: Floats, scale: Floats, vector: Floats, numbers: NDArray[np.integer]) -> Floats:
    """Returns the inner products of `vector` (dims,) with `scaled_unit_rows` of `table`, `scale` and `numbers`, shape (n,).

    They are computed by the compiled loop where it was built, which sums in double precision.
    """
    library = compiled.loops()
    if library is None or not table.flags.c_contiguous:
        return np.asarray(scaled_unit_rows(table, scale, numbers) @ vector)
    rows, out = np.ascontiguousarray(numbers, dtype=np.int32), np.empty(len(numbers), dtype=np.float32)
    compiled.call(
        library.kernelsearch_unit_products,
        *((table, np.float32, *table.shape), *table.shape, len(scale)),
        *((scale, np.float32, len(scale)), (vector, np.float32, len(scale))),
        *((rows, np.int32, len(rows)), len(rows), (out, np.float32, len(rows))),
    )
    return out
