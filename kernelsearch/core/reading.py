"""Reading the files that users name: every reader of the package opens its input here.

An input is opened once and read from its beginning to its end, so that pipes work like files. Whatever is wrong with it becomes
an InputError that names the file and the place: a damaged gzip file, bytes outside the encoding, a line or a nesting beyond the
limits. Formats that a library parses (zip, Parquet, PDF) are opened with `open_file`, and `report_damage` turns what the
library raises into one line. ruff refuses `json.loads`, `tomllib` and `gzip` in other modules (pyproject.toml, banned-api), so
that a new reader can't miss these checks.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import json
import os
import re
import stat
import time
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from kernelsearch.core.errors import InputError, KernelSearchError, quote, short

#: Nested arrays and objects in JSON and TOML. Python's parsers recurse, and so do most readers behind them.
MAX_DEPTH = 100
#: A gzip file may expand by this factor; deflate reaches 1,032 on zeros, text and logs stay below 50.
MAX_EXPANSION = 250
#: Expansion is not checked below this size, in bytes: short repetitive files are harmless.
EXPANSION_FREE = 64 << 20
#: A TOML file is read as a whole; the largest, in bytes.
MAX_TOML = 16 << 20
#: Seconds between two looks for the writer of a named pipe.
_LOOK = 0.05


@dataclass
class Limits:
    """What inputs may hold. The command line sets `limits` from `--max-line`, `--max-input` and `--pipe-wait`."""

    line: int = 64 << 20  #: longest line, in bytes
    total: int | None = None  #: largest input after decompression, in bytes; None: only MAX_EXPANSION is checked
    wait: float = 30.0  #: seconds to wait until a process opens a named pipe for writing


#: The limits of this process.
limits = Limits()


def open_bytes(path: str | Path) -> IO[bytes]:
    """Opens a file or pipe for reading bytes, decompressed if it is gzipped. Raises InputError if it can't be read.

    Reading from the stream raises InputError, too, with the path.
    """
    if (begun := _begun.pop(str(path), None)) is not None:
        return begun
    raw, head = _open_named(path)
    if head == b"\x1f\x8b":
        compressed = _Continued(b"", raw)
        return io.BufferedReader(_Checked(path, gzip.GzipFile(fileobj=compressed, mode="rb"), compressed), 1 << 17)
    return io.BufferedReader(_Checked(path, raw), 1 << 17)


def open_file(path: str | Path) -> IO[bytes]:
    """Opens a file for a library that reads it in any order, without decompression. Raises InputError, also for a pipe.

    Reading from the stream raises InputError, too, with the path.
    """
    raw, _ = _open_named(path)
    if not isinstance(raw, io.FileIO):
        raw.close()
        raise InputError(
            f"{_shown(path)}: a pipe, and this format is not read from its beginning to its end; save it as a file"
        )
    if limits.total is not None and os.fstat(raw.fileno()).st_size > limits.total:
        raw.close()
        raise InputError(f"{_shown(path)}: larger than {limits.total} bytes (--max-input)")
    return io.BufferedReader(_Checked(path, raw, limited=False), 1 << 17)


@contextmanager
def report_damage(path: str | Path, kind: str, *errors: type[Exception]) -> Iterator[None]:
    """Turns what a library raises for a damaged file, one of `errors`, into an InputError of one line; `kind` is the format."""
    try:
        yield
    except KernelSearchError:
        raise
    except errors as problem:
        lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
        reason = short(lines[-1]) if lines else type(problem).__name__
        raise InputError(f"{_shown(path)}: damaged, not a valid {kind} ({reason})") from None


#: Pipes of which `first_bytes` has looked at the beginning, by path; the next `open_bytes` takes them.
_begun: dict[str, IO[bytes]] = {}


def first_bytes(path: str | Path, most: int) -> bytes:
    """Returns the beginning of an input, decompressed, up to `most` bytes. They stay to be read, of a pipe as well."""
    stream = open_bytes(path)
    start = stream.read(most)
    if os.path.isfile(path):
        stream.close()
    else:
        _begun[str(path)] = io.BufferedReader(_Continued(start, cast(io.RawIOBase, stream)), 1 << 17)
    return start


def read_bytes(path: str | Path, most: int) -> bytes:
    """Returns the content of a file, decompressed if it is gzipped; InputError for more than `most` bytes."""
    with open_bytes(path) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise InputError(f"{_shown(path)}: more than {most} bytes, which is too large for a file of this kind")
    return content


class TextFile:
    """The lines of a text file or pipe, gzipped or not: an iterator of (line number from 1, line without its line break).

    A byte-order mark is dropped. The file is opened when the first line is asked for, and closed after the last one. Raises
    InputError, with line and column, for bytes that are not valid in the encoding, and for a line beyond the limit.
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
        """The first line that isn't blank, which stays to be read; None where there is none. To be called before reading."""
        for number, line in self._lines:
            self._peeked.append((number, line))
            if line.strip():
                return line
        return None

    def _read(self) -> Iterator[tuple[int, str]]:
        # Decoded line by line, so that an invalid byte is reported with its line number.
        for number, raw in byte_lines(self.path):
            try:
                yield number, raw.decode(self.encoding).rstrip("\r\n")
            except UnicodeError as problem:
                where = found = ""
                if isinstance(problem, UnicodeDecodeError):
                    where, found = f", column {problem.start + 1}", f" (byte 0x{problem.object[problem.start]:02x})"
                raise InputError(
                    f"{_shown(self.path)}: line {number}{where}: not valid {self.encoding.upper()}{found}"
                ) from None


