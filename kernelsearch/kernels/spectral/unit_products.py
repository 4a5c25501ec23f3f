"""Inner products of a latent vector with scaled rows of unit length, by the compiled loop where it was built."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import compiled
from kernelsearch.core.rows import divide_rows

Floats = NDArray[np.float32]


def scaled_unit_rows(table: Floats, scale: Floats, docs: NDArray[np.integer]) -> Floats:
    """The rows `docs` of a table times `scale` (dims,), each of unit length, shape (docs, dims); a row of zeros stays."""
    scaled = table[docs, : len(scale)] * scale
    return divide_rows(scaled, np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))


def unit_products(table: Floats, scale: Floats, vector: Floats, docs: NDArray[np.integer]) -> Floats:
    """Inner products of `vector` (dims,) with `scaled_unit_rows` of `table`, `scale` and `docs`, shape (docs,).

    The compiled loop sums in double precision.
    """
    library = compiled.loops()
    if library is None or not table.flags.c_contiguous:
        return np.asarray(scaled_unit_rows(table, scale, docs) @ vector)
    rows, out = np.ascontiguousarray(docs, dtype=np.int32), np.empty(len(docs), dtype=np.float32)
    compiled.call(
        library.kernelsearch_unit_products,
        *((table, np.float32, *table.shape), *table.shape, len(scale)),
        *((scale, np.float32, len(scale)), (vector, np.float32, len(scale))),
        *((rows, np.int32, len(rows)), len(rows), (out, np.float32, len(rows))),
    )
    return out
