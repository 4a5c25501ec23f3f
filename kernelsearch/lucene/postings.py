"""The postings of a Lucene field, read through the bridge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.postings import Scan
from kernelsearch.lucene import jvm


class LucenePostings:
    """A `PostingsSource` over one field of an IndexReader (Java)."""

    def __init__(self, reader: Any, field: str) -> None:
        self._reader, self._field, self._bridge = reader, field, jvm.bridge()

    def scan(self) -> Scan:
        """Returns the vocabulary, its statistics and the size of every row."""
        buffers = self._bridge.scan(self._reader, self._field)
        kinds = (np.uint8, np.int32, np.int32, np.int64, np.int32, np.int32, np.uint8, np.bool_)
        return Scan(*(jvm.copy_array(buffer, kind) for buffer, kind in zip(buffers, kinds, strict=True)))

    def rows(
        self, start: int, end: int, scan: Scan, positions: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Returns term numbers, frequencies and positions of documents start..end-1."""
        distinct, tokens = scan.distinct[start:end].tobytes(), scan.lengths[start:end].tobytes()
        terms, frequencies, places = (
            jvm.copy_array(buffer, np.int32)
            for buffer in self._bridge.rows(self._reader, self._field, start, end, distinct, tokens, positions)
        )
        return terms, frequencies, places

    def docids(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Returns the docids of documents start..end-1: bytes and sizes."""
        data, sizes = self._bridge.docids(self._reader, "id", start, end)
        return jvm.copy_array(data, np.uint8), jvm.copy_array(sizes, np.int32)
