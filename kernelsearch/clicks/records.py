"""Reading and writing click logs: sessions with ranked lists (JSON lines, ir_datasets) and sums (tables, JSON lines).

A line that can't be used doesn't stop an import: it is skipped and counted by reason, and the first line of each reason is
named.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from kernelsearch.core.errors import InputError, short
from kernelsearch.core.files import write_file
from kernelsearch.core.reading import byte_lines, parse_json, to_number
from kernelsearch.trec.delimited import find_delimiter, refuse_repeated

#: The largest rank (the database has 32 bits for it) and the largest number of clicks (whole in 64-bit floats).
MAX_RANK, MAX_COUNT = 2**31 - 1, 2**53
#: How the file of a database begins.
SQLITE = b"SQLite format 3\0"


class Impression(NamedTuple):
    """A list that was shown for a (normalised) query: docids, their positions (from 1), and whether each was clicked."""

    query: str
    docids: tuple[str, ...]
    positions: tuple[int, ...]
    clicked: tuple[bool, ...]


class Tally(NamedTuple):
    """A row of an aggregated log. Where the log doesn't have them, `impressions` is 0 and `position` is 1."""

    query: str
    docid: str
    clicks: int
    impressions: int
    position: float


Record = Impression | Tally


class Skipped:
    """The lines that an import skipped: their number by reason, and the place of the first line of each reason."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def add(self, reason: str, place: str) -> None:
        """Counts a line that is skipped, for this `reason`; `place` is its file and line."""
        self.counts[reason] += 1
        self.first.setdefault(reason, place)

    @property
    def total(self) -> int:
        """The number of lines skipped."""
        return self.counts.total()

    def lines(self) -> list[str]:
        """A message per reason, most frequent first."""
        return [f"{count} {reason} (first: {self.first[reason]})" for reason, count in self.counts.most_common()]


class _Bad(Exception):
    """A line that can't be used; the text is the reason."""


def normalise_query(query: str) -> str:
    """The form in which a query is stored and looked up: case folded, with single blanks."""
    return " ".join(query.casefold().split())


