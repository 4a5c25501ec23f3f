"""CSV, with any of some delimiters."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kernelsearch.core.reading import TextFile
from kernelsearch.trec.delimited import HEADER_NAMES, find_delimiter, read_table
from kernelsearch.trec.formats import ID_NAMES, Format, Records


def read_csv(
    path: Path, encoding: str, id_names: Collection[str] = ID_NAMES, text_names: Collection[str] = HEADER_NAMES
) -> Records:
    """Rows of the CSV file `path` in `encoding`, whose delimiter is found in its first line.

    Quoted cells may contain line breaks. `id_names` are the names of the column of ids, none where rows have no ids;
    `text_names` are names of columns of text.
    """
    text = TextFile(path, encoding)
    return read_table(text, id_names, text_names, delimiter=find_delimiter(text.first_line() or ""), strict=True)


FORMAT = Format("csv", read_csv, suffixes=(".csv",), columns=True)
