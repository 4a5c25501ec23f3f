"""Staging for an index build: documents are checked and written as JSONL files, one per indexing thread, for Anserini."""

from __future__ import annotations

import json
import logging
import math
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kernelsearch.core.errors import InputError
from kernelsearch.core.progress import Progress, silent
from kernelsearch.trec.documents import contains_title
from kernelsearch.trec.formats import TEXT_NAMES
from kernelsearch.trec.languages import LanguageGuess

#: Reads the collection from its beginning: (place of a document for messages, the document).
Reader = Callable[[], Iterator[tuple[str, dict[str, Any]]]]

#: Consecutive documents per file before the next file is used, so that all indexing threads have work.
STRIDE = 1000
#: Limits of the parser that Anserini reads staged documents with (Jackson's StreamReadConstraints). Beyond them it gives up on
#: the whole file, and the other documents of the file are lost.
MAX_STRING, MAX_KEY, MAX_DIGITS, MAX_DEPTH = 20_000_000, 50_000, 1000, 1000
#: Largest docid in UTF-8 bytes, Lucene's limit of a term (IndexWriter.MAX_TERM_LENGTH).
MAX_DOCID = 32_766
#: Collections of up to this many documents are indexed by one thread, so that the index is the same every time.
SMALL = 50_000
#: Documents from which the language of a collection is guessed.
GUESSED = 200

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Staged:
    """Staged documents.

    `count` is their number, `titles` says whether one of them has a title, `titles_apart` is the number of titles that are not
    in the contents, `stored` are the other fields, `language` is the one that the first texts are in (None: not clear).
    """

    count: int
    titles: bool
    titles_apart: int = 0
    stored: tuple[str, ...] = ()
    language: str | None = None


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

    Numbers that JSON doesn't have (NaN, Infinity) are written as null, with one message about all of them. Raises InputError
    for text that is not valid Unicode, for a docid that appears twice and for what Anserini can't read (`make_readable`).
    """
    count, titles, apart, nulls, hashes = 0, False, 0, 0, array("q")
    names: dict[str, None] = {}
    guess = LanguageGuess()
    most = 1 if whole else threads or os.cpu_count() or 1
    with ExitStack() as stack:
        files = _open_files(stack, folder, most)
        bar = stack.enter_context(progress("reading", unit="doc"))
        for place, document in read():
            for name in fields:
                value = document.get(name)
                if value is not None and not isinstance(value, str):
                    document[name] = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            nulls += make_readable(document, place)
            # A small collection goes into one file, for its one thread.
            spread = most if count >= SMALL or threads else 1
            try:
                files[count // STRIDE % spread].write(_to_json(document))
            except UnicodeEncodeError:
                raise InputError("text with a lone surrogate, which is not valid Unicode", path=place) from None
            except TypeError as problem:  # a dict of Python may have other keys than JSON
                raise InputError(problem, path=place) from None
            if count < GUESSED:
                guess.add(document["contents"])
            hashes.append(hash(document["id"]))
            count += 1
            if title := document.get("title"):
                titles = True
                apart += not contains_title(document["contents"], title)
            for name in document:
                if name not in names and not _is_contents(document, name):
                    names[name] = None
            bar.update()
    _refuse_duplicates(read, hashes)
    if nulls:
        logger.warning("%d numbers that JSON doesn't have (NaN, Infinity) are stored as null", nulls)
    for file in folder.glob("*.jsonl"):
        if not file.stat().st_size:
            file.unlink()
    stored = tuple(name for name in names if name not in ("id", "contents", "title", *fields))
    return Staged(count, titles, apart, stored, guess.best)


def _is_contents(document: dict[str, Any], name: str) -> bool:
    """Whether a field is the text that the contents were made of, so that queries search it."""
    value = document[name]
    return name in TEXT_NAMES and isinstance(value, str) and document["contents"].endswith(value)


#: json.dumps with these options would make an encoder per document.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str).encode


def _to_json(document: dict[str, Any]) -> str:
    """A document as one line; values that JSON doesn't have, such as dates of a Parquet file, are written as text."""
    return _encode(document) + "\n"


