"""Reading collections: JSONL, BEIR folders, TREC text, CSV and TSV; plain or gzipped, a file or a folder of files.

Every document comes out as a dict with `id` and `contents` (the searchable text), an optional `title`, and whatever
other fields it had.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.files import json_lines, lines

FORMATS = ("jsonl", "beir", "trec", "csv", "tsv")
_SUFFIXES = {"jsonl": (".jsonl", ".json"), "csv": (".csv",), "tsv": (".tsv",), "trec": ()}

#: (file and line, document)
Located = tuple[str, dict[str, Any]]


def read_documents(path: str | Path, kind: str | None = None, encoding: str = "utf-8") -> Iterator[Located]:
    """Yields (file and line, document) for every document of a collection; contents may be empty.

    `path` is a file or a folder, `kind` one of FORMATS (guessed if None). Raises InputError, with file and line, for a document
    without id or text and for malformed files.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    kind = kind or _guess(path)
    if kind not in FORMATS:
        raise OptionError(f"--format: {kind!r} is not one of {', '.join(FORMATS)}")
    read = {"jsonl": json_lines, "beir": json_lines, "trec": _trec, "csv": _table, "tsv": _table}[kind]
    count = 0
    for file in _files(path, kind):
        for number, record in read(file, encoding):
            yield f"{file}: line {number}", _document(record, f"{file}: line {number}")
            count += 1
    if not count:
        raise InputError(f"{path}: no documents in it (read as {kind})")


def _guess(path: Path) -> str:
    if path.is_dir():
        if (path / "corpus.jsonl").exists() or (path / "corpus.jsonl.gz").exists():
            return "beir"
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        if not files:
            raise InputError(f"{path}: an empty folder, documents were expected")
        return _guess(files[0])
    name = path.name.removesuffix(".gz")
    for kind, suffixes in _SUFFIXES.items():
        if name.endswith(suffixes or ("\0",)):
            return kind
    for _, line in lines(path):
        if line.strip():
            return "jsonl" if line.lstrip().startswith("{") else "trec" if line.lstrip().startswith("<") else "tsv"
    raise InputError(f"{path}: empty, documents were expected")


def _files(path: Path, kind: str) -> list[Path]:
    if kind == "beir" and path.is_dir():
        corpora = [file for file in (path / "corpus.jsonl", path / "corpus.jsonl.gz") if file.exists()]
        if not corpora:
            raise InputError(f"{path}: no corpus.jsonl in it, a BEIR folder was expected")
        return corpora[:1]
    if not path.is_dir():
        return [path]
    suffixes = _SUFFIXES[kind]
    files = sorted(
        file
        for file in path.rglob("*")
        if file.is_file()
        and not file.name.startswith(".")
        and (not suffixes or file.name.removesuffix(".gz").endswith(suffixes))
    )
    if not files:
        raise InputError(f"{path}: no {kind} files in it")
    return files


def _document(record: dict[str, Any], place: str) -> dict[str, Any]:
    """A record with the keys that kernelsearch uses: `id`, `contents`, then the other fields."""
    docid = next((record[key] for key in ("id", "_id", "docid", "docno") if record.get(key) not in (None, "")), None)
    if docid is None:
        raise InputError(f"{place}: a document without an id (looked for id, _id, docid, docno)")
    docid = str(docid).strip()
    if not docid or re.search(r"\s", docid):
        raise InputError(f"{place}: document id {docid!r} is empty or has white space in it, which run files don't allow")
    title = record.get("title") or ""
    if "contents" in record:
        contents = record["contents"]
    else:
        body = next((record[key] for key in ("text", "body", "content") if key in record), None)
        if body is None and not title:
            raise InputError(f"{place}: document {docid} has no text (looked for contents, text, body, content)")
        contents = f"{title}\n{body or ''}" if title else body
    if not isinstance(contents, str) or not isinstance(title, str):
        raise InputError(f"{place}: document {docid}: title and contents must be text")
    rest = {key: value for key, value in record.items() if key not in ("id", "_id", "docid", "docno", "contents", "title")}
    return {"id": docid, "contents": contents, **({"title": title} if "title" in record else {}), **rest}


def _table(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of CSV or TSV: with a header that names an id column, else two columns (id, text), as in MS MARCO."""
    tabs = path.name.removesuffix(".gz").endswith(".tsv") or not path.name.removesuffix(".gz").endswith(".csv")
    numbered = lines(path, encoding)
    at = [0]

    def texts() -> Iterator[str]:
        for number, line in numbered:
            at[0] = number
            yield line + "\n"

    # In TSV quotes have no special meaning. Quoted CSV cells may contain line breaks.
    rows = csv.reader(texts(), delimiter="\t", quoting=csv.QUOTE_NONE) if tabs else csv.reader(texts(), strict=True)
    header: list[str] | None = None
    try:
        for row in rows:
            if not row or (len(row) == 1 and not row[0].strip()):
                continue
            if header is None:
                names = [cell.strip().lower() for cell in row]
                if {"id", "_id", "docid", "docno"} & set(names):
                    header = names
                    continue
                header = ["id", "contents"]
            if len(row) != len(header):
                raise InputError(f"{path}: line {at[0]}: {len(row)} columns, {len(header)} were expected")
            yield at[0], dict(zip(header, row, strict=True))
    except csv.Error as problem:
        raise InputError(f"{path}: line {at[0]}: {problem}") from None


#: The parts of a TREC document that hold text, as Anserini's TrecCollection takes them.
_TEXT_TAGS = "TEXT|HEADLINE|TITLE|HL|HEAD|TTL|DD|DATE|LP|LEADPARA"
_TITLE_TAGS = "TITLE|HEADLINE|HL|HEAD|TTL"


def _trec(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    start, inside, body = 0, False, []
    for number, line in lines(path, encoding):
        if not inside and line.strip().upper().startswith("<DOC>"):
            start, inside, body = number, True, [line.strip()[5:]]
        elif inside and line.strip().upper().startswith("</DOC>"):
            yield start, _trec_document("\n".join(body))
            inside = False
        elif inside:
            body.append(line)
        elif line.strip():
            raise InputError(f"{path}: line {number}: text outside <DOC> ... </DOC>")
    if inside:
        raise InputError(f"{path}: line {start}: <DOC> without </DOC>")


def _trec_document(body: str) -> dict[str, Any]:
    number = re.search(r"<DOCNO>\s*(.*?)\s*</DOCNO>", body, re.S | re.I)
    rest = re.sub(r"<(DOCNO|DOCHDR|DOCID)>.*?</\1>", " ", body, flags=re.S | re.I)
    parts = [match.group(2) for match in re.finditer(rf"<({_TEXT_TAGS})>(.*?)</\1>", rest, re.S | re.I)]
    title = re.search(rf"<({_TITLE_TAGS})>(.*?)</\1>", rest, re.S | re.I)
    record = {"id": number.group(1) if number else "", "contents": _plain("\n".join(parts) if parts else rest)}
    if title:
        record["title"] = " ".join(_plain(title.group(2)).split())
    return record


def _plain(markup: str) -> str:
    return re.sub(r"<[^<>]*>", " ", markup).strip()
