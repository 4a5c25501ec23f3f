"""Building an index: documents are staged as JSONL, Anserini indexes them, and the forward index is exported.

Everything is built aside and gets its name at the end, so that a failure leaves an older index as it was.
"""

from __future__ import annotations

import json
import os
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.api.export import EXPORT_BLOCK, export, export_by_shards
from kernelsearch.core.errors import InputError, KernelSearchError, OptionError
from kernelsearch.core.execution import Engine, LocalEngine
from kernelsearch.core.files import write_folder
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.options import Settings, option
from kernelsearch.core.progress import Progress, silent
from kernelsearch.forward.strings import hashes
from kernelsearch.lucene.build import build_index as run_anserini
from kernelsearch.lucene.index import CONTENTS, LuceneIndex
from kernelsearch.lucene.shards import ADDED_FOLDER, Source, find_shards, is_index, write_record

#: Reads the collection from its beginning: (where a document was found, the document).
Reader = Callable[[], Iterator[tuple[str, dict[str, Any]]]]

#: The staging file of a collection that is going to be split.
WHOLE = "000.jsonl"
#: Documents after which the next staging file takes over, so that all indexing threads have work.
STRIDE = 1000
#: Up to this many documents are indexed by one thread, so that the index is the same every time.
SMALL = 50_000


@dataclass(frozen=True, kw_only=True)
class BuildSettings(Settings):
    """How an index is built."""

    shards: int | None = option(
        None, "split the collection into this many indexes, in order, in that folder; they count as one", low=1
    )
    fields: tuple[str, ...] | None = option(
        None, "further fields to index, such as title,url; default: title where documents have one"
    )
    language: str = option(
        "en", "language of the analyser, such as en, pt or zh; whitespace for text that is tokenised already"
    )
    threads: int = option(0, "indexing threads; 0: one for up to 50,000 documents (the same index every time), else all", low=0)
    positions: bool = option(True, "store token positions")
    docvectors: bool = option(True, "store document vectors (Anserini's own RM3 and Rocchio need them)")
    contents: bool = option(True, "store the text")
    raw: bool = option(True, "store the whole record, with all its fields")
    optimize: bool = option(True, "merge into one segment")
    forward: bool = option(True, "make the forward index too")
    memory_limit: str | None = option(
        None, "bound the memory of building, such as 4G; what doesn't fit is done in smaller parts"
    )
    force: bool = option(False, "replace an index that exists")


@dataclass(frozen=True)
class Built:
    """What came of a build: documents in the index, documents left out because they have no text, further fields, shards."""

    documents: int
    empty: int
    fields: tuple[str, ...]
    shards: int | None = None

    def __str__(self) -> str:
        said = f"{self.documents} documents" + (f" in {self.shards} shards" if self.shards else "")
        said += f", fields {', '.join(self.fields)}" if self.fields else ""
        return said + (f"; {self.empty} without text left out" if self.empty else "")


def build_index(
    index: Path,
    read: Reader,
    settings: BuildSettings,
    *,
    source: str = "documents",
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Built:
    """Builds an index of the documents that `read` gives; `source` names them in messages."""
    engine = engine or LocalEngine()
    if engine.name != "local" and not settings.shards:
        raise OptionError("--engine: what others can build are shards; --shards says how many")
    if index.exists() and not settings.force:
        raise InputError(f"{index}: exists already; --force replaces it")
    if index.exists() and not index.is_dir():
        raise InputError(f"{index}: is a file, a folder was expected")
    if index.exists() and any(index.iterdir()) and not is_index(index):
        raise InputError(f"{index}: holds something that isn't an index; --force replaces indexes only")
    with (
        write_folder(index, replace=True) as folder,
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=".staged.") as stage,
    ):
        try:
            return _Build(read, settings, source, engine, progress, folder, Path(stage)).run()
        except KernelSearchError as problem:
            # People know the index by the name that they gave it, not by that of the folder it grows in.
            raise type(problem)(str(problem).replace(str(folder), str(index))) from None


@dataclass(frozen=True)
class _Shard:
    """A shard that is going to be built: its documents, where it grows, and its later name. Small enough to be sent."""

    documents: Path
    built: Path
    name: Path
    count: int
    threads: int


@dataclass
class _Staged:
    count: int = 0
    titles: bool = False
    threads: int = 1


