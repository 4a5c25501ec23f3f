"""Maximum inner product search with FAISS.

Kinds: `flat` compares every vector and is exact; `ivf` searches some of many clusters; `ivf-fp16` and `ivf-sq8` do so with
coordinates of sixteen and eight bits, in a half and a quarter of the memory; `ivf-pq4` with four bits per pair of coordinates
(a product quantiser), whose products FAISS looks up in tables that fit into registers; `hnsw` searches a graph. The approximate
kinds are more accurate for vectors of equal norm, because vectors with a large norm are near to every query. They therefore
store each vector with one more coordinate, √(M² - |x|²) with M the largest norm: all norms are then M, the inner product with
(query, 0) does not change, and the nearest vector is the one with the largest inner product (Bachrach et al., "Speeding Up the
Xbox Recommender System", RecSys 2014).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.streams import raise_shortage_of
from kernelsearch.neighbours.faiss_files import QUERY_BY_QUERY, check_file

if TYPE_CHECKING:  # the commands that never search vectors would import scipy for nothing
    from scipy import sparse


class Storage(NamedTuple):
    """How a clustered index stores its vectors."""

    name: str  #: FAISS's name for it, with {pairs} for the number of pairs of coordinates
    multiple: int  #: what the number of coordinates is a multiple of
    share: int  #: one in this many clusters is searched by default
    mapped: bool = True  #: whether FAISS maps the vectors of a file instead of reading them


#: Kinds of clustered indexes. FAISS decodes coordinates of eight and sixteen bits one by one, six times slower, unless their
#: number is a multiple of 16. docs/klsa.md shows the recall of several shares for `ivf`. `ivf-pq4` codes vectors, not their
#: differences from the centres, for which the inner products of FAISS 1.9 are wrong.
CLUSTERED = {
    "ivf": Storage("Flat", 1, 6),
    "ivf-fp16": Storage("SQfp16", 16, 6),
    "ivf-sq8": Storage("SQ8", 16, 6),
    "ivf-pq4": Storage("PQ{pairs}x4fs", 2, 5, mapped=False),
}
#: Kinds that store rounded coordinates.
ROUNDED = tuple(kind for kind, storage in CLUSTERED.items() if storage.name != "Flat")
KINDS = ("auto", "flat", *CLUSTERED, "hnsw")
#: Links per vector of `hnsw`.
LINKS = 32
#: Values that four bits tell apart.
FOUR_BITS = 16
#: How many vectors `ivf-pq4` has to find so that exact products put the nearest first: TIMES as many as are wanted, and MORE
#: of them. With both and its share of the clusters it finds at least as many of the nearest as `ivf-sq8`
#: (`python -m tools.bench.neighbours`, docs/reproductions/vectors.md).
TIMES, MORE = 1.5, 100

#: The environment variable that selects OpenBLAS's kernels.
CORE = "OPENBLAS_CORETYPE"
#: Number of vectors up to which `auto` is exact: comparing them all takes a few milliseconds.
FLAT_LIMIT = 50_000
#: Links per vector of an HNSW graph: FAISS's default.
LINKS = 32

#: Rows that are vectors, dense or sparse.
Vectors: TypeAlias = "NDArray[np.floating] | sparse.spmatrix"


class Neighbours:
    """A FAISS index over vectors. Vector number i is document row i unless the caller maps them.

    `index` is the FAISS index, `kind` one of KINDS but `auto`, `dims` the number of dimensions of the vectors, `path` the file
    that the index was read from.
    """

    def __init__(self, index: Any, kind: str, dims: int, path: Path | None = None) -> None:
        self._index, self.kind, self.dims, self._path = index, kind, dims, path
        self._total, self._width = int(index.ntotal), int(index.d)
        self._clusters = int(load_faiss().downcast_index(index).nlist) if kind in CLUSTERED else 0

    def __len__(self) -> int:
        return self._total

    @classmethod
    def build(
        cls,
        vectors: Vectors,
        kind: str = "auto",
        *,
        clusters: int | None = None,
        random_state: int = 0,
        block: int = 50_000,
        limit: MemoryLimit | None = None,
    ) -> Neighbours:
        """Returns an index over the rows of `vectors`, shape (n, dims), dense (possibly memory-mapped) or sparse.

        `kind` is one of KINDS, `random_state` the seed of the clusters, `clusters` (ivf; default 4·√n) their number. Vectors
        are added in blocks of `block` rows. With a memory `limit`, `auto` chooses eight-bit coordinates for vectors that need
        more than half of it. Raises OptionError for another kind.
        """
        faiss = load_faiss()
        if kind not in KINDS:
            raise OptionError(f"neighbours: {kind!r} is not one of {', '.join(KINDS)}")
        total, dims = vectors.shape
        if kind == "auto":
            fits = limit is None or limit.holds(4.0 * total * (dims + 1))
            kind = "flat" if total <= FLAT_LIMIT else "ivf" if fits else "ivf-sq8"
        if kind == "flat" or (kind == "ivf-pq4" and total < 2):  # FAISS doesn't find a vector that is all values of four bits
            index = faiss.IndexFlatIP(dims)
            for rows in _dense_blocks(vectors, block):
                index.add(rows)
            return cls(index, "flat", dims)
        longest = max((float(np.einsum("ij,ij->i", rows, rows).max()) for rows in _dense_blocks(vectors, block)), default=0.0)
        if kind in CLUSTERED:
            storage, width = CLUSTERED[kind], _width(kind, dims)
            clusters = clusters or max(1, min(int(4 * math.sqrt(total)), total // 39))
            name = f"IVF{clusters},{storage.name.format(pairs=width // 2)}"
            index = faiss.index_factory(width, name, faiss.METRIC_INNER_PRODUCT)
            index.cp.seed, index.cp.niter, index.cp.max_points_per_centroid = random_state, 10, 64
            index.cp.min_points_per_centroid = 1  # FAISS would print a warning
            sample = np.sort(np.random.default_rng(random_state).choice(total, min(total, 64 * clusters), replace=False))
            if kind == "ivf-pq4":
                index.pq.cp.seed, index.pq.cp.min_points_per_centroid = random_state, 1
                index.implem = QUERY_BY_QUERY
                sample = np.resize(sample, max(len(sample), FOUR_BITS))  # FAISS refuses fewer vectors than values
            index.train(_sample(vectors, sample, longest, width, block))
        else:
            index = faiss.IndexHNSWFlat(dims + 1, LINKS, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = 80
        for rows in _dense_blocks(vectors, block):
            index.add(_with_equal_norms(rows, longest, index.d))
        return cls(index, kind, dims)

    def search(
        self, queries: Vectors, k: int, *, among: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Returns the k best rows per query and their inner products, best first: two arrays of shape (queries, k).

        Row -1 means no result. Kinds of ROUNDED coordinates round the products, too. Only the rows of which `among` (n,) is
        true are results; None: all. Raises OptionError for `queries` of other than `dims` dimensions, ArtefactError for a
        damaged file.
        """
        faiss = load_faiss()
        rows = _dense(queries)
        if rows.shape[1] != self.dims:
            raise OptionError(f"neighbours: a query has {rows.shape[1]} dimensions, the index {self.dims}")
        k = min(k, len(self))
        if k <= 0 or not len(rows):
            return np.empty((len(rows), 0), dtype=np.int64), np.empty((len(rows), 0), dtype=np.float32)
        # FAISS keeps a pointer to these bits only.
        bits = None if among is None else np.packbits(among, bitorder="little")
        selector = None if bits is None else faiss.IDSelectorBitmap(bits)
        if self.kind == "flat":
            scores, neighbours = self._index.search(rows, k, params=faiss.SearchParameters(sel=selector))
            return neighbours, scores
        rows = np.hstack([rows, np.zeros((len(rows), self._width - self.dims), dtype=np.float32)])
        if self.kind in CLUSTERED:
            probes = min(default_probes(self._clusters, self.kind), self._clusters)
            parameters: Any = faiss.SearchParametersIVF(nprobe=probes, sel=selector)
        else:
            parameters = faiss.SearchParametersHNSW(efSearch=max(2 * k, 64), sel=selector)
        try:
            scores, neighbours = self._index.search(rows, k, params=parameters)
        except RuntimeError as problem:
            reason = str(problem).splitlines()[-1][-120:]
            raise ArtefactError(f"damaged ({reason}); build it again", path=self._path or "neighbours") from None
        check_row_numbers(neighbours, len(self), self._path)
        return neighbours, scores

    def save(self, path: Path) -> None:
        """Writes the index to the file `path` in FAISS's format."""
        faiss = load_faiss()
        faiss.write_index(self._index, str(path))

    @classmethod
    def load(cls, path: Path, kind: str, *, rows: int, dims: int) -> Neighbours:
        """Reads the index of this `kind` saved as `path`; its vectors are memory-mapped where FAISS supports it.

        Raises ArtefactError for a file that is damaged or has other than `rows` vectors of `dims` dimensions.
        """
        index = read_faiss(path, mapped=kind in CLUSTERED and CLUSTERED[kind].mapped)
        width = dims if kind == "flat" else _width(kind, dims)
        if (index.ntotal, index.d) != (rows, width):
            raise ArtefactError(f"damaged ({index.ntotal} vectors of {index.d} coordinates, not {rows} of {width})", path=path)
        return cls(index, kind, dims, path)


