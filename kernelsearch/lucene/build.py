"""Building a Lucene index with Anserini, from a folder of JSONL files in Anserini's format."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import DiskFull, JavaError
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.replacing import final_path
from kernelsearch.lucene import jvm
from kernelsearch.lucene.shards import note_written, write_index_record


def build_index(
    documents: Path,
    index: Path,
    *,
    total: int,
    fields: Sequence[str] = (),
    language: str = "en",
    threads: int = 1,
    positions: bool = True,
    vectors: bool = True,
    contents: bool = True,
    raw: bool = True,
    optimize: bool = True,
    java_heap: str | None = None,
    progress: Progress = silent,
) -> tuple[int, int]:
    """Indexes every JSONL file in the folder `documents` into the folder `index`, which must be empty.

    `total` is the number of documents, for progress and messages; `fields` are indexed beside the contents; `positions`,
    `vectors`, `contents` and `raw` say what is stored. `optimize` merges into one segment, which makes search and export
    faster. `threads` is the number of indexing threads. `java_heap` is the JVM's maximal heap if this is the first use of
    Java in the process. The language and the fields are recorded beside the index.

    Returns the number of documents that were indexed, and of those that were left out because they have no text.
    """
    jvm.start(java_heap, building=True)
    flags = {
        "-storePositions": positions,
        "-storeDocvectors": vectors,
        "-storeContents": contents,
        "-storeRaw": raw,
        "-optimize": optimize,
        "-pretokenized": language == "whitespace",
        "-quiet": True,
    }
    indexer = _indexer(
        [
            *("-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"),
            *("-input", jvm.path_of(documents), "-index", jvm.path_of(index), "-threads", str(threads)),
            *(() if language == "whitespace" else ("-language", language)),
            *(("-fields", *fields) if fields else ()),
            *(flag for flag, wanted in flags.items() if wanted),
        ]
    )
    failure: list[BaseException] = []
    worker = threading.Thread(target=_run, args=(indexer, failure), daemon=True)
    counters = indexer.getCounters()
    # Java runs in another thread, because Ctrl-C is delivered to the main thread, between Python instructions only.
    with _java_errors() as printed, progress("indexing", total=total, unit="doc") as bar:
        reported = 0
        worker.start()
        while worker.is_alive():
            worker.join(0.1)
            indexed = counters.indexed.get()
            bar.update(indexed - reported)
            reported = indexed
    if any("No space left on device" in line for line in [*printed, *map(str, failure)]):
        raise DiskFull("cannot be written (No space left on device)", path=final_path(index))
    if failure:
        raise failure[0]
    refuse_losses(index, total, counters.indexed.get(), counters.empty.get())
    write_index_record(index, language, fields)
    note_written(index)
    refuse_losses(index, total, _documents(index), counters.empty.get())
    return counters.indexed.get(), counters.empty.get()


def refuse_losses(index: Path, total: int, indexed: int, empty: int) -> None:
    """Raises JavaError unless `indexed` documents and `empty` ones, which have no text, are all of the `total`.

    Anserini logs a document or a file that it can't read and goes on with the rest. `index` is named in the message.
    """
    if indexed + empty != total:
        raise JavaError(f"Anserini indexed {indexed + empty} of {total} documents and gave up on the others", path=index)


@jvm.calls_java
def _documents(index: Path) -> int:
    """The number of documents in a Lucene index."""
    reader = jvm.bridge().open(jvm.path_of(index))
    try:
        return int(reader.numDocs())
    finally:
        reader.close()


@jvm.calls_java
def _indexer(flags: list[str]) -> Any:
    """Anserini's IndexCollection (Java) with these flags."""
    from jnius import autoclass

    arguments = autoclass("io.anserini.index.IndexCollection$Args")()
    words = autoclass("java.util.ArrayList")()
    for flag in flags:
        words.add(flag)
    autoclass("org.kohsuke.args4j.CmdLineParser")(arguments).parseArgument(words)
    return autoclass("io.anserini.index.IndexCollection")(arguments)


def _run(indexer: Any, failure: list[BaseException]) -> None:
    """Runs the indexer; an exception is appended to `failure`, for the main thread to raise."""
    try:
        jvm.calls_java(indexer.run)()
    except Exception as problem:
        failure.append(problem)


@contextmanager
def _java_errors() -> Iterator[list[str]]:
    """Collects what Java prints on its standard error in the block, in a list of lines, instead of showing it."""
    from jnius import autoclass

    system, stream = autoclass("java.lang.System"), autoclass("java.io.ByteArrayOutputStream")()
    original = system.err
    printed: list[str] = []
    system.setErr(autoclass("java.io.PrintStream")(stream, True))
    try:
        yield printed
    finally:
        system.setErr(original)
        printed.extend(stream.toString().splitlines())
