"""The postings of a Lucene field, read through the bridge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.postings import Scan
from kernelsearch.lucene import jvm

#: Largest size in bytes of rows that an export reads in one pass; larger ones are read in a pass per block.
AT_ONCE = 1 << 27
#: Java holds the rows twice while `scan` keeps them, in its heap and in buffers: at most a quarter of the heap's size.
HEAP_SHARE = 8

Rows = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]


class LucenePostings:
    """A `PostingsSource` over one field of an IndexReader (Java).

    Parameters
    ----------
    reader : the IndexReader
    field : the field
    at_once : where the rows of all documents take at most this many bytes, `scan` reads them too and keeps them: one pass over
        the terms instead of two
    positions : whether `rows` will be asked for positions, which `scan` then reads
    """

    def __init__(self, reader: Any, field: str, *, at_once: int = 0, positions: bool = True) -> None:
        self._reader, self._field, self._bridge = reader, field, jvm.bridge()
        self._at_once, self._positions = at_once, positions
        self._cached: Rows | None = None

    def scan(self) -> Scan:
        """Returns the vocabulary, its statistics and the size of every row."""
        _, tokens, postings, indexed = self._bridge.statistics(self._reader, self._field)
        positions = self._positions and bool(indexed)
        keep = 8 * postings + (4 * tokens if positions else 0) <= min(self._at_once, _heap() // HEAP_SHARE)
        buffers = self._bridge.scan(self._reader, self._field, keep, positions)
        kinds = (np.uint8, np.int32, np.int32, np.int64, np.int32, np.int32, np.uint8, np.bool_)
        if keep:
            terms, frequencies, places = (jvm.share_array(buffer, np.int32) for buffer in buffers[len(kinds) :])
            self._cached = terms, frequencies, places
        return Scan(*(jvm.copy_array(buffer, kind) for buffer, kind in zip(buffers, kinds, strict=False)))

    def rows(self, start: int, end: int, scan: Scan, positions: bool) -> Rows:
        """As `PostingsSource.rows`, whose `start`, `end`, `scan` and `positions` these are."""
        if self._cached is not None and positions <= self._positions:
            return _slice(self._cached, scan, start, end, positions)
        distinct, tokens = scan.distinct[start:end].tobytes(), scan.lengths[start:end].tobytes()
        terms, frequencies, places = (
            jvm.share_array(buffer, np.int32)
            for buffer in self._bridge.rows(self._reader, self._field, start, end, distinct, tokens, positions)
        )
        return terms, frequencies, places

    def docids(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Returns the docids of documents start..end-1: bytes and sizes."""
        data, sizes = self._bridge.docids(self._reader, "id", start, end)
        return jvm.copy_array(data, np.uint8), jvm.copy_array(sizes, np.int32)


def _heap() -> int:
    """The maximal size of Java's heap in bytes."""
    from jnius import autoclass

    return int(autoclass("java.lang.Runtime").getRuntime().maxMemory())


def _slice(rows: Rows, scan: Scan, start: int, end: int, positions: bool) -> Rows:
    """The rows of documents start..end-1 of the rows of all."""
    first, last = (int(scan.distinct[:row].sum(dtype=np.int64)) for row in (start, end))
    before, after = (int(scan.lengths[:row].sum(dtype=np.int64)) for row in (start, end)) if positions else (0, 0)
    terms, frequencies, places = rows
    return terms[first:last], frequencies[first:last], places[before:after]
