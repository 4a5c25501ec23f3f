"""Building an index: documents are staged as JSONL, Anserini indexes them, and the forward index is exported.

The index is built in a temporary folder and renamed at the end, so that a failure leaves an existing index unchanged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelsearch.api.carrying import carry_over, carrying_clicks
from kernelsearch.api.export import EXPORT_BLOCK, export, export_by_shards
from kernelsearch.api.staging import Reader, Staged, indexing_threads, split_staged, stage_documents
from kernelsearch.core.errors import Flag, InputError, KernelSearchError, OptionError
from kernelsearch.core.execution import Engine, LocalEngine
from kernelsearch.core.files import write_folder
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.options import Settings, option
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.replacing import remove_leftovers
from kernelsearch.forward import check_field
from kernelsearch.lucene import jvm
from kernelsearch.lucene.build import build_index as run_anserini
from kernelsearch.lucene.index import CONTENTS, LuceneIndex
from kernelsearch.lucene.shards import ADDED_FOLDER, Source, find_shards, is_index, write_record
from kernelsearch.trec import languages

logger = logging.getLogger(__name__)

#: Names of stored fields in the message about a finished build.
MAX_NAMES = 8


@dataclass(frozen=True, kw_only=True)
class BuildSettings(Settings):
    """The options of an index build."""

    shards: int | None = option(
        None, "split the collection into this many indexes of consecutive documents, which are searched as one", low=1
    )
    fields: tuple[str, ...] | None = option(
        None, "additional fields to index, such as title,url; default: title where documents have one"
    )
    language: str = option("en", "language of the analyser, such as en, pt or zh; whitespace for tokenised text")
    threads: int = option(
        0, "indexing threads; 0 uses one for up to 50,000 documents (a reproducible index), otherwise all cores", low=0
    )
    positions: bool = option(True, "store token positions")
    docvectors: bool = option(True, "store document vectors (Anserini's own RM3 and Rocchio need them)")
    contents: bool = option(True, "store the text")
    raw: bool = option(True, "store the whole record, with all its fields")
    optimize: bool = option(True, "merge into one segment")
    forward: bool = option(True, "build the forward index")
    memory_limit: str | None = option(None, "memory limit of the build, such as 4G; larger work is split into parts")
    force: bool = option(False, "replace an index that exists")


@dataclass(frozen=True)
class Built:
    """The result of a build.

    `documents` are in the index, `empty` documents were left out because they have no text, `fields` are the additional
    fields, `shards` is the number of shards (None for an index in one piece). `titles_apart` documents have a title that is not
    in the contents; `stored` are fields that are stored but not indexed.
    """

    documents: int
    empty: int
    fields: tuple[str, ...]
    shards: int | None = None
    titles_apart: int = 0
    stored: tuple[str, ...] = ()

    def __str__(self) -> str:
        line = f"{self.documents} document{'s' if self.documents != 1 else ''}" + (
            f" in {self.shards} shards" if self.shards else ""
        )
        line += "; queries search contents"
        if "title" in self.fields:
            line += f", without the titles of {self.titles_apart}" if self.titles_apart else " with titles"
        line += f"; further fields: {', '.join(self.fields)}" if self.fields else ""
        if self.stored:
            rest = len(self.stored) - MAX_NAMES
            line += f"; stored only: {', '.join(self.stored[:MAX_NAMES])}" + (f" and {rest} more" if rest > 0 else "")
            line += "" if "title" in self.fields else " (columns title=NAME makes one of them the title)"
        return line + (f"; {self.empty} without text left out" if self.empty else "")


def build_index(
    index: Path,
    read: Reader,
    settings: BuildSettings,
    *,
    source: str = "documents",
    engine: Engine | None = None,
    progress: Progress = silent,
    only_build: bool = False,
) -> Built:
    """Builds an index.

    Parameters
    ----------
    index : the folder of the new index
    read : reads the documents; it may be called twice
    settings : the options of the build
    source : the name of the documents in messages
    engine : where shards are built; default: this process
    progress : gets the progress of the steps
    only_build : the process ends afterwards, so that Java, if it isn't running yet, compiles for this build alone

    Raises InputError for invalid documents and where `index` exists and may not be replaced.
    """
    engine = engine or LocalEngine()
    if engine.name != "local" and not settings.shards:
        raise OptionError("a cluster builds shards; set their number with ", Flag("shards"), option=Flag("engine"))
    for field in settings.fields or ():
        check_field(field)
    remove_leftovers(index)
    if index.exists() and not settings.force:
        raise InputError("exists already; ", Flag("force", value=True), " replaces it", path=index)
    if index.exists() and not index.is_dir():
        raise InputError("is a file, a folder was expected", path=index)
    if index.exists() and any(index.iterdir()) and not is_index(index):
        raise InputError(
            "contains something that is not an index; ", Flag("force", value=True), " replaces indexes only", path=index
        )
    with write_folder(index, replace=True, last=carrying_clicks(index)) as folder:
        stage = folder.with_name(f"{folder.name}.staged")
        stage.mkdir()
        try:
            built = _Build(read, settings, source, engine, progress, folder, stage, only_build).run()
            carry_over(index, folder)
            return built
        except KernelSearchError as problem:
            problem.relocate(folder, index)  # messages name the index that the user asked for, not the temporary folder
            raise


@dataclass(frozen=True)
class _Shard:
    """A shard to build: the folder of its documents, its temporary and its final folder, its size, and its threads."""

    documents: Path
    built: Path
    name: Path
    count: int
    threads: int


@dataclass(frozen=True)
class _Build:
    """One build into `folder`, with staging files in `stage`."""

    read: Reader
    settings: BuildSettings
    source: str
    engine: Engine
    progress: Progress
    folder: Path
    stage: Path
    only_build: bool

    def run(self) -> Built:
        """Stages, indexes and exports."""
        settings = self.settings
        limit = MemoryLimit.parse(settings.memory_limit)
        if limit and self.only_build and not jvm.running():  # the reader of TREC text starts Java
            jvm.configure(heap=limit.java_heap)
        staged = stage_documents(
            self.read, self.stage, fields=settings.fields or (), threads=settings.threads, whole=bool(settings.shards),
            progress=self.progress,
        )  # fmt: skip
        if not staged.count:
            raise InputError("no documents in it", path=self.source)
        if settings.language == BuildSettings().language and staged.language not in (None, settings.language):
            logger.warning(
                "%s: the texts seem to be %s, but are analysed as %s; %s analyses them properly",
                self.source,
                *(languages.NAMES[code] for code in (staged.language, settings.language)),
                Flag("language", value=staged.language),
            )
        if self.only_build:
            jvm.expect_build(sum(file.stat().st_size for file in self.stage.iterdir()))
        fields = settings.fields if settings.fields is not None else (("title",) if staged.titles else ())
        shards = None
        if settings.shards:
            indexed, empty, shards = self.build_shards(fields, staged, settings.shards)
        else:
            threads = indexing_threads(settings.threads, staged.count)
            indexed, empty = _index(settings, fields, self.folder, self.stage, staged.count, threads, self.progress)
            refuse_empty(self.folder, staged.count, indexed)
        if settings.forward:
            # Titles may all be stop words or signs, which make no field; a field that the options name has to exist.
            required = fields if settings.fields is not None else ()
            export_fields(
                self.folder, (CONTENTS, *required), limit, where_present=fields, engine=self.engine,
                place=self.folder / ADDED_FOLDER / "forward", progress=self.progress,
            )  # fmt: skip
        stored = tuple(name for name in staged.stored if name not in fields) if settings.raw else ()
        return Built(indexed, empty, fields, shards, staged.titles_apart, stored)

    def build_shards(self, fields: tuple[str, ...], staged: Staged, shards: int) -> tuple[int, int, int]:
        """Builds one index per shard, of consecutive documents; sizes differ by at most one.

        Returns the number of documents that were indexed, of those without text, and of shards: one whose documents have no
        text is left out.
        """
        if staged.count < shards:
            raise InputError(f"{shards}, but {self.source} has only {staged.count} documents", option=Flag("shards"))
        local = self.engine.name == "local"
        # A worker of a cluster has one core per task.
        threads = indexing_threads(self.settings.threads, staged.count // shards) if local else self.settings.threads or 1
        work = _plan_shards(staged.count, shards, threads, self.folder, self.stage.absolute())
        counts, names = [], []
        with self.progress("shards", total=shards, unit="shard") as bar:
            build = partial(_build_shard, self.settings, fields)
            for shard, shard_counts in zip(work, self.engine.map(build, work, label="index"), strict=True):
                if shard_counts[0]:
                    os.replace(shard.built, shard.name)
                    names.append(shard.name.name)
                counts.append(shard_counts)
                bar.update()
        indexed, empty = (sum(column) for column in zip(*counts, strict=True))
        refuse_empty(self.folder, staged.count, indexed)
        write_record(self.folder, names)
        return indexed, empty, len(names)


def refuse_empty(name: str | Path, documents: int, indexed: int) -> None:
    """Raises InputError where none of the `documents`, a number, was `indexed`; `name` begins the message."""
    if not indexed:
        raise InputError(f"none of the {documents} documents has text that can be indexed", path=name)


def _index(
    settings: BuildSettings,
    fields: Sequence[str],
    folder: Path,
    stage: Path,
    count: int,
    threads: int,
    progress: Progress = silent,
) -> tuple[int, int]:
    """Indexes staged documents; returns how many were indexed and how many had no text."""
    limit = MemoryLimit.parse(settings.memory_limit)
    return run_anserini(
        stage,
        folder,
        total=count,
        fields=fields,
        language=settings.language,
        threads=threads,
        positions=settings.positions,
        vectors=settings.docvectors,
        contents=settings.contents,
        raw=settings.raw,
        optimize=settings.optimize,
        java_heap=limit.java_heap if limit else None,
        progress=progress,
    )


def _plan_shards(count: int, shards: int, threads: int, folder: Path, stage: Path) -> list[_Shard]:
    """Splits the staged documents into those of each shard."""
    plan = []
    for number in range(shards):
        name = f"shard-{number:0{len(str(shards - 1))}d}"
        size = count * (number + 1) // shards - count * number // shards
        plan.append(_Shard(stage / name, stage / "built" / name, folder / name, size, threads))
    split_staged(stage, [shard.count for shard in plan], threads, [shard.documents for shard in plan])
    return plan


def _build_shard(settings: BuildSettings, fields: tuple[str, ...], shard: _Shard) -> tuple[int, int]:
    """Indexes one shard, in any process; a process that dies leaves nothing in the shard's folder."""
    with write_folder(shard.built, replace=True) as attempt:
        try:
            return _index(settings, fields, attempt, shard.documents, shard.count, shard.threads)
        except KernelSearchError as problem:
            problem.relocate(attempt, shard.name)
            raise


