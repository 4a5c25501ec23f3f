"""Reading collections: a file or a folder of files, plain or gzipped, in any of FORMATS.

Every document comes out as a dict with `id` and `contents` (the searchable text), an optional `title`, and whatever
other fields it had.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import EncodingError, InputError, OptionError, quote, short
from kernelsearch.core.reading import first_bytes
from kernelsearch.trec.formats import ID_NAMES, TEXT_NAMES, Records
from kernelsearch.trec.formats.pages import read_html, read_markdown, read_pdf, read_text
from kernelsearch.trec.formats.structured import (
    HEADER_NAMES,
    arrays_of_objects,
    read_csv,
    read_json,
    read_jsonl,
    read_parquet,
    read_tsv,
)
from kernelsearch.trec.formats.trec_text import read_trec
from kernelsearch.trec.ids import check_id
from kernelsearch.trec.values import find_value, text_of

logger = logging.getLogger(__name__)

#: The suffixes of each format, without .gz.
_SUFFIXES: dict[str, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson"),
    "json": (".json",),
    "beir": (),
    "trec": (".trec", ".sgml"),
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "parquet": (".parquet",),
    "text": (".txt", ".text"),
    "markdown": (".md", ".markdown"),
    "html": (".html", ".htm", ".xhtml"),
    "pdf": (".pdf",),
}
FORMATS = tuple(_SUFFIXES)
#: Bytes at the beginning of a file from which its format is guessed.
GUESSED_FROM = 4096
#: Formats whose files are one document each; a folder may mix them.
PAGES = ("text", "markdown", "html", "pdf")
_READERS: dict[str, Callable[[Path, str], Records]] = {
    "jsonl": read_jsonl,
    "json": read_json,
    "beir": read_jsonl,
    "trec": read_trec,
    "csv": read_csv,
    "tsv": read_tsv,
    "parquet": read_parquet,
    "text": read_text,
    "markdown": read_markdown,
    "html": read_html,
    "pdf": read_pdf,
}
#: How files begin that are no text, and what they are.
_MAGIC = (
    (b"%PDF", "a PDF"),
    (b"PAR1", "a Parquet file"),
    (b"PK\x03\x04", "a ZIP archive, or a document of Word, Excel or LibreOffice"),
    (b"\xd0\xcf\x11\xe0", "an old document of Word, Excel or PowerPoint"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"SQLite format 3", "an SQLite database"),
)

#: A file that only the folder of a Lucene index, or of its shards, has.
_IN_INDEX = re.compile(r"segments_[0-9a-z]+|shards\.json")

#: (place of the document, such as file and line; document)
Located = tuple[str, dict[str, Any]]


def read_documents(
    path: str | Path,
    kind: str | None = None,
    encoding: str = "utf-8",
    *,
    columns: Mapping[str, str] | None = None,
    join_titles: bool = True,
    skip_unreadable: bool = False,
    number_documents: bool = False,
) -> Iterator[Located]:
    """Yields (place, document) for every document of a collection; contents may be empty.

    Parameters
    ----------
    path : a file or a folder
    kind : one of FORMATS; guessed if None. Which files of a folder were taken is logged where it has several kinds
    encoding : of text files
    columns : {"id": name, "contents": name, "title": name}, the columns or keys that hold them; all are optional
    join_titles : as in `make_document`
    skip_unreadable : leave out files of a folder that are one document each and can't be read; they are logged
    number_documents : the ids are 1, 2, ... in the order of reading, whatever ids the documents have

    Raises InputError, with file and line, for a document without id or text and for malformed files; OptionError for a format
    that is unknown or whose package is not installed.
    """
    path = Path(path)
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file or folder") from None
    except (OSError, ValueError) as problem:
        raise InputError(f"{short(str(path))}: cannot be read ({getattr(problem, 'strerror', problem)})") from None
    if kind is not None and kind not in FORMATS:
        raise OptionError(f"--format: {quote(kind)} is not one of {', '.join(FORMATS)}")
    columns = {name: column.strip() for name, column in (columns or {}).items()}
    if number_documents and "id" in columns:
        raise OptionError(f"--number-documents: the ids are those of {quote(columns['id'])}, which --columns names")
    files = _folder_files(path, kind) if is_folder else [(path, kind or _guess(path))]
    count = 0
    for file, file_kind in files:
        skips = skip_unreadable if is_folder and file_kind in PAGES else None
        for within, record in _records(file, file_kind, columns, encoding, skips, number_documents):
            place = f"{file}: {within}" if within else str(file)
            if file_kind in PAGES:
                record = _page(record, file, path)
            elif columns:
                record = _rename(record, columns, place)
            if number_documents:
                record = number_record(record, count + 1)
            yield place, make_document(record, place, join_titles=join_titles)
            count += 1
    if not count:
        raise InputError(f"{path}: no documents in it (read as {' and '.join(sorted({kind for _, kind in files}))})")


def number_record(record: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The record with a number as its id; an id that it has is left out."""
    return {"id": str(number), **{name: value for name, value in record.items() if name not in ID_NAMES}}


