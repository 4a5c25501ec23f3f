"""Adding and deleting documents: an index is written anew without the deleted and with the added ones.

The new state is made in a temporary folder and exchanged with the old one at the end: a search sees the old state or the new
one, and a failure leaves the old one unchanged.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.api.build import export_fields, refuse_empty
from kernelsearch.api.carrying import carrying_clicks
from kernelsearch.api.following import follow, follow_elsewhere
from kernelsearch.api.index import Index
from kernelsearch.api.staging import Reader, indexing_threads, stage_documents
from kernelsearch.core.errors import BusyError, IndexProblem, InputError, KernelSearchError, OptionError
from kernelsearch.core.files import copy_tree, not_writable, write_folder
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.replacing import lock_folder, replace_folder, temporary_folder
from kernelsearch.lucene.build import build_index as run_anserini
from kernelsearch.lucene.index import CONTENTS, LuceneIndex
from kernelsearch.lucene.rewrite import rewrite_index, storage_of
from kernelsearch.lucene.shards import (
    ADDED_FOLDER,
    RECORD,
    Shards,
    find_shards,
    index_record,
    note_written,
    write_index_record,
    write_record,
)

logger = logging.getLogger(__name__)

#: Unknown docids that a message names.
NAMED = 10


@dataclass(frozen=True)
class Updated:
    """The result of a change of documents.

    `documents` are in the index now; `added` ones are new, `replaced` ones had a document of the same id before, `deleted` ones
    are gone; `empty` documents were left out because they have no text; `unknown` are ids to delete that the index didn't have.
    """

    documents: int
    added: int = 0
    replaced: int = 0
    deleted: int = 0
    empty: int = 0
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        line = f"{self.documents} documents; {self.added} added, {self.replaced} replaced, {self.deleted} deleted"
        line += f"; {self.empty} without text left out" if self.empty else ""
        if self.unknown:
            rest = len(self.unknown) - NAMED
            names = ", ".join(docid[:100] for docid in self.unknown[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
            line += f"; {len(self.unknown)} to delete were not in the index: {names}"
        return line


def update_index(
    index: Path,
    read: Reader | None = None,
    delete: Sequence[str] = (),
    *,
    source: str = "documents",
    deleting: str = "delete",
    threads: int = 0,
    memory_limit: str | None = None,
    artefacts: Path | None = None,
    progress: Progress = silent,
) -> Updated:
    """Adds documents to an index, replaces those of the same id, and deletes others, in one step.

    Parameters
    ----------
    index : the folder of the index, or of its shards; new documents go to the last shard
    read : reads the documents to add; it may be called twice
    delete : ids of documents to delete; one that is added as well is replaced
    source, deleting : the names of the documents and of the ids in messages
    threads : indexing threads, as in a build
    memory_limit : memory limit, as in a build
    artefacts : a folder of artefacts besides the index's own; those of this index in it are brought up to date as well
    progress : gets the progress of the steps

    The analyser, the fields and what is stored are those of the index. Raises InputError for invalid documents, where no id
    is in the index and where no document would remain; IndexProblem where another command changes the index, and where
    documents are added to an index of another program, whose analyser is not known.
    """
    index = index.resolve() if index.is_symlink() else index
    shards = find_shards(index)
    if shards.sharded and not (index / RECORD).is_file():
        raise OptionError("a folder of indexes; name the one to change", path=index)
    before = shards.fingerprint  # now: it is computed at its first use
    with (
        _alone(index),
        _exchanging(artefacts) as elsewhere,
        write_folder(index, replace=True, last=carrying_clicks(index)) as folder,
    ):
        stage = folder.with_name(f"{folder.name}.staged")
        stage.mkdir()
        update = _Update(index, shards, read, tuple(dict.fromkeys(delete)), folder, stage, progress, artefacts, elsewhere)
        try:
            updated = update.run(source, deleting, threads, MemoryLimit.parse(memory_limit))
        except KernelSearchError as problem:
            problem.relocate(folder, index)  # messages name the index that the user asked for, not the temporary folder
            raise
        if find_shards(index).fingerprint != before:
            raise IndexProblem("another command has changed the index meanwhile; nothing was done, try again", path=index)
    return updated


@contextmanager
def _alone(index: Path) -> Iterator[None]:
    """Holds a lock on the index's folder, so that of two changes at a time none is lost. Searches don't need it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_folder(index, 0))
        except BusyError:
            raise IndexProblem("another command is changing the index; try again when it is done", path=index) from None
        yield


@contextmanager
def _exchanging(artefacts: Path | None) -> Iterator[Path | None]:
    """Yields a temporary folder for new states of what is in the folder `artefacts`; they replace the old ones at the end.

    Everything else in `artefacts` stays. Yields None where there is no such folder. By the time of the replacement the index
    has been changed, so that a failure is logged and not raised: the old state of an artefact is refused when it is loaded.
    """
    if artefacts is None or not artefacts.is_dir():
        yield None
        return
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder(artefacts / "successors"))
        except OSError as problem:
            raise not_writable(artefacts, problem) from None
        yield folder
        for successor in sorted(meta.parent for meta in folder.rglob("meta.json")):
            place = artefacts / successor.relative_to(folder)
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                with temporary_folder(place) as outer:
                    new = outer / place.name
                    os.replace(successor, new)
                    replace_folder(new, place)
            except OSError as problem:
                logger.warning("%s", not_writable(place, problem))


