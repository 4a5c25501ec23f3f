"""A field's postings, read through Lucene's own iterators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.postings import Scan


class PlainPostings:
    """Reads a field's postings with one Java call per posting: an independent computation to compare the bridge with."""

    def __init__(self, reader: Any, field: str, **_: object) -> None:
        from jnius import autoclass, cast

        self._field = field
        self._reader = cast("org.apache.lucene.index.IndexReader", reader)
        self._live = autoclass("org.apache.lucene.index.MultiBits").getLiveDocs(self._reader)
        self._end = autoclass("org.apache.lucene.search.DocIdSetIterator").NO_MORE_DOCS
        self._kinds = autoclass("org.apache.lucene.index.PostingsEnum")
        self._terms = autoclass("org.apache.lucene.index.MultiTerms").getTerms(self._reader, field)
        self._norms = autoclass("org.apache.lucene.index.MultiDocValues").getNormValues(self._reader, field)

    def _alive(self, doc: int) -> bool:
        return self._live is None or bool(self._live.get(doc))

    def _walk(self) -> Any:
        """Yields (term number, enumerator) for every term, in index order."""
        if self._terms is None:
            return
        walk, number = self._terms.iterator(), 0
        while walk.next() is not None:
            yield number, walk
            number += 1

    def scan(self) -> Scan:
        rows = self._reader.maxDoc()
        distinct, lengths = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
        data, sizes, df, cf = [], [], [], []
        for _, walk in self._walk():
            term = walk.term().utf8ToString().encode("utf-8")
            data.append(term)
            sizes.append(len(term))
            df.append(walk.docFreq())
            cf.append(walk.totalTermFreq())
            postings = walk.postings(None, self._kinds.FREQS)
            while (doc := postings.nextDoc()) != self._end:
                if self._alive(doc):
                    distinct[doc] += 1
                    lengths[doc] += postings.freq()
        norms = np.zeros(rows, np.uint8)
        while self._norms is not None and (doc := self._norms.nextDoc()) != self._end:
            norms[doc] = self._norms.longValue() & 0xFF
        return Scan(
            np.frombuffer(b"".join(data), np.uint8),
            np.array(sizes, np.int32),
            np.array(df, np.int32),
            np.array(cf, np.int64),
            distinct,
            lengths,
            norms,
            np.array([self._alive(doc) for doc in range(rows)], np.bool_),
        )

    def rows(
        self, start: int, end: int, scan: Scan, positions: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        ids: list[list[int]] = [[] for _ in range(start, end)]
        counts: list[list[int]] = [[] for _ in range(start, end)]
        places: list[list[int]] = [[] for _ in range(start, end)]
        for number, walk in self._walk():
            postings = walk.postings(None, self._kinds.POSITIONS if positions else self._kinds.FREQS)
            doc = postings.nextDoc() if start == 0 else postings.advance(start)
            while doc < end:
                if self._alive(doc):
                    frequency = postings.freq()
                    ids[doc - start].append(number)
                    counts[doc - start].append(frequency)
                    if positions:
                        places[doc - start].extend(postings.nextPosition() for _ in range(frequency))
                doc = postings.nextDoc()
        return tuple(np.array([x for row in rows for x in row], np.int32) for rows in (ids, counts, places))  # type: ignore[return-value]

    def docids(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        fields = self._reader.storedFields()
        texts = [(fields.document(doc).get("id") or "").encode("utf-8") for doc in range(start, end)]
        return np.frombuffer(b"".join(texts), np.uint8), np.array([len(text) for text in texts], np.int32)
