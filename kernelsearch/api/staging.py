"""Staging for an index build: documents are checked and written as JSONL files, one per indexing thread, for Anserini."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.core.errors import InputError
from kernelsearch.core.progress import Progress, silent
from kernelsearch.forward.strings import hashes

#: Reads the collection from its beginning: (place of a document for messages, the document).
Reader = Callable[[], Iterator[tuple[str, dict[str, Any]]]]

#: Consecutive documents per file before the next file is used, so that all indexing threads have work.
STRIDE = 1000
#: Collections of up to this many documents are indexed by one thread, so that the index is the same every time.
SMALL = 50_000


@dataclass(frozen=True)
class Staged:
    """Staged documents: their number, and whether one of them has a title."""

    count: int
    titles: bool


def indexing_threads(threads: int, count: int) -> int:
    """The threads that index `count` documents; `threads` is what the user asks for, 0 for one thread or, from SMALL, all."""
    return (threads or os.cpu_count() or 1) if count > SMALL or threads else 1


def stage_documents(
    read: Reader, folder: Path, *, fields: Sequence[str], threads: int, whole: bool, progress: Progress = silent
) -> Staged:
    """Writes the documents into `folder` in the form that Anserini reads.

    Parameters
    ----------
    read : reads the documents; it is called again where two docids may be equal
    folder : gets the files 000.jsonl, 001.jsonl, ...
    fields : fields whose values are written as text
    threads : files to write, as in `indexing_threads`
    whole : write one file, which `split_staged` reads
    progress : gets the number of documents

    Raises InputError for text that is not valid Unicode and for a docid that appears twice.
    """
    count, titles, keys = 0, False, array("Q")
    most = 1 if whole else threads or os.cpu_count() or 1
    with ExitStack() as stack:
        files = _open_files(stack, folder, most)
        bar = stack.enter_context(progress("reading", unit="doc"))
        for place, document in read():
            for name in fields:
                value = document.get(name)
                if value is not None and not isinstance(value, str):
                    document[name] = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            # A small collection goes into one file, for its one thread.
            spread = most if count >= SMALL or threads else 1
            try:
                files[count // STRIDE % spread].write(json.dumps(document, ensure_ascii=False) + "\n")
            except UnicodeEncodeError:
                raise InputError(f"{place}: text with a lone surrogate, which is not valid Unicode") from None
            keys.append(_hash(document["id"]))
            count += 1
            titles = titles or bool(document.get("title"))
            bar.update()
    _refuse_duplicates(read, keys)
    for file in folder.glob("*.jsonl"):
        if not file.stat().st_size:
            file.unlink()
    return Staged(count, titles)


def split_staged(folder: Path, sizes: Sequence[int], threads: int, parts: Sequence[Path]) -> None:
    """Moves documents that were staged as a whole into the folders `parts`, `sizes[i]` documents into `parts[i]`, in order."""
    whole = folder / _file_name(0)
    with open(whole, encoding="utf-8", newline="\n") as lines:
        for part, size in zip(parts, sizes, strict=True):
            part.mkdir()
            with ExitStack() as stack:
                files = _open_files(stack, part, threads)
                for number, line in enumerate(islice(lines, size)):
                    files[number // STRIDE % threads].write(line)
    whole.unlink()


def _open_files(stack: ExitStack, folder: Path, count: int) -> list[Any]:
    return [stack.enter_context(open(folder / _file_name(n), "w", encoding="utf-8")) for n in range(count)]


def _file_name(number: int) -> str:
    return f"{number:03d}.jsonl"


def _hash(docid: str) -> int:
    return int(hashes([docid.encode("utf-8")])[0])


def _refuse_duplicates(read: Reader, keys: array[int]) -> None:
    """Raises InputError for the first docid that appears twice; only where two hashes are equal are documents read again."""
    values, counts = np.unique(np.frombuffer(keys, dtype=np.uint64), return_counts=True)
    repeated = set(values[counts > 1].tolist())
    if not repeated:
        return
    places: dict[str, str] = {}
    for place, document in read():
        docid = document["id"]
        if _hash(docid) in repeated:
            if docid in places:
                raise InputError(f"{place}: document id {docid!r} appears twice (first at {places[docid]})")
            places[docid] = place
