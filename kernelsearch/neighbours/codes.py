"""Exact maximum inner product search by codes of eight bits.

Reading all vectors takes most of the time of an exact search. Here a search reads codes instead, a quarter of the bytes of
float32: every vector x is c·s + r with c of whole numbers from -127 to 127, its own scale s, and a remainder r whose length is
stored. A query q is coded in the same way, with whole numbers of sixteen bits. The inner product of both codes differs from q·x
by at most |q|·|r| + |q's remainder|·|c·s| (Cauchy-Schwarz), so what codes can't exclude contains the k best vectors: the k best
by codes have exact products of at least t, and a vector whose product by its code is below t by more than this bound is not
among the k best. The others, usually less than 2·k, are compared by their exact products.

The codes are computed by a compiled loop (`_vectors.c`); there is no search by codes without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import compiled

#: Largest codes of vectors and of queries, and the largest sum that 32 bits hold.
VECTOR_CODE, QUERY_CODE, LARGEST_SUM = 127, 32_767, 2**31 - 1
#: Rows that are coded at a time, and queries that are compared at a time, so that memory doesn't grow with their number.
ROWS, QUERIES = 4096, 16
#: More than the relative rounding errors of single precision per dimension of a sum.
ROUNDING = 2.0**-22

#: Exact inner products of a query's vector (dims,) with vectors by their rows.
Products = Callable[[NDArray[np.float32], NDArray[np.int32]], NDArray[np.float32]]


class Codes:
    """The codes of the rows of a `matrix` (n, dims) of float16, which may be memory-mapped and isn't kept.

    `codes` (n, dims) are whole numbers, `scales` (n,) what they are multiplied by, `lengths` (n,) the lengths of the coded
    vectors, `remainders` (n,) those of what the codes leave.
    """

    def __init__(self, matrix: NDArray[np.floating]) -> None:
        self.codes = np.empty(matrix.shape, dtype=np.int8)
        starts = range(0, len(matrix), ROWS)
        parts = [self._fill(start, np.asarray(matrix[start : start + ROWS], dtype=np.float32)) for start in starts]
        columns = np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), dtype=np.float32)
        self.scales, self.lengths, self.remainders = columns

    def __len__(self) -> int:
        return len(self.codes)

    def _fill(self, start: int, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Codes `rows`, those from `start` on; returns their scales, lengths and remainders, shape (3, rows)."""
        codes, scales = _coded(rows, VECTOR_CODE)
        self.codes[start : start + len(rows)] = codes
        codes *= scales[:, None]
        return np.stack([scales, _lengths(codes), _lengths(rows - codes)])

    def search(
        self, queries: NDArray[np.float32], k: int, products: Products, *, among: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """Yields the k best rows per query of `queries` (queries, dims), and their inner products by `products`, best first.

        Equal products are in the order of rows. Only the rows of which `among` (n,) is true are results; None: all.
        """
        for start in range(0, len(queries), QUERIES):
            block = queries[start : start + QUERIES]
            for query, values, bounds in zip(block, *self._approximate(block), strict=True):
                if among is not None:
                    values[~among] = -np.inf
                yield _best(values, bounds, k, query, products)

    def _approximate(self, queries: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Products of `queries` with all rows by codes, and how far each may be from the exact one, shape (queries, n)."""
        library = compiled.loops()
        if library is None:
            raise RuntimeError("a search by codes needs the compiled loops")
        count, dims = queries.shape
        largest = min(QUERY_CODE, LARGEST_SUM // (VECTOR_CODE * max(1, dims)))
        codes, scales = _coded(queries, largest)
        sums = np.empty((count, len(self)), dtype=np.int32)
        compiled.call(
            library.kernelsearch_code_products,
            *((self.codes, np.int8, len(self), dims), len(self), dims),
            *((codes.astype(np.int16), np.int16, count, dims), count, (sums, np.int32, count, len(self))),
        )
        size, rest = _lengths(queries)[:, None], _lengths(queries - codes * scales[:, None])[:, None]
        rounding = np.float32(ROUNDING * dims)
        bounds = (size * (1 + rounding)) * self.remainders
        bounds += (rest + size * rounding) * self.lengths
        return self.scales * scales[:, None] * sums, bounds


def usable(matrix: NDArray[np.floating]) -> bool:
    """Whether `matrix` (n, dims) can be searched by codes: compiled loops, sums within 32 bits, and squares within float32."""
    dims = matrix.shape[1]
    return compiled.loops() is not None and matrix.dtype == np.float16 and 0 < dims <= LARGEST_SUM // VECTOR_CODE**2


def _best(
    values: NDArray[np.float32], bounds: NDArray[np.float32], k: int, query: NDArray[np.float32], products: Products
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k rows with the largest `products` with `query`, and these; `values` (n,) are at most `bounds` (n,) from them.

    A value of -inf excludes a row.
    """
    k = min(k, int((values > -np.inf).sum()))
    if k <= 0:
        return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
    first = np.sort(np.argpartition(-values, k - 1)[:k]).astype(np.int32)
    exact = products(query, first)
    excluded = values + bounds < exact.min()
    excluded[first] = True
    others = np.flatnonzero(~excluded).astype(np.int32)
    rows, exact = np.concatenate([first, others]), np.concatenate([exact, products(query, others)])
    best = np.lexsort((rows, -exact))[:k]
    return rows[best], exact[best]


def _coded(rows: NDArray[np.float32], largest: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Whole numbers of at most `largest`, shape (rows, dims), and what they are multiplied by to be near to `rows`, (rows,)."""
    scales = np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0)) / np.float32(largest)
    scales = np.maximum(scales, np.finfo(np.float32).tiny)  # zeros, and values too small to be divided by
    codes = rows / scales[:, None]
    np.rint(codes, out=codes)
    return np.clip(codes, -largest, largest, out=codes), scales


def _lengths(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))
