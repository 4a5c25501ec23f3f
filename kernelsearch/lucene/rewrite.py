"""Rewriting a Lucene index without some of its documents, and with those of another index behind the rest."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import DiskFull, IndexProblem, JavaError
from kernelsearch.core.replacing import final_path
from kernelsearch.lucene import jvm
from kernelsearch.lucene.index import CONTENTS, LuceneIndex

#: The field of docids, Anserini's name.
ID = "id"


@dataclass(frozen=True)
class Storage:
    """What an index stores of its documents, as `build_index` takes it."""

    positions: bool
    vectors: bool
    contents: bool
    raw: bool


def storage_of(lucene: LuceneIndex) -> Storage:
    """What `lucene`, an index with at least one document, stores."""
    statistics = lucene.field_statistics(CONTENTS)
    contents, raw = (lucene.stored([0], field)[0] is not None for field in (CONTENTS, "raw"))
    return Storage(statistics.positions, statistics.vectors, contents, raw)


def rewrite_index(old: Path, into: Path, *, without: Sequence[str], added: Path | None = None) -> NDArray[np.int32]:
    """Writes the documents of the index `old`, then those of `added`, as one segment into the folder `into`.

    `without` are docids, each once, whose documents are left out of `old`. Statistics and row numbers are those of an index
    that is built from the remaining documents in this order. Returns the number of documents of each docid in `old`.
    """
    keys = [docid.encode("utf-8", errors="replace") for docid in without]
    # Lucene looks terms up faster in their order.
    order = sorted(range(len(keys)), key=keys.__getitem__)
    sizes = np.array([len(keys[number]) for number in order], dtype=np.int32)
    packed = b"".join(keys[number] for number in order)
    result: list[Any] = []
    arguments = (jvm.path_of(old), jvm.path_of(added) if added else "", jvm.path_of(into), packed, sizes.tobytes(), result)
    jvm.start(building=True)
    # Java runs in another thread, because Ctrl-C is delivered to the main thread, between Python instructions only.
    worker = threading.Thread(target=_rewrite, args=arguments, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(0.1)
    if isinstance(result[0], Exception):
        if "No space left on device" in str(result[0]):
            raise DiskFull("cannot be written (No space left on device)", path=final_path(into))
        if "created with major version" in str(result[0]):
            raise IndexProblem("written by another release of Lucene than this one; index the collection again", path=old)
        raise result[0]
    counts = np.zeros(len(keys), dtype=np.int32)
    counts[order] = result[0]
    return counts


def _rewrite(old: str, added: str, into: str, ids: bytes, sizes: bytes, result: list[Any]) -> None:
    """Appends the counts, or the exception, to `result`, for the main thread."""
    try:
        result.append(_call(old, added, into, ids, sizes))
    except JavaError as problem:
        result.append(problem)


@jvm.calls_java
def _call(old: str, added: str, into: str, ids: bytes, sizes: bytes) -> NDArray[np.int32]:
    return jvm.copy_array(jvm.bridge().rewrite(old, added, into, ID, ids, sizes), np.int32)