def byte_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yields (line number from 1, line with its line break) of a file as bytes; drops a byte-order mark.

    For readers that skip a line with invalid bytes; others use `TextFile`.
    """
    with open_bytes(path) as stream:
        number = 0
        while raw := stream.readline(limits.line + 1):
            number += 1
            if len(raw) > limits.line:
                raise InputError(
                    f"{_shown(path)}: line {number}: longer than {limits.line} bytes; --max-line allows longer lines"
                )
            yield number, raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw


def lines(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, line without its line break) of a text file; see `TextFile`."""
    return iter(TextFile(path, encoding))


def json_lines(source: str | Path | TextFile, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number from 1, object) of a JSONL file, gzipped or not; blank lines are skipped."""
    text = source if isinstance(source, TextFile) else TextFile(source, encoding)
    for number, line in text:
        if not line.strip():
            continue
        place = f"{_shown(text.path)}: line {number}"
        record = parse_json(line, place)
        if not isinstance(record, dict):
            raise InputError(f"{place}: a JSON object was expected")
        yield number, record


def parse_json(text: str | bytes, place: str) -> Any:
    """Returns the value of a JSON text. `place` names it in messages, as file and line.

    Raises InputError for text that is not JSON, is nested deeper than MAX_DEPTH, or has an integer of more than 4,300 digits or
    half of a surrogate pair, which no file can hold.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
            raise InputError(f"{place}: JSON nested deeper than {MAX_DEPTH}")
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as problem:
        raise InputError(f"{place}, column {problem.pos + 1}: not valid JSON ({problem.msg})") from None
    except UnicodeEncodeError:
        raise InputError(f"{place}: not valid JSON (half of a surrogate pair)") from None
    except UnicodeDecodeError as problem:
        raise InputError(f"{place}: not valid UTF-8 (byte {problem.start + 1})") from None
    except (ValueError, RecursionError) as problem:  # an integer with too many digits
        raise InputError(f"{place}: not valid JSON ({problem})") from None
    return value


def _depth(text: str) -> int:
    """How deep brackets and braces of a JSON text are nested, those inside strings left out."""
    deepest = level = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text, re.S):
        mark = match[0]
        if mark in "[{":
            level += 1
            deepest = max(deepest, level)
        elif mark in "]}":
            level -= 1
    return deepest


