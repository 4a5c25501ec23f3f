"""Documents whose vectors have the largest inner product with a query's vector, in a FAISS index.

Kinds: `flat` looks at every vector and is exact; `ivf` looks into a few of many clusters; `ivf-fp16` and `ivf-sq8` do so with
coordinates of sixteen and eight bits, in a half and a quarter of the memory; `hnsw` walks a graph. The approximate kinds do
better by angle than by inner product, because long vectors attract every search. They therefore hold each vector with one more
coordinate, √(M² - |x|²) with M the longest norm: all are then equally long, the inner product with (query, 0) is unchanged, and
nearest by distance is largest by inner product (Bachrach et al., "Speeding Up the Xbox Recommender System", RecSys 2014).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.core.errors import ArtefactError, OptionError
from kernelsearch.core.memory_limit import MemoryLimit

#: Kinds of clustered indexes, with FAISS's name for how each stores its vectors.
CLUSTERED = {"ivf": "Flat", "ivf-fp16": "SQfp16", "ivf-sq8": "SQ8"}
KINDS = ("auto", "flat", *CLUSTERED, "hnsw")

#: The variable that chooses OpenBLAS's kernels.
CORE = "OPENBLAS_CORETYPE"
#: Up to this many vectors an exact scan takes a few milliseconds; beyond it `auto` clusters.
FLAT_LIMIT = 50_000


class Neighbours:
    """A searchable set of vectors; vector number i is document row i unless the caller maps them."""

    def __init__(self, index: Any, kind: str, dims: int) -> None:
        self._index, self.kind, self.dims = index, kind, dims

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @classmethod
    def build(
        cls,
        vectors: NDArray[np.floating] | sparse.spmatrix,
        kind: str = "auto",
        *,
        clusters: int | None = None,
        links: int = 32,
        random_state: int = 0,
        block: int = 50_000,
        limit: MemoryLimit | None = None,
    ) -> Neighbours:
        """An index over the rows of `vectors`, shape (n, dims), dense (memory-mapped is fine) or sparse.

        `clusters` (ivf; default 4·√n) and `links` (hnsw) trade building time for search time. Under a
        memory limit `auto` takes eight-bit coordinates where the vectors would take more than half of it.
        """
        faiss = load_faiss()
        if kind not in KINDS:
            raise OptionError(f"neighbours: {kind!r} is not one of {', '.join(KINDS)}")
        total, dims = vectors.shape
        if kind == "auto":
            fits = limit is None or limit.holds(4.0 * total * (dims + 1))
            kind = "flat" if total <= FLAT_LIMIT else "ivf" if fits else "ivf-sq8"
        if kind == "flat":
            index = faiss.IndexFlatIP(dims)
            for part in _blocks(vectors, block):
                index.add(part)
            return cls(index, kind, dims)
        longest = max((float(np.einsum("ij,ij->i", part, part).max()) for part in _blocks(vectors, block)), default=0.0)
        if kind in CLUSTERED:
            clusters = clusters or max(1, min(int(4 * math.sqrt(total)), total // 39))
            index = faiss.index_factory(dims + 1, f"IVF{clusters},{CLUSTERED[kind]}", faiss.METRIC_INNER_PRODUCT)
            index.cp.seed, index.cp.niter, index.cp.max_points_per_centroid = random_state, 10, 64
            rows = np.random.default_rng(random_state).choice(total, min(total, 64 * clusters), replace=False)
            index.train(_sample(vectors, np.sort(rows), longest, block))
        else:
            index = faiss.IndexHNSWFlat(dims + 1, links, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = 80
        for part in _blocks(vectors, block):
            index.add(_levelled(part, longest))
        return cls(index, kind, dims)

    def search(
        self, queries: NDArray[np.floating] | sparse.spmatrix, k: int, *, effort: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The k best rows of each query and their inner products, best first: two arrays of shape (queries, k).

        Places that could not be filled hold row -1. `effort`: clusters to look into (ivf), width of the walk (hnsw).
        """
        faiss = load_faiss()
        rows = _dense(queries)
        if rows.shape[1] != self.dims:
            raise OptionError(f"neighbours: a query has {rows.shape[1]} dimensions, the index {self.dims}")
        k = min(k, len(self))
        if k <= 0 or not len(rows):
            return np.empty((len(rows), 0), dtype=np.int64), np.empty((len(rows), 0), dtype=np.float32)
        if self.kind == "flat":
            scores, found = self._index.search(rows, k)
            return found, scores
        rows = np.hstack([rows, np.zeros((len(rows), 1), dtype=np.float32)])
        if self.kind in CLUSTERED:
            index = faiss.downcast_index(self._index)
            parameters: Any = faiss.SearchParametersIVF(nprobe=min(effort or default_probes(index.nlist), index.nlist))
        else:
            parameters = faiss.SearchParametersHNSW(efSearch=max(effort or 0, 2 * k, 64))
        scores, found = self._index.search(rows, k, params=parameters)
        return found, scores

    def save(self, path: Path) -> None:
        """Writes FAISS's own file format."""
        faiss = load_faiss()
        faiss.write_index(self._index, str(path))

    @classmethod
    def load(cls, path: Path, kind: str) -> Neighbours:
        """Reads a saved index; its vectors are memory-mapped where FAISS can (ivf)."""
        index = open_index(path, mapped=kind in CLUSTERED)
        return cls(index, kind, index.d - (kind != "flat"))