def make_document(record: Mapping[str, Any], place: str, *, join_titles: bool = True) -> dict[str, Any]:
    """Returns a record with the keys that kernelsearch uses: `id`, `contents`, then the other fields.

    With `join_titles` the contents begin with the title, unless it is in them already; without, it stays a field of its own.
    `place` is the name of the record in messages. Raises InputError for a record without id or text.
    """
    docid = next((record[key] for key in ID_NAMES if record.get(key) not in (None, "")), None)
    if docid is None:
        arrays = arrays_of_objects(record)
        envelope = f"; if {arrays[0]} is the list of documents, jq '.{arrays[0]}' FILE > NEW.json extracts it" if arrays else ""
        raise InputError(
            f"{place}: a document without an id (looked for {', '.join(ID_NAMES)}; found {_keys(record)}); --columns "
            "id=NAME,contents=NAME names other keys, --number-documents (in Python: number_documents=True) numbers the "
            f"documents{envelope}"
        )
    docid = check_id(id_text(docid, place), "document", place)
    where = f"{place}: document {short(docid)}"
    title = text_of(record.get("title"), "title", where)
    if "contents" in record:
        contents = text_of(record["contents"], "contents", where)
        join = join_titles and not contains_title(contents, title)
    else:
        key = next((key for key in TEXT_NAMES if key in record), None)
        if key is None and not title:
            raise InputError(
                f"{where} has no text (looked for contents, {', '.join(TEXT_NAMES)}; found "
                f"{_keys(record)}); --columns contents=NAME names another key"
            )
        # As BEIR and Anserini do it: always joined.
        contents, join = text_of(record[key], key, where) if key is not None else "", join_titles and bool(title)
    if join:
        contents = f"{title}\n{contents}"
    rest = {key: value for key, value in record.items() if key not in (*ID_NAMES, "contents", "title")}
    return {"id": docid, "contents": contents, **({"title": title} if "title" in record else {}), **rest}


def _keys(record: Mapping[str, Any]) -> str:
    """The keys of a record for a message."""
    return short(", ".join(map(str, record)), 200) or "nothing"


def id_text(value: object, place: str) -> str:
    """The document id `value`, a text or a number of any type, as text; InputError, which begins with `place`, for others."""
    if hasattr(value, "tolist"):  # a number of numpy
        value = value.tolist()
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InputError(f"{place}: document id {quote(value)} is neither text nor a number")
    try:
        # A column of ids in which some cells are empty is one of floats in many tables.
        return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    except ValueError:  # an integer of more than 4,300 digits
        raise InputError(f"{place}: document id of {quote(value)} is too long") from None


def contains_title(contents: str, title: str) -> bool:
    """Whether `contents` begins with a title or has it in it as whole words, apart from case and white space."""
    if contents.startswith(title):
        return True
    words, text = " ".join(title.split()).casefold(), " ".join(contents.split()).casefold()
    return not words or re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None


def parse_columns(texts: Sequence[str]) -> dict[str, str]:
    """Parses `texts` of `--columns`: from ("id=number", "contents=body") to {"id": "number", "contents": "body"}."""
    columns: dict[str, str] = {}
    for text in texts:
        name, sign, column = (part.strip() for part in text.partition("="))
        if not sign or not column or name not in ("id", "contents", "title") or name in columns:
            raise OptionError(f"--columns: {quote(text)} is not id=NAME, contents=NAME or title=NAME, each at most once")
        columns[name] = column
    return columns


def _reader(kind: str, columns: Mapping[str, str], numbered: bool) -> Callable[[Path, str], Records]:
    if kind not in ("csv", "tsv"):
        return _READERS[kind]
    id_names = () if numbered else (columns["id"].lower(),) if "id" in columns else ID_NAMES
    text_names = (*(columns[name].lower() for name in ("contents", "title") if name in columns), *HEADER_NAMES)
    return partial(read_csv if kind == "csv" else read_tsv, id_names=id_names, text_names=text_names)


def _records(file: Path, kind: str, columns: Mapping[str, str], encoding: str, skips: bool | None, numbered: bool) -> Records:
    """The records of a file. A file that can't be read is logged and has none with `skips`; None: that is no choice."""
    try:
        yield from _reader(kind, columns, numbered)(file, encoding)
    except InputError as problem:
        advice = "; --encoding names another one, such as windows-1252" if isinstance(problem, EncodingError) else ""
        if not skips:
            raise InputError(f"{problem}{advice}" + ("; --skip-unreadable leaves it out" if skips is False else "")) from None
        logger.warning("%s%s; left out", problem, advice)


