"""Reading the files that users name: every reader of the package opens its input here.

An input is opened once and read from its beginning to its end, so that pipes work like files. Whatever is wrong with it becomes
an InputError that names the file and the place: a damaged gzip file, bytes outside the encoding, a line or a nesting beyond the
limits. Formats that a library parses (zip, Parquet, PDF) are opened with `open_file`, and `report_damage` turns what the
library raises into one line. ruff refuses `json.loads`, `tomllib` and `gzip` in other modules (pyproject.toml, banned-api), so
that a new reader can't miss these checks.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import math
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from kernelsearch.core.errors import EncodingError, Flag, InputError, KernelSearchError, quote, short, shown_path
from kernelsearch.core.streams import CheckedStream, ContinuedStream, open_raw

#: Longest line of a text file, in bytes.
MAX_LINE = 64 << 20
#: Nested arrays and objects in JSON and TOML. Python's parsers recurse, and so do most readers behind them.
MAX_DEPTH = 100
#: A TOML file is read as a whole; the largest, in bytes.
MAX_TOML = 16 << 20
#: Bytes of a `TextBlock`, up to the end of a line: the strings of its columns fit into a processor's cache.
BLOCK = 1 << 16


def open_bytes(path: str | Path) -> IO[bytes]:
    """Opens a file or pipe for reading bytes, decompressed if it is gzipped. Raises InputError if it can't be read.

    Reading from the stream raises InputError, too, with the path.
    """
    if (begun := _begun.pop(str(path), None)) is not None:
        return begun
    raw, head = open_raw(path)
    if head == b"\x1f\x8b":
        compressed = ContinuedStream(b"", raw)
        return io.BufferedReader(CheckedStream(path, gzip.GzipFile(fileobj=compressed, mode="rb"), compressed), 1 << 17)
    return io.BufferedReader(CheckedStream(path, raw), 1 << 17)


def open_file(path: str | Path) -> IO[bytes]:
    """Opens a file for a library that reads it in any order, without decompression. Raises InputError, also for a pipe.

    Reading from the stream raises InputError, too, with the path.
    """
    raw, _ = open_raw(path)
    if not isinstance(raw, io.FileIO):
        raw.close()
        raise InputError("a pipe, and this format is not read from its beginning to its end; save it as a file", path=path)
    return io.BufferedReader(CheckedStream(path, raw), 1 << 17)


@contextmanager
def report_damage(path: str | Path, kind: str, *errors: type[Exception]) -> Iterator[None]:
    """Turns what a library raises for the damaged file `path`, one of `errors`, into InputError; `kind` is the format."""
    try:
        yield
    except KernelSearchError:
        raise
    except errors as problem:
        lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
        reason = short(lines[-1]) if lines else type(problem).__name__
        raise InputError(f"damaged, not a valid {kind} ({reason})", path=path) from None


#: Pipes of which `first_bytes` has looked at the beginning, by path; the next `open_bytes` takes them.
_begun: dict[str, IO[bytes]] = {}


def first_bytes(path: str | Path, most: int) -> bytes:
    """Returns the beginning of the input `path`, decompressed, up to `most` bytes; they can be read again, also of a pipe."""
    stream = open_bytes(path)
    start = stream.read(most)
    if os.path.isfile(path):
        stream.close()
    else:
        _begun[str(path)] = io.BufferedReader(ContinuedStream(start, cast(io.RawIOBase, stream)), 1 << 17)
    return start


def read_bytes(path: str | Path, most: int) -> bytes:
    """Returns the content of the file `path`, decompressed if it is gzipped; InputError for more than `most` bytes."""
    with open_bytes(path) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise InputError(f"more than {most} bytes, which is too large for a file of this kind", path=path)
    return content


class TextFile:
    """The lines of `path`, text or a pipe, gzipped or not: an iterator of (line number from 1, line without its line break).

    A byte-order mark is dropped, and precedes `encoding`. The file is opened when the first line is asked for, and closed after
    the last one. Raises InputError, with line and column, for bytes that are not valid in the encoding, and for a line beyond
    the limit.
    """

    def __init__(self, path: str | Path, encoding: str = "utf-8") -> None:
        self.path, self.encoding = path, encoding
        _check_encoding(encoding)
        self._lines = self._read()
        self._peeked: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self

    def __next__(self) -> tuple[int, str]:
        return self._peeked.pop(0) if self._peeked else next(self._lines)

    def first_line(self) -> str | None:
        """The first line that isn't blank, which is read again; None where there is none. To be called before reading."""
        for number, line in self._lines:
            self._peeked.append((number, line))
            if line.strip():
                return line
        return None

    def _read(self) -> Iterator[tuple[int, str]]:
        # Decoded line by line, so that an invalid byte is reported with its line number.
        encoding = self.encoding
        with open_bytes(self.path) as stream:
            for number, raw in _numbered(self.path, stream, 1):
                if number == 1 and raw.startswith(codecs.BOM_UTF8):
                    encoding = "utf-8"
                yield number, _decode_line(_without_mark(number, raw), number, self.path, encoding)


