"""Building a Lucene index through Anserini, from a folder of JSONL that we wrote ourselves."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import IndexProblem, InputError, JavaError
from kernelsearch.core.progress import Progress, silent
from kernelsearch.lucene import jvm
from kernelsearch.lucene.shards import OURS


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
    progress: Progress = silent,
) -> tuple[int, int]:
    """Indexes every JSONL file in `documents` into the folder `index`, which must be empty.

    `optimize` merges into one segment, which makes search and export faster. The index remembers its language.
    Returns how many documents were indexed and how many were left out because they have no text.
    """
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
            *(flag for flag, given in flags.items() if given),
        ]
    )
    failure: list[BaseException] = []
    worker = threading.Thread(target=_run, args=(indexer, failure), daemon=True)
    counters = indexer.getCounters()
    # The main thread only watches, so that Ctrl-C reaches it.
    with jvm.java_errors() as printed, progress("indexing", total=total, unit="doc") as bar:
        reported = 0
        worker.start()
        while worker.is_alive():
            worker.join(0.1)
            indexed = counters.indexed.get()
            bar.update(indexed - reported)
            reported = indexed
    if any("No space left on device" in line for line in [*printed, *map(str, failure)]):
        raise InputError(f"{index}: cannot be written (No space left on device)")
    if failure:
        raise failure[0]
    if counters.errors.get():
        raise JavaError(f"{index}: Anserini could not index {counters.errors.get()} of {total} documents")
    if not counters.indexed.get():
        raise IndexProblem(f"{index}: none of the {total} documents has text that can be indexed")
    (index / OURS).mkdir(exist_ok=True)
    record = {"language": language, "fields": list(fields)}
    (index / OURS / "index.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return counters.indexed.get(), counters.empty.get()


@jvm.calls_java
def _indexer(flags: list[str]) -> Any:
    from jnius import autoclass

    arguments = autoclass("io.anserini.index.IndexCollection$Args")()
    words = autoclass("java.util.ArrayList")()
    for flag in flags:
        words.add(flag)
    autoclass("org.kohsuke.args4j.CmdLineParser")(arguments).parseArgument(words)
    return autoclass("io.anserini.index.IndexCollection")(arguments)


def _run(indexer: Any, failure: list[BaseException]) -> None:
    @jvm.calls_java
    def go() -> None:
        indexer.run()

    try:
        go()
    except Exception as problem:  # carried to the main thread, which raises it
        failure.append(problem)
