"""Reading collections: a file or a folder of files, plain or gzipped, in any of FORMATS.

Every document comes out as a dict with `id` and `contents` (the searchable text), an optional `title`, and whatever
other fields it had.
"""

from __future__ import annotations

import logging
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import EncodingError, Flag, InputError, OptionError, quote, short
from kernelsearch.trec.collection_files import FORMATS, folder_files, guess_format
from kernelsearch.trec.delimited import HEADER_NAMES
from kernelsearch.trec.formats import ID_NAMES, TEXT_NAMES, Records
from kernelsearch.trec.formats.json_array import arrays_of_objects
from kernelsearch.trec.ids import check_id
from kernelsearch.trec.values import find_value, text_of

logger = logging.getLogger(__name__)

#: Keys of a record that `make_document` doesn't copy as they are.
_USED = frozenset((*ID_NAMES, "contents", "title"))
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
        raise InputError("no such file or folder", path=path) from None
    except (OSError, ValueError) as problem:
        raise InputError(f"cannot be read ({getattr(problem, 'strerror', problem)})", path=path) from None
    if kind is not None and kind not in FORMATS:
        raise OptionError(f"{quote(kind)} is not one of {', '.join(FORMATS)}", option=Flag("format"))
    columns = {name: column.strip() for name, column in (columns or {}).items()}
    if number_documents and "id" in columns:
        raise OptionError(
            f"the ids are those of {quote(columns['id'])}, which ", Flag("columns"), " names", option=Flag("number-documents")
        )
    files = folder_files(path, kind) if is_folder else [(path, kind or guess_format(path))]
    count = 0
    for file, file_kind in files:
        known = FORMATS[file_kind]
        skips = skip_unreadable if is_folder and known.page else None
        for within, record in _records(file, file_kind, columns, encoding, skips, number_documents):
            place = f"{file}: {within}" if within else str(file)
            if known.page:
                record = _page(record, file, path)
            elif columns:
                record = _rename(record, columns, place)
            if number_documents:
                record = number_record(record, count + 1)
            yield place, make_document(record, place, join_titles=join_titles and not known.joined)
            count += 1
    if not count:
        raise InputError(f"no documents in it (read as {' and '.join(sorted({kind for _, kind in files}))})", path=path)


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
            f"a document without an id (looked for {', '.join(ID_NAMES)}; found {_keys(record)}); ",
            Flag("columns"),
            " id=NAME,contents=NAME names other keys, ",
            Flag("number-documents", value=True),
            f" numbers the documents{envelope}",
            path=place,
        )
    docid = check_id(id_text(docid, place), "document", place)
    title = _text(record.get("title"), "title", place, docid)
    if "contents" in record:
        contents = _text(record["contents"], "contents", place, docid)
        join = join_titles and not contains_title(contents, title)
    else:
        key = next((key for key in TEXT_NAMES if key in record), None)
        if key is None and not title:
            raise InputError(
                f"{_document_place(place, docid)} has no text (looked for contents, {', '.join(TEXT_NAMES)}; "
                f"found {_keys(record)}); ",
                Flag("columns"),
                " contents=NAME names another key",
            )
        # As BEIR and Anserini do it: always joined.
        contents, join = _text(record[key], key, place, docid) if key is not None else "", join_titles and bool(title)
    if join:
        contents = f"{title}\n{contents}"
    rest = {key: value for key, value in record.items() if key not in _USED}
    return {"id": docid, "contents": contents, **({"title": title} if "title" in record else {}), **rest}


def _text(value: object, key: str, place: str, docid: str) -> str:
    """As `text_of`, for a value of the document `docid`; the message's beginning is made only where there is a message."""
    return value if isinstance(value, str) else text_of(value, key, _document_place(place, docid))


def _document_place(place: str, docid: str) -> str:
    """The beginning of a message about the document `docid`."""
    return f"{place}: document {short(docid)}"


def _keys(record: Mapping[str, Any]) -> str:
    """The keys of a record for a message."""
    return short(", ".join(map(str, record)), 200) or "nothing"


def id_text(value: object, place: str) -> str:
    """The document id `value`, a text or a number of any type, as text; InputError, which begins with `place`, for others."""
    if isinstance(value, str):
        return value.strip()
    if hasattr(value, "tolist"):  # a number of numpy
        value = value.tolist()
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InputError(f"document id {quote(value)} is neither text nor a number", path=place)
    try:
        # A column of ids in which some cells are empty is one of floats in many tables.
        return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    except ValueError:  # an integer of more than 4,300 digits
        raise InputError(f"document id of {quote(value)} is too long", path=place) from None


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
            raise OptionError(
                f"{quote(text)} is not id=NAME, contents=NAME or title=NAME, each at most once", option=Flag("columns")
            )
        columns[name] = column
    return columns


def _reader(kind: str, columns: Mapping[str, str], numbered: bool) -> Callable[[Path, str], Records]:
    if not FORMATS[kind].columns:
        return FORMATS[kind].read
    id_names = () if numbered else (columns["id"].lower(),) if "id" in columns else ID_NAMES
    text_names = (*(columns[name].lower() for name in ("contents", "title") if name in columns), *HEADER_NAMES)
    return partial(FORMATS[kind].read, id_names=id_names, text_names=text_names)


def _records(file: Path, kind: str, columns: Mapping[str, str], encoding: str, skips: bool | None, numbered: bool) -> Records:
    """The records of a file. A file that can't be read is logged and has none with `skips`; None: that is no choice."""
    try:
        yield from _reader(kind, columns, numbered)(file, encoding)
    except InputError as problem:
        if isinstance(problem, EncodingError):
            problem.args += ("; ", Flag("encoding"), " names another one, such as windows-1252")
        if skips is False:
            problem.args += ("; ", Flag("skip-unreadable"), " leaves it out")
        if not skips:
            raise
        logger.warning("%s; left out", problem)


def _rename(record: dict[str, Any], columns: Mapping[str, str], place: str) -> dict[str, Any]:
    """The record with the chosen columns as `id`, `contents` and `title`; the others keep their names."""
    lower = {name.lower(): name for name in record}
    renamed = {}
    for target, column in columns.items():
        try:
            renamed[target] = find_value(record, column)
        except KeyError:
            listed = short(", ".join(map(str, record)))
            raise InputError(f"no {quote(column)}, which ", Flag("columns"), f" names, among {listed}", path=place) from None
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