def read_toml(path: str | Path) -> dict[str, Any]:
    """Returns the content of a TOML file. Raises InputError, with line and column, for a file that is none."""
    try:
        text = read_bytes(path, MAX_TOML).decode("utf-8-sig")
        # tomllib's time grows with the square of the parts of a key.
        if any(part.partition("=")[0].count(".") > MAX_DEPTH for part in re.split(r"[\n,{]", text)):
            raise RecursionError
        table = tomllib.loads(text)
    except UnicodeDecodeError as problem:
        raise InputError(f"{_shown(path)}: not a TOML file (byte {problem.start + 1} is not valid UTF-8)") from None
    except RecursionError:
        raise InputError(f"{_shown(path)}: not a TOML file (nested deeper than {MAX_DEPTH})") from None
    except ValueError as problem:  # also an integer with too many digits
        raise InputError(f"{_shown(path)}: not a TOML file ({problem})") from None
    if _levels(table) > MAX_DEPTH:
        raise InputError(f"{_shown(path)}: not a TOML file (nested deeper than {MAX_DEPTH})")
    return table


def _levels(value: Any) -> int:
    """The depth of nested tables and lists, counted up to MAX_DEPTH + 1."""
    level, values = 0, [value]
    while values and level <= MAX_DEPTH:
        nested = [entry for entry in values if isinstance(entry, dict | list)]
        level += bool(nested)
        values = [item for entry in nested for item in (entry.values() if isinstance(entry, dict) else entry)]
    return level


def whole_number(text: str, *, low: int = -(2**63), high: int = 2**63 - 1) -> int:
    """Returns the integer that a text is; ValueError for other text and for numbers below `low` or above `high`.

    >>> whole_number("12", high=20)
    12
    """
    if len(text) > 40:
        raise ValueError(f"{quote(text)} is not a whole number")
    value = int(text)
    if not low <= value <= high:
        raise ValueError(f"{value} is not between {low} and {high}")
    return value


def _check_encoding(encoding: str) -> None:
    """Raises InputError for an encoding that is unknown, or in which a line break is not the byte 10."""
    try:
        plain = "".join(map(chr, range(32, 127))) + "\n"
        fits = plain.encode(encoding) == plain.encode("ascii") and b"{}\n".decode(encoding) == "{}\n"
    except (LookupError, UnicodeError, ValueError, TypeError):
        raise InputError(f"--encoding: {quote(encoding)} is not an encoding that Python knows") from None
    if not fits:
        raise InputError(f"--encoding: {quote(encoding)} is not an extension of ASCII; convert the file to UTF-8 with iconv")


def _open_named(path: str | Path) -> tuple[io.RawIOBase, bytes]:
    """As `_open_once`, with InputError where the path can't be opened."""
    try:
        return _open_once(path)
    except FileNotFoundError:
        raise InputError(f"{_shown(path)}: no such file") from None
    except (OSError, ValueError) as problem:
        raise _unreadable(path, problem) from None


def _open_once(path: str | Path) -> tuple[io.RawIOBase, bytes]:
    """The raw stream of a file or pipe, and its first two bytes, which are still to be read from the stream."""
    # O_NONBLOCK, because opening a named pipe that nobody writes to would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        os.close(descriptor)
        raise InputError(f"{_shown(path)}: is a directory, a file was expected")
    stream = io.FileIO(descriptor, "rb")
    try:
        if stat.S_ISREG(mode):
            head = stream.read(2)
            stream.seek(0)
            return stream, head
        first = _first_bytes(descriptor, path, stat.S_ISFIFO(mode))
        os.set_blocking(descriptor, True)
        while first and len(first) < 2 and (more := os.read(descriptor, 1)):
            first += more
        return _Continued(first, stream), first
    except BaseException:
        stream.close()
        raise


