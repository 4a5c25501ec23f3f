"""The postings of a Lucene field, through the compiled helper."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.postings import Scan
from kernelsearch.lucene import jvm


class LucenePostings:
    """Walks the postings of one field: tens of millions per second."""

    def __init__(self, reader: Any, field: str) -> None:
        self._reader, self._field, self._bridge = reader, field, jvm.bridge()

    def scan(self) -> Scan:
        buffers = self._bridge.scan(self._reader, self._field)
        kinds = (np.uint8, np.int32, np.int32, np.int64, np.int32, np.int32, np.uint8, np.bool_)
        return Scan(*(jvm.view(buffer, kind) for buffer, kind in zip(buffers, kinds, strict=True)))

    def rows(
        self, start: int, end: int, scan: Scan, positions: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        distinct, tokens = scan.distinct[start:end].tobytes(), scan.lengths[start:end].tobytes()
        found = self._bridge.rows(self._reader, self._field, start, end, distinct, tokens, positions)
        return jvm.view(found[0], np.int32), jvm.view(found[1], np.int32), jvm.view(found[2], np.int32)

    def docids(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        data, sizes = self._bridge.docids(self._reader, "id", start, end)
        return jvm.view(data, np.uint8), jvm.view(sizes, np.int32)