def read_faiss(path: Path, *, mapped: bool) -> Any:
    """Reads the FAISS index `path`; with `mapped`, the vectors of an inverted file are memory-mapped.

    Raises ArtefactError for a file that is damaged or no FAISS index.
    """
    faiss = load_faiss()
    try:
        check_file(path, contents=False)
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if mapped else 0)
    except InputError as problem:
        raise ArtefactError(problem) from None
    except (RuntimeError, MemoryError) as problem:
        raise_shortage_of(path)
        raise ArtefactError(f"damaged, not a valid FAISS index ({str(problem).splitlines()[-1][:120]})", path=path) from None
    if mapped:
        # FAISS starts 32 threads per search that read the lists ahead: on a file in the page cache this takes as long again.
        faiss.downcast_InvertedLists(faiss.downcast_index(index).invlists).prefetch_nthread = 0
    return index


def check_row_numbers(numbers: NDArray[np.int64], rows: int, path: Path | None) -> None:
    """Raises ArtefactError for `numbers` outside -1 ... rows - 1, which a damaged list of the FAISS file `path` gives."""
    if numbers.size and (numbers.max() >= rows or numbers.min() < -1):
        raise ArtefactError(f"damaged (a row number is not below {rows}); build it again", path=path or "neighbours")


def default_probes(clusters: int, kind: str) -> int:
    """Returns the default number of clusters to search in an index of this `kind` with this number of `clusters`."""
    return max(8, clusters // CLUSTERED[kind].share)


def looked_for(count: int, kind: str) -> int:
    """How many vectors to look for in an index of this `kind` so that the `count` nearest are among them if any search can."""
    return math.ceil(TIMES * count) + MORE if kind == "ivf-pq4" else count


def load_faiss() -> Any:
    """Returns the module faiss, imported on first use because that takes long. Its type stubs are incomplete, hence Any."""
    if "faiss" in sys.modules:
        return sys.modules["faiss"]
    with _openblas_for_avx512():
        return import_module("faiss")


@contextmanager
def _openblas_for_avx512() -> Iterator[None]:
    """Makes the OpenBLAS that FAISS's wheel contains use AVX-512 while it is loaded, on Linux.

    Its version 0.3.15 doesn't recognise processors of 2023 and falls back to code for those of 2004, four times slower.
    OpenBLAS reads the choice from the environment only, when it is loaded; the variable is removed afterwards, because numpy's
    newer OpenBLAS detects the processor itself, in child processes too.
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
    """Whether the processor has the instructions that OpenBLAS's kernels for Skylake-X need, according to Linux."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return False
    return {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags


def _dense(rows: Vectors) -> NDArray[np.float32]:
    """The rows as a dense contiguous array."""
    dense = np.atleast_2d(rows) if isinstance(rows, np.ndarray) else rows.toarray()
    return np.ascontiguousarray(dense, dtype=np.float32)


def _dense_blocks(vectors: Vectors, size: int) -> Iterator[NDArray[np.float32]]:
    """Blocks of at most `size` rows, dense."""
    return (_dense(vectors[start : start + size]) for start in range(0, vectors.shape[0], size))


def _width(kind: str, dims: int) -> int:
    """The coordinates that an approximate index of this `kind` stores per vector of `dims` dimensions."""
    multiple = CLUSTERED[kind].multiple if kind in CLUSTERED else 1
    return -(-(dims + 1) // multiple) * multiple


def _sample(vectors: Vectors, rows: NDArray[np.int64], longest: float, width: int, block: int) -> NDArray[np.float32]:
    """Some rows with equal norms, converted in blocks to avoid a second copy of them all."""
    out = np.empty((len(rows), width), dtype=np.float32)
    for start in range(0, len(rows), block):
        out[start : start + block] = _with_equal_norms(_dense(vectors[rows[start : start + block]]), longest, width)
    return out


def _with_equal_norms(rows: NDArray[np.float32], longest: float, width: int) -> NDArray[np.float32]:
    """Rows with one more coordinate, which makes the square of every norm `longest`, and zeros up to `width` coordinates."""
    missing = np.maximum(longest - np.einsum("ij,ij->i", rows, rows), 0)
    out = np.zeros((len(rows), width), dtype=np.float32)
    out[:, : rows.shape[1]] = rows
    out[:, rows.shape[1]] = np.sqrt(missing)
    return out
