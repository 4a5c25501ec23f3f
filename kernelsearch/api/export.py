"""Copying a Lucene field into a forward index, in one piece or shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np

from kernelsearch.core.errors import IndexProblem
from kernelsearch.core.postings import PostingsSource
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.replacing import temporary_folder
from kernelsearch.forward import ForwardIndex, MergedSource, Statistics, write_forward
from kernelsearch.lucene import jvm
from kernelsearch.lucene.index import CONTENTS, FieldStatistics, LuceneIndex
from kernelsearch.lucene.postings import AT_ONCE, LucenePostings

#: Bytes of a block of rows, unless a memory limit asks for less.
EXPORT_BLOCK = 1 << 28


@jvm.calls_java
def export(
    lucene: LuceneIndex,
    field: str = CONTENTS,
    *,
    path: Path | None = None,
    block_bytes: int = EXPORT_BLOCK,
    progress: Progress = silent,
) -> Path:
    """Writes the forward index of one field of `lucene` and returns its folder. Positions are copied where they are stored.

    `path` is the folder, by default beside the index; a block of rows takes about `block_bytes` of memory; `progress` gets the
    progress.
    """
    statistics = _required(lucene, field)
    source = LucenePostings(lucene.reader, field, at_once=min(block_bytes, AT_ONCE), positions=statistics.positions)
    return _write(lucene, field, statistics, source, path, block_bytes, progress)


def export_by_shards(
    lucene: LuceneIndex,
    field: str = CONTENTS,
    *,
    mapper: Callable[..., Iterable[Path]] = map,
    path: Path | None = None,
    block_bytes: int = EXPORT_BLOCK,
    heap: str | None = None,
    progress: Progress = silent,
) -> Path:
    """As `export`, to the byte, but shard by shard: each is copied by itself, and the copies are merged here.

    `mapper(function, shards)` calls the function for each shard, as `map` does, possibly on workers of a cluster; `heap` is the
    maximal size of Java's heap there. The other parameters are those of `export`.
    """
    statistics = _required(lucene, field)
    path = path or _place(lucene, field)
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path) as scratch:
        copies = [scratch.absolute() / str(number) for number in range(len(lucene.shards.paths))]
        work = [(shard.absolute(), copy) for shard, copy in zip(lucene.shards.paths, copies, strict=True)]
        with progress(f"shards' forward indexes of {field}", total=len(work), unit="shard") as bar:
            for _ in mapper(partial(_copy_shard, field, lucene.language, block_bytes, heap), work):
                bar.update()
        merged = MergedSource([ForwardIndex(copy) for copy in copies])
        return _write(lucene, field, statistics, merged, path, block_bytes, progress)


def _copy_shard(field: str, language: str, block_bytes: int, heap: str | None, work: tuple[Path, Path]) -> None:
    """Writes the forward index of a shard into a folder of its own; the shard may lack the field."""
    shard, copy = work
    lucene = LuceneIndex(shard, language=language, java_heap=heap)
    try:
        statistics = lucene.field_statistics(field)
        source = LucenePostings(lucene.reader, field, at_once=min(block_bytes, AT_ONCE), positions=statistics.positions)
        _write(lucene, field, statistics, source, copy, block_bytes, silent)
    finally:
        lucene.close()


def _required(lucene: LuceneIndex, field: str) -> FieldStatistics:
    statistics = lucene.field_statistics(field)
    if not statistics.documents and field != CONTENTS:
        raise IndexProblem(f"no document has a field {field!r}", path=lucene.name)
    return statistics


def _place(lucene: LuceneIndex, field: str) -> Path:
    return lucene.shards.artefacts / "forward" / field


@jvm.calls_java
def _write(
    lucene: LuceneIndex,
    field: str,
    statistics: FieldStatistics,
    source: PostingsSource,
    path: Path | None,
    block_bytes: int,
    progress: Progress,
) -> Path:
    path = path or _place(lucene, field)
    with progress(f"forward index of {field}", total=lucene.rows(), unit="doc") as bar:
        write_forward(
            path,
            source,
            field=field,
            positions=statistics.positions,
            fingerprint=lucene.fingerprint,
            block_bytes=block_bytes,
            statistics=Statistics(statistics.documents, statistics.tokens, statistics.postings),
            progress=bar.update,
            on_duplicate=(lambda docid, first, second: _refuse_twice(lucene, docid, first, second))
            if lucene.shards.sharded
            else None,
        )
    return path


def _refuse_twice(lucene: LuceneIndex, docid: str, row: int, other: int) -> None:
    first, second = (
        lucene.shards.paths[int(np.searchsorted(lucene.starts, number, side="right")) - 1] for number in sorted((row, other))
    )
    where = f"twice in {first}" if first == second else f"in {first} and in {second}"
    raise IndexProblem(f"document {docid!r} is {where}; shards of a collection share no document", path=lucene.name)
