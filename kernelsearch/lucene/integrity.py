"""Whether the files of a Lucene index are whole.

Lucene stores a checksum in every file and compares it only where it reads the whole file, which a search doesn't. The files of
an index that `kernelsearch.index` built are therefore noted when they are written; where they were changed since (a copy,
damage), Lucene verifies their checksums once, on opening. Indexes of other programs are verified by `kernelsearch.check` only.
"""

from __future__ import annotations

import re
from pathlib import Path

from kernelsearch.core import checksums
from kernelsearch.core.errors import IndexProblem
from kernelsearch.lucene import jvm
from kernelsearch.lucene.shards import ADDED_FOLDER

ADVICE = "index the collection again"


def note_written(path: Path) -> None:
    """Records the present state of the files of the index `path` that has just been written or verified."""
    checksums.note_verified(path, _files(path), {}, into=path / ADDED_FOLDER)


def verify_changed(path: Path) -> None:
    """Verifies files of the index `path` that were changed since they were noted; raises IndexProblem where one is damaged."""
    places = path / ADDED_FOLDER
    if (places / checksums.NOTE).exists() and not checksums.is_unchanged(path, _files(path), {}, into=places):
        verify(path)
        note_written(path)


@jvm.calls_java
def verify(path: Path) -> None:
    """Lets Lucene compare the checksums of all files of the index `path`; raises IndexProblem where one differs."""
    import jnius

    try:
        jvm.bridge().verify(jvm.path_of(path))
    except jnius.JavaException as problem:
        raise IndexProblem(f"{path}: a damaged Lucene index ({reason(str(problem))}); {ADVICE}") from None


@jvm.calls_java
def check(path: Path) -> str:
    """Runs Lucene's CheckIndex on the index `path` and returns the first problem that it finds, in one line, or ""."""
    import jnius

    try:
        report: str = jvm.bridge().check(jvm.path_of(path))
    except jnius.JavaException as problem:
        return reason(str(problem))
    problems = [line.strip() for line in report.splitlines() if re.search(r"Exception|Error\b|FAILED", line)]
    return reason((problems or report.splitlines()[:1] or [""])[-1]) if report else ""


def reason(text: str) -> str:
    """The reason in `text`, a Java exception's message, in one line: the file, where it names one, and what is wrong."""
    line = re.sub(r"^JVM exception occurred: ", "", " ".join(text.split()))
    file = re.search(r'path="([^"]+)"', line)
    line = re.sub(r"\s*\(resource=.*", "", line)[:160]
    return f"{Path(file.group(1)).name}: {line}" if file else line


def _files(path: Path) -> list[str]:
    """The names of Lucene's files in an index."""
    return sorted(file.name for file in path.iterdir() if re.fullmatch(r"_.*|segments_.*", file.name))