@dataclass(frozen=True)
class _Update:
    """One change of the index in `index` into `folder`, with staging files in `stage`.

    `artefacts` is a folder of artefacts besides the index's own, None for none; `elsewhere` is the folder for their successors.
    """

    index: Path
    shards: Shards
    read: Reader | None
    delete: tuple[str, ...]
    folder: Path
    stage: Path
    progress: Progress
    artefacts: Path | None = None
    elsewhere: Path | None = None

    def run(self, source: str, deleting: str, threads: int, limit: MemoryLimit | None) -> Updated:
        """Indexes what is added, rewrites the index, exports the forward index and brings what was derived up to date."""
        old = Index(self.index)
        added, added_docids = self.index_added(source, threads, limit) if self.read else (None, {})
        deleted = [docid for docid in self.delete if docid not in added_docids]
        documents, counts = self.rewrite([*added_docids, *deleted], added)
        unknown = tuple(docid for docid in deleted if not counts[docid])
        if not added_docids and len(unknown) == len(deleted):
            names = ", ".join(docid[:100] for docid in unknown[:NAMED])
            raise InputError(f"none of {len(unknown)} documents is in {self.index}, such as {names}", path=deleting)
        if not documents:
            raise InputError(f"no document would remain in {self.index}; remove the folder instead", path=deleting)
        self.keep_other_files()
        new = Index(self.folder)
        self.export(old, new, limit)
        follow(old, new, name=self.index, added=added_docids, progress=self.progress)
        new.lucene.close()
        if self.elsewhere is not None:
            old, new = Index(self.index, artefacts=self.artefacts), Index(self.folder, artefacts=self.elsewhere)
            follow_elsewhere(old, new, name=self.index, added=added_docids, progress=self.progress)
            new.lucene.close()
        indexed, empty = ([docid for docid, text in added_docids.items() if text is wanted] for wanted in (True, False))
        replaced = sum(counts[docid] > 0 for docid in indexed)
        removed = sum(counts[docid] for docid in (*deleted, *empty))
        return Updated(documents, len(indexed) - replaced, replaced, removed, len(empty), unknown)

    def index_added(self, source: str, threads: int, limit: MemoryLimit | None) -> tuple[Path, dict[str, bool]]:
        """Indexes the documents to add; returns the index, and whether each document has text, by docid."""
        last = self.shards.paths[-1]
        record = index_record(last)
        if record is None:
            raise IndexProblem(
                "not built by kernelsearch.index, so how its documents were analysed is not known; build an "
                "index from all documents",
                path=last,
            )
        ids: list[str] = []

        def reading() -> Iterator[tuple[str, dict[str, object]]]:
            assert self.read is not None
            ids.clear()
            for place, document in self.read():
                ids.append(str(document["id"]))
                yield place, document

        documents, built = self.stage / "documents", self.stage / "added"
        documents.mkdir()
        staged = stage_documents(reading, documents, fields=record.fields, threads=threads, whole=False, progress=self.progress)
        if not staged.count:
            raise InputError("no documents", path=source)
        with closing(LuceneIndex(last)) as lucene:
            storage = storage_of(lucene)
        try:
            indexed, _ = run_anserini(
                documents,
                built,
                total=staged.count,
                fields=record.fields,
                language=record.language,
                threads=indexing_threads(threads, staged.count),
                positions=storage.positions,
                vectors=storage.vectors,
                contents=storage.contents,
                raw=storage.raw,
                java_heap=limit.java_heap if limit else None,
                progress=self.progress,
            )
        except KernelSearchError as problem:
            problem.relocate(built, source)
            raise
        refuse_empty(source, staged.count, indexed)
        with closing(LuceneIndex(built)) as lucene:
            with_text = frozenset(lucene.docids())
        return built, {docid: docid in with_text for docid in ids}

    def rewrite(self, without: list[str], added: Path | None) -> tuple[int, dict[str, int]]:
        """Writes the new Lucene indexes; returns the number of their documents, and of those with each id before."""
        counts = dict.fromkeys(without, 0)
        documents, names = 0, []
        paths = self.shards.paths
        with self.progress("rewriting", total=len(paths), unit="index") as bar:
            for path in paths:
                into = self.folder / path.name if self.shards.sharded else self.folder
                into.mkdir(exist_ok=True)
                removed = rewrite_index(path, into, without=without, added=added if path == paths[-1] else None)
                for docid, count in zip(without, removed.tolist(), strict=True):
                    counts[docid] += count
                with closing(LuceneIndex(into)) as lucene:
                    size = lucene.documents()
                documents += size
                bar.update()
                if not size and self.shards.sharded:
                    shutil.rmtree(into)
                    continue
                names.append(into.name)
                if (record := index_record(path)) is not None:
                    write_index_record(into, record.language, record.fields)
                    note_written(into)
        if self.shards.sharded and names:
            write_record(self.folder, names)
        return documents, counts

    def keep_other_files(self) -> None:
        """Copies what is in the index's folder besides the index, such as a README."""
        shards = {path.name for path in self.shards.paths} if self.shards.sharded else set()
        for entry in self.index.iterdir():
            ours = entry.name in {ADDED_FOLDER, RECORD, *shards} or re.fullmatch(r"_.*|segments.*|write\.lock", entry.name)
            if not ours and not entry.name.startswith("."):
                (copy_tree if entry.is_dir() else shutil.copy2)(entry, self.folder / entry.name)

    def export(self, old: Index, new: Index, limit: MemoryLimit | None) -> None:
        """Writes the forward indexes of the fields that had one and still exist."""
        place = old.shards.artefacts / "forward"
        fields = (
            [folder.name for folder in sorted(place.iterdir()) if (folder / "meta.json").is_file()] if place.is_dir() else []
        )
        if fields:
            place = new.shards.artefacts / "forward"
            main = [field for field in fields if field == CONTENTS]
            export_fields(self.folder, main, limit, where_present=fields, place=place, progress=self.progress)
