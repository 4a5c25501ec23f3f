"""HTML, one document per file."""

from __future__ import annotations

import codecs
import re
from html.parser import HTMLParser
from pathlib import Path

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import TextFile, open_bytes
from kernelsearch.trec.formats import Format, Records

#: What follows the `<` at the beginning of a page.
START = r"(?:!doctype\s+html|html|head|body)\b"
#: HTML elements whose content is no text of the page.
_HIDDEN = frozenset(("script", "style", "template", "noscript", "svg", "math", "iframe", "object", "select", "textarea"))
#: HTML elements that run on within a line; every other one ends the line before it.
_INLINE = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn",
    "em", "font", "i", "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span",
    "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
))  # fmt: skip


def read_html(path: Path, encoding: str) -> Records:
    """The text of the HTML page `path`, as a browser shows it; the title is that of the page, or else its first heading.

    A byte-order mark precedes the page's own declaration of its encoding, which precedes `encoding`.
    """
    with open_bytes(path) as stream:
        start = stream.read(2048)
    declared = re.search(rb"""<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", start, re.I)
    if declared and not start.startswith(codecs.BOM_UTF8):
        text = _declared_text(path, declared[1].decode("ascii", "replace"))
    else:
        text = TextFile(path, encoding)
    parser = _PageText()
    for _, line in text:
        parser.feed(line + "\n")
    parser.close()
    yield "", {"title": parser.title(), "contents": parser.text()}


def _declared_text(path: Path, name: str) -> TextFile:
    """The page `path` in the encoding `name` that it declares; InputError for one that is unknown or no extension of ASCII."""
    try:
        codec = codecs.lookup(name).name
        # WHATWG: what calls itself Latin-1 or ASCII is Windows-1252, and a declaration in ASCII can't be in UTF-16.
        others = {"iso8859-1": "cp1252", "ascii": "cp1252", "utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8"}
        return TextFile(path, others.get(codec, name))
    except (LookupError, InputError):
        raise InputError(f"declares the encoding {name!r}, which can't be read", path=path) from None


class _PageText(HTMLParser):
    """Collects the text of a page, its title and its first heading. Tolerates missing end tags, as browsers do."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._titles: list[str] = []
        self._headings: list[str] = []
        self._hidden: list[str] = []
        self._in_title = False
        self._in_heading = False
        self._preformatted = 0

    def title(self) -> str:
        return " ".join("".join(self._titles).split()) or " ".join("".join(self._headings).split())

    def text(self) -> str:
        text = (" ".join(line.split()) for line in "".join(self._parts).split("\n"))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(text)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden.append(tag)
        elif tag == "body":
            # No hidden element of the head reaches into the body.
            self._hidden.clear()
        if tag == "title" and not self._hidden:
            self._in_title = not self._titles
        if tag == "h1" and not self._hidden:
            self._in_heading = not self._headings
        if tag == "pre":
            self._preformatted += 1
        if tag not in _INLINE and not self._hidden:
            self._parts.append("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _INLINE and not self._hidden:
            self._parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        if tag == "title":
            self._in_title = False
        if tag == "h1":
            self._in_heading = False
        if tag == "pre" and self._preformatted:
            self._preformatted -= 1
        if tag not in _INLINE and not self._hidden:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._titles.append(data)
        elif not self._hidden:
            # Line breaks of the source are spaces on the page, outside <pre>.
            shown = data if self._preformatted else data.replace("\n", " ")
            self._parts.append(shown)
            if self._in_heading:
                self._headings.append(data)


FORMAT = Format("html", read_html, suffixes=(".html", ".htm", ".xhtml"), begins=rf"<{START}", page=True)