def _decode_line(raw: bytes, number: int, path: str | Path, encoding: str) -> str:
    """A line as text without its line break; InputError, with line and column, for bytes that are not valid."""
    try:
        return raw.decode(encoding).rstrip("\r\n")
    except UnicodeError as problem:
        where = byte = ""
        if isinstance(problem, UnicodeDecodeError):
            where, byte = f", column {problem.start + 1}", f" (byte 0x{problem.object[problem.start]:02x})"
        raise EncodingError(f"line {number}{where}: not valid {encoding.upper()}{byte}", path=path) from None


def byte_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yields (line number from 1, line with its line break) of the file `path` as bytes; drops a byte-order mark.

    For readers that skip a line with invalid bytes; others use `TextFile`.
    """
    with open_bytes(path) as stream:
        for number, raw in _numbered(path, stream, 1):
            yield number, _without_mark(number, raw)


def _without_mark(number: int, raw: bytes) -> bytes:
    """The line `raw` without a byte-order mark, which the first line of a file may begin with."""
    return raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw


def _numbered(path: str | Path, stream: IO[bytes], first: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a stream as bytes, with a byte-order mark, numbered from `first`."""
    number = first - 1
    while raw := stream.readline(MAX_LINE + 1):
        number += 1
        if len(raw) > MAX_LINE:
            raise InputError(f"longer than {MAX_LINE} bytes", path=path, line=number)
        if number == 1 and not raw.endswith(b"\n") and b"\r" in raw.rstrip(b"\r"):
            raise InputError("its lines end with carriage returns alone; tr '\\r' '\\n' < FILE > NEW converts it", path=path)
        yield number, raw


@dataclass(frozen=True)
class TextBlock:
    """Some whole lines of a UTF-8 file, for readers that parse many lines at once and go line by line where they can't."""

    path: str | Path
    number: int  #: of the first line, from 1
    raw: bytes

    @property
    def may_be_too_long(self) -> bool:
        """Whether a line may be longer than allowed."""
        return len(self.raw) > MAX_LINE

    def text(self) -> str | None:
        """All lines as one text, each with its line break; None where a line is too long or not valid UTF-8."""
        if self.may_be_too_long:
            return None
        try:
            return _without_mark(self.number, self.raw).decode()
        except UnicodeDecodeError:
            return None

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yields (line number, line without its line break), and raises what `TextFile` raises."""
        for number, raw in _numbered(self.path, io.BytesIO(self.raw), self.number):
            yield number, _decode_line(_without_mark(number, raw), number, self.path, "utf-8")


def text_blocks(path: str | Path) -> Iterator[TextBlock]:
    """Yields the text file `path`, gzipped or not, in blocks of whole lines."""
    with open_bytes(path) as stream:
        number = 1
        while raw := stream.read(BLOCK):
            if not raw.endswith(b"\n"):
                raw += stream.readline(MAX_LINE + 1)
            yield TextBlock(path, number, raw)
            number += raw.count(b"\n")


def lines(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, line without its line break) of `TextFile(path, encoding)`."""
    return iter(TextFile(path, encoding))