def make_readable(document: dict[str, Any], place: str) -> int:
    """Replaces, in place, the numbers of a document that JSON doesn't have by null and returns how many there were.

    Numbers and arrays of numpy become those of Python.

    Values that are lists or dicts are replaced by copies first: they may belong to the caller of `kernelsearch.build`. Raises
    InputError, which begins with `place`, for a docid, string, key or integer that is too long, or for values nested too
    deeply, for Anserini's parser or for Lucene.
    """
    docid = document["id"]
    if len(docid) * 4 > MAX_DOCID and len(docid.encode("utf-8", errors="replace")) > MAX_DOCID:
        raise InputError(
            f"a document id of {len(docid)} characters ({docid[:40]}...), Lucene's limit is {MAX_DOCID} bytes", path=place
        )
    nulls = 0
    pending: list[tuple[dict[str, Any] | list[Any], int]] = [(document, 1)]
    while pending:
        container, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise InputError(f"values nested more than {MAX_DEPTH} deep, which Anserini can't read", path=place)
        entries: Any = container.items() if isinstance(container, dict) else enumerate(container)
        for key, value in list(entries):
            if not isinstance(value, str) and hasattr(value, "tolist"):  # a number or an array of numpy
                value = container[key] = value.tolist()
            if isinstance(key, str) and len(key) > MAX_KEY:
                raise InputError(f"a key of {len(key)} characters ({key[:40]}...), Anserini's limit is {MAX_KEY}", path=place)
            if isinstance(value, str):
                if len(value) > MAX_STRING:
                    raise InputError(
                        f"a text of {len(value)} characters ({key!s:.40}), Anserini's limit is {MAX_STRING}", path=place
                    )
            elif isinstance(value, float):
                if not math.isfinite(value):
                    container[key] = None
                    nulls += 1
            elif isinstance(value, int):
                # Three bits and a third per digit; printing a number takes quadratic time.
                if value.bit_length() > 3 * MAX_DIGITS and len(str(abs(value))) > MAX_DIGITS:
                    raise InputError(
                        f"an integer ({key!s:.40}) of more than {MAX_DIGITS} digits, which Anserini can't read", path=place
                    )
            elif isinstance(value, dict | list | tuple):
                copy = container[key] = dict(value) if isinstance(value, dict) else list(value)
                pending.append((copy, depth + 1))
    return nulls


def split_staged(folder: Path, sizes: Sequence[int], threads: int, parts: Sequence[Path]) -> None:
    """Moves documents that were staged as a whole in `folder` into the folders `parts`, in order.

    `sizes[i]` documents go into `parts[i]`, in one file for each of `threads`.
    """
    whole = folder / _file_name(0)
    with open(whole, encoding="utf-8", newline="\n") as lines:
        for part, size in zip(parts, sizes, strict=True):
            part.mkdir()
            with ExitStack() as stack:
                files = _open_files(stack, part, threads)
                for number, line in enumerate(islice(lines, size)):
                    files[number // STRIDE % threads].write(line)
    whole.unlink()


def _open_files(stack: ExitStack, folder: Path, count: int) -> list[TextIO]:
    return [stack.enter_context(open(folder / _file_name(n), "w", encoding="utf-8")) for n in range(count)]


def _file_name(number: int) -> str:
    return f"{number:03d}.jsonl"


def _refuse_duplicates(read: Reader, hashes: array[int]) -> None:
    """Raises InputError for the first docid that appears twice; only where two hashes are equal are documents read again."""
    values, counts = np.unique(np.frombuffer(hashes, dtype=np.int64), return_counts=True)
    repeated = set(values[counts > 1].tolist())
    if not repeated:
        return
    places: dict[str, str] = {}
    for place, document in read():
        docid = document["id"]
        if hash(docid) in repeated:
            if docid in places:
                raise InputError(f"document id {docid!r} appears twice (first at {places[docid]})", path=place)
            places[docid] = place
