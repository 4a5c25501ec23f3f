"""Tables as text, CSV and TSV: their delimiter, their header, their rows."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from kernelsearch.core.errors import Flag, InputError, quote, short
from kernelsearch.core.reading import TextFile
from kernelsearch.trec.formats import TEXT_NAMES, Records

#: Delimiters that are looked for in the first line of a CSV file; the first of the most frequent ones is taken.
DELIMITERS = ",;\t|"
#: Column names by which a row is known to be a header.
HEADER_NAMES = ("contents", "title", *TEXT_NAMES)
#: What may be the name of a column: the row `17,text` is a document, `label,text` a header.
_NAME = re.compile(r"[^\W\d][\w .-]{0,60}")
#: A cell of which everything is quoted, with quotes in it doubled.
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
#: Longest cell of a table in characters: csv's own limit, 131,072, is shorter than a long document.
MAX_CELL = 2**31 - 1


def find_delimiter(line: str) -> str:
    """The most frequent of DELIMITERS in a line outside of quotes; a comma where there is none."""
    outside = "".join(line.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


def read_table(text: TextFile, id_names: Collection[str], text_names: Collection[str], **dialect: Any) -> Records:
    """Rows of the table `text`: with a header, otherwise of two columns (id, text), as in MS MARCO, or of texts without ids.

    `id_names` and `text_names` are those of `comma_separated.read_csv`, `dialect` are options of `csv.reader`.
    """
    csv.field_size_limit(MAX_CELL)
    path, number = text.path, 0

    def texts() -> Iterator[str]:
        nonlocal number
        for place, line in text:
            number = place
            yield line + "\n"

    header: list[str] | None = None
    quoted = False
    try:
        for row in csv.reader(texts(), **dialect):
            if not row or (len(row) == 1 and not row[0].strip()):
                continue
            if header is None:
                header, is_data = _header(row, f"{path}: line {number}", id_names, text_names)
                quoted = not is_data and dialect.get("quoting") == csv.QUOTE_NONE
                if not is_data:
                    continue
            if len(row) != len(header):
                advice: tuple[object, ...] = ()
                if quoted and '"' in "".join(row):
                    advice = ("; ", Flag("format", value="csv"), " reads quoted cells with line breaks or tabs")
                raise InputError(f"{len(row)} columns, {len(header)} were expected", *advice, path=path, line=number)
            if quoted:
                row = [cell[1:-1].replace('""', '"') if _QUOTED.fullmatch(cell) else cell for cell in row]
            yield f"line {number}", dict(zip(header, row, strict=True))
    except csv.Error as problem:
        reason = "a quoted cell is not closed" if "unexpected end of data" in str(problem) else problem
        raise InputError(f"{reason}", path=path, line=number) from None


def _header(row: list[str], place: str, id_names: Collection[str], text_names: Collection[str]) -> tuple[list[str], bool]:
    """The names of a table's columns by its first row, and whether this row is a document already.

    Raises InputError for a table whose ids, or texts where it has no ids, are in none of the known columns.
    """
    names = [cell.strip().lower() for cell in row]
    columns = short(", ".join(names), 200)
    if not set(id_names or text_names).isdisjoint(names):
        refuse_repeated(names, place)
        return names, False
    if not id_names and len(names) > 1:
        raise InputError(
            f"no column of texts ({', '.join(text_names)}) among {columns}, which are taken for the header; name it with ",
            Flag("columns"),
            " contents=NAME",
            path=place,
        )
    if len(names) > 2 or (not set(text_names).isdisjoint(names) and all(map(_NAME.fullmatch, names))):
        raise InputError(
            f"no column of ids ({', '.join(id_names)}) among {columns}, which are taken for the header; name it with ",
            Flag("columns"),
            " id=NAME,contents=NAME, or number the documents with ",
            Flag("number-documents", value=True),
            path=place,
        )
    return ["id", "contents"] if id_names else ["contents"], True


def refuse_repeated(names: Iterable[str], place: str) -> None:
    """Raises InputError for a table with two columns of one name, of which one would be lost; `place` is its header.

    Columns without a name are no fields.
    """
    counts = Counter(filter(None, names))
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise InputError(
            f"{counts[repeated[0]]} columns are called {quote(repeated[0])}; rename or remove all but one", path=place
        )
