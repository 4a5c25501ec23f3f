"""Stored documents, ready to be sent, behind an LRU cache: few documents are in the lists of most queries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from kernelsearch.api.index import Index

#: Size of the cache in characters, about as many bytes.
CACHE_SIZE = 32 << 20
#: Documents whose fields are listed when a request names one that isn't known yet, at once and in all; in a larger collection
#: they are spread evenly over it.
LISTED_AT_ONCE, MAX_LISTED = 1000, 100_000
#: Names of fields that are listed; a collection with more of them has every field.
MAX_FIELD_NAMES = 10_000


class StoredDocument(NamedTuple):
    """A document as it was indexed; `json` is its text ready to be put into a JSON answer, None where it is not JSON."""

    docid: str
    text: str | None
    json: orjson.Fragment | None

    def answer(self, parse: bool) -> Any:
        """The document in an answer: JSON where it is JSON and `parse` is set, otherwise text; None where it is not stored."""
        return self.json if parse and self.json is not None else self.text

    def fields(self) -> dict[str, Any]:
        """The fields of a JSON object; the text of another document is the field `contents`."""
        record = orjson.loads(self.text) if self.text is not None and self.json is not None else self.text
        if isinstance(record, dict):
            return record
        return {} if self.text is None else {"contents": self.text}

    def strings(self) -> list[str]:
        """The string values of a JSON object, or the whole text of another document."""
        return [value for value in self.fields().values() if isinstance(value, str)]


class StoredDocuments:
    """The stored documents of an index by row, with an LRU cache of `cache_size` characters. Thread-safe."""

    def __init__(self, index: Index, cache_size: int = CACHE_SIZE) -> None:
        self.index, self.cache_size = index, cache_size
        self._cache: OrderedDict[int, StoredDocument] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._field_names: set[str] = set()
        self._unlisted: NDArray[np.int32] | None = None  # rows whose fields are not in the set yet; None: all
        self._listing = threading.Lock()

    def get(self, rows: NDArray[np.int32]) -> list[StoredDocument]:
        """The documents in the order of `rows`; those that are not in the cache are read in one call."""
        wanted = rows.tolist()
        with self._lock:
            documents = {row: self._cache[row] for row in wanted if row in self._cache}
            for row in documents:
                self._cache.move_to_end(row)
        missing = [row for row in wanted if row not in documents]
        if missing:
            new = dict(zip(missing, self._read(missing), strict=True))
            documents.update(new)
            self._add_to_cache(new)
        return [documents[row] for row in wanted]

    def answers(self, rows: NDArray[np.int32], parse: bool) -> list[Any]:
        """The documents in `rows` as they are in an answer; `parse` asks for records instead of their text."""
        return [document.answer(parse) for document in self.get(rows)]

    def known_fields(self) -> set[str]:
        """The names of the fields that documents are known to have, without reading any."""
        return self._field_names

    def missing_fields(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that no document has; documents are read until all are found, and only once."""
        wanted = set(names)
        with self._listing:
            if self._unlisted is None:
                self._unlisted = self.index.forward.live_docs[:: len(self.index.forward) // MAX_LISTED + 1]
            while len(self._unlisted) and not wanted <= self._field_names and len(self._field_names) < MAX_FIELD_NAMES:
                rows, self._unlisted = np.split(self._unlisted, [LISTED_AT_ONCE])
                new_names = {name for document in self._read(rows.tolist()) for name in document.fields()}
                self._field_names = self._field_names | new_names  # a new set: others read the present one
            return [] if len(self._field_names) >= MAX_FIELD_NAMES else sorted(wanted - self._field_names)

    def _read(self, rows: list[int]) -> list[StoredDocument]:
        raw = self.index.lucene.stored(rows, "raw")
        if any(text is None for text in raw):
            contents = self.index.lucene.stored(rows, "contents")
            raw = [content if text is None else text for text, content in zip(raw, contents, strict=True)]
        docids = self.index.forward.docids.take(rows)
        return [StoredDocument(docid, text, _as_json(text)) for docid, text in zip(docids, raw, strict=True)]

    def _add_to_cache(self, new: dict[int, StoredDocument]) -> None:
        with self._lock:
            for row, document in new.items():
                if row not in self._cache:
                    self._cache[row] = document
                    self._size += len(document.text or "")
            while self._size > self.cache_size:
                _, oldest = self._cache.popitem(last=False)
                self._size -= len(oldest.text or "")


def _as_json(text: str | None) -> orjson.Fragment | None:
    if text is None or text[:1] not in ("{", "["):
        return None
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return orjson.Fragment(text)