def json_lines(
    source: str | Path | TextFile, encoding: str = "utf-8", *, finite: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number from 1, object) of the JSONL file `source` in `encoding`, gzipped or not, without blank lines.

    `finite` is that of `parse_json`.
    """
    text = source if isinstance(source, TextFile) else TextFile(source, encoding)
    file = shown_path(text.path)
    for number, line in text:
        if not line.strip():
            continue
        place = f"{file}: line {number}"
        record = parse_json(line, place, finite=finite)
        if not isinstance(record, dict):
            raise InputError("a JSON object was expected", path=place)
        yield number, record


def parse_json(text: str | bytes, place: str, *, stored: bool = False, finite: bool = False) -> Any:
    """Returns the value of a JSON text. `place` names it in messages, as file and line.

    Raises InputError for text that is not JSON, is nested deeper than MAX_DEPTH, has a key twice in one object, an integer of
    more than 4,300 digits or half of a surrogate pair, which no file can hold; with `finite` also for NaN and for numbers that
    a float cannot hold, such as 1e999. With `stored`, for a record that an index holds already, the last value of a key is
    taken, as Anserini does.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(text):
            raise InputError(f"JSON nested deeper than {MAX_DEPTH}", path=place)
        value = json.loads(text) if stored else (_FINITE if finite else _STRICT).decode(text)
        if "\\" in text and "\\u" in text:  # one character is found several times as quickly as two
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as problem:
        raise InputError(f"{place}, column {problem.pos + 1}: not valid JSON ({problem.msg})") from None
    except UnicodeEncodeError:
        raise InputError("not valid JSON (half of a surrogate pair)", path=place) from None
    except UnicodeDecodeError as problem:
        raise InputError(f"not valid UTF-8 (byte {problem.start + 1})", path=place) from None
    except (ValueError, RecursionError) as problem:  # an integer with too many digits
        raise InputError(f"not valid JSON ({problem})", path=place) from None
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The JSON object that `pairs` are; ValueError for a key that occurs twice, of which Python would take the last value."""
    record = dict(pairs)
    if len(record) < len(pairs):
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {quote(repeated)} occurs twice in one object")
    return record


def _finite_number(text: str) -> float:
    """The number that `text` is in JSON; ValueError for NaN and what a float cannot hold."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{short(text)} is not a finite number")
    return value


#: Made once: `json.loads` would make a decoder per text.
_STRICT = json.JSONDecoder(object_pairs_hook=_unique_keys)
_FINITE = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_float=_finite_number, parse_constant=_finite_number)


#: By how much each character changes the depth.
_STEPS = np.array([(chr(code) in "[{") - (chr(code) in "]}") for code in range(256)], dtype=np.int8)


def _is_deep(text: str) -> bool:
    """Whether brackets and braces of a JSON text are nested deeper than MAX_DEPTH, those inside strings left out.

    Block by block and by numpy, so that other threads run meanwhile, and the first block is enough for `[[[[...`.
    """
    level = quoted = end = 0
    while end < len(text):
        start, end = end, end + BLOCK
        while text[end - 1 : end] == "\\":  # what it escapes is in the same block
            end += 1
        block = text[start:end].replace("\\\\", "").replace('\\"', "")
        characters = np.frombuffer(block.encode(errors="replace"), dtype=np.uint8)
        outside = (quoted + np.cumsum(characters == ord('"'), dtype=np.int32)) % 2 == 0
        levels = level + np.cumsum(_STEPS[characters] * outside, dtype=np.int32)
        if levels.max(initial=0) > MAX_DEPTH:
            return True
        if len(levels):
            level, quoted = int(levels[-1]), int(not outside[-1])
    return False


