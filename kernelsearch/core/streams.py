"""The streams behind `core.reading`: files and pipes opened once, with limits on their size and errors that name the file."""

from __future__ import annotations

import codecs
import errno
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsearch.core.errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: A gzip file may expand by this factor; deflate reaches 1,032 on zeros, text and logs stay below 50.
MAX_EXPANSION = 250
#: Expansion is not checked below this size, in bytes: short repetitive files are harmless.
EXPANSION_FREE = 64 << 20
#: What opening a file fails with where the system lacks descriptors or memory.
SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def raise_shortage(problem: BaseException) -> None:
    """Raises `problem` again where the system lacks descriptors or memory, which says nothing about the file to be opened."""
    if isinstance(problem, OSError) and problem.errno in SHORTAGES:
        raise problem


def raise_shortage_of(path: Path) -> None:
    """As `raise_shortage`, after a library could not open the file `path` and says why in its text only."""
    try:
        path.open("rb").close()
    except OSError as problem:
        raise_shortage(problem)


def open_raw(path: str | Path) -> tuple[io.RawIOBase, bytes]:
    """The raw stream of a file or pipe, and its first two bytes, which are still to be read from the stream.

    Waits for the writer of a pipe, as every program does. Raises InputError where the path can't be opened, and for UTF-16.
    """
    try:
        raw = io.FileIO(path, "rb")
        head = raw.read(2)
        while len(head) == 1 and (more := raw.read(1)):  # a pipe gives what it has
            head += more
        seekable = raw.seekable()
        if seekable:
            raw.seek(0)
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except IsADirectoryError:
        raise InputError("is a directory, a file was expected", path=path) from None
    except (OSError, ValueError) as problem:
        raise _unreadable(path, problem) from None
    if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raw.close()
        raise InputError("text in UTF-16; iconv -f UTF-16 -t UTF-8 FILE > NEW converts it", path=path)
    return (raw if seekable else ContinuedStream(head, raw)), head


class ContinuedStream(io.RawIOBase):
    """The stream `rest` with the bytes `first` before it, which were read from it already; `passed` counts the bytes given."""

    def __init__(self, first: bytes, rest: io.RawIOBase) -> None:
        self._first, self._rest = first, rest
        self.passed = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self._first:
            space = memoryview(buffer)
            count = min(len(space), len(self._first))
            space[:count], self._first = self._first[:count], self._first[count:]
        else:
            count = self._rest.readinto(buffer) or 0
        self.passed += count
        return count

    def close(self) -> None:
        if not self.closed:
            self._rest.close()
        super().close()


class CheckedStream(io.RawIOBase):
    """A `stream` of the file `path` whose errors are InputErrors, and which ends with one where a gzip file expands too much.

    `compressed` is the stream under a gzip stream.
    """

    def __init__(self, path: str | Path, stream: Any, compressed: ContinuedStream | None = None) -> None:
        self._path, self._stream, self._compressed = path, stream, compressed
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

    def readinto(self, buffer: WriteableBuffer) -> int:
        try:
            count = self._stream.readinto(buffer) or 0
        except OSError as problem:
            if self._compressed is None or problem.errno not in (None, errno.EINVAL):
                raise _unreadable(self._path, problem) from None
            raise InputError(f"damaged gzip file ({problem})", path=self._path) from None
        except (EOFError, zlib.error) as problem:
            raise InputError(f"damaged gzip file ({problem})", path=self._path) from None
        self._size += count
        if self._compressed is not None and self._size > max(EXPANSION_FREE, MAX_EXPANSION * self._compressed.passed):
            raise InputError(
                f"a gzip file that expands more than {MAX_EXPANSION} times; gunzip it first if it is yours", path=self._path
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
    return InputError(f"cannot be read ({reason})", path=path)
