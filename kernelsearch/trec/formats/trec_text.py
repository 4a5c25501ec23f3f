"""TREC text: `<DOC>` elements with `<DOCNO>`, `<TEXT>` and others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import lines
from kernelsearch.trec.formats import Records

#: The parts of a TREC document that hold text, as Anserini's TrecCollection takes them.
_TEXT_TAGS = "TEXT|HEADLINE|TITLE|HL|HEAD|TTL|DD|DATE|LP|LEADPARA"
_TITLE_TAGS = "TITLE|HEADLINE|HL|HEAD|TTL"


def read_trec(path: Path, encoding: str) -> Records:
    """The documents of the file `path` of TREC text in `encoding`. Raises InputError, with the line, for unbalanced <DOC>."""
    start, inside, body = 0, False, []
    for number, line in lines(path, encoding):
        if not inside and line.strip().upper().startswith("<DOC>"):
            start, inside, body = number, True, [line.strip()[5:]]
        elif inside and line.strip().upper().startswith("</DOC>"):
            yield f"line {start}", _trec_document("\n".join(body))
            inside = False
        elif inside and line.strip().upper().startswith("<DOC>"):
            raise InputError(f"<DOC> within the document of line {start}, which has no line </DOC>", path=path, line=number)
        elif inside:
            body.append(line)
        elif line.strip():
            raise InputError("text outside <DOC> ... </DOC>", path=path, line=number)
    if inside:
        raise InputError("<DOC> without </DOC>", path=path, line=start)


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