def read_toml(path: str | Path) -> dict[str, Any]:
    """Returns the content of the TOML file `path`. Raises InputError, with line and column, for a file that is none."""
    try:
        text = read_bytes(path, MAX_TOML).decode("utf-8-sig")
        # tomllib's time grows with the square of the parts of a key.
        if any(part.partition("=")[0].count(".") > MAX_DEPTH for part in re.split(r"[\n,{]", text)):
            raise RecursionError
        table = tomllib.loads(text)
    except UnicodeDecodeError as problem:
        raise InputError(f"not a TOML file (byte {problem.start + 1} is not valid UTF-8)", path=path) from None
    except RecursionError:
        raise InputError(f"not a TOML file (nested deeper than {MAX_DEPTH})", path=path) from None
    except ValueError as problem:  # also an integer with too many digits
        raise InputError(f"not a TOML file ({problem})", path=path) from None
    if _levels(table) > MAX_DEPTH:
        raise InputError(f"not a TOML file (nested deeper than {MAX_DEPTH})", path=path)
    return table


def _levels(value: object) -> int:
    """The depth of nested tables and lists, counted up to MAX_DEPTH + 1."""
    level, values = 0, [value]
    while values and level <= MAX_DEPTH:
        nested = [entry for entry in values if isinstance(entry, dict | list)]
        level += bool(nested)
        values = [item for entry in nested for item in (entry.values() if isinstance(entry, dict) else entry)]
    return level


#: Texts that are numbers; with re.ASCII, white space is that of C.
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
# \d+\.?\d* would match long rows of digits in many ways and take time with the square of their length.
_NUMBER = re.compile(r"\s*[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)\s*", re.ASCII | re.IGNORECASE)


def whole_number(text: str, *, low: int = -(2**63), high: int = 2**63 - 1) -> int:
    """Returns the integer that a text is; ValueError for other text and for numbers below `low` or above `high`.

    >>> whole_number("12", high=20)
    12
    """
    if len(text) > 40 or not _WHOLE.fullmatch(text):
        raise ValueError(f"{quote(text)} is not a whole number")
    value = int(text)
    if not low <= value <= high:
        raise ValueError(f"{value} is not between {low} and {high}")
    return value


def json_object(text: str | None) -> dict[str, Any]:
    """The JSON object that `text` is, such as a stored record; an empty one for None and for any other text.

    >>> json_object('{"id": "d1"}'), json_object("<DOC>")
    ({'id': 'd1'}, {})
    """
    try:
        record = parse_json(text, "record", stored=True) if text else {}
    except InputError:
        return {}
    return record if isinstance(record, dict) else {}


def to_number(text: str) -> float:
    """Returns the number that a text is, which may be infinite or NaN; ValueError for other text.

    Blanks, tabs and line breaks around it are ignored. Python's own conversion would also read 1_000, digits of other scripts
    and separators among ASCII's control characters, which no other tool does.

    >>> to_number("-1.5e3")
    -1500.0
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{quote(text)} is not a number")
    return float(text)


def _check_encoding(encoding: str) -> None:
    """Raises InputError for an encoding that is unknown, or in which a line break is not the byte 10."""
    try:
        plain = "".join(map(chr, range(32, 127))) + "\n"
        fits = plain.encode(encoding) == plain.encode("ascii") and b"{}\n".decode(encoding) == "{}\n"
    except (LookupError, UnicodeError, ValueError, TypeError):
        raise InputError(f"{quote(encoding)} is not an encoding that Python knows", option=Flag("encoding")) from None
    if not fits:
        raise InputError(
            f"{quote(encoding)} is not an extension of ASCII; convert the file to UTF-8 with iconv", option=Flag("encoding")
        )
