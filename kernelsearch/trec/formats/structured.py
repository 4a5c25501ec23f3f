"""Records with named fields: JSON lines, JSON arrays, CSV and TSV, Parquet."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import Flag, InputError, OptionError, quote, short
from kernelsearch.core.installed import install_command
from kernelsearch.core.reading import TextFile, json_lines, open_file, parse_json, report_damage
from kernelsearch.trec.formats import ID_NAMES, TEXT_NAMES, Records

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


def read_jsonl(path: Path, encoding: str) -> Records:
    """Records of the file `path` in `encoding`, with one JSON object per line."""
    return _objects(TextFile(path, encoding))


def _objects(text: TextFile) -> Records:
    for number, record in json_lines(text):
        yield f"line {number}", record


def read_json(path: Path, encoding: str) -> Records:
    """Records of `path` in `encoding`, a JSON array of objects; without a bracket first, a file has one object per line."""
    text = TextFile(path, encoding)
    first = (text.first_line() or "").strip()
    if first.startswith("{") and not first.endswith("}"):
        _refuse_object(parse_json("\n".join(line for _, line in text), str(path)), path)
    if not first.startswith("["):
        yield from _objects(text)
        return
    records = parse_json("\n".join(line for _, line in text), str(path))
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise InputError(f"item {number}: a JSON object was expected", path=path)
        yield f"item {number}", record


def arrays_of_objects(record: Mapping[str, Any]) -> list[str]:
    """The names of those values of the JSON object `record` that are arrays of objects."""
    return [name for name, value in record.items() if isinstance(value, list) and value and isinstance(value[0], dict)]


def _refuse_object(record: Mapping[str, Any], path: Path) -> None:
    """Raises InputError for a file that is one JSON object over several lines: a document, or an envelope of an array."""
    arrays = arrays_of_objects(record)
    advice = f"jq '.{arrays[0]}' FILE > NEW.json extracts its array" if arrays else "jq -c . FILE > NEW.jsonl makes it one line"
    raise InputError(
        f"one JSON object over several lines ({short(', '.join(record), 100)}); an array of "
        f"documents, or one per line, was expected: {advice}",
        path=path,
    )


def read_csv(
    path: Path, encoding: str, id_names: Collection[str] = ID_NAMES, text_names: Collection[str] = HEADER_NAMES
) -> Records:
    """Rows of the CSV file `path` in `encoding`, whose delimiter is found in its first line.

    Quoted cells may contain line breaks. `id_names` are the names of the column of ids, none where rows have no ids;
    `text_names` are names of columns of text.
    """
    text = TextFile(path, encoding)
    return _read_table(text, id_names, text_names, delimiter=find_delimiter(text.first_line() or ""), strict=True)


def read_tsv(
    path: Path, encoding: str, id_names: Collection[str] = ID_NAMES, text_names: Collection[str] = HEADER_NAMES
) -> Records:
    """Rows of a TSV file, whose quotes are part of the text, as in MS MARCO; the parameters are those of `read_csv`.

    Below a header, a cell that is quoted as a whole, as spreadsheets write those with quotes or commas, is read without.
    """
    return _read_table(TextFile(path, encoding), id_names, text_names, delimiter="\t", quoting=csv.QUOTE_NONE)


def find_delimiter(line: str) -> str:
    """The most frequent of DELIMITERS in a line outside of quotes; a comma where there is none."""
    outside = "".join(line.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


def _read_table(text: TextFile, id_names: Collection[str], text_names: Collection[str], **dialect: Any) -> Records:
    """Rows of a table: with a header, otherwise of two columns (id, text), as in MS MARCO, or of texts without ids."""
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


def read_parquet(path: Path, encoding: str) -> Records:
    """Rows of the Parquet file `path`, read in batches, without null cells; `encoding` isn't used. Needs pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise OptionError(f"a Parquet file, which needs pyarrow; {install_command('parquet')}", path=path) from None
    count = 0
    with (
        report_damage(path, "Parquet file", pyarrow.ArrowException, OSError, UnicodeDecodeError),
        open_file(path) as stream,
        pyarrow.parquet.ParquetFile(stream) as file,
    ):
        refuse_repeated(file.schema_arrow.names, str(path))
        for batch in file.iter_batches():
            for record in batch.to_pylist():
                count += 1
                yield f"row {count}", {name: value for name, value in record.items() if value is not None}
