"""The kernel features of a collection, in blocks of rows: in one part, or in parts that the workers of an engine hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.execution import Engine
from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.spectral import NystromMap, RowBlocks, choose_landmarks
from kernelsearch.kernels.spectral.blocks import captured

#: Up to this many documents the decomposition works in double precision; beyond it in single, which halves the memory.
DOUBLE_LIMIT = 20_000
#: Documents per part by default, and the smallest number of parts for an engine with workers.
PART, LEAST_PARTS = 250_000, 8
#: Columns of V that are sent in one message.
SLAB = 32

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class FeatureSource:
    """How to make Φ. A forward index is sent by its path, so this is small. `memory` bounds the bytes that are kept of Φ."""

    collection: ForwardIndex
    kernel: Kernel
    landmarks: int = 1000
    memory: float = 2e9
    random_state: int = 0

    @cached_property
    def nystrom(self) -> NystromMap:
        """The map of a kernel without features of its own; made once, and sent along."""
        return NystromMap(self.kernel, self.collection, choose_landmarks(self.collection, self.landmarks, self.random_state))

    def rows(self, start: int = 0, end: int | None = None, memory: float | None = None) -> RowBlocks:
        """Φ's rows start..end-1, made block by block when needed; at most `memory` bytes are cached (default: the source's)."""
        collection, kernel = self.collection, self.kernel
        end = len(collection) if end is None else end
        dtype = np.float64 if len(collection) <= DOUBLE_LIMIT else np.float32
        budget = self.memory if memory is None else memory
        if kernel.has_map and not kernel.wide:

            def make(first: int, last: int) -> Any:
                return kernel.document_features(collection, np.arange(start + first, start + last), dtype)

            # Each block's product is as large as the features: not too many of them.
            size = min(max(50_000, len(collection) // 16), PART)
            return RowBlocks(make, (end - start, kernel.width(collection)), size=size, memory=budget, dtype=dtype)
        nystrom = self.nystrom

        def make_dense(first: int, last: int) -> Any:
            return nystrom.features(np.arange(start + first, start + last)).astype(dtype)

        # Dense rows are much longer than sparse ones: smaller blocks.
        return RowBlocks(make_dense, (end - start, nystrom.rank), size=5_000, memory=budget, dtype=dtype)


class PartRows:
    """Rows `start` to `end` of the Φ of `source`, where they are held, in `memory` bytes.

    A part is pickled as its description and made again by the process that receives it.
    """

    def __init__(self, source: FeatureSource, start: int, end: int, memory: float) -> None:
        self._arguments = (source, start, end, memory)
        self.start, self.end = start, end
        self.rows = source.rows(start, end, memory)

    def __reduce__(self) -> tuple[Any, ...]:
        return PartRows, self._arguments

    def __sizeof__(self) -> int:
        """What the features take once they are made, so that a scheduler knows what moving a part costs."""
        indptr = self._arguments[0].collection.indptr
        return 8 * int(indptr[self.end] - indptr[self.start])


class PartedRows:
    """The Φ of `source` in `parts` that `engine` holds; products are computed part by part. Interface as RowBlocks."""

    def __init__(self, source: FeatureSource, engine: Engine, parts: int) -> None:
        whole = source.rows()
        self.shape, self.dtype = whole.shape, whole.dtype
        cuts = np.linspace(0, self.shape[0], min(parts, self.shape[0]) + 1).astype(int).tolist()
        self._spans = list(pairwise(cuts))
        make = partial(_make_part, source, memory=source.memory / len(self._spans))
        self._held = engine.hold(make, self._spans, label="features")

    def forget(self) -> None:
        """The parts are freed with their engine."""

    def times(self, right: Floats) -> Floats:
        """Φ·X, shape (rows, k), for X = `right` (width, k)."""
        return np.concatenate(list(self._held.map(_times, right, label="times")))

    def transposed_times(self, left: Floats) -> Floats:
        """Φᵀ·Y, shape (width, k), for Y = `left` (rows, k)."""
        result: Floats = self._held.sum(_transposed_times, np.ascontiguousarray(left), label="transposed")
        return result

    def gram_times(self, right: Floats) -> Floats:
        """ΦᵀΦ·X for X = `right` (width, k): X is sent to the workers, which return sums of the size of X."""
        result: Floats = self._held.sum(_gram_times, right, label="gram")
        return result

    def project(self, right: Floats, scale: Floats) -> Iterator[tuple[int, int, Any]]:
        """(start, end, rows of Φ·X divided by `scale`), part by part; X = `right` is sent in slices of columns."""
        slabs = [np.ascontiguousarray(right[:, start : start + SLAB]) for start in range(0, right.shape[1], SLAB)]
        parts = self._held.map(_project, (scale, *slabs), label="project")
        return ((start, end, block) for (start, end), block in zip(self._spans, parts, strict=True))

    def squared_norm(self) -> float:
        """|Φ|², the sum of all squared entries."""
        return float(self._held.sum(_squared_norm, None, label="norm"))


def _make_part(source: FeatureSource, span: tuple[int, int], memory: float) -> PartRows:
    return PartRows(source, *span, memory)


def _times(part: PartRows, right: Floats) -> Floats:
    return part.rows.times(right)


def _transposed_times(part: PartRows, left: Floats) -> Floats:
    return part.rows.transposed_times(left[part.start : part.end])


def _gram_times(part: PartRows, right: Floats) -> Floats:
    return part.rows.gram_times(right)


def _project(part: PartRows, shared: tuple[Floats, ...]) -> Floats:
    scale, *slabs = shared
    out = np.empty((part.end - part.start, len(scale)), dtype=part.rows.dtype)
    for start, end, block in part.rows:
        for place, slab in enumerate(slabs):
            out[start:end, place * SLAB : place * SLAB + slab.shape[1]] = block @ slab
        out[start:end] = captured(out[start:end], block) / scale
    return out


def _squared_norm(part: PartRows, _: None) -> float:
    return part.rows.squared_norm()
