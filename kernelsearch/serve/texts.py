"""Stored documents, ready to be sent. The latest ones are kept: good documents answer many queries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import orjson

from kernelsearch.api.index import Index

#: Characters of documents that are kept, about as many bytes.
KEPT = 32 << 20


class Text(NamedTuple):
    """A document as it was indexed; `json` is the same where it is JSON, to be put into an answer as it stands."""

    docid: str
    text: str | None
    json: orjson.Fragment | None

    def answer(self, parse: bool) -> Any:
        """What an answer holds: JSON where the document is JSON and `parse` is set, text otherwise, None if not stored."""
        return self.json if parse and self.json is not None else self.text

    def strings(self) -> list[str]:
        """The texts in it: a record's values, or all of it where it is no record."""
        record = orjson.loads(self.text) if self.text is not None and self.json is not None else self.text
        values = record.values() if isinstance(record, dict) else [record]
        return [value for value in values if isinstance(value, str)]


class Texts:
    """The stored records of an index by row."""

    def __init__(self, index: Index, kept: int = KEPT) -> None:
        self.index, self.kept = index, kept
        self._texts: OrderedDict[int, Text] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, rows: np.ndarray) -> list[Text]:
        """Documents in the order of `rows`; those that aren't kept are read in one call."""
        wanted = rows.tolist()
        with self._lock:
            found = {row: self._texts[row] for row in wanted if row in self._texts}
            for row in found:
                self._texts.move_to_end(row)
        missing = [row for row in wanted if row not in found]
        if missing:
            new = dict(zip(missing, self._read(missing), strict=True))
            found.update(new)
            self._keep(new)
        return [found[row] for row in wanted]

    def answers(self, rows: np.ndarray, parse: bool) -> list[Any]:
        """What an answer holds of each document."""
        return [one.answer(parse) for one in self.get(rows)]

    def _read(self, rows: list[int]) -> list[Text]:
        raw = self.index.lucene.stored(rows, "raw")
        if any(text is None for text in raw):
            contents = self.index.lucene.stored(rows, "contents")
            raw = [more if text is None else text for text, more in zip(raw, contents, strict=True)]
        return [Text(docid, text, _json(text)) for docid, text in zip(self.index.forward.docids.take(rows), raw, strict=True)]

    def _keep(self, new: dict[int, Text]) -> None:
        with self._lock:
            for row, one in new.items():
                if row not in self._texts:
                    self._texts[row] = one
                    self._size += len(one.text or "")
            while self._size > self.kept:
                _, old = self._texts.popitem(last=False)
                self._size -= len(old.text or "")


def _json(text: str | None) -> orjson.Fragment | None:
    if text is None or text[:1] not in ("{", "["):
        return None
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return orjson.Fragment(text)