@dataclass(frozen=True)
class _Build:
    """One build: from documents to `folder`, with staging files in `stage`."""

    read: Reader
    settings: BuildSettings
    source: str
    engine: Engine
    progress: Progress
    folder: Path
    stage: Path

    def run(self) -> Built:
        """Stages, indexes and exports."""
        settings = self.settings
        limit = MemoryLimit.parse(settings.memory_limit)
        staged = self.stage_documents()
        fields = settings.fields if settings.fields is not None else (("title",) if staged.titles else ())
        if settings.shards:
            indexed, empty = self.build_shards(fields, staged, settings.shards)
        else:
            indexed, empty = _index(settings, fields, self.folder, self.stage, staged.count, staged.threads, self.progress)
        if settings.forward:
            export_fields(
                self.folder, (CONTENTS, *fields), limit, engine=self.engine, place=self.folder / ADDED_FOLDER / "forward",
                progress=self.progress,
            )  # fmt: skip
        return Built(indexed, empty, fields, settings.shards)

    def stage_documents(self) -> _Staged:
        """Checks every document and writes it in the form that Anserini reads; for shards, all into one file."""
        settings, staged, keys = self.settings, _Staged(), array("Q")
        threads = 1 if settings.shards else settings.threads or os.cpu_count() or 1
        with ExitStack() as stack:
            names = [self.stage / f"{number:03d}.jsonl" for number in range(threads)]
            files = [stack.enter_context(open(name, "w", encoding="utf-8")) for name in names]
            bar = stack.enter_context(self.progress("reading", unit="doc"))
            for place, document in self.read():
                for name in settings.fields or ():
                    value = document.get(name)
                    if value is not None and not isinstance(value, str):
                        document[name] = " ".join(map(str, value)) if isinstance(value, list) else str(value)
                # The documents of a small collection go into one file, for its one thread.
                spread = threads if staged.count >= SMALL or settings.threads else 1
                stream = files[staged.count // STRIDE % spread]
                try:
                    stream.write(json.dumps(document, ensure_ascii=False) + "\n")
                except UnicodeEncodeError:
                    raise InputError(f"{place}: text with a lone surrogate, which is not valid Unicode") from None
                keys.append(int(hashes([document["id"].encode("utf-8")])[0]))
                staged.count += 1
                staged.titles = staged.titles or bool(document.get("title"))
                bar.update()
        staged.threads = _threads(settings, staged.count)
        self.refuse_duplicates(keys)
        for file in self.stage.glob("*.jsonl"):
            if not file.stat().st_size:
                file.unlink()
        return staged

    def refuse_duplicates(self, keys: array[int]) -> None:
        """Names the first docid that appears twice. Reading keeps only hashes; where two are equal, documents are reread."""
        values, counts = np.unique(np.frombuffer(keys, dtype=np.uint64), return_counts=True)
        suspects = set(values[counts > 1].tolist())
        if not suspects:
            return
        seen: dict[str, str] = {}
        for place, document in self.read():
            docid = document["id"]
            if int(hashes([docid.encode("utf-8")])[0]) in suspects:
                if docid in seen:
                    raise InputError(f"{place}: document id {docid!r} appears twice (first at {seen[docid]})")
                seen[docid] = place

    def build_shards(self, fields: tuple[str, ...], staged: _Staged, shards: int) -> tuple[int, int]:
        """One index per shard, each of consecutive documents; sizes differ by one at most."""
        if staged.count < shards:
            raise InputError(f"--shards: {shards}, but {self.source} has {staged.count} documents only")
        local = self.engine.name == "local"
        # A worker of a cluster has one core per task.
        threads = _threads(self.settings, staged.count // shards) if local else self.settings.threads or 1
        work = list(_split(staged.count, shards, threads, self.folder, self.stage.absolute()))
        done = []
        with self.progress("shards", total=shards, unit="shard") as bar:
            build = partial(_build_shard, self.settings, fields)
            for shard, counted in zip(work, self.engine.map(build, work, label="index"), strict=True):
                os.replace(shard.built, shard.name)
                done.append(counted)
                bar.update()
        write_record(self.folder, [shard.name.name for shard in work])
        return sum(indexed for indexed, _ in done), sum(empty for _, empty in done)


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


def _split(count: int, shards: int, threads: int, folder: Path, stage: Path) -> Iterator[_Shard]:
    """Cuts the staged documents into those of each shard, in as many files as there are threads."""
    with open(stage / WHOLE, encoding="utf-8", newline="\n") as lines:
        for number in range(shards):
            name = f"shard-{number:0{len(str(shards - 1))}d}"
            size = count * (number + 1) // shards - count * number // shards
            shard = _Shard(stage / name, stage / "built" / name, folder / name, size, threads)
            shard.documents.mkdir()
            with ExitStack() as stack:
                places = [shard.documents / f"{n:03d}.jsonl" for n in range(threads)]
                files = [stack.enter_context(open(place, "w", encoding="utf-8")) for place in places]
                for place, line in enumerate(islice(lines, size)):
                    files[place // STRIDE % threads].write(line)
            yield shard
    (stage / WHOLE).unlink()


def _build_shard(settings: BuildSettings, fields: tuple[str, ...], shard: _Shard) -> tuple[int, int]:
    """Indexes one shard, in any process: an attempt whose process dies leaves nothing under the shard's name."""
    with write_folder(shard.built, replace=True) as attempt:
        try:
            return _index(settings, fields, attempt, shard.documents, shard.count, shard.threads)
        except KernelSearchError as problem:
            raise type(problem)(str(problem).replace(str(attempt), str(shard.name))) from None


def _threads(settings: BuildSettings, count: int) -> int:
    """A small collection is indexed by one thread, unless more are asked for: then the index is the same every time."""
    return (settings.threads or os.cpu_count() or 1) if count > SMALL or settings.threads else 1


def export_fields(
    index: Source,
    fields: Sequence[str],
    limit: MemoryLimit | None,
    *,
    engine: Engine | None = None,
    place: Path | None = None,
    progress: Progress = silent,
) -> None:
    """Writes the forward indexes of fields into `place`, by default where an opened index looks for them."""
    engine = engine or LocalEngine()
    if engine.name != "local" and len(find_shards(index).paths) == 1:
        raise OptionError(f"--engine: {index} is one index, and exported in one piece; others can take shards only")
    heap = limit.java_heap if limit else None
    lucene = LuceneIndex(index, java_heap=heap)
    block = EXPORT_BLOCK if limit is None else limit.export_block
    try:
        for field in fields:
            path = place / field if place else None
            if len(lucene.shards.paths) > 1:
                each = partial(engine.map, label="export")
                export_by_shards(lucene, field, each=each, path=path, block_bytes=block, heap=heap, progress=progress)
            else:
                export(lucene, field, path=path, block_bytes=block, progress=progress)
    finally:
        lucene.close()
