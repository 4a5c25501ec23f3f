"""Writing files: writes are atomic, and every error message names the file. `reading` has the other direction."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kernelsearch.core.errors import InputError
from kernelsearch.core.replacing import OLD, PARTIAL, remove_leftovers, replace_folder, sync_folder, temporary_name


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
        remove_leftovers(path)
        # Named before it exists: a signal may arrive between the two.
        temporary = str(temporary_name(path, PARTIAL))
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.fchmod(descriptor, 0o666 & ~_umask())
        yield descriptor
        os.replace(temporary, path)
        temporary = None
        sync_folder(path.parent)
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
        replace_folder(temporary, path, aside)
        temporary = None
    except OSError as problem:
        raise InputError(f"{path}: cannot be written ({problem.strerror or problem})") from None
    finally:
        for folder in (temporary, aside):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


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
