"""The results of a search: hits with access to their document, in a list that prints as a table of ranks and snippets.

A snippet is the title of a document, then the part of its text that has most of the query's words.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import UserList
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import parse_json
from kernelsearch.core.tables import import_pandas, text_table
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene.index import LuceneIndex
from kernelsearch.trec.formats import TEXT_NAMES

if TYPE_CHECKING:
    from pandas import DataFrame

    from kernelsearch.api.index_files import IndexFiles

H = TypeVar("H")

#: Maximum length of a document's text in a printed list, in characters.
MAX_TEXT = 80
#: A first line of up to this many characters is taken for the title.
MAX_TITLE = 120
#: Text that has less space than this beside its title, in characters, is left out.
MIN_TEXT = 16
#: Combining marks and zero-width joiners, which are parts of words in many scripts and not in Python's \w.
_MARKS = "".join(chr(code) for code in range(0x300, 0x3100) if unicodedata.category(chr(code))[0] == "M") + "\u200c\u200d"
#: A word as Lucene's StandardTokenizer bounds it: `tap's`, `foo_bar`, `example.com` and `3,5` are one each. The page's script
#: (serve/page/js/highlight.js) has the same pattern.
_WORD = re.compile(rf"[\w{_MARKS}]+(?:(?:['’.:]|(?<=\d),(?=\d))[\w{_MARKS}]+)*")


class Hit:
    """A document in a ranked list. Its text is read from the index on access.

    Attributes: `docid`; `score`; `lucene_docid`, the document's number in Lucene and row in the forward index.
    """

    __slots__ = ("_index", "docid", "lucene_docid", "score")

    def __init__(self, docid: str, score: float, lucene_docid: int, index: IndexFiles) -> None:
        self.docid = docid
        self.score = score
        self.lucene_docid = lucene_docid
        self._index = index

    def __repr__(self) -> str:
        return f"Hit({self.docid!r}, {self.score:.4f})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.docid, self.score, self.lucene_docid, self._index)

    def rescored(self, score: float) -> Hit:
        """A copy of the hit with another score."""
        return type(self)(self.docid, score, self.lucene_docid, self._index)

    @property
    def contents(self) -> str | None:
        """The document's text; None where the index does not store it."""
        return self.get("contents")

    @property
    def raw(self) -> str | None:
        """The whole record as it was indexed; None where the index does not store it."""
        return self.get("raw")

    def get(self, field: str) -> str | None:
        """The value of a stored field; None where the document has none of that name."""
        return self._index.lucene.stored([self.lucene_docid], field)[0]

    @property
    def lucene_document(self) -> Any:
        """Lucene's document, a Java object, as in Pyserini's hits."""
        return self._index.lucene.document(self.lucene_docid)


class Hits(UserList[H]):
    """A list whose items are made on first access, because most callers read few of them or none. `list(hits)` is a plain list.

    Parameters
    ----------
    hits : the items
    later : a function that makes the items on first access, instead of `hits`
    size : how many items `later` makes
    """

    def __init__(self, hits: Iterable[H] = (), *, later: Callable[[], list[H]] | None = None, size: int = 0) -> None:
        if later is None:
            self.data = list(hits)
        else:
            self._later, self._size = later, size

    def __getattr__(self, name: str) -> Any:
        if name != "data" or "_later" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.data = self._later()
        return self.data

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # isinstance(hits, list) is true, which scripts ask; a list itself can't make its items later.
        return list

    def __copy__(self) -> list[H]:  # type: ignore[override]
        return self.data.copy()

    def __len__(self) -> int:
        return len(self.data) if "data" in self.__dict__ else self._size

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.data,)


def make_hits(index: IndexFiles, ranked: Candidates, kind: type[Hit] = Hit) -> list[Hit]:
    """The hits, of the class `kind`, of a ranked list of `index`."""
    docids = index.forward.docids.take(ranked.docs)
    return list(map(kind, docids, ranked.scores.tolist(), ranked.docs.tolist(), repeat(index)))


def earlier_ranks(before: Candidates, after: Candidates) -> list[int | None]:
    """The rank, from 1, that each document of `after` had in `before`; None for a document that was not in it."""
    ranks = {row: rank for rank, row in enumerate(before.docs.tolist(), 1)}
    return [ranks.get(row) for row in after.docs.tolist()]


def rank_changes(earlier: Sequence[int | None], first: int = 1) -> list[int | None]:
    """How many ranks each document of a list has gained; the list begins with rank `first`.

    `earlier` is the result of `earlier_ranks`, whose None stays None.
    """
    return [None if rank is None else rank - new for new, rank in enumerate(earlier, first)]


