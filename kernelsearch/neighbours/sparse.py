"""Nearest neighbours of sparse rows, in a FAISS inverted file with one list per (hashed) feature.

Short texts don't form clusters: neighbours share a few words or character n-grams, so they are spread over all clusters of an
ordinary inverted file, and the noise of random projections hides small similarities. Here each row is stored, as a quantised
sketch, in the lists of its rarest features; a search reads the lists of the query's features, the rarest first, and compares
sketches. Only the range of the sketches' coordinates is trained, and the work per search is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import ArtefactError
from kernelsearch.neighbours.faiss_index import check_row_numbers, load_faiss, read_faiss

if TYPE_CHECKING:
    from scipy import sparse

#: Number of lists; features are hashed into them.
LISTS = 1 << 18
#: Lists that a row is stored in (half as many for more than `MANY` rows, to save space), and lists that a search reads.
COPIES, MANY, PROBES = 16, 200_000, 64
#: Largest number of sketches that a search compares.
COMPARED = 100_000
#: Dimensions of a sketch.
DIMS = 128


def sketch(features: sparse.csr_matrix, dims: int = 256) -> NDArray[np.float32]:
    """Returns dense rows whose inner products are unbiased estimates of those of `features`, with error about 1/√dims.

    A count sketch: Charikar, Chen & Farach-Colton, "Finding Frequent Items in Data Streams" (2002). `dims` is a power of two.
    """
    mixed = features.indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    column = (mixed >> np.uint64(40)) % np.uint64(dims)
    sign = np.where((mixed >> np.uint64(39)) & np.uint64(1), 1.0, -1.0)
    rows = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    places = rows * dims + column.astype(np.int64)
    return np.bincount(places, sign * features.data, features.shape[0] * dims).astype(np.float32).reshape(-1, dims)


class SparseNeighbours:
    """An index over the rows of a sparse matrix, searched by inner product. Row i of the matrix is number i.

    `index` is FAISS's, `frequencies` counts the rows of a sample per list, `rows` are all rows, `path` is the file, if any.
    """

    def __init__(self, index: Any, frequencies: NDArray[np.int32], rows: int, path: Path | None = None) -> None:
        index.nprobe, index.max_codes = PROBES, COMPARED
        self._index, self._rows, self._path = index, rows, path
        self.frequencies = frequencies  #: rows of the sample that have a feature of each list, shape (LISTS,)

    @classmethod
    def build(cls, sample: sparse.csr_matrix, blocks: Iterable[sparse.csr_matrix], rows: int) -> SparseNeighbours:
        """Returns an index over `rows` rows, read once in `blocks`; `sample`, some of them, gives the features' frequencies."""
        faiss = load_faiss()
        # The quantizer, which normally chooses the lists, is not used: lists are passed explicitly.
        index = faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatIP(DIMS), DIMS, LISTS, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT, False
        )
        index.sq.train(sketch(sample, DIMS))
        index.is_trained = True
        frequencies = np.bincount(_lists(sample.indices), minlength=LISTS).astype(np.int32)
        copies, start = COPIES if rows <= MANY else COPIES // 2, 0
        for block in blocks:
            _add(index, block, frequencies, copies, start)
            start += block.shape[0]
        return cls(index, frequencies, rows)

    def search(self, features: sparse.csr_matrix, k: int) -> list[NDArray[np.int64]]:
        """Returns at most k rows per row of `features`, best first by the inner product of sketches."""
        if not features.shape[0]:
            return []
        lists, owners = _lists(features.indices), np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
        probes = np.full((features.shape[0], PROBES), -1, dtype=np.int64)
        places = _ranks(owners, self.frequencies[lists], features.indptr)
        used = places < PROBES
        probes[owners[used], places[used]] = lists[used]
        # The same row may be found in each of its lists.
        _, numbers = self._index.search_preassigned(sketch(features, DIMS), k * COPIES, probes, None)
        check_row_numbers(numbers, self._rows, self._path)
        return [_distinct(row[row >= 0])[:k] for row in numbers]

    def save(self, path: Path) -> None:
        """Writes the FAISS index to the file `path` in FAISS's format; the caller saves `frequencies`."""
        load_faiss().write_index(self._index, str(path))

    @classmethod
    def load(cls, path: Path, frequencies: NDArray[np.int32], rows: int) -> SparseNeighbours:
        """Reads the index `path` over `rows` rows, memory-mapped; `frequencies` are those of the index that was saved.

        Raises ArtefactError for a file that is damaged.
        """
        index = read_faiss(path, mapped=True)
        if index.d != DIMS or index.nlist != LISTS or frequencies.shape != (LISTS,):
            raise ArtefactError(f"damaged ({index.nlist} lists of {index.d} dimensions, not {LISTS} of {DIMS})", path=path)
        return cls(index, frequencies, rows, path)


def _add(index: Any, block: sparse.csr_matrix, frequencies: NDArray[np.int32], copies: int, start: int) -> None:
    pointer = load_faiss().swig_ptr
    lists, owners = _lists(block.indices), np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
    # A feature that doesn't occur in the sample is the least likely to occur in a query.
    common = frequencies[lists]
    places = _ranks(owners, np.where(common > 0, common, np.iinfo(np.int32).max), block.indptr)
    sketches = sketch(block, DIMS)
    for copy in range(copies):
        chosen = np.flatnonzero(places == copy)
        vectors, numbers, into = sketches[owners[chosen]], owners[chosen] + start, lists[chosen]
        index.add_core(len(chosen), pointer(vectors), pointer(numbers), pointer(into))


def _lists(columns: NDArray[np.integer]) -> NDArray[np.int64]:
    """The list of each column, a hash."""
    mixed = columns.astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(64 - 18)).astype(np.int64)


def _ranks(owners: NDArray[np.int64], values: NDArray[np.integer], indptr: NDArray[np.integer]) -> NDArray[np.int64]:
    """The rank of each entry within its row, smallest value first."""
    order = np.lexsort((values, owners))
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order)) - np.repeat(indptr[:-1], np.diff(indptr))
    return places


def _distinct(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows without duplicates, in order of first occurrence."""
    return rows[np.sort(np.unique(rows, return_index=True)[1])]