def _rename(record: dict[str, Any], columns: Mapping[str, str], place: str) -> dict[str, Any]:
    """The record with the chosen columns as `id`, `contents` and `title`; the others keep their names."""
    lower = {name.lower(): name for name in record}
    renamed = {}
    for target, column in columns.items():
        try:
            renamed[target] = find_value(record, column)
        except KeyError:
            message = f"{place}: no {quote(column)}, which --columns names, among {short(', '.join(map(str, record)))}"
            raise InputError(message) from None
    if "id" in columns:
        # Another column that is called id is no longer one.
        record = {name: value for name, value in record.items() if name not in ID_NAMES}
    replaced_names = {lower.get(column.lower(), column) for column in columns.values()} | set(columns)
    return {**renamed, **{name: value for name, value in record.items() if name not in replaced_names}}


def _page(record: dict[str, Any], file: Path, root: Path) -> dict[str, Any]:
    """A document that is a file: its id is the path below the folder, with _ for white space."""
    name = file.relative_to(root).as_posix() if root != file else file.name
    stem = re.sub(r"[_\W]+", " ", file.name.removesuffix(".gz").rpartition(".")[0] or file.name).strip()
    return {"id": re.sub(r"\s+", "_", name), **record, "title": record.get("title") or stem}


def _named_kind(path: Path) -> str | None:
    """The format that the name of a file says; None where it says none."""
    suffix = _suffix(path)
    return next((kind for kind, suffixes in _SUFFIXES.items() if suffix in suffixes), None)


def _guess(path: Path) -> str:
    """The format of a file, by its name or its beginning. Raises InputError for what is not text, named for what it is."""
    kind = _named_kind(path)
    return _guess_from(first_bytes(path, GUESSED_FROM), path) if kind in (None, "text") else kind


def _guess_from(start: bytes, path: Path) -> str:
    """The format of a file that begins with `start` and whose name says none or text; errors as in `_guess`."""
    if start.startswith(b"%PDF"):
        return "pdf"
    if start.startswith(b"PAR1"):
        return "parquet"
    if what := _binary(start):
        raise InputError(f"{path}: {what}, which can't be read; formats: {', '.join(FORMATS)}")
    text = start.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if not text:
        raise InputError(f"{path}: empty, documents were expected")
    first = text.partition("\n")[0]
    if text.startswith("{"):
        return "jsonl"
    if text.startswith("["):
        return "json"
    if re.match(r"<(!doctype\s+html|html|head|body)\b", text, re.I):
        return "html"
    if text.startswith("<"):
        return "trec"
    return "text" if _named_kind(path) == "text" and "\t" not in first else "tsv"


def _binary(start: bytes) -> str | None:
    """What a file is that begins like this, if it is not text."""
    what = next((what for magic, what in _MAGIC if start.startswith(magic)), None)
    return what or ("a binary file" if b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")) else None)


def _folder_files(folder: Path, kind: str | None) -> list[tuple[Path, str]]:
    """The files of a folder with their format, in the order of their names.

    Without a format these are the largest part of the folder that is of one format (or of several of PAGES); what else is in it
    is logged.
    """
    corpora = [file for file in (folder / "corpus.jsonl", folder / "corpus.jsonl.gz") if file.exists()]
    if kind == "beir" and not corpora:
        raise InputError(f"{folder}: no corpus.jsonl in it, a BEIR folder was expected")
    if corpora and kind in (None, "beir"):
        return [(corpora[0], "beir")]
    files = _list_files(folder)
    if not files:
        raise InputError(f"{folder}: an empty folder, documents were expected")
    known: dict[str, list[tuple[Path, str]]] = {}
    others: list[Path] = []
    for file in files:
        file_kind = _folder_kind(file)
        if kind is not None and (file_kind == kind or (file_kind is None and kind == "trec")):
            known.setdefault(kind, []).append((file, kind))
        elif file_kind is None:
            others.append(file)
        else:
            known.setdefault("pages" if file_kind in PAGES and kind is None else file_kind, []).append((file, file_kind))
    if not known or (kind is not None and kind not in known):
        wanted = f"{kind} files" if kind else "files of a format that can be read"
        raise InputError(f"{folder}: no {wanted} in it, but {_summary(files)}; formats: {', '.join(FORMATS)}")
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


def _list_files(folder: Path) -> list[Path]:
    """All files below a folder by name, without hidden ones and those of indexes, which may have been made of the others.

    A folder that can't be listed is an error, not an empty one.
    """

    def fail(problem: OSError) -> None:
        raise InputError(f"{problem.filename}: cannot be read ({problem.strerror})") from None

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
    if kind == "tsv" and _suffix(file) not in _SUFFIXES["tsv"]:
        return "text" if _suffix(file) in _SUFFIXES["text"] else None
    return kind


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
