"""The postings of a field, as they go from Lucene to the forward index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Scan:
    """What one walk over a field's postings tells: the vocabulary with its statistics, and the size of every row."""

    term_bytes: NDArray[np.uint8]
    term_sizes: NDArray[np.int32]
    df: NDArray[np.int32]
    cf: NDArray[np.int64]
    distinct: NDArray[np.int32]
    lengths: NDArray[np.int32]
    norms: NDArray[np.uint8]
    live: NDArray[np.bool_]


class PostingsSource(Protocol):
    """Something that walks a field's postings: a Lucene index, or the forward indexes of shards."""

    def scan(self) -> Scan: ...

    def rows(
        self, start: int, end: int, scan: Scan, positions: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Term numbers, frequencies and positions of documents start..end-1, rows sorted by term."""

    def docids(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Docids of documents start..end-1: bytes and sizes."""
