"""What a search gives back in Python: hits that know their document, in a list that prints well."""

from __future__ import annotations

import html
from collections import UserList
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar, overload

from kernelsearch.core.tables import text_table
from kernelsearch.core.types import Candidates, Query

if TYPE_CHECKING:
    from kernelsearch.api.index import Index

H = TypeVar("H")

#: Characters of a document's text in a printed list.
SHOWN = 80


class Hit:
    """A document in a ranked list. Texts are read from the index when they are asked for.

    Attributes: `docid`; `score`; `lucene_docid`, the document's number in Lucene and row in the forward index.
    """

    __slots__ = ("_index", "docid", "lucene_docid", "score")

    def __init__(self, docid: str, score: float, lucene_docid: int, index: Index) -> None:
        self.docid = docid
        self.score = score
        self.lucene_docid = lucene_docid
        self._index = index

    def __repr__(self) -> str:
        return f"Hit({self.docid!r}, {self.score:.4f})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Hit, (self.docid, self.score, self.lucene_docid, self._index)

    @property
    def contents(self) -> str | None:
        """The document's text, where the index stores it."""
        return self.get("contents")

    @property
    def raw(self) -> str | None:
        """The whole record as it was indexed, where the index stores it."""
        return self.get("raw")

    def get(self, field: str) -> str | None:
        """A stored field."""
        return self._index.lucene.stored([self.lucene_docid], field)[0]

    @property
    def lucene_document(self) -> Any:
        """Lucene's own document, a Java object, as a Pyserini hit has it."""
        return self._index.lucene.document(self.lucene_docid)


class Hits(UserList[H]):
    """A list whose items are made when something first looks at one: most scripts look at a few of a thousand, or at none.

    It does all that a list does; `list(hits)` is a plain one.
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

    def __len__(self) -> int:
        return len(self.data) if "data" in self.__dict__ else self._size

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.data,)


def make_hits(index: Index, found: Candidates) -> list[Hit]:
    """A ranked list as hits."""
    docids = index.forward.docids.take(found.docs)
    return list(map(Hit, docids, found.scores.tolist(), found.docs.tolist(), repeat(index)))


def earlier_ranks(before: Candidates, after: Candidates) -> list[int | None]:
    """The rank, from 1, that each document of `after` had in `before`; None for one that was not in it."""
    ranks = {row: rank for rank, row in enumerate(before.docs.tolist(), 1)}
    return [ranks.get(row) for row in after.docs.tolist()]


class Results(Sequence[Hit]):
    """A query's ranked list, best first.

    Attributes: `query`, as typed and as the index sees it; `methods`, the names of the rerankers; `hits`.
    Prints as a table, in a notebook as HTML, with how far each document has moved from its place in the first stage.
    """

    def __init__(self, index: Index, query: Query, methods: Sequence[str], before: Candidates, found: Candidates) -> None:
        self.query = query
        self.methods = tuple(methods)
        self.hits = make_hits(index, found)
        self._index = index
        self._before = before
        self._found = found

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
        """The documents' ids, best first."""
        return [hit.docid for hit in self.hits]

    @property
    def scores(self) -> list[float]:
        """Their scores."""
        return [hit.score for hit in self.hits]

    def moved(self) -> list[int | None]:
        """How many places each hit has risen from the first stage's list; None for a document that was not in it."""
        return [None if old is None else old - new for new, old in enumerate(earlier_ranks(self._before, self._found), 1)]

    def rows(self) -> list[tuple[int, str, str, str, str]]:
        """(rank, moved, docid, score, beginning of the text) of each hit."""
        texts = self._index.lucene.stored(self._found.docs, "contents")
        return [
            (rank, rank_change(moved), hit.docid, f"{hit.score:.4f}", _short(text))
            for rank, (hit, moved, text) in enumerate(zip(self.hits, self.moved(), texts, strict=True), 1)
        ]

    def __repr__(self) -> str:
        if not self.hits:
            return f"{self._title()}: no document matches"
        header, rows = _without_moves(("rank", "moved", "docid", "score", "text"), self.rows(), bool(self.methods))
        return f"{self._title()}\n" + text_table(header, rows, align=">><><" if self.methods else "><><")

    def _repr_html_(self) -> str:
        title = f"<p><b>{html.escape(self._title())}</b></p>"
        if not self.hits:
            return title + "<p>no document matches</p>"
        header, rows = _without_moves(("rank", "moved", "docid", "score", "text"), self.rows(), bool(self.methods))
        return title + html_table(header, rows, align=">><><" if self.methods else "><><")

    def _title(self) -> str:
        return f"{self.query.text!r}, {' then '.join(('first stage', *self.methods))}"


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]], align: str) -> str:
    """A plain table for notebooks; everything is escaped. `align` has < or > for each column, as `text_table` has."""
    styles = [f' style="text-align: {"left" if side == "<" else "right"}"' for side in align]

    def line(kind: str, cells: Sequence[object]) -> str:
        return "".join(f"<{kind}{style}>{html.escape(str(cell))}</{kind}>" for cell, style in zip(cells, styles, strict=True))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{line('th', header)}</tr></thead><tbody>{body}</tbody></table>"


def _without_moves(
    header: tuple[str, ...], rows: list[tuple[int, str, str, str, str]], keep: bool
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Without rerankers nothing has moved, and the column is left out."""
    if keep:
        return header, list(rows)
    return (header[0], *header[2:]), [(row[0], *row[2:]) for row in rows]


def rank_change(moved: int | None) -> str:
    """How far a document rose, for tables."""
    return "new" if moved is None else "=" if moved == 0 else f"{moved:+d}"


def _short(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
