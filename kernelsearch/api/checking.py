"""Checking an index: Lucene's own check, every file of every artefact, click databases; repairing what can be rebuilt."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.api.build import export_fields
from kernelsearch.api.index_artefacts import FORWARD, kind_of
from kernelsearch.api.index_files import IndexFiles
from kernelsearch.core import artefacts, checksums
from kernelsearch.core.errors import ArtefactError, IndexProblem
from kernelsearch.core.progress import Progress, silent
from kernelsearch.lucene.index import CONTENTS
from kernelsearch.lucene.shards import COLLECTIONS, Shards, Source, find_problem, find_shards, index_record
from kernelsearch.rerankers import registry

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Finding:
    """The result of checking one part of an index.

    `part` names it; `problem` says what is damaged, None for nothing; `advice` is the command that makes it again; `repaired`
    says whether it was made again, or removed to be made again on its next use.
    """

    part: str
    problem: str | None = None
    advice: str = ""
    repaired: bool = False

    def __str__(self) -> str:
        if self.problem is None:
            return f"{self.part}: ok"
        return f"{self.part}: {'REPAIRED' if self.repaired else 'DAMAGED'}: {self.problem}" + (
            f"; {self.advice}" if self.advice and not self.repaired else ""
        )


def check_index(source: Source, *, repair: bool = False, progress: Progress = silent) -> Iterator[Finding]:
    """Yields what is found in each part of an index; Lucene's files, the artefacts, then the click databases.

    `source` names the index, `progress` gets the progress of repairs. Artefacts of a collection are checked where all of its
    indexes are named. With `repair`, forward indexes are written again and other derived artefacts are removed, to be made
    again on their next use. Raises IndexProblem for a folder that isn't an index.
    """
    shards = find_shards(source)
    whole = True
    for path in shards.paths:
        finding = _check_lucene(path)
        whole = whole and finding.problem is None
        yield finding
    for folder in _artefact_folders(shards.artefacts):
        finding = _check_artefact(folder, shards)
        # A forward index is written from Lucene's postings, which must be whole.
        yield _repair(finding, folder, shards, progress) if repair and whole and finding.problem else finding
    for database in sorted(shards.artefacts.glob("*.db")):
        yield _check_database(database)


def parts_in_use(source: Source) -> list[str]:
    """Which parts of methods such as `auto` are in use on the index `source`, one line per method; none before a search."""
    index = IndexFiles(source)
    if not (index.artefacts / FORWARD.place / CONTENTS).is_dir():  # it would be written now
        return []
    line = registry.method("auto").make(index).parts_in_use
    return [] if line is None else [line]


def _check_lucene(path: Path) -> Finding:
    part, advice = f"{path} (Lucene)", "python -m kernelsearch.index --input DOCUMENTS --index INDEX --force"
    try:
        index_record(path)
    except IndexProblem as problem:
        return Finding(part, str(problem), advice)
    first_problem = find_problem(path)
    return Finding(part, first_problem or None, advice if first_problem else "")


def _artefact_folders(folder: Path) -> list[Path]:
    """The folders of artefacts below a folder, without temporary ones and those of collections with other indexes."""
    folders = [meta.parent for meta in folder.rglob("meta.json")]
    # A forward index whose description is missing is known by its place.
    folders += [field for field in (folder / "forward").glob("*") if field.is_dir() and field not in folders]
    parts = {path: path.relative_to(folder).parts for path in folders}
    return sorted(
        path for path, names in parts.items() if names[0] != COLLECTIONS and not any(name.startswith(".") for name in names)
    )


def _check_artefact(folder: Path, shards: Shards) -> Finding:
    part, kind = str(folder), kind_of(folder)
    if kind is None:
        return Finding(
            part, "meta.json: damaged, or of a kind that this version doesn't know", "remove the folder and make it again"
        )
    advice = "python -m kernelsearch." + kind.command.format(flags=shards.flags, name=folder.name)
    try:
        meta = artefacts.read_meta(folder, kind.name, kind.version)
        checksums.refuse_changed(folder, meta["checksums"], advice="")
        arrays = artefacts.open_arrays(folder, meta, mmap=True)
        if kind.validate is not None:
            artefacts.run_validation(folder, kind.validate, meta, arrays, kind.name)
    except ArtefactError as problem:
        return Finding(part, _without_advice(str(problem)), advice)
    if meta["fingerprint"] and meta["fingerprint"] != shards.fingerprint and "replaced" not in folder.parts:
        return Finding(part, "made for an earlier state of the index", advice)
    return Finding(part)


def _repair(finding: Finding, folder: Path, shards: Shards, progress: Progress) -> Finding:
    kind = kind_of(folder)
    if kind is None or not kind.derived:
        return finding
    if kind is FORWARD:
        export_fields(shards.folders, [folder.name], None, progress=progress)
    else:
        shutil.rmtree(folder)
    return Finding(finding.part, finding.problem, repaired=True)


def _check_database(path: Path) -> Finding:
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            report = "; ".join(str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)"))
        finally:
            connection.close()
    except sqlite3.Error as problem:
        report = str(problem)
    advice = "restore it from a copy, or import the log again with python -m kernelsearch.clicks import"
    return Finding(str(path)) if report == "ok" else Finding(str(path), " ".join(report.split())[:200], advice)


def _without_advice(message: str) -> str:
    """A message without its ending, which names no command."""
    return message.rsplit("; build ", 1)[0].rstrip("; ")