def export_fields(
    index: Source,
    fields: Sequence[str],
    limit: MemoryLimit | None,
    *,
    where_present: Sequence[str] = (),
    engine: Engine | None = None,
    place: Path | None = None,
    progress: Progress = silent,
) -> None:
    """Writes the forward indexes of fields. Raises IndexProblem for a field that no document has.

    Parameters
    ----------
    index : the Lucene index
    fields : the fields to copy
    limit : the memory limit, None for none
    where_present : further fields, which are copied if a document has them
    engine : where the shards are copied; default: this process
    place : the folder of the forward indexes; default: where an opened index looks for them
    progress : gets the progress of the steps
    """
    for field in fields:
        check_field(field)
    engine = engine or LocalEngine()
    if engine.name != "local" and len(find_shards(index).paths) == 1:
        raise OptionError(
            f"{index} is one index, which is exported in one piece; a cluster can export shards only", option=Flag("engine")
        )
    heap = limit.java_heap if limit else None
    lucene = LuceneIndex(index, java_heap=heap)
    block = EXPORT_BLOCK if limit is None else limit.export_block
    try:
        further = (field for field in where_present if lucene.field_statistics(field).documents)
        for field in dict.fromkeys((*fields, *further)):
            path = place / field if place else None
            if len(lucene.shards.paths) > 1:
                mapper = partial(engine.map, label="export")
                export_by_shards(lucene, field, mapper=mapper, path=path, block_bytes=block, heap=heap, progress=progress)
            else:
                export(lucene, field, path=path, block_bytes=block, progress=progress)
    finally:
        lucene.close()
