"""Texts of documents for a list of results: the title, then the part of the text that has most of the query's words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import parse_json
from kernelsearch.core.types import Query
from kernelsearch.lucene.index import LuceneIndex
from kernelsearch.trec.formats import TEXT_NAMES

#: A first line of up to this many characters is taken for the title.
MAX_TITLE = 120
#: Text that has less space than this beside its title, in characters, is left out.
MIN_TEXT = 16
#: Combining marks and zero-width joiners, which are parts of words in many scripts and not in Python's \w.
_MARKS = "".join(chr(code) for code in range(0x300, 0x3100) if unicodedata.category(chr(code))[0] == "M") + "\u200c\u200d"
#: A word as Lucene's StandardTokenizer bounds it: `tap's`, `foo_bar`, `example.com` and `3,5` are one each. The page's script
#: (serve/page/js/highlight.js) has the same pattern.
_WORD = re.compile(rf"[\w{_MARKS}]+(?:(?:['’.:]|(?<=\d),(?=\d))[\w{_MARKS}]+)*")


def make_snippets(lucene: LuceneIndex, query: Query, docs: NDArray[np.integer], width: int) -> tuple[list[str], set[str]]:
    """The snippet of each document's text in at most `width` characters, and the words that match the query.

    `lucene` is the index that stores the texts, `docs` are rows of it.
    """
    texts = stored_texts(lucene, docs)
    words = matching_words(lucene, query, texts)
    return [make_snippet(text, words, width) for text in texts], words


def stored_texts(lucene: LuceneIndex, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
    """The texts of the rows `docs` of `lucene`: the stored contents, or those of the stored record; empty without either.

    Pyserini's prebuilt indexes mostly store the record alone (`--storeRaw`).
    """
    texts = lucene.stored(docs, "contents")
    records = lucene.stored(docs, "raw") if None in texts else texts
    return [_record_text(record) if text is None else text for text, record in zip(texts, records, strict=True)]


def _record_text(record: str | None) -> str:
    """The text of a stored record: a JSON object, or what another format of documents has, such as TREC's markup."""
    try:
        fields = parse_json(record, "record", stored=True) if record else {}
    except InputError:
        return record or ""
    texts = {name: value for name, value in fields.items() if isinstance(value, str)} if isinstance(fields, dict) else {}
    if "contents" in texts:
        return texts["contents"]
    body = next((texts[name] for name in TEXT_NAMES if name in texts), "")
    return "\n".join(filter(None, (texts.get("title"), body)))


def matching_words(lucene: LuceneIndex, query: Query, texts: Iterable[str]) -> set[str]:
    """The words of `texts`, in lower case, that the analyser of the index `lucene` makes into terms of the `query`."""
    words = sorted({word.lower() for text in texts for word in _WORD.findall(text)})
    wanted = set(query.terms)
    return {word for word, terms in zip(words, lucene.analyze(words), strict=True) if wanted.intersection(terms)}


def make_snippet(text: str, words: set[str], width: int) -> str:
    """The title of a text and the window of it with most distinct words of `words`, in at most `width` characters.

    >>> make_snippet("Dripping tap\\nTurn the water off first. Then replace the washer of the tap.", {"washer"}, 50)
    'Dripping tap: … replace the washer of the tap.'
    """
    first, line_break, rest = text.strip().partition("\n")
    title = " ".join(first.split()) if line_break and len(first) <= MAX_TITLE else ""
    body = " ".join((rest if title else text).split())
    space = width - len(title) - 2 if title else width
    if title and (not body or space < MIN_TEXT):
        return _cut(title, width)
    start = _best_start(body, words, space)
    part, space = body[start:], space - 2 * (start > 0)
    shown = ("… " if start else "") + _cut(part, space)
    return ": ".join(filter(None, (title, shown)))


def _cut(text: str, width: int) -> str:
    """The text in at most `width` characters, cut between words."""
    return text if len(text) <= width else (text[: width - 1].rpartition(" ")[0] or text[: width - 2]) + " …"


def _best_start(text: str, words: set[str], space: int) -> int:
    """Where the window of `space` characters begins that has most distinct matching words; the first of several."""
    matches = [(match.start(), match.end(), match[0].lower()) for match in _WORD.finditer(text)]
    matched = [match for match in matches if match[2] in words]
    if not matched or matched[0][0] == 0 or len(text) <= space:
        return 0
    starts = [match[0] for match in matches]

    def count(start: int) -> int:
        return len({word for begin, end, word in matched if begin >= start and end <= start + space - 4})

    # A few words before the match show how it is meant.
    candidates = [0, *(max((begin for begin in starts if begin <= max(at - space // 4, 0)), default=0) for at, _, _ in matched)]
    return max(candidates, key=lambda start: (count(start), -start))


def highlight(text: str, words: Iterable[str], marks: Sequence[str] = ("\x1b[1;33m", "\x1b[0m")) -> str:
    """The text with marks, by default a terminal's bold yellow, around the words."""
    wanted = set(words)
    return _WORD.sub(lambda match: f"{marks[0]}{match[0]}{marks[1]}" if match[0].lower() in wanted else match[0], text)
