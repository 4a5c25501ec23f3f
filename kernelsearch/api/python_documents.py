"""Documents that are Python objects: dicts and data frames, for a new index and for an update."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelsearch.api.arguments import checked
from kernelsearch.api.build import BuildSettings, build_index
from kernelsearch.api.index import Index
from kernelsearch.api.judged import is_frame
from kernelsearch.api.staging import Reader
from kernelsearch.core.errors import InputError
from kernelsearch.trec.delimited import refuse_repeated
from kernelsearch.trec.documents import make_document, number_record


@checked
def build(
    path: str | Path,
    documents: Iterable[Mapping[str, Any]] | Any,
    *,
    join_titles: bool = True,
    number_documents: bool = False,
    **options: Any,
) -> Index:
    """Builds an index from documents and opens it.

    Parameters
    ----------
    path : the folder of the new index
    documents : dicts with `id`, `contents` and perhaps `title` and other fields, or a pandas DataFrame with such columns
    join_titles : put the title before the contents, which are searched, unless it is in them already
    number_documents : the ids are 1, 2, ... in the order of the documents, whatever ids they have
    options : those of `kernelsearch.index`, such as `force=True`, `fields=("title", "url")`, `language="pt"` or `shards=4`

    Raises InputError for documents without id or text, and where `path` exists and `force` is not set.
    """
    settings = BuildSettings.of(options)
    build_index(Path(path), reader_of(documents, join_titles, number_documents), settings)
    return Index(path)


def reader_of(documents: Iterable[Mapping[str, Any]] | Any, join_titles: bool, number_documents: bool = False) -> Reader:
    """A function that reads documents as `build` takes them from their beginning.

    `join_titles` joins titles with the contents, `number_documents` gives documents ids by their number. An iterator has its
    documents once only. When it is read again they have nothing but their id, which is enough to name two of the same id; so
    the collection is not kept in memory.
    """
    records: Any = documents
    if is_frame(documents):
        refuse_repeated(map(str, records.columns), "documents")
        records = [
            {name: value for name, value in record.items() if not _missing(value)} for record in records.to_dict("records")
        ]
    once, ids = iter(records) is records, list[str]()

    def read() -> Iterator[tuple[str, dict[str, Any]]]:
        if once and ids:
            yield from ((f"document {number}", {"id": docid}) for number, docid in enumerate(ids))
            return
        for number, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise InputError(
                    f"document {number}: a dict such as {{'id': 'a1', 'contents': 'text'}} was expected, not "
                    f"{type(record).__name__}"
                )
            if number_documents:
                record = number_record(record, number + 1)
            document = make_document(record, f"document {number}", join_titles=join_titles)
            if once:
                ids.append(document["id"])
            yield f"document {number}", document

    return read


def _missing(value: object) -> bool:
    """Whether a cell of a table is empty: None, NaN, or pandas' NA and NaT, which are equal to nothing."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value))