class Results(Sequence[Hit]):
    """The ranked list of a query, best document first.

    Made from the `index`, the `query`, the names of the `methods`, and the lists `before` (the first stage's) and `ranked` (to
    show). Attributes: `query`, its text and analysed terms; `methods`, the names of the rerankers; `hits`.
    Prints as a table, in a notebook as HTML, with each document's rank change from the first stage's list.
    """

    def __init__(self, index: IndexFiles, query: Query, methods: Sequence[str], before: Candidates, ranked: Candidates) -> None:
        self.query = query
        self.methods = tuple(methods)
        self.hits = make_hits(index, ranked)
        self._index = index
        self._before = before
        self._ranked = ranked

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...
    def __getitem__(self, place: int | slice) -> Hit | list[Hit]:
        return self.hits[place]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @property
    def docids(self) -> list[str]:
        """The docids, best first."""
        return [hit.docid for hit in self.hits]

    @property
    def scores(self) -> list[float]:
        """The scores, best first."""
        return [hit.score for hit in self.hits]

    def to_dataframe(self) -> DataFrame:
        """A pandas DataFrame with the columns qid, query, rank (from 1), docid, score, moved and text, one row per hit."""
        pandas = import_pandas()
        texts = self._index.lucene.stored(self._ranked.docs, "contents")
        columns = {
            "rank": range(1, len(self) + 1),
            "docid": self.docids,
            "score": self.scores,
            "moved": self.moved(),
            "text": texts,
        }
        frame = pandas.DataFrame({name: list(values) for name, values in columns.items()})
        frame.insert(0, "qid", self.query.qid)
        frame.insert(1, "query", self.query.text)
        return frame

    def moved(self) -> list[int | None]:
        """How many ranks each hit has gained since the first stage's list; None for a document that was not in it."""
        return rank_changes(earlier_ranks(self._before, self._ranked))

    @property
    def fallbacks(self) -> tuple[tuple[str, str], ...]:
        """(method, reason) of each method that could not act on the query and left its list unchanged."""
        return self._ranked.fallbacks

    def snippets(self, width: int) -> tuple[list[str], set[str]]:
        """The title and the best matching part of each hit's text, in at most `width` characters, and the words that match."""
        return make_snippets(self._index.lucene, self.query, self._ranked.docs, width)

    def cells(self) -> list[tuple[str, str, str, str]]:
        """(rank, docid, score, rank change) of each hit, as printed."""
        return [
            (str(rank), hit.docid, f"{hit.score:.4f}", format_rank_change(moved))
            for rank, (hit, moved) in enumerate(zip(self.hits, self.moved(), strict=True), 1)
        ]

    def rows(self) -> list[tuple[int, str, str, str, str]]:
        """(rank, rank change, docid, score, title and best matching part of the text) of each hit, as printed."""
        texts, _ = self.snippets(MAX_TEXT)
        cells = zip(self.cells(), texts, strict=True)
        return [(int(rank), change, docid, score, text) for (rank, docid, score, change), text in cells]

    def __repr__(self) -> str:
        if not self.hits:
            return f"{self._title()}: no document matches"
        header, rows = _without_changes(("rank", "moved", "docid", "score", "text"), self.rows(), bool(self.methods))
        return f"{self._title()}\n" + text_table(header, rows, align=">><><" if self.methods else "><><")

    def _repr_html_(self) -> str:
        title = f"<p><b>{html.escape(self._title())}</b></p>"
        if not self.hits:
            return title + "<p>no document matches</p>"
        header, rows = _without_changes(("rank", "moved", "docid", "score", "text"), self.rows(), bool(self.methods))
        return title + html_table(header, rows, align=">><><" if self.methods else "><><")

    def _title(self) -> str:
        return f"{self.query.text!r}, {' then '.join(('first stage', *self.methods))}"


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]], align: str) -> str:
    """An HTML table of `header` and `rows` with all cells escaped; `align` has < (left) or > (right) for each column."""
    styles = [f' style="text-align: {"left" if side == "<" else "right"}"' for side in align]

    def line(kind: str, cells: Sequence[object]) -> str:
        return "".join(f"<{kind}{style}>{html.escape(str(cell))}</{kind}>" for cell, style in zip(cells, styles, strict=True))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{line('th', header)}</tr></thead><tbody>{body}</tbody></table>"


def _without_changes(
    header: tuple[str, ...], rows: list[tuple[int, str, str, str, str]], keep: bool
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """The table without its column of rank changes, unless `keep` is set."""
    if keep:
        return header, list(rows)
    return (header[0], *header[2:]), [(row[0], *row[2:]) for row in rows]


def format_rank_change(moved: int | None) -> str:
    """A rank change, `moved` places, for tables: "+3", "-1", "=" or, for a document that was not in the earlier list, "new"."""
    return "new" if moved is None else "=" if moved == 0 else f"{moved:+d}"


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
