"""The structure of FAISS files, checked before FAISS reads them: its native code trusts sizes, and may crash on a damaged file.

Every size must fit the file and the numbers of vectors and dimensions; numbers of vectors in inverted lists and in HNSW's graph
must be in range. The kinds that this package and Pyserini write are known: flat, scalar and product quantisers, HNSW and
inverted files over them, those of product quantisers in the order of FAISS's fast scan.
"""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import open_file
from kernelsearch.core.rows import MAX_DIMS

FLAT = (b"IxF2", b"IxFI", b"IxFl")
HNSW = (b"IHNf", b"IHNs", b"IHNp")
INVERTED = {b"IwFl": "flat", b"IwSq": "scalar quantiser", b"IwPf": "fast scan"}
#: Vectors per block of a fast scan, and its implementation that compares query by query: a single query takes a sixth less time
#: than with the default one (0), which goes cluster by cluster.
BLOCK, QUERY_BY_QUERY = 32, 11
#: The metrics inner product and L2; others have a parameter and aren't used here.
METRICS = (0, 1)


def check_file(path: Path, *, contents: bool = True) -> None:
    """Raises InputError where the structure of the file `path` is not that of a FAISS index of a known kind.

    Without `contents`, the numbers in the lists of an inverted file are not looked at, so that a large file is checked fast.
    """
    with open_file(path) as stream:
        file = _File(path, stream, contents)
        file.index()
        if file.left:
            raise file.error(f"{file.left} bytes too many")


