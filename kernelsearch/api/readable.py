"""What people need to read an explanation: titles for docids, words for terms, which are stems, and meanings of features."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import parse_json
from kernelsearch.rerankers.explanations import Contribution, Explanation

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

#: What the features of `auto` and `fusion` mean, by name or kind.
FEATURES = {
    "first": "score of the first stage",
    "bm25": "match with the query's words (BM25)",
    "bm25:field=title": "match in the title",
    "dirichlet": "query likelihood, Dirichlet smoothing",
    "jm": "query likelihood, Jelinek-Mercer smoothing",
    "vsm": "cosine of the query and the text",
    "rm": "words typical of the best documents",
    "rm3": "query expanded from the best documents (RM3)",
    "rocchio": "query expanded from the best documents (Rocchio)",
    "top": "likeness to the best documents",
    "posterior": "how far the first stage puts it above the others",
    "bound": "bound on feedback: near its place by match",
    "parts": "query's words, also those inside identifiers",
    "votes": "votes of training queries",
    "klsa": "likeness in meaning to the best documents",
    "mslm": "query's words close together, or related ones",
    "pert": "query expanded at low risk",
    "rbm25": "clicks of similar queries",
    "dense": "likeness of vectors to the query",
    "dense-rm": "likeness of vectors to the best documents",
}

#: The papers' symbols in details of contributions, and what they mean.
SYMBOLS = (
    (re.compile(r"λ (\S+), z (\S+)"), r"share of the latent score (λ) \1, neighbours (z) \2"),
    (re.compile(r"\(1 - λ\) × k_q (\S+) of the fitted kernel"), r"the rest of the score; \1 by the fitted kernel"),
    (re.compile(r"\bk_q (\S+) of the fitted kernel"), r"score \1 by the fitted kernel"),
    (re.compile(r"\(1 - λ\) × k_q (\S+)"), r"the rest of the score; \1 in the first stage"),
    (re.compile(r"\bk_q (\S+)"), r"score \1 in the first stage"),
    (re.compile(r"\bk_Q (\S+), clicks (\S+), text (\S+)"), r"similarity \1: \2 by clicks, \3 by text"),
)

#: Reads stored documents: rows to (docid, fields) of each.
ReadFields = Callable[[NDArray[np.int32]], Sequence[tuple[str, Mapping[str, Any]]]]


def feature_meaning(name: str) -> str | None:
    """What the feature `name` of `auto` or `fusion` means; None where that is not known.

    >>> feature_meaning("read:mslm/top:docs=20,sharpness=5")
    'likeness to the 20 best documents'
    >>> feature_meaning("read:mslm/posterior:sharpness=10")
    'how far the match puts it above the others'
    """
    kind, _, tail = name.partition(":")
    if kind in ("read", "hybrid") and "/" in tail:
        feature = tail.partition("/")[2]
        if kind == "read" and feature.startswith("posterior"):
            return "how far the match puts it above the others"
        inner = feature_meaning(feature)
        return f"{inner}, by words and vectors" if inner and kind == "hybrid" else inner
    if kind == "top" and (docs := re.search(r"docs=(\d+)", tail)):
        return f"likeness to the {docs[1]} best documents"
    return FEATURES.get(name) or FEATURES.get(kind)


@dataclass(frozen=True)
class Reading:
    """`titles`, {docid: title}, and `words`, {term: word}, of an explanation, and `meanings` of its features.

    A term's word is its most frequent form in the query and in the documents that the explanation mentions; terms that are
    words already are left out.
    """

    titles: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    meanings: dict[str, str] = field(default_factory=dict)

    def rewrite(self, explanation: Explanation, full: bool = False, show_all: str = "--full shows them") -> Explanation:
        """The explanation with titles, words and meanings in its labels; without `full`, with the largest contributions only.

        Those that are left out are one contribution, so that the parts still sum to the score; `show_all` is its detail.
        """
        parts = tuple(self._level(explanation.contributions, explanation.method, 0, full, show_all))
        return Explanation(explanation.method, self._with_title(explanation.docid), explanation.score, parts, explanation.notes)

    def _level(
        self, parts: Sequence[Contribution], method: str, depth: int, full: bool, show_all: str
    ) -> Iterator[Contribution]:
        most = len(parts) if full else SHOWN[depth] if depth < len(SHOWN) else 0
        largest = sorted(range(len(parts)), key=lambda place: -abs(parts[place].value))[:most]
        # One contribution takes no more space than a line that says that there is one more.
        shown = [parts[place] for place in sorted(largest)] if len(parts) > most + 1 or not most else parts
        for part in shown:
            inner = tuple(self._level(part.parts, method, depth + 1, full, show_all))
            yield Contribution(self._label(part.label), part.value, self._detail(part, method), inner)
        if shown and len(shown) < len(parts):
            rest = sum(part.value for part in parts) - sum(part.value for part in shown)
            yield Contribution(f"{len(parts) - len(shown)} others", rest, show_all)

    def _with_title(self, docid: str) -> str:
        title = self.titles.get(docid, "")
        shown = title if len(title) <= MAX_SHOWN_TITLE else f"{title[: MAX_SHOWN_TITLE - 1].rstrip()}…"
        return f"{docid} “{shown}”" if title else docid

    def _label(self, label: str) -> str:
        word, _, docid = label.partition(" ")
        if label in self.meanings:
            return self.meanings[label]
        if word == "through" and docid in self.titles:
            return f"through {self._with_title(docid)}"
        return self._with_title(label) if label in self.titles else self._word(label)

    def _word(self, term: str) -> str:
        return f"-{self._word(term[1:])}" if term.startswith("-") else self.words.get(term, term)

    def _detail(self, part: Contribution, method: str) -> str:
        if re.fullmatch(r"dimension \d+", part.label):
            return ", ".join(map(self._word, part.detail.split(", ")))
        if method == "mslm":
            return re.sub(
                r"(?<=to )\w+(?=;)|\w+(?= \d+%)", lambda term: self._word(term[0]), _positions(part.detail, self._word)
            )
        if method in ("klsa", "rbm25"):
            return functools.reduce(lambda text, symbol: symbol[0].sub(symbol[1], text), SYMBOLS, part.detail)
        return "; ".join(filter(None, (part.label if part.label in self.meanings else "", part.detail)))


def _positions(detail: str, word: Callable[[str], str]) -> str:
    """The detail of a level of mslm, "positions 1-10 of 72: cure tap", with words for terms."""
    place, colon, terms = detail.partition(": ")
    return f"{place}: {' '.join(map(word, terms.split()))}" if colon and place.startswith("positions") else detail


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


def read_explanation(
    index: IndexFiles, explanation: Explanation | Mapping[str, Any], query: str, read: ReadFields | None = None
) -> Reading:
    """The reading of an explanation, an object or plain data, for the text `query`.

    `read` gets stored documents, by default from the index.
    """
    plain = explanation.to_dict() if isinstance(explanation, Explanation) else explanation
    docid = plain["docid"]
    mentioned = set(_strings(plain))
    tokens = {token for text in mentioned for token in (text, *text.split(), *WORD.findall(text))}
    rows = index.forward.rows_of([docid, *sorted(tokens - {docid})])
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
    for word, terms in zip(frequent, index.lucene.analyze(frequent), strict=True):
        if len(terms) == 1 and terms[0] in tokens:
            words.setdefault(terms[0], word)
    names = [part["label"] for part in plain["contributions"]] if plain["method"] in ("auto", "fusion") else []
    return Reading(
        titles,
        {term: word for term, word in words.items() if term != word},
        {name: meaning for name in names if (meaning := feature_meaning(name))},
    )


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


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _title(fields: Mapping[str, Any]) -> str | None:
    title = fields.get("title")
    return " ".join(title.split())[:200] if isinstance(title, str) and title.strip() else None
