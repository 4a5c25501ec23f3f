"""Writing files: writes are atomic, and every error message names the file. `reading` has the other direction.

A symbolic link is followed. Devices and pipes (`/dev/null`, `/dev/stdout`, `>(command)`) are written to as they are: they have
no older content to keep, and a renamed file would take their place. `-` is standard output; a file of that name is written by
its absolute path.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kernelsearch.core.errors import DiskFull, Flag, InputError, OptionError, shown_path
from kernelsearch.core.replacing import followed, replace_folder, sync_folder, temporary_folder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@contextmanager
def write_file(path: str | Path) -> Iterator[IO[str]]:
    """Opens a text file for writing that gets its name only when it is complete; an older file survives a failure.

    Folders of the path are created. A file whose name ends with `.gz` is gzipped; equal texts give equal files. Raises
    InputError if the file can't be written.
    """
    with _complete_file(path) as output:
        # Without a name and a time in its header. Level 6 is that of gzip itself; Python's 9 takes much longer.
        gzipped = gzip.GzipFile("", "wb", 6, output, mtime=0) if str(path).lower().endswith(".gz") else None
        with io.TextIOWrapper(gzipped or output, encoding="utf-8", newline="\n") as stream:
            yield stream
            stream.flush()
            if gzipped is not None:
                gzipped.close()  # writes its last block
            output.flush()
            output.raw.sync()


def write_bytes(path: str | Path, content: bytes) -> None:
    """Writes `content` to the file `path`, which appears only when complete; an older file survives a failure."""
    with _complete_file(path) as stream:
        stream.write(content)
        stream.flush()
        stream.raw.sync()


class _Output(io.FileIO):
    """A file whose errors name the path that it will have. What else fails while it is open is not its error."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, content: ReadableBuffer, /) -> int:
        with _report(self._path):
            return super().write(content)

    def sync(self) -> None:
        """Waits until the content is on disk."""
        if stat.S_ISREG(os.fstat(self.fileno()).st_mode):
            with _report(self._path):
                os.fsync(self.fileno())

    def close(self) -> None:
        with _report(self._path):
            super().close()


@contextmanager
def _report(path: Path) -> Iterator[None]:
    """Turns an OSError into an InputError with the path of the output, except where the reader of a pipe has enough."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise not_writable(path, problem) from None


def not_writable(path: str | Path, problem: OSError) -> InputError:
    """Returns the error of an output `path` that could not be written because of `problem`."""
    kind = DiskFull if problem.errno in (errno.ENOSPC, errno.EDQUOT) else InputError
    return kind(f"cannot be written ({problem.strerror or problem})", path=path)


@contextmanager
def _complete_file(path: str | Path) -> Iterator[io.BufferedWriter[_Output]]:
    """Gives a stream to a temporary file, which takes the name `path` if the block succeeds; to a device or pipe, directly."""
    path = Path(path)
    with _report(path):
        special = _open_special(path)
    if special is not None:
        with io.BufferedWriter(_Output(special, path)) as stream:
            yield stream
        return
    path = followed(path)
    with ExitStack() as stack:
        with _report(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            refuse_special(path)
            temporary = stack.enter_context(temporary_folder(path)) / path.name
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with io.BufferedWriter(_Output(descriptor, path)) as stream:
            yield stream
        with _report(path):
            os.replace(temporary, path)
            sync_folder(path.parent)


#: A stream of this process by its number.
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


def _open_special(path: Path) -> int | None:
    """A descriptor of a character device or pipe; None for a file, or where nothing exists yet.

    Waits for the reader of a named pipe. Raises InputError for other special files.
    """
    if (number := _descriptor_number(path)) is not None:
        return os.dup(number)  # opened again, a file would be written from its beginning
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        raise InputError("neither a file nor a pipe, cannot be written", path=path)
    return os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)


def refuse_special(path: Path) -> None:
    """Raises InputError where `path` is no regular file, standard output included: a renamed file would take its place."""
    if is_special(path):
        kind = "a directory" if path.is_dir() else "not a file"
        raise InputError(f"is {kind}, cannot write a file there", path=path)


def check_output(option: str, output: str | Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raises, before the work, InputError where `output` is a folder, and OptionError for one of the inputs.

    That input would be lost; the message names the option `option`.
    """
    if output is None:
        return
    if os.path.isdir(output):
        raise InputError("is a directory, cannot write a file there", path=output)
    for path in inputs:
        if path is not None and os.path.isfile(path) and os.path.isfile(output) and os.path.samefile(path, output):
            raise OptionError(f"{shown_path(output)} is an input of this command", option=Flag(option))


def is_special(path: str | Path) -> bool:
    """Returns whether a path is a folder, a device, a pipe or a stream of the process, beside which no file belongs."""
    path = Path(path)
    return _descriptor_number(path) is not None or (path.exists() and not path.is_file())


def _descriptor_number(path: Path) -> int | None:
    name = {"-": "/dev/fd/1", "/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}.get(str(path), str(path))
    number = _DESCRIPTOR.fullmatch(name)
    return None if number is None else int(number[1])


@contextmanager
def write_folder(
    path: str | Path, *, replace: bool = False, last: Callable[[Path], AbstractContextManager[None]] | None = None
) -> Iterator[Path]:
    """Yields a temporary folder that is renamed to `path` when the block succeeds, and removed when it fails.

    Its parent is temporary, too, for files that are needed while the block runs. An existing folder is replaced if `replace`;
    otherwise InputError is raised. `last(temporary)` is a context that is entered when everything else is on disk and left
    after the renaming: what others may change until then is copied in it.
    """
    path = followed(Path(path))
    outer: Path | None = None
    try:
        if path.name in ("", ".."):
            raise InputError("cannot be written, name a folder below it", path=path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(path) as outer:
            if path.exists() and not path.is_dir():
                raise InputError("is a file, a folder was expected", path=path)
            if path.exists() and not replace:
                raise InputError("exists already", path=path)
            temporary = outer / path.name
            temporary.mkdir()
            yield temporary
            _sync(temporary)
            with last(temporary) if last is not None else nullcontext():
                replace_folder(temporary, path)
    except OSError as problem:
        # A copy has two names, and what fails is the second where the disk is full.
        file = problem.filename2 or problem.filename
        name = os.fsdecode(file) if isinstance(file, str | bytes) else None
        if name is None or _belongs(Path(name), path, outer):
            raise not_writable(path, problem) from None
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise not_writable(Path(name), problem) from None
        raise InputError(f"cannot be read ({problem.strerror or problem})", path=Path(name)) from None


def copy_tree(source: Path, target: Path) -> None:
    """Copies the folder `source` to `target`, which may exist. shutil.copytree would raise a list of texts for an OSError."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir():
            copy_tree(entry, target / entry.name)
        else:
            shutil.copy2(entry, target / entry.name)


def _belongs(name: Path, path: Path, outer: Path | None) -> bool:
    """Whether a file is part of an output `path`: a folder above it, or in its temporary folder `outer`. Others are inputs."""
    name = name.absolute()
    return path.absolute().is_relative_to(name) or (outer is not None and name.is_relative_to(outer.absolute()))


def _sync(folder: Path) -> None:
    """Waits until a folder and everything below it is on disk."""
    for file in folder.rglob("*"):
        if file.is_file():
            with open(file, "rb") as stream:
                os.fsync(stream.fileno())
        elif file.is_dir():
            sync_folder(file)
    sync_folder(folder)
