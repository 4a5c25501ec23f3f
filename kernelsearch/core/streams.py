"""The streams behind `core.reading`: files and pipes opened once, with limits on their size and errors that name the file."""

from __future__ import annotations

import codecs
import errno
import io
import os
import stat
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kernelsearch.core.errors import Flag, InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Result = TypeVar("Result")

#: A gzip file may expand by this factor; deflate reaches 1,032 on zeros, text and logs stay below 50.
MAX_EXPANSION = 250
#: Expansion is not checked below this size, in bytes: short repetitive files are harmless.
EXPANSION_FREE = 64 << 20
#: What opening a file fails with where the system lacks descriptors or memory.
SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
#: Seconds between two attempts to reach the process at the other end of a named pipe.
INTERVAL = 0.05


@dataclass
class InputLimits:
    """What inputs may hold. The command line sets `limits` from `--max-line`, `--max-input` and `--pipe-wait`."""

    line: int = 64 << 20  #: longest line, in bytes
    total: int | None = None  #: largest input after decompression, in bytes; None: only MAX_EXPANSION is checked
    wait: float = 30.0  #: seconds to wait until a process opens the other end of a named pipe


#: The limits of this process.
limits = InputLimits()


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

    Raises InputError where the path can't be opened.
    """
    try:
        return _open_once(path)
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except (OSError, ValueError) as problem:
        raise _unreadable(path, problem) from None


def _open_once(path: str | Path) -> tuple[io.RawIOBase, bytes]:
    # O_NONBLOCK, because opening a named pipe without a writer would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        os.close(descriptor)
        raise InputError("is a directory, a file was expected", path=path)
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
        return ContinuedStream(first, stream), first
    except BaseException:
        stream.close()
        raise


def _first_bytes(descriptor: int, path: str | Path, pipe: bool) -> bytes:
    """What can be read at once from a pipe or device: up to two bytes, or none where its writer has sent nothing yet.

    Of a pipe without a writer, reading gives no bytes. For an anonymous pipe that is its end; a named one may still be opened.
    """
    is_named_pipe = pipe and not str(path).startswith(("/dev/", "/proc/"))

    def attempt() -> bytes | None:
        try:
            first = os.read(descriptor, 2)
        except BlockingIOError:
            return b"" if not pipe else _wait_for_two(descriptor)
        return first if first or not is_named_pipe else None

    return wait_for_pipe(path, attempt, "nothing has been written to")


def wait_for_pipe(path: str | Path, attempt: Callable[[], Result | None], missing: str) -> Result:
    """The first result of `attempt` that is not None; `missing` says in the message what the named pipe `path` waits for.

    Raises InputError after `limits.wait` seconds.
    """
    end = time.monotonic() + limits.wait
    while (result := attempt()) is None:
        if time.monotonic() > end:
            raise InputError(
                f"a named pipe that {missing} in {limits.wait:g} s; ", Flag("pipe-wait"), " waits longer", path=path
            )
        time.sleep(INTERVAL)
    return result


def _wait_for_two(descriptor: int) -> bytes:
    """The first two bytes of a pipe that has a writer, however long the writer takes."""
    os.set_blocking(descriptor, True)
    first = b""
    while len(first) < 2 and (more := os.read(descriptor, 2 - len(first))):
        first += more
    return first


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
    """A `stream` of the file `path` whose errors are InputErrors, and which ends with one beyond the limits of the size.

    `compressed` is the stream under a gzip stream. A stream that is read in any order is not `limited`: bytes may pass twice.
    """

    def __init__(self, path: str | Path, stream: Any, compressed: ContinuedStream | None = None, limited: bool = True) -> None:
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
        if limits.total is not None:
            if self._limited and self._size > limits.total:
                raise InputError(f"larger than {limits.total} bytes (", Flag("max-input"), ")", path=self._path)
        elif self._compressed is not None and self._size > max(EXPANSION_FREE, MAX_EXPANSION * self._compressed.passed):
            raise InputError(
                f"a gzip file that expands more than {MAX_EXPANSION} times; ",
                Flag("max-input"),
                " sets the size that is allowed",
                path=self._path,
            )
        return int(count)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            if self._compressed is not None:
                self._compressed.close()
        super().close()


class TranscodedStream(io.RawIOBase):
    """UTF-16 text with a byte-order mark, as spreadsheets and Windows' shells write it, as UTF-8 with a byte-order mark.

    `stream` has the bytes of the file `path`. The mark tells readers that the bytes are in no other encoding.
    """

    def __init__(self, path: str | Path, stream: Any) -> None:
        self._path, self._stream = path, stream
        self._decoder = codecs.getincrementaldecoder("utf-16")()
        self._pending = codecs.BOM_UTF8

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._pending:
            raw = self._stream.read(1 << 16)
            try:
                self._pending = self._decoder.decode(raw, final=not raw).encode()
            except UnicodeError:
                raise InputError("damaged UTF-16 text, or not text", path=self._path) from None
            if not raw:
                break
        space = memoryview(buffer)
        count = min(len(space), len(self._pending))
        space[:count], self._pending = self._pending[:count], self._pending[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _unreadable(path: str | Path, problem: Exception) -> InputError:
    reason = getattr(problem, "strerror", None) or problem
    return InputError(f"cannot be read ({reason})", path=path)
