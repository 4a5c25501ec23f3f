"""Which files of a collection are read, and the format of each, by its name or its beginning."""

from __future__ import annotations

import logging
import os
import pkgutil
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import first_bytes
from kernelsearch.trec import formats
from kernelsearch.trec.formats import Format

logger = logging.getLogger(__name__)


def find_formats() -> dict[str, Format]:
    """The formats by name: what the modules of `formats` declare."""
    modules = (import_module(f"{formats.__name__}.{module.name}") for module in pkgutil.iter_modules(formats.__path__))
    return {module.FORMAT.name: module.FORMAT for module in modules if hasattr(module, "FORMAT")}


FORMATS = find_formats()
#: Bytes at the beginning of a file from which its format is guessed.
GUESSED_FROM = 4096
#: How files begin that are no text and of no format, and what they are.
_MAGIC = (
    (b"PK\x03\x04", "a ZIP archive, or a document of Word, Excel or LibreOffice"),
    (b"\xd0\xcf\x11\xe0", "an old document of Word, Excel or PowerPoint"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"BZh", "a bzip2 file"),
    (b"\x1f\x9d", "a file of compress (.Z)"),
    (b"\xfd7zXZ", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"SQLite format 3", "an SQLite database"),
)

#: A file that only the folder of a Lucene index, or of its shards, has.
_IN_INDEX = re.compile(r"segments_[0-9a-z]+|shards\.json")


def folder_files(folder: Path, kind: str | None) -> list[tuple[Path, str]]:
    """The files of `folder` with their format, in the order of their names; `kind` is the format to take.

    Without a format these are the largest part of the folder that is of one format, or of several that have one document per
    file; what else is in it is logged. Raises InputError where no file can be read.
    """
    for name, corpus in ((name, known.corpus) for name, known in FORMATS.items() if known.corpus and kind in (None, name)):
        if found := next((file for file in (folder / corpus, folder / f"{corpus}.gz") if file.exists()), None):
            return [(found, name)]
        if kind:
            raise InputError(f"no {corpus} in it, a {name.upper()} folder was expected", path=folder)
    files = _list_files(folder)
    if not files:
        raise InputError("an empty folder, documents were expected", path=folder)
    known: dict[str, list[tuple[Path, str]]] = {}
    others: list[Path] = []
    for file in files:
        file_kind = _folder_kind(file)
        if kind is not None and (file_kind == kind or (file_kind is None and kind == "trec")):
            known.setdefault(kind, []).append((file, kind))
        elif file_kind is None:
            others.append(file)
        else:
            known.setdefault("pages" if FORMATS[file_kind].page and kind is None else file_kind, []).append((file, file_kind))
    if not known or (kind is not None and kind not in known):
        wanted = f"{kind} files" if kind else "files of a format that can be read"
        raise InputError(f"no {wanted} in it, but {_summary(files)}; formats: {', '.join(FORMATS)}", path=folder)
    chosen_group = kind or max(known, key=lambda group: sum(file.stat().st_size for file, _ in known[group]))
    others += [file for group, members in known.items() if group != chosen_group for file, _ in members]
    if others:
        logger.info(
            "%s: taken are %s; left out are %s%s",
            folder,
            _summary([file for file, _ in known[chosen_group]]),
            _summary(others),
            "" if kind else " (--format takes another kind)",
        )
    return known[chosen_group]


def guess_format(path: Path) -> str:
    """The format of the file `path`, by its name or its beginning. Raises InputError for another kind, which it names."""
    kind = _named_kind(path)
    return _guess_from(first_bytes(path, GUESSED_FROM), path) if kind in (None, "text") else kind


def _list_files(folder: Path) -> list[Path]:
    """All files below a folder by name, without hidden ones and those of indexes, which may have been made of the others.

    A folder that can't be listed is an error, not an empty one.
    """

    def fail(problem: OSError) -> None:
        raise InputError(f"cannot be read ({problem.strerror})", path=problem.filename) from None

    files: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=fail):
        if place != str(folder) and any(_IN_INDEX.fullmatch(name) for name in names):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(place, name) for name in names if not name.startswith(".")]
    return sorted(file for file in files if file.is_file())


def _folder_kind(file: Path) -> str | None:
    """The format of a file in a folder; None for what is known neither by its name nor by its beginning.

    A file that can't be read has the format of its name: what is wrong with it is reported when its turn comes.
    """
    if not file.stat().st_size:
        return None
    kind = _named_kind(file)
    if kind in (None, "text"):
        try:
            start = first_bytes(file, GUESSED_FROM)
        except InputError:
            return kind
        try:
            kind = _guess_from(start, file)
        except InputError:
            return None
    # A list of words or a table without a name for it is guessed only where it is the input itself.
    return _named_kind(file) if kind == "tsv" else kind


def _named_kind(path: Path) -> str | None:
    """The format that the name of a file says; None where it says none."""
    suffix = _suffix(path)
    return next((name for name, known in FORMATS.items() if suffix in known.suffixes), None)


def _guess_from(start: bytes, path: Path) -> str:
    """The format of a file that begins with `start` and whose name says none or text; errors as in `guess_format`."""
    for name, known in FORMATS.items():
        if known.magic and start.startswith(known.magic):
            return name
    if what := _binary(start):
        raise InputError(f"{what}, which can't be read; formats: {', '.join(FORMATS)}", path=path)
    text = start.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if not text:
        raise InputError("empty, documents were expected", path=path)
    for name, known in FORMATS.items():
        if known.begins and re.match(known.begins, text, re.I):
            return name
    return "text" if _named_kind(path) == "text" and "\t" not in text.partition("\n")[0] else "tsv"


def _binary(start: bytes) -> str | None:
    """What a file is that begins like this, if it is not text."""
    what = next((what for magic, what in _MAGIC if start.startswith(magic)), None)
    return what or ("a binary file" if b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")) else None)


def _summary(files: Sequence[Path]) -> str:
    """Files counted by suffix, such as "12 .html, logo.png"."""
    groups: dict[str, list[str]] = {}
    for file in files:
        groups.setdefault(_suffix(file) or file.name, []).append(file.name)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    parts = [names[0] if len(names) == 1 else f"{len(names)} {suffix}" for suffix, names in ordered]
    return ", ".join(parts[:8]) + (f" and {len(parts) - 8} other kinds" if len(parts) > 8 else "")


def _suffix(file: Path) -> str:
    return Path(file.name.removesuffix(".gz")).suffix.lower()
