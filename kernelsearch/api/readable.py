"""What people need to read an explanation: titles for docids, and words for terms, which are stems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import parse_json
from kernelsearch.rerankers.explanations import Contribution, Document, Explanation, Feature, Symbol, Term, Text, pieces_of

if TYPE_CHECKING:
    from kernelsearch.api.index_files import IndexFiles

#: Documents whose titles are looked up, and documents whose texts are searched for words.
MAX_TITLES, MAX_TEXTS = 200, 30
#: Distinct words that are analysed.
MAX_WORDS = 20_000
#: Longest title beside a docid in a line of text, in characters.
MAX_SHOWN_TITLE = 60
#: Contributions of each level that are shown, the outermost first; deeper levels have none.
SHOWN = (8, 4)
WORD = re.compile(r"\w+")

#: Reads stored documents: rows to (docid, fields) of each.
ReadFields = Callable[[NDArray[np.int32]], Sequence[tuple[str, Mapping[str, Any]]]]


@dataclass(frozen=True)
class Reading:
    """`titles`, {docid: title}, and `words`, {term: word}, of the references in an explanation.

    A term's word is its most frequent form in the query and in the documents that the explanation mentions; terms that are
    words already are left out.
    """

    titles: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def rewrite(self, explanation: Explanation, full: bool = False, show_all: str = "--full shows them") -> Explanation:
        """The explanation with titles, words and meanings in its texts; without `full`, with the largest contributions only.

        Those that are left out are one contribution, so that the parts still sum to the score; `show_all` is its detail.
        """
        parts = tuple(self._level(explanation.contributions, 0, full, show_all))
        return Explanation(explanation.method, self._with_title(explanation.docid), explanation.score, parts, explanation.notes)

    def _level(self, parts: Sequence[Contribution], depth: int, full: bool, show_all: str) -> Iterator[Contribution]:
        most = len(parts) if full else SHOWN[depth] if depth < len(SHOWN) else 0
        largest = sorted(range(len(parts)), key=lambda place: -abs(parts[place].value))[:most]
        # One contribution takes no more space than a line that says that there is one more.
        shown = [parts[place] for place in sorted(largest)] if len(parts) > most + 1 or not most else parts
        for part in shown:
            # The name of a feature, which its meaning takes the place of, is what a recipe calls it.
            name = part.label if isinstance(part.label, Feature) and part.label.meaning else ""
            detail = "; ".join(filter(None, (str(name), self.text(part.detail))))
            yield Contribution(
                self.text(part.label), part.value, detail, tuple(self._level(part.parts, depth + 1, full, show_all))
            )
        if shown and len(shown) < len(parts):
            rest = sum(part.value for part in parts) - sum(part.value for part in shown)
            yield Contribution(f"{len(parts) - len(shown)} others", rest, show_all)

    def text(self, text: str) -> str:
        """`text` with titles, words and meanings in the place of its references."""
        return "".join(map(self._piece, pieces_of(text)))

    def _piece(self, piece: str) -> str:
        match piece:
            case Document():
                return self._with_title(piece)
            case Term():
                return self.words.get(piece, piece)
            case Feature() | Symbol():
                return piece.meaning or piece
        return piece

    def _with_title(self, docid: str) -> str:
        title = self.titles.get(docid, "")
        shown = title if len(title) <= MAX_SHOWN_TITLE else f"{title[: MAX_SHOWN_TITLE - 1].rstrip()}…"
        return f"{docid} “{shown}”" if title else docid


@dataclass(frozen=True, repr=False)
class DocumentExplanation(Explanation):
    """An explanation that prints with titles, words and meanings, the largest contributions only; `lines()` has everything."""

    index: IndexFiles | None = field(default=None, compare=False)
    query: str = ""

    def __repr__(self) -> str:
        return repr(self._readable())

    def _repr_html_(self) -> str:
        return self._readable()._repr_html_()

    def _readable(self) -> Explanation:
        assert self.index is not None  # Index.explain sets it
        return read_explanation(self.index, self, self.query).rewrite(self, show_all="lines() has them")


def read_explanation(index: IndexFiles, explanation: Explanation, query: str, read: ReadFields | None = None) -> Reading:
    """The reading of `explanation` for the text `query`; `read` gets stored documents, by default from the index."""
    references = list(_references((Document(explanation.docid), explanation.contributions, explanation.notes)))
    docids = dict.fromkeys(str(reference) for reference in references if isinstance(reference, Document))
    terms = {str(reference) for reference in references if isinstance(reference, Term)}
    rows = index.forward.rows_of(list(docids))
    known = rows[rows >= 0].astype(np.int32)
    documents = (read or (lambda docs: _stored(index, docs)))(known[:MAX_TITLES])
    titles = {name: title for name, fields in documents if (title := _title(fields))}
    texts = [value for _, fields in documents[:MAX_TEXTS] for value in fields.values() if isinstance(value, str)]
    counts = Counter(word.lower() for text in texts for word in WORD.findall(text))
    # The query's own words first: they may be in none of the documents.
    frequent = [
        *dict.fromkeys(word.lower() for word in WORD.findall(query)),
        *(word for word, _ in counts.most_common(MAX_WORDS)),
    ]
    words: dict[str, str] = {}
    for word, analysed in zip(frequent, index.lucene.analyze(frequent), strict=True):
        if len(analysed) == 1 and analysed[0] in terms:
            words.setdefault(analysed[0], word)
    return Reading(titles, {term: word for term, word in words.items() if term != word})


def _stored(index: IndexFiles, rows: NDArray[np.int32]) -> list[tuple[str, Mapping[str, Any]]]:
    """The fields of stored documents; the text of one that is not a JSON object is the field `contents`."""
    return [
        (docid, _fields(raw, docid))
        for docid, raw in zip(index.forward.docids.take(rows), index.lucene.stored(rows, "raw"), strict=True)
    ]


def _fields(raw: str | None, docid: str) -> Mapping[str, Any]:
    try:
        record = parse_json(raw, docid, stored=True) if raw else {}
    except InputError:  # a record of another collection class, such as TREC text
        record = raw
    return record if isinstance(record, dict) else {"contents": raw or ""}


def _references(value: object) -> Iterator[str]:
    """The documents and terms in contributions and notes, in their order."""
    if isinstance(value, Document | Term):
        yield value
    elif isinstance(value, Text):
        yield from _references(value.pieces)
    elif isinstance(value, Contribution):
        yield from _references((value.label, value.detail, value.parts))
    elif isinstance(value, Mapping):
        yield from _references(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _references(item)


def _title(fields: Mapping[str, Any]) -> str | None:
    title = fields.get("title")
    return " ".join(title.split())[:200] if isinstance(title, str) and title.strip() else None
