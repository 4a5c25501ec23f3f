"""Checking an index: Lucene's own check, every file of every artefact, click databases; repairing what can be rebuilt."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.api import exchange
from kernelsearch.api.build import export_fields
from kernelsearch.core import artefacts, checksums
from kernelsearch.core.errors import ArtefactError, IndexProblem
from kernelsearch.core.progress import Progress, silent
from kernelsearch.forward import index as forward
from kernelsearch.lucene import integrity
from kernelsearch.lucene.shards import Shards, Source, find_shards, index_record
from kernelsearch.rerankers.fusion import model as fusion
from kernelsearch.rerankers.klsa import basis as klsa
from kernelsearch.rerankers.mslm import graph as mslm
from kernelsearch.rerankers.rbm25 import query_vectors, similar_queries
from kernelsearch.vectors import store as vectors

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Kind:
    """A kind of artefact: its format version, the check of its content, and the flags of the command that makes it.

    `command` has the index's flags in place of {flags} and the artefact's name in place of {name}; `derived` artefacts are made
    again by kernelsearch when they are needed.
    """

    version: int
    validate: artefacts.Validate | None
    command: str
    derived: bool = False


KINDS = {
    forward.KIND: _Kind(forward.VERSION, forward.validate, "index {flags} --fields {name}", derived=True),
    klsa.KIND: _Kind(klsa.VERSION, klsa.validate, "train {flags} --rerank klsa"),
    mslm.KIND: _Kind(mslm.VERSION, mslm.validate, "train {flags} --rerank mslm"),
    fusion.KIND: _Kind(fusion.VERSION, fusion.validate, "train {flags} --rerank fusion --topics TOPICS --qrels QRELS"),
    vectors.KIND: _Kind(vectors.VERSION, vectors.validate, "vectors {flags} --name {name} --input FILE"),
    similar_queries.KIND: _Kind(
        similar_queries.VERSION, similar_queries.validate, "search {flags} --rerank rbm25", derived=True
    ),
    query_vectors.KIND: _Kind(query_vectors.VERSION, None, "search {flags} --rerank rbm25", derived=True),
    exchange.KIND: _Kind(exchange.VERSION, exchange.validate, "index {flags}"),
}


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

    `source` names the index. With `repair`, forward indexes are written again and other derived artefacts are removed, to be
    made again on their next use. Raises IndexProblem for a folder that isn't an index.
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


def _check_lucene(path: Path) -> Finding:
    part, advice = f"{path} (Lucene)", "python -m kernelsearch.index --input DOCUMENTS --index INDEX --force"
    try:
        index_record(path)
    except IndexProblem as problem:
        return Finding(part, str(problem), advice)
    found = integrity.check(path)
    return Finding(part, found or None, advice if found else "")


def _artefact_folders(folder: Path) -> list[Path]:
    """The folders of artefacts below a folder, without temporary ones."""
    found = [meta.parent for meta in folder.rglob("meta.json")]
    # A forward index whose description is missing is known by its place.
    found += [field for field in (folder / "forward").glob("*") if field.is_dir() and field not in found]
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _check_artefact(folder: Path, shards: Shards) -> Finding:
    name = folder.name
    part = str(folder)
    kind_name = _kind_of(folder)
    kind = KINDS.get(kind_name)
    if kind is None:
        return Finding(
            part, "meta.json: damaged, or of a kind that this version doesn't know", "remove the folder and make it again"
        )
    advice = "python -m kernelsearch." + kind.command.format(flags=shards.flags, name=name)
    try:
        meta = artefacts.read_meta(folder, kind_name, kind.version)
        checksums.refuse_changed(folder, meta.get("checksums", {}), advice="")
        arrays = artefacts.open_arrays(folder, meta, mmap=True)
        if kind.validate is not None:
            artefacts.run_validation(folder, kind.validate, meta, arrays, kind_name)
    except ArtefactError as problem:
        return Finding(part, _without_advice(str(problem)), advice)
    if meta["fingerprint"] and meta["fingerprint"] != shards.fingerprint and "replaced" not in folder.parts:
        return Finding(part, "made for an earlier state of the index", advice)
    return Finding(part)


def _kind_of(folder: Path) -> str:
    """The kind of an artefact, from its description or, where that is damaged, from its place."""
    for kind, values in KINDS.items():
        try:
            artefacts.read_meta(folder, kind, values.version)
            return kind
        except ArtefactError as problem:
            if f"{kind} was expected" not in str(problem) and "holds a" not in str(problem):
                if folder.parent.name == "forward":
                    return forward.KIND
                places = {"klsa": klsa.KIND, "mslm": mslm.KIND, "fusion": fusion.KIND, "vectors": vectors.KIND}
                known = places.get(folder.name) or places.get(folder.parent.name)
                return known or (similar_queries.KIND if folder.name.startswith("similar-queries-") else "")
    return ""


def _repair(finding: Finding, folder: Path, shards: Shards, progress: Progress) -> Finding:
    kind_name = _kind_of(folder)
    if not KINDS[kind_name].derived if kind_name in KINDS else True:
        return finding
    if kind_name == forward.KIND:
        export_fields(shards.folders, [folder.name], None, progress=progress)
    else:
        shutil.rmtree(folder)
    return Finding(finding.part, finding.problem, repaired=True)


def _check_database(path: Path) -> Finding:
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            found = "; ".join(str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)"))
        finally:
            connection.close()
    except sqlite3.Error as problem:
        found = str(problem)
    advice = "restore it from a copy, or import the log again with python -m kernelsearch.clicks import"
    return Finding(str(path)) if found == "ok" else Finding(str(path), " ".join(found.split())[:200], advice)


def _without_advice(message: str) -> str:
    """A message without its ending, which names no command."""
    return message.rsplit("; build ", 1)[0].rstrip("; ")
