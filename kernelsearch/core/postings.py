"""The interface between postings and the forward index that is written from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Scan:
    """The result of one pass over a field's postings: the vocabulary with its statistics, and the size of every row."""

    term_bytes: NDArray[np.uint8]  #: all terms in order, UTF-8
    term_sizes: NDArray[np.int32]  #: (terms,) bytes per term
    df: NDArray[np.int32]  #: (terms,) document frequencies
    cf: NDArray[np.int64]  #: (terms,) collection frequencies
    distinct: NDArray[np.int32]  #: (documents,) distinct terms per document
    lengths: NDArray[np.int32]  #: (documents,) tokens per document
    norms: NDArray[np.uint8]  #: (documents,) Lucene's one-byte lengths
    live: NDArray[np.bool_]  #: (documents,) False for deleted documents


class PostingsSource(Protocol):
    """A source of a field's postings: a Lucene index, or the forward indexes of shards."""

    def scan(self) -> Scan:
        """Returns the vocabulary, its statistics and the size of every row."""

    def rows(
        self, start: int, end: int, scan: Scan, positions: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Returns term numbers, frequencies and positions (empty unless `positions`) of documents start..end-1.

        Rows are sorted by term. `scan` is the result of the method `scan`.
        """

    def docids(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Returns the docids of documents start..end-1: UTF-8 bytes and sizes."""
