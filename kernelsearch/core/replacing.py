"""Temporary names and renames: a folder is exchanged with its successor in one step, and what a killed process left is removed.

A temporary file or folder carries the machine and the process that owns it in its name, `.NAME.MACHINE-PID.RANDOM.SUFFIX`. The
next command that writes NAME on the same machine removes those whose process is gone.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import socket
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelsearch.core.errors import BusyError, InputError

#: Suffixes of temporary names: what is being written, staged documents, and a folder that is being replaced.
PARTIAL, STAGED, OLD = ".partial", ".staged", ".old"
#: The name of a replaced folder within its temporary folder.
REPLACED = "replaced"
RENAME_EXCHANGE = 2  # of Linux's renameat2
AT_FDCWD = -100
#: Seconds between two attempts to lock a folder.
LOCK_INTERVAL = 0.01


def temporary_prefix(path: Path) -> str:
    """Returns the beginning of a temporary name for `path`, for the functions of `tempfile`."""
    return f".{_short_name(path)}.{_machine()}-{os.getpid()}."


def _short_name(path: Path) -> str:
    """The name of a path, cut where a temporary name with all of it would be longer than the 255 bytes of file systems."""
    name = os.fsencode(path.name)
    return path.name if len(name) <= 180 else f"{path.name[:30]}~{zlib.crc32(name):08x}"


def temporary_name(path: Path, suffix: str) -> Path:
    """Returns a path beside `path`, ending with `suffix`, that nothing has yet, for a temporary file or folder."""
    return path.with_name(f"{temporary_prefix(path)}{secrets.token_hex(6)}{suffix}")


def remove_leftovers(path: Path) -> None:
    """Removes temporary files and folders of `path` whose process is gone; a folder that it had moved away comes back."""
    # A temporary file that is itself written under a temporary name has two of the endings.
    pattern = re.compile(rf"\.+{re.escape(_short_name(path))}(?:\.{_machine()}-(\d+)\.\w+({PARTIAL}|{STAGED}|{OLD}))+")
    try:
        names = [match for name in os.listdir(path.parent) if (match := pattern.fullmatch(name))]
    except OSError:
        return  # the folder is missing or can't be read, which whoever writes into it reports
    for match in names:
        if _runs(int(match[1])):
            continue
        leftover = path.parent / match[0]
        if match[2] == OLD and not path.exists() and (leftover / REPLACED).exists():
            os.replace(leftover / REPLACED, path)
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def replace_folder(new: Path, path: Path, aside: Path) -> None:
    """Renames `new` to `path`, where a folder may exist; that one is removed.

    The two are exchanged in one step where the system can. Otherwise the old one is moved into the empty folder `aside` before;
    a process that is killed in between leaves it there, and `remove_leftovers` moves it back.
    """
    if not path.exists():
        os.replace(new, path)
    elif exchange(new, path):
        shutil.rmtree(new, ignore_errors=True)
    else:
        os.replace(path, aside / REPLACED)
        try:
            os.replace(new, path)
        except OSError:
            os.replace(aside / REPLACED, path)
            raise
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
    while (descriptor := _lock(folder)) is None:
        if time.monotonic() > deadline:
            raise BusyError("locked by another process; try again later", path=folder)
        time.sleep(LOCK_INTERVAL)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the lock of a folder; None where another one has it, or the folder is being replaced."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None  # moved away since it was made
    except OSError as problem:
        raise InputError(f"cannot be locked ({problem.strerror or problem})", path=folder) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in (errno.EAGAIN, errno.EACCES):
            os.close(descriptor)
            return None
    try:
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
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


def _machine() -> str:
    """A short name of this machine: process numbers of another one, on a shared file system, mean nothing here."""
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # of another user
    return True
