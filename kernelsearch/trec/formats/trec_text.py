"""TREC text: `<DOC>` elements with `<DOCNO>`, `<TEXT>` and others, read as by Anserini (TrecCollection, TrecwebCollection)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import lines
from kernelsearch.lucene.markup import text_of_markup
from kernelsearch.trec.formats import Format, Records, html_page

#: The elements of a TREC document that hold text, as Anserini's TrecCollection takes them. They begin a line.
_TEXT_TAGS = ("TEXT", "HEADLINE", "TITLE", "HL", "HEAD", "TTL", "DD", "DATE", "LP", "LEADPARA")
_TITLE = re.compile(r"<(TITLE|HEADLINE|HL|HEAD|TTL)>(.*?)</\1>", re.S | re.I)
_DOC = re.compile(r"<DOC(?:>|\s[^>]*>?)", re.I)
_ID = re.compile(r'.*id="([^"]+)"', re.I)
_DOCNO = re.compile(r"<DOCNO>(.*?)</DOCNO>", re.S | re.I)
_HEADER = re.compile(r"<DOCHDR>.*?</DOCHDR>", re.S | re.I)
#: What Java's `trim` removes.
_BLANK = "".join(map(chr, range(33)))


def read_trec(path: Path, encoding: str) -> Records:
    """The documents of the file `path` of TREC text in `encoding`. Raises InputError, with the line, for unbalanced <DOC>."""
    start, first, body = 0, "", []
    for number, line in lines(path, encoding):
        line = line.strip(_BLANK)
        opening = _DOC.match(line)
        if opening and start:
            raise InputError(f"<DOC> within the document of line {start}, which has no line </DOC>", path=path, line=number)
        if opening:
            start, first, body = number, opening[0], [line[opening.end() :]]
        elif start and line[:6].upper() == "</DOC>":
            yield f"line {start}", _trec_document(first, "\n".join(body))
            start = 0
        elif start:
            body.append(line)
        elif line:
            raise InputError("text outside <DOC> ... </DOC>", path=path, line=number)
    if start:
        raise InputError("<DOC> without </DOC>", path=path, line=start)


def _trec_document(first: str, body: str) -> dict[str, Any]:
    """The record of the document that begins with the tag `first`; `body` is what follows."""
    attribute, number = _ID.match(first), _DOCNO.search(body)
    docid = attribute[1] if attribute else number[1] if number else ""
    rest = _DOCNO.sub("\n", body, count=1)
    if header := _HEADER.search(rest):  # a page of a web collection
        markup = rest[header.end() :]
    else:
        # Anserini does not read files with tags in lower case, so any case is right in them.
        markup = "\n".join(_text_lines(rest, any_case=not first.startswith("<DOC")))
        if not markup and not re.search(r"<[A-Za-z]", rest):
            markup = rest
    record = {"id": docid.strip(), "contents": text_of_markup(markup)}
    if title := _TITLE.search(markup):
        record["title"] = text_of_markup(title[0])
    return record


def _text_lines(body: str, any_case: bool) -> Iterator[str]:
    """The lines of the elements of text, with their tags; an element lasts to the line that begins or ends with its end tag."""
    tag = None
    for line in re.split(r"[\r\n]", body):
        line = line.strip(_BLANK)
        compared = line.upper() if any_case else line
        if tag is None and compared.startswith("<"):
            tag = next((name for name in _TEXT_TAGS if compared.startswith(f"<{name}>")), None)
        if tag is not None:
            yield line
            if compared.startswith(f"</{tag}>") or compared.endswith(f"</{tag}>"):
                tag = None


FORMAT = Format(
    "trec", read_trec, suffixes=(".trec", ".sgml"), begins=rf"<(?!{html_page.START})", joined=True
)  # TITLE is one of the elements of text
