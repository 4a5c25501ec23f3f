"""Copying a Lucene field into a forward index: through the compiled helper, or by plain calls where it can't be loaded."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.cli.console import progress
from kernelsearch.core.errors import IndexProblem
from kernelsearch.forward import ForwardIndex, MergedSource, Statistics, write_forward
from kernelsearch.forward.write import ForwardSource, Scan
from kernelsearch.lucene import jvm
from kernelsearch.lucene.index import CONTENTS, FieldStatistics, LuceneIndex

#: Bytes of a block of rows, unless a memory limit asks for less.
EXPORT_BLOCK = 1 << 28


@jvm.calls_java
def export(
    lucene: LuceneIndex,
    field: str = CONTENTS,
    *,
    path: Path | None = None,
    block_bytes: int = EXPORT_BLOCK,
    helper: bool = True,
) -> Path:
    """Writes the forward index of one field and returns its folder. Positions are copied where they are stored."""
    found = _required(lucene, field)
    source: ForwardSource = HelperSource(lucene.reader, field) if helper else PlainSource(lucene.reader, field)
    return _write(lucene, field, found, source, path, block_bytes)


def export_by_shards(
    lucene: LuceneIndex,
    field: str = CONTENTS,
    *,
    each: Callable[..., Iterable[Path]] = map,
    path: Path | None = None,
    block_bytes: int = EXPORT_BLOCK,
    heap: str | None = None,
) -> Path:
    """As `export`, to the byte, but shard by shard: each is copied by itself, and the copies are merged here.

    `each(function, shards)` does the copying, as `map` does: one after the other, or elsewhere, with so much `heap` for Java.
    """
    found = _required(lucene, field)
    path = path or _place(lucene, field)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".shards.") as scratch:
        copies = [Path(scratch).absolute() / str(number) for number in range(len(lucene.shards.paths))]
        work = [(shard.absolute(), copy) for shard, copy in zip(lucene.shards.paths, copies, strict=True)]
        with progress(total=len(work), label=f"shards' forward indexes of {field}", unit="shard") as bar:
            for _ in each(partial(_copy_shard, field, lucene.language, block_bytes, heap), work):
                bar.update()
        return _write(lucene, field, found, MergedSource([ForwardIndex(copy) for copy in copies]), path, block_bytes)


def _copy_shard(field: str, language: str, block_bytes: int, heap: str | None, work: tuple[Path, Path]) -> None:
    """Writes the forward index of a shard into a folder of its own; the shard may lack the field."""
    shard, copy = work
    if heap and not jvm.running():
        jvm.configure(heap=heap)
    lucene = LuceneIndex(shard, language=language)
    try:
        _write(lucene, field, lucene.field_statistics(field), HelperSource(lucene.reader, field), copy, block_bytes)
    finally:
        lucene.close()


def _required(lucene: LuceneIndex, field: str) -> FieldStatistics:
    found = lucene.field_statistics(field)
    if not found.documents and field != CONTENTS:
        raise IndexProblem(f"{lucene.name}: no document has a field {field!r}")
    return found


def _place(lucene: LuceneIndex, field: str) -> Path:
    return lucene.shards.artefacts / "forward" / field


@jvm.calls_java
def _write(
    lucene: LuceneIndex, field: str, found: FieldStatistics, source: ForwardSource, path: Path | None, block_bytes: int
) -> Path:
    path = path or _place(lucene, field)
    with progress(total=lucene.rows(), label=f"forward index of {field}", unit="doc") as bar:
        write_forward(
            path,
            source,
            field=field,
            positions=found.positions,
            fingerprint=lucene.fingerprint,
            block_bytes=block_bytes,
            statistics=Statistics(found.documents, found.tokens, found.postings),
            progress=bar.update,
            twice=(lambda docid, one, other: _refuse_twice(lucene, docid, one, other)) if lucene.shards.sharded else None,
        )
    return path


def _refuse_twice(lucene: LuceneIndex, docid: str, row: int, other: int) -> None:
    first, second = (
        lucene.shards.paths[int(np.searchsorted(lucene.starts, one, side="right")) - 1] for one in sorted((row, other))
    )
    where = f"twice in {first}" if first == second else f"in {first} and in {second}"
    raise IndexProblem(f"{lucene.name}: document {docid!r} stands {where}; shards of a collection share no document")


class HelperSource:
    """Postings through the compiled helper: tens of millions a second."""

    def __init__(self, reader: Any, field: str) -> None:
        self._reader, self._field, self._bridge = reader, field, jvm.bridge()

    def scan(self) -> Scan:
        buffers = self._bridge.scan(self._reader, self._field)
        kinds = (np.uint8, np.int32, np.int32, np.int64, np.int32, np.int32, np.uint8, np.bool_)
        return Scan(*(jvm.view(buffer, kind) for buffer, kind in zip(buffers, kinds, strict=True)))

    def rows(
        self, start: int, end: int, scan: Scan, positions: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        distinct, tokens = scan.distinct[start:end].tobytes(), scan.lengths[start:end].tobytes()
        found = self._bridge.rows(self._reader, self._field, start, end, distinct, tokens, positions)
        return jvm.view(found[0], np.int32), jvm.view(found[1], np.int32), jvm.view(found[2], np.int32)

    def docids(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        data, sizes = self._bridge.docids(self._reader, "id", start, end)
        return jvm.view(data, np.uint8), jvm.view(sizes, np.int32)


class PlainSource:
    """The same by one Java call a posting: some thousand times slower, for JVMs that refuse our class files."""

    def __init__(self, reader: Any, field: str) -> None:
        from jnius import autoclass, cast

        self._field = field
        self._reader = cast("org.apache.lucene.index.IndexReader", reader)
        self._live = autoclass("org.apache.lucene.index.MultiBits").getLiveDocs(self._reader)
        self._end = autoclass("org.apache.lucene.search.DocIdSetIterator").NO_MORE_DOCS
        self._kinds = autoclass("org.apache.lucene.index.PostingsEnum")
        self._terms = autoclass("org.apache.lucene.index.MultiTerms").getTerms(self._reader, field)
        self._norms = autoclass("org.apache.lucene.index.MultiDocValues").getNormValues(self._reader, field)

    def _alive(self, doc: int) -> bool:
        return self._live is None or bool(self._live.get(doc))

    def _walk(self) -> Any:
        """(term number, enumerator) of each term, in the index's order."""
        if self._terms is None:
            return
        walk, number = self._terms.iterator(), 0
        while walk.next() is not None:
            yield number, walk
            number += 1

    def scan(self) -> Scan:
        rows = self._reader.maxDoc()
        distinct, lengths = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
        data, sizes, df, cf = [], [], [], []
        for _, walk in self._walk():
            term = walk.term().utf8ToString().encode("utf-8")
            data.append(term)
            sizes.append(len(term))
            df.append(walk.docFreq())
            cf.append(walk.totalTermFreq())
            postings = walk.postings(None, self._kinds.FREQS)
            while (doc := postings.nextDoc()) != self._end:
                if self._alive(doc):
                    distinct[doc] += 1
                    lengths[doc] += postings.freq()
        norms = np.zeros(rows, np.uint8)
        while self._norms is not None and (doc := self._norms.nextDoc()) != self._end:
            norms[doc] = self._norms.longValue() & 0xFF
        return Scan(
            np.frombuffer(b"".join(data), np.uint8),
            np.array(sizes, np.int32),
            np.array(df, np.int32),
            np.array(cf, np.int64),
            distinct,
            lengths,
            norms,
            np.array([self._alive(doc) for doc in range(rows)], np.bool_),
        )

    def rows(
        self, start: int, end: int, scan: Scan, positions: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        ids: list[list[int]] = [[] for _ in range(start, end)]
        counts: list[list[int]] = [[] for _ in range(start, end)]
        places: list[list[int]] = [[] for _ in range(start, end)]
        for number, walk in self._walk():
            postings = walk.postings(None, self._kinds.POSITIONS if positions else self._kinds.FREQS)
            doc = postings.nextDoc() if start == 0 else postings.advance(start)
            while doc < end:
                if self._alive(doc):
                    frequency = postings.freq()
                    ids[doc - start].append(number)
                    counts[doc - start].append(frequency)
                    if positions:
                        places[doc - start].extend(postings.nextPosition() for _ in range(frequency))
                doc = postings.nextDoc()
        return tuple(np.array([x for row in rows for x in row], np.int32) for rows in (ids, counts, places))  # type: ignore[return-value]

    def docids(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        fields = self._reader.storedFields()
        texts = [(fields.document(doc).get("id") or "").encode("utf-8") for doc in range(start, end)]
        return np.frombuffer(b"".join(texts), np.uint8), np.array([len(text) for text in texts], np.int32)
