"""Temporary folders and renames: a folder is exchanged with its successor in one step; what killed processes left is removed.

What will be called NAME is written in a folder `.NAME.RANDOM.partial` beside it. The process that made this folder holds a lock
on the file `.lock` in it, which ends with the process however it ends: a folder whose lock is free is a leftover. Numbers of
processes would not do, since the only process of a container has the number 1 each time. A lock on the folder itself would not
do either, since NFS keeps that on one machine.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernelsearch.core.errors import BusyError, InputError

#: The locked file of a temporary folder, and what its successor replaces.
LOCK, REPLACED = ".lock", ".replaced"
#: The end of a temporary folder's name, and the name of which NAME is a part.
_RANDOM = r"\.[0-9a-f]{12}\.partial"
_TEMPORARY = re.compile(rf"\.(.+){_RANDOM}")
RENAME_EXCHANGE = 2  # of Linux's renameat2
AT_FDCWD = -100
#: Seconds between two attempts to lock a folder.
LOCK_INTERVAL = 0.01


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yields a new folder beside `path` for what will be renamed to `path`, after removing those of processes that are gone.

    It is removed at the end; what `replace_folder` moved into it comes back where nothing has taken its place. Raises OSError.
    """
    path = followed(path)
    remove_leftovers(path)
    descriptor: int | None = None
    folder: Path | None = None
    try:
        while descriptor is None:
            # Named before it exists: a signal may arrive between the two.
            folder = path.with_name(f".{_short_name(path)}.{secrets.token_hex(6)}.partial")
            folder.mkdir(mode=0o700)
            # Another process may take it for a leftover until it is locked.
            descriptor = _lock(folder / LOCK, os.O_RDWR | os.O_CREAT)
        assert folder is not None
        yield folder
    finally:
        if folder is not None:
            _discard(folder, path, descriptor)


def _short_name(path: Path) -> str:
    """The name of a path, cut where a temporary name with all of it would be longer than the 255 bytes of file systems."""
    name = os.fsencode(path.name)
    return path.name if len(name) <= 180 else f"{path.name[:30]}~{zlib.crc32(name):08x}"


def followed(path: Path) -> Path:
    """Returns the file or folder that the symbolic link `path` leads to: it is replaced, and not the link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def final_path(path: Path) -> Path:
    """Returns where what is in a temporary folder will be, for messages; any other path as it is.

    >>> final_path(Path("indexes/.wapo.0123456789ab.partial/wapo/_0.cfs"))
    PosixPath('indexes/wapo/_0.cfs')
    """
    return Path(*(part for part in path.parts if not _TEMPORARY.fullmatch(part)))


def remove_leftovers(path: Path) -> None:
    """Removes temporary folders of `path` whose process is gone; what it had moved away comes back first."""
    path = followed(path)
    pattern = re.compile(rf"\.{re.escape(_short_name(path))}{_RANDOM}")
    try:
        names = [name for name in os.listdir(path.parent) if pattern.fullmatch(name)]
    except OSError:
        return  # the folder is missing or can't be read, which whoever writes into it reports
    for name in names:
        _remove_leftover(path.parent / name, path)


def remove_leftovers_below(folder: Path) -> None:
    """As `remove_leftovers`, for everything in `folder` and its subfolders whose names are not hidden."""
    for parent, names, _ in os.walk(folder):
        for name in names:
            if match := _TEMPORARY.fullmatch(name):
                _remove_leftover(Path(parent, name), Path(parent, match[1]))
        names[:] = [name for name in names if not name.startswith(".")]


def _remove_leftover(folder: Path, path: Path) -> None:
    with suppress(OSError):  # it is of another user, or was removed by another process meanwhile
        if (descriptor := _lock(folder / LOCK, os.O_RDWR | os.O_CREAT, surely=True)) is not None:
            _discard(folder, path, descriptor)


def _discard(folder: Path, path: Path, descriptor: int | None) -> None:
    """Puts back what a temporary folder of `path` holds of it, closes the `descriptor` of its lock, and removes it."""
    try:
        if not path.exists() and (folder / REPLACED).exists():
            os.replace(folder / REPLACED, path)
    finally:
        if descriptor is not None:
            os.close(descriptor)  # first, because NFS keeps the folder of an open file
    shutil.rmtree(folder, ignore_errors=True)


def replace_folder(new: Path, path: Path) -> None:
    """Renames `new`, a folder in a temporary folder of `path`, to `path`. What was there goes with the temporary folder.

    The two are exchanged in one step where the system can. Otherwise the old one is moved into the temporary folder before, and
    comes back where this process doesn't finish.
    """
    if not path.exists():
        os.replace(new, path)
    elif not exchange(new, path):
        os.replace(path, new.with_name(REPLACED))
        os.replace(new, path)
    sync_folder(path.parent)


def exchange(first: Path, second: Path) -> bool:
    """Exchanges the names `first` and `second` in one step; False where the system or file system can't (only Linux can)."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(number, os.strerror(number), str(second))


@contextmanager
def lock_folder(folder: Path, seconds: float) -> Iterator[None]:
    """Holds an exclusive lock on the folder that has this name, which is made where it is missing.

    Whoever adds to a file that is copied when the folder is replaced holds it while writing; whoever replaces the folder holds
    it from the copy to the replacement. So nothing is added to a file that has been copied already: a writer that had to wait
    gets the lock of the successor. Raises BusyError where another process holds the lock for more than `seconds`. A file system
    without locks is used without.
    """
    deadline = time.monotonic() + seconds
    while (descriptor := _lock_made(folder)) is None:
        if time.monotonic() > deadline:
            raise BusyError("locked by another process; try again later", path=folder)
        time.sleep(LOCK_INTERVAL)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock_made(folder: Path) -> int | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _lock(folder)
    except OSError as problem:
        raise InputError(f"cannot be locked ({problem.strerror or problem})", path=folder) from None


def _lock(path: Path, flags: int = os.O_RDONLY, *, surely: bool = False) -> int | None:
    """A descriptor that holds the lock of a file or folder; None where another one has it, or the path is being removed.

    On a file system without locks it holds none, or with `surely` None is returned.
    """
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        return None  # removed since it was made
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if surely or problem.errno in (errno.EAGAIN, errno.EACCES):
            os.close(descriptor)
            return None
    try:
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return None


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
