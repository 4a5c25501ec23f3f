"""Readers of document files, one module per family of formats.

A reader takes a file and its encoding and yields (place in the file, record): the place is "line 7" or "row 3", and
empty where the file is one document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: What a reader yields.
Records = Iterator[tuple[str, dict[str, Any]]]

#: Names of the column or key that holds a document's id, in the order in which they are looked for.
ID_NAMES = ("id", "_id", "docid", "docno", "doc_id")

#: Names of the column or key that holds a document's text where there is no `contents`, in the same way.
TEXT_NAMES = ("text", "body", "content")
