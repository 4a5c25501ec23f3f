"""The formats of documents, one module per format: a module of this package with a `FORMAT` is a format.

The other modules of `trec` take everything from these declarations, so a new format is one new file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

#: What a reader yields: (place in the file, record). The place is "line 7" or "row 3", and empty where a file is one document.
Records = Iterator[tuple[str, dict[str, Any]]]

#: Names of the column or key that holds a document's id, in the order in which they are looked for.
ID_NAMES = ("id", "_id", "docid", "docno", "doc_id")

#: Names of the column or key that holds a document's text where there is no `contents`, in the same way.
TEXT_NAMES = ("text", "body", "content")


@dataclass(frozen=True)
class Format:
    """The declaration of a format.

    Parameters
    ----------
    name : its name in `--format`
    read : takes a file and its encoding, and yields `Records`; with `columns`, also `id_names` and `text_names`
    suffixes : of its files' names, without .gz
    magic : how its files begin if they are no text
    begins : a regular expression for the beginning of its files if they are text, for files without a known suffix
    corpus : the name of the file that a folder of this format holds its documents in
    page : whether a file is one document: the id of a record, the path of the file, is added by the caller
    columns : whether rows need to be told the names of the columns of ids and texts
    joined : whether the contents have the title in them already
    """

    name: str
    read: Callable[..., Records]
    suffixes: tuple[str, ...] = ()
    magic: bytes = b""
    begins: str = ""
    corpus: str = ""
    page: bool = False
    columns: bool = False
    joined: bool = False