def open_index(path: Path, *, mapped: bool) -> Any:
    """A FAISS index from its file; `mapped` leaves an inverted file's vectors on disk."""
    faiss = load_faiss()
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if mapped else 0)
    except RuntimeError as problem:
        raise ArtefactError(f"{path}: not a FAISS index ({str(problem).splitlines()[-1][:120]})") from None


def default_probes(clusters: int) -> int:
    """Clusters to look into: one in six; docs/klsa.md has the recall measured around it."""
    return max(8, clusters // 6)


def load_faiss() -> Any:
    """Imported when needed: FAISS takes a while. Its published types don't know half of it, hence Any."""
    if "faiss" in sys.modules:
        return sys.modules["faiss"]
    with _known_core():
        return import_module("faiss")


@contextmanager
def _known_core() -> Iterator[None]:
    """Tells the OpenBLAS that comes with FAISS of AVX-512 while it is loaded.

    Version 0.3.15 doesn't know processors of 2023 and takes them for ones of 2004: four times slower. The variable is taken
    back, because the newer OpenBLAS of numpy knows better, in child processes too.
    """
    if CORE in os.environ or not _has_avx512():
        yield
        return
    os.environ[CORE] = "SkylakeX"
    try:
        yield
    finally:
        del os.environ[CORE]


def _has_avx512() -> bool:
    """Whether Linux says that this processor can do what OpenBLAS's kernels for Skylake-X need."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return False
    return {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags


def _dense(rows: Any) -> NDArray[np.float32]:
    dense = rows.toarray() if sparse.issparse(rows) else np.atleast_2d(rows)
    return np.ascontiguousarray(dense, dtype=np.float32)


def _blocks(vectors: Any, size: int) -> Any:
    """The rows as dense float32 blocks."""
    return (_dense(vectors[start : start + size]) for start in range(0, vectors.shape[0], size))


def _sample(vectors: Any, rows: NDArray[np.int64], longest: float, block: int) -> NDArray[np.float32]:
    """Some rows, levelled, without a second copy of them on the way."""
    out = np.empty((len(rows), vectors.shape[1] + 1), dtype=np.float32)
    for start in range(0, len(rows), block):
        out[start : start + block] = _levelled(_dense(vectors[rows[start : start + block]]), longest)
    return out


def _levelled(rows: NDArray[np.float32], longest: float) -> NDArray[np.float32]:
    """Rows with the coordinate that makes all of them equally long."""
    missing = np.maximum(longest - np.einsum("ij,ij->i", rows, rows), 0)
    return np.hstack([rows, np.sqrt(missing)[:, None]])
