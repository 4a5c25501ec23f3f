"""Writing files: writes are atomic, and every error message names the file. `reading` has the other direction."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from kernelsearch.core.errors import InputError
from kernelsearch.core.replacing import OLD, PARTIAL, remove_leftovers, replace_folder, sync_folder, temporary_name


@contextmanager
def write_file(path: str | Path) -> Iterator[IO[str]]:
    """Opens a text file for writing that gets its name only when it is complete; an older file survives a failure.

    Folders of the path are created. Raises InputError if the file can't be written.
    """
    with _complete_file(path) as output, io.TextIOWrapper(output, encoding="utf-8", newline="\n") as stream:
        yield stream
        stream.flush()
        output.raw.sync()


def write_bytes(path: str | Path, content: bytes) -> None:
    """Writes a binary file that appears under its name only when complete; an older file survives a failure."""
    with _complete_file(path) as stream:
        stream.write(content)
        stream.flush()
        stream.raw.sync()


class _Output(io.FileIO):
    """A file whose errors name the path that it will have. What else fails while it is open is not its error."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, content: Any, /) -> int:
        with _report(self._path):
            return super().write(content)

    def sync(self) -> None:
        """Waits until the content is on disk."""
        with _report(self._path):
            os.fsync(self.fileno())

    def close(self) -> None:
        with _report(self._path):
            super().close()


@contextmanager
def _report(path: Path) -> Iterator[None]:
    """Turns an OSError into an InputError with the path of the output."""
    try:
        yield
    except OSError as problem:
        raise InputError(f"{path}: cannot be written ({problem.strerror or problem})") from None


@contextmanager
def _complete_file(path: str | Path) -> Iterator[io.BufferedWriter[_Output]]:
    """Gives a stream to a temporary file, which takes the name `path` if the block succeeds."""
    path = Path(path)
    temporary: Path | None = None
    try:
        with _report(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise InputError(f"{path}: is a directory, cannot write a file there")
            remove_leftovers(path)
            # Named before it exists: a signal may arrive between the two.
            temporary = temporary_name(path, PARTIAL)
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.fchmod(descriptor, 0o666 & ~_umask())
        with io.BufferedWriter(_Output(descriptor, path)) as stream:
            yield stream
        with _report(path):
            os.replace(temporary, path)
            temporary = None
            sync_folder(path.parent)
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def write_folder(
    path: str | Path, *, replace: bool = False, last: Callable[[Path], AbstractContextManager[None]] | None = None
) -> Iterator[Path]:
    """Yields a temporary folder that is renamed to `path` when the block succeeds, and removed when it fails.

    An existing folder is replaced if `replace`; otherwise InputError is raised. `last(temporary)` is a context that is entered
    when everything else is on disk and left after the renaming: what others may change until then is copied in it.
    """
    path = Path(path)
    temporary: Path | None = None
    aside: Path | None = None
    try:
        remove_leftovers(path)
        if path.exists() and not replace:
            raise InputError(f"{path}: exists already")
        path.parent.mkdir(parents=True, exist_ok=True)
        # Named before it exists: a signal may arrive between the two.
        temporary = temporary_name(path, PARTIAL)
        temporary.mkdir()
        yield temporary
        _sync(temporary)
        aside = temporary_name(path, OLD)
        aside.mkdir()
        with last(temporary) if last is not None else nullcontext():
            replace_folder(temporary, path, aside)
        temporary = None
    except OSError as problem:
        name = os.fsdecode(problem.filename) if isinstance(problem.filename, str | bytes) else None
        if name is not None and not _belongs(Path(name), path, (temporary, aside)):
            raise InputError(f"{name}: cannot be read ({problem.strerror or problem})") from None
        raise InputError(f"{path}: cannot be written ({problem.strerror or problem})") from None
    finally:
        for folder in (temporary, aside):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


def _belongs(name: Path, path: Path, temporary: tuple[Path | None, ...]) -> bool:
    """Whether a file is part of an output `path`: a folder above it, or within its temporary folders. Others are inputs."""
    name = name.absolute()
    folders = [folder.absolute() for folder in temporary if folder is not None]
    return path.absolute().is_relative_to(name) or any(name.is_relative_to(folder) for folder in folders)


def _sync(folder: Path) -> None:
    """Waits until a folder and everything below it is on disk."""
    for file in folder.rglob("*"):
        if file.is_file():
            with open(file, "rb") as stream:
                os.fsync(stream.fileno())
        elif file.is_dir():
            sync_folder(file)
    sync_folder(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