def _first_bytes(descriptor: int, path: str | Path, pipe: bool) -> bytes:
    """What can be read at once from a pipe or device: up to two bytes, or none where its writer has sent nothing yet.

    Of a pipe without a writer, reading gives no bytes. For an anonymous pipe that is its end; a named one may still be opened.
    """
    named = pipe and not str(path).startswith(("/dev/", "/proc/"))
    end = time.monotonic() + limits.wait
    while True:
        try:
            first = os.read(descriptor, 2)
        except BlockingIOError:
            return b"" if not pipe else _wait_for_two(descriptor)
        if first or not named:
            return first
        if time.monotonic() > end:
            raise InputError(
                f"{_shown(path)}: a named pipe that nothing has been written to in {limits.wait:g} s; --pipe-wait waits longer"
            )
        time.sleep(_LOOK)


def _wait_for_two(descriptor: int) -> bytes:
    """The first two bytes of a pipe that has a writer, however long the writer takes."""
    os.set_blocking(descriptor, True)
    first = b""
    while len(first) < 2 and (more := os.read(descriptor, 2 - len(first))):
        first += more
    return first


class _Continued(io.RawIOBase):
    """A stream that starts with bytes that were read from it already; `passed` counts the bytes that it has given."""

    def __init__(self, first: bytes, rest: io.RawIOBase) -> None:
        self._first, self._rest = first, rest
        self.passed = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._first:
            count = min(len(buffer), len(self._first))
            buffer[:count], self._first = self._first[:count], self._first[count:]
        else:
            count = self._rest.readinto(buffer) or 0
        self.passed += count
        return count

    def close(self) -> None:
        if not self.closed:
            self._rest.close()
        super().close()


class _Checked(io.RawIOBase):
    """A stream whose errors are InputErrors, and which ends with one beyond the limits of the size.

    `compressed` is the stream under a gzip stream. A stream that is read in any order is not `limited`: bytes may pass twice.
    """

    def __init__(self, path: str | Path, stream: Any, compressed: _Continued | None = None, limited: bool = True) -> None:
        self._path, self._stream, self._compressed, self._limited = path, stream, compressed, limited
        self._size = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._compressed is None and self._stream.seekable())

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def fileno(self) -> int:
        if self._compressed is not None:
            raise io.UnsupportedOperation("a compressed stream has no file descriptor")
        return int(self._stream.fileno())

    def readinto(self, buffer: Any) -> int:
        try:
            count = self._stream.readinto(buffer) or 0
        except OSError as problem:
            if self._compressed is None or problem.errno not in (None, errno.EINVAL):
                raise _unreadable(self._path, problem) from None
            raise InputError(f"{_shown(self._path)}: damaged gzip file ({problem})") from None
        except (EOFError, zlib.error) as problem:
            raise InputError(f"{_shown(self._path)}: damaged gzip file ({problem})") from None
        self._size += count
        if limits.total is not None:
            if self._limited and self._size > limits.total:
                raise InputError(f"{_shown(self._path)}: larger than {limits.total} bytes (--max-input)")
        elif self._compressed is not None and self._size > max(EXPANSION_FREE, MAX_EXPANSION * self._compressed.passed):
            raise InputError(
                f"{_shown(self._path)}: a gzip file that expands more than {MAX_EXPANSION} times; "
                "--max-input sets the size that is allowed"
            )
        return int(count)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            if self._compressed is not None:
                self._compressed.close()
        super().close()


def _unreadable(path: str | Path, problem: Exception) -> InputError:
    reason = getattr(problem, "strerror", None) or problem
    return InputError(f"{_shown(path)}: cannot be read ({reason})")


def _shown(path: str | Path) -> str:
    """A path in a message: control characters and invalid UTF-8 are escaped, and the middle of a very long path is left out."""
    text = str(path).encode("utf-8", "backslashreplace").decode()
    text = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    return text if len(text) <= 300 else f"{text[:120]}...{text[-120:]}"