def read(source: str | Path, skipped: Skipped) -> Iterator[Record]:
    """Reads the log file `source`: a table with a header line, or JSON lines; both may be gzipped.

    Lines that can't be used are counted in `skipped`. Raises InputError for a file that is no click log.
    """
    path = Path(source)
    # Lines as bytes, so that a bad byte invalidates one line and not the file.
    numbered = ((number, line) for number, line in byte_lines(path) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise InputError("empty, a click log was expected", path=path)
    if first[1].startswith(SQLITE):
        raise InputError("a database in a pipe or compressed; a click database is read from a plain file", path=path)
    if first[1].lstrip().startswith(b"["):
        raise InputError("a JSON array; one object per line was expected: jq -c '.[]' FILE > NEW.jsonl makes lines", path=path)
    if first[1].lstrip().startswith(b"{"):
        return from_json_lines(path, chain([first], numbered), skipped)
    return from_table(path, first, numbered, skipped)


def from_json_lines(path: Path, numbered: Iterable[tuple[int, bytes]], skipped: Skipped) -> Iterator[Record]:
    """Reads JSON lines: {"query": ..., "items": [{"docid": ..., "clicked": true or false, "rank": optional}, ...]}.

    A line that has `clicks` instead of `items` is a sum, with the columns of a table as keys. `numbered` are (line number,
    line), none of them blank. Lines that can't be used are counted in `skipped` with `path`, the file.
    """
    for number, line in numbered:
        try:
            record = _parse_line(line)
            summed = isinstance(record, dict) and "clicks" in record and "items" not in record
            yield _sums(record) if summed else _session(record)
        except _Bad as reason:
            skipped.add(str(reason), f"{path}:{number}")


def _parse_line(line: bytes) -> Any:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise _Bad("not UTF-8") from None
    try:
        return parse_json(text, "", finite=True)
    except InputError as problem:
        message = str(problem)
        reasons = {"surrogate": "not UTF-8", "deeper": "nested too deeply", "twice": "a key that occurs twice"}
        raise _Bad(next((reason for word, reason in reasons.items() if word in message), "not JSON")) from None


def from_qlogs(records: Iterable[Any], skipped: Skipped, name: str = "ir_datasets") -> Iterator[Impression]:
    """Reads query log records of ir_datasets: `query`, and `items` with `doc_id`, `clicked` and, in some logs, `rank`.

    Records that can't be used are counted in `skipped`, where `name` names the log.
    """
    for number, record in enumerate(records, 1):
        try:
            items = [
                {"docid": item.doc_id, "clicked": item.clicked, "rank": getattr(item, "rank", None)} for item in record.items
            ]
            yield _session({"query": record.query, "items": items})
        except AttributeError as problem:
            skipped.add(f"no field {problem.name}", f"{name} record {number}")
        except _Bad as reason:
            skipped.add(str(reason), f"{name} record {number}")


def from_table(
    path: Path, first: tuple[int, bytes], numbered: Iterable[tuple[int, bytes]], skipped: Skipped
) -> Iterator[Tally]:
    """Reads a TSV or CSV whose header names query, docid, clicks and, where known, impressions and the average position.

    The delimiter is found in the header. Cells between tabs are read as they are; others may be quoted. In a table of events,
    whose column is called `clicked`, each row is one impression.

    `first` is (line number, line) of the header, `numbered` are the other lines, none of them blank; `path` and `skipped` are
    those of `from_json_lines`. Raises InputError for a header without these columns.
    """
    number, head = first
    text = head.decode("utf-8", errors="replace")
    delimiter = find_delimiter(text)
    try:
        header = [name.strip().lower() for name in _cells(text, delimiter)]
    except _Bad as reason:
        raise InputError(f"{reason}; the header of a click table was expected", path=path, line=number) from None
    refuse_repeated(header, f"{path}: line {number}")
    columns = {role: _column(header, names) for role, names in _COLUMNS.items()}
    missing = [role for role in ("query", "docid", "clicks") if columns[role] is None]
    if missing:
        raise InputError(
            f"line {number} is not the header of a click table: no column {', '.join(missing)} (found: "
            f"{short(', '.join(header))})",
            path=path,
        )
    shown = int(columns["impressions"] is None and header[columns["clicks"] or 0] == "clicked")
    for number, line in numbered:
        try:
            cells = _cells(line.decode("utf-8"), delimiter)
            if len(cells) != len(header):
                raise _Bad(f"not {len(header)} columns")
            yield _tally(cells, columns, shown)
        except UnicodeDecodeError:
            skipped.add("not UTF-8", f"{path}:{number}")
        except _Bad as reason:
            skipped.add(str(reason), f"{path}:{number}")


def _cells(line: str, delimiter: str) -> list[str]:
    line = line.rstrip("\r\n")
    if delimiter == "\t":
        return line.split("\t")
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        raise _Bad("not a line of CSV") from None


#: The names of each column in tables.
_COLUMNS = {
    "query": ("query", "query_text", "text"),
    "docid": ("docid", "doc_id", "document", "entity_id", "url"),
    "clicks": ("clicks", "click", "clicked"),
    "impressions": ("impressions", "shown", "views"),
    "position": ("position", "average_position", "rank"),
}


#: What the column `clicked` of a table of events may say instead of a number.
_TRUTH = {"true": "1", "false": "0", "yes": "1", "no": "0"}


def _column(header: list[str], names: tuple[str, ...]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)


def _tally(cells: list[str], columns: dict[str, int | None], shown: int) -> Tally:
    def number(role: str, default: float) -> float:
        column = columns[role]
        if column is None or cells[column] == "":
            return default
        try:
            value = to_number(_TRUTH.get(cells[column].strip().lower(), cells[column]))
        except ValueError:
            raise _Bad(f"{role} not a number") from None
        if not math.isfinite(value) or value < 0:
            raise _Bad(f"{role} negative or not finite")
        if value > (MAX_RANK if role == "position" else MAX_COUNT):
            raise _Bad(f"{role} too large")
        return value

    query, docid = normalise_query(cells[columns["query"] or 0]), cells[columns["docid"] or 0].strip()
    clicks, position = number("clicks", 0), number("position", 1)
    # A number of clicks above 1 is no event, whatever its column is called.
    impressions = number("impressions", shown if clicks <= 1 else 0)
    if not query:
        raise _Bad("empty query")
    if not docid or "\0" in docid:
        raise _Bad("no docid")
    if clicks != int(clicks) or impressions != int(impressions):
        raise _Bad("clicks or impressions not whole")
    if 0 < impressions < clicks:
        raise _Bad("more clicks than impressions")
    return Tally(query, docid, int(clicks), int(impressions), max(position, 1.0))


def _sums(record: dict[str, Any]) -> Tally:
    if not isinstance(record.get("query"), str) or not isinstance(record.get("docid"), str):
        raise _Bad("no query or no docid")
    cells = ["" if record.get(role) is None else str(record[role]) for role in _COLUMNS]
    return _tally(cells, {role: column for column, role in enumerate(_COLUMNS)}, 0)


def _session(record: object) -> Impression:
    if not isinstance(record, dict):
        raise _Bad("not an object")
    text, items = record.get("query"), record.get("items")
    query = normalise_query(text) if isinstance(text, str) else ""
    if not query:
        raise _Bad("no query")
    if not isinstance(items, list | tuple) or not items:
        raise _Bad("no items")
    return _plain_list(query, items) or _checked_list(query, items)


def _plain_list(query: str, items: Any) -> Impression | None:
    """The list by a quick path for plain entries, as in nearly every line of a large log; None where entries need checks."""
    try:
        docids, flags = tuple([item["docid"] for item in items]), tuple([item["clicked"] for item in items])
        ranked = any(["rank" in item for item in items])
    except (KeyError, TypeError):
        return None
    usual = set(map(type, docids)) == {str} and set(map(type, flags)) == {bool}
    if ranked or not usual or len(set(docids)) < len(docids) or not all(docids) or "\0" in "".join(docids):
        return None
    return Impression(query, docids, tuple(range(1, len(docids) + 1)), flags)


def _checked_list(query: str, items: Any) -> Impression:
    seen: dict[str, tuple[int, bool]] = {}
    for place, item in enumerate(items, 1):
        docid, rank, clicked = _item(item, place)
        # A document listed twice in one impression counts once, at its better rank, clicked if either entry was.
        before = seen.get(docid, (rank, False))
        seen[docid] = (min(rank, before[0]), clicked or before[1])
    ranks, clicks = zip(*seen.values(), strict=True)
    return Impression(query, tuple(seen), ranks, clicks)


def _item(item: object, place: int) -> tuple[str, int, bool]:
    if not isinstance(item, dict):
        raise _Bad("an item that is not an object")
    docid = item.get("docid", item.get("doc_id"))
    if isinstance(docid, int) and not isinstance(docid, bool) and abs(docid) < 2**63:
        docid = str(docid)
    if not isinstance(docid, str) or not docid:
        raise _Bad("an item without docid")
    if "\0" in docid:
        raise _Bad("a docid with NUL")
    clicked = item.get("clicked")
    if clicked not in (True, False):  # 0 and 1 equal these and are accepted
        raise _Bad("an item without clicked flag")
    rank = item.get("rank")
    if rank is None:
        return docid, place, bool(clicked)
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= MAX_RANK:
        raise _Bad("a rank that is not a whole number from 1")
    return docid, rank, bool(clicked)


def write_log(records: Iterable[Record], path: str | Path) -> int:
    """Writes records to the file `path` as JSON lines, which `read` reads as the same records; returns their number."""
    count = 0
    with write_file(path) as stream:
        for count, record in enumerate(records, 1):
            line = _session_line(record, count) if isinstance(record, Impression) else record._asdict()
            stream.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    return count


def _session_line(record: Impression, number: int) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {"docid": docid, "clicked": clicked} for docid, clicked in zip(record.docids, record.clicked, strict=True)
    ]
    if record.positions != tuple(range(1, len(items) + 1)):
        for item, position in zip(items, record.positions, strict=True):
            item["rank"] = position
    return {"session": f"s{number:06d}", "query": record.query, "items": items}