class _File:
    """A FAISS file that is read from its beginning."""

    def __init__(self, path: Path, stream: IO[bytes], contents: bool) -> None:
        self._path, self._stream, self._contents = path, stream, contents
        self.left = os.fstat(stream.fileno()).st_size

    def error(self, reason: str) -> InputError:
        return InputError(f"damaged, not a valid FAISS index ({reason})", path=self._path)

    def require(self, condition: bool, reason: str) -> None:
        if not condition:
            raise self.error(reason)

    def take(self, count: int) -> bytes:
        self.require(0 <= count <= self.left, "cut short")
        self.left -= count
        return self._stream.read(count)

    def skip(self, count: int) -> None:
        self.require(0 <= count <= self.left, "cut short")
        self.left -= count
        self._stream.seek(count, io.SEEK_CUR)

    def values(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))

    def skip_vector(self, width: int, expected: int | None = None) -> int:
        """Skips a vector of elements of `width` bytes and returns its length, which is `expected` where that is given."""
        (size,) = self.values("Q")
        self.require(expected is None or size == expected, f"a vector of {size} elements where {expected} were expected")
        self.skip(size * width)
        return int(size)

    def vector(self, dtype: str, expected: int | None = None) -> NDArray[Any]:
        (size,) = self.values("Q")
        self.require(expected is None or size == expected, f"a vector of {size} elements where {expected} were expected")
        return np.frombuffer(self.take(size * np.dtype(dtype).itemsize), dtype=dtype)

    def index(self, deep: int = 0) -> tuple[int, int]:
        """Checks an index and returns its numbers of dimensions and vectors."""
        self.require(deep < 3, "nested too deep")
        kind = self.take(4)
        dims, total, _, _, trained, metric = self.values("iqqqBi")
        self.require(1 <= dims <= MAX_DIMS and 0 <= total < 1 << 40, f"{total} vectors of {dims} dimensions")
        self.require(trained in (0, 1) and metric in METRICS, "an unknown metric")
        if kind in FLAT:
            self.skip_vector(4, dims * total)
        elif kind == b"IxSQ":
            self.skip_vector(1, self._scalar_quantiser(dims) * total)
        elif kind == b"IxPq":
            self.skip_vector(1, self._product_quantiser(dims) * total)
            self.values("iBi")
        elif kind in HNSW:
            self._graph(total)
            self.require(self.index(deep + 1) == (dims, total), "a graph over other vectors")
        elif kind in INVERTED:
            self._inverted(kind, dims, total, deep)
        else:
            raise self.error(f"kind {kind!r} is not one that is read; convert it to a flat index")
        return dims, total

    def _scalar_quantiser(self, dims: int) -> int:
        """The bytes per vector."""
        kind, _, _, own, size = self.values("iifQQ")
        bits = {0: 8, 1: 4, 2: 8, 3: 4, 4: 16, 5: 8, 6: 6, 7: 16, 8: 8}.get(kind)
        self.require(
            bits is not None and own == dims and size == (dims * (bits or 0) + 7) // 8, "a scalar quantiser of other vectors"
        )
        trained = {0: 2 * dims, 1: 2 * dims, 2: 2, 3: 2, 6: 2 * dims}.get(kind, 0)
        self.require(bool(np.isfinite(self.vector("<f4", trained)).all()), "a scalar quantiser without a range")
        return int(size)

    def _product_quantiser(self, dims: int, bits: int | None = None) -> int:
        """The bytes per vector; `bits` per part are expected, any number for None."""
        own, parts, stored = self.values("QQQ")
        self.require(
            own == dims and 1 <= parts <= dims and dims % parts == 0 and 1 <= stored <= 24 and bits in (None, stored),
            "a product quantiser of other vectors",
        )
        self.skip_vector(4, dims << stored)
        return int((parts * stored + 7) // 8)

    def _graph(self, total: int) -> None:
        self.skip_vector(8)
        per_level = self.vector("<i4").astype(np.int64)
        levels, offsets = self.vector("<i4", total), self.vector("<u8", total + 1)
        neighbours = self.vector("<i4")
        entry, top, _, _, _ = self.values("5i")
        self.require(len(per_level) < 1 << 16 and bool((np.diff(per_level) >= 0).all()), "levels out of order")
        self.require(not total or bool(levels.min() >= 1 and levels.max() < len(per_level)), "a level out of range")
        # The links of a vector are those of all its levels.
        sizes = per_level[levels] if total else np.empty(0, dtype=np.int64)
        expected = np.concatenate([[0], np.cumsum(sizes)])
        self.require(
            bool((offsets == expected.astype(np.uint64)).all()) and len(neighbours) == expected[-1], "links out of order"
        )
        self.require(not len(neighbours) or bool(neighbours.min() >= -1 and neighbours.max() < total), "a link out of range")
        self.require(-1 <= entry < total and (entry >= 0) == (total > 0), "an entry point out of range")
        self.require(not total or top == levels[entry] - 1 == levels.max() - 1, "a top level that the entry point doesn't have")

    def _inverted(self, kind: bytes, dims: int, total: int, deep: int) -> None:
        lists, probes = self.values("QQ")
        self.require(1 <= lists < 1 << 32 and probes >= 1, f"{lists} lists")
        # The lists of hashed features have no centroids.
        own, centroids = self.index(deep + 1)
        self.require(own == dims and centroids in (0, lists), "centroids of other lists")
        (direct,) = self.values("B")
        self.require(direct in (0, 1), "an unknown direct map")
        numbers = self.vector("<i8", total if direct else 0)
        self.require(direct == 0 or not total or bool(numbers.min() >= -1), "a direct map out of range")
        if INVERTED[kind] == "fast scan":
            self._fast_scan(dims, total, lists)
            return
        size = 4 * dims
        if INVERTED[kind] == "scalar quantiser":
            size = self._scalar_quantiser(dims)
            self.require(self.values("QB")[0] == size, "codes of another size")
        self.require(self.take(4) == b"ilar" and self.values("QQ") == (lists, size), "lists of another kind")
        form = self.take(4)
        if form == b"full":
            sizes = self.vector("<u8", lists)
        elif form == b"sprs":
            pairs = self.vector("<u8")
            places, sizes = pairs[::2].astype(np.int64), pairs[1::2]
            self.require(len(places) == len(sizes), "lists without a size")
            self.require(
                not len(places) or bool((np.diff(places) > 0).all() and places[0] >= 0 and places[-1] < lists),
                "lists out of order",
            )
        else:
            raise self.error("lists of an unknown kind")
        self.require(bool((sizes <= total).all()) and int(sizes.sum()) == total, f"lists that don't hold {total} vectors")
        if direct:
            self.require(bool((numbers >> 32 < lists).all()), "a direct map out of range")
        if not self._contents:
            self.skip(total * (size + 8))
            return
        for count in sizes[sizes > 0].tolist():
            self.skip(count * size)
            self._numbers(np.frombuffer(self.take(count * 8), dtype="<i8"), total)

    def _fast_scan(self, dims: int, total: int, lists: int) -> None:
        """Checks lists of blocks of vectors, of four bits per part of a vector."""
        residuals, size, block, even, implementation, queries = self.values("BQiQiQ")
        self.require(self._product_quantiser(dims, bits=4) == size, "codes of another size")
        self.require((block, even, queries) == (BLOCK, 2 * size, 0), "codes in another order")
        self.require(residuals in (0, 1) and implementation in (0, QUERY_BY_QUERY), "a search of another kind")
        expected = (lists, 2**64 - 1, BLOCK, BLOCK * size)  # no size of a vector's code, which is spread over a block
        self.require(self.take(4) == b"ilbl" and self.values("4Q") == expected, "lists of another kind")
        stored = 0
        for _ in range(lists):
            if self._contents:
                numbers = self.vector("<i8")
                self._numbers(numbers, total)
                count = len(numbers)
            else:
                count = self.skip_vector(8)
            self.skip_vector(1, -(-count // BLOCK) * BLOCK * size)
            stored += count
        self.require(stored == total, f"lists that don't hold {total} vectors")

    def _numbers(self, numbers: NDArray[np.int64], total: int) -> None:
        """Checks the numbers of the vectors in a list."""
        self.require(
            not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < total), "the number of a vector out of range"
        )
