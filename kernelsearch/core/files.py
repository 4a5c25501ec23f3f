"""Reading and writing files: writes are atomic, and every error message names the file."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from kernelsearch.core.errors import InputError


def open_bytes(path: str | Path) -> IO[bytes]:
    """Opens a file for reading bytes, decompressed if it is gzipped. Raises InputError if it can't be read."""
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a directory, a file was expected")
        with open(path, "rb") as stream:
            gzipped = stream.read(2) == b"\x1f\x8b"
        return cast(IO[bytes], gzip.open(path, "rb")) if gzipped else open(path, "rb")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror or problem})") from None


def lines(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, line without its line break) of a text file, gzipped or not; drops a byte-order mark.

    Raises InputError, with the line number, for bytes that are not valid in the encoding and for a damaged gzip file.
    """
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise InputError(f"--encoding: {encoding!r} is not an encoding that Python knows") from None
    number = 0
    # Decoded line by line, so that an invalid byte is reported with its line number.
    with open_bytes(path) as stream:
        try:
            for number, raw in enumerate(stream, 1):
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                yield number, raw.decode(encoding).rstrip("\r\n")
        except UnicodeDecodeError as problem:
            byte = problem.object[problem.start]
            raise InputError(f"{path}: line {number}: not valid {encoding.upper()} (byte 0x{byte:02x})") from None
        except (EOFError, OSError, zlib.error) as problem:
            raise InputError(f"{path}: damaged after line {number} ({problem})") from None


def json_lines(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number from 1, object) of a JSONL file, gzipped or not; blank lines are skipped."""
    for number, line in lines(path, encoding):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as problem:
            raise InputError(f"{path}: line {number}: not valid JSON ({problem})") from None
        if not isinstance(record, dict):
            raise InputError(f"{path}: line {number}: a JSON object was expected")
        yield number, record


@contextmanager
def write_file(path: str | Path) -> Iterator[IO[str]]:
    """Opens a text file for writing that gets its name only when it is complete; an older file survives a failure.

    Folders of the path are created. Raises InputError if the file can't be written.
    """
    with _complete_file(path) as descriptor, os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


def write_bytes(path: str | Path, content: bytes) -> None:
    """Writes a binary file that appears under its name only when complete; an older file survives a failure."""
    with _complete_file(path) as descriptor, os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def _complete_file(path: str | Path) -> Iterator[int]:
    """Gives the descriptor of a temporary file, which the caller closes; it takes the name `path` if the block succeeds."""
    path = Path(path)
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise InputError(f"{path}: is a directory, cannot write a file there")
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
        os.fchmod(descriptor, 0o666 & ~_umask())
        yield descriptor
        os.replace(temporary, path)
        temporary = None
    except OSError as problem:
        raise InputError(f"{path}: cannot be written ({problem.strerror or problem})") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def write_folder(path: str | Path, *, replace: bool = False) -> Iterator[Path]:
    """Yields a temporary folder that is renamed to `path` when the block succeeds, and removed when it fails.

    An existing folder is replaced if `replace`; otherwise InputError is raised.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        if path.exists() and not replace:
            raise InputError(f"{path}: exists already")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
        temporary.chmod(0o777 & ~_umask())
        yield temporary
        _sync(temporary)
        if path.exists():
            # A folder can't be renamed over another one: the old one is moved away first, and back on failure.
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
            os.replace(path, old / "old")
            try:
                os.replace(temporary, path)
            except OSError:
                os.replace(old / "old", path)
                raise
            finally:
                shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(temporary, path)
        temporary = None
    except OSError as problem:
        raise InputError(f"{path}: cannot be written ({problem.strerror or problem})") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _sync(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            with open(file, "rb") as stream:
                os.fsync(stream.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
