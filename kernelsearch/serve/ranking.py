"""What the endpoints that rank have in common: the list of a request, and the parts of answers that lists consist of.

These functions block and run in worker threads; none depends on HTTP. `served` is the index that is asked, `parameters` are
those of the request. The shapes are what OpenAPI says about answers, and what mypy checks where answers are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import TypedDict

from kernelsearch.api.results import earlier_ranks, matching_words, rank_changes
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.evaluation.measures import DEFAULT, evaluate, parse_measures
from kernelsearch.rerankers.base import Context, Reranker
from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.filters import Filter
from kernelsearch.serve.gate import Refused
from kernelsearch.serve.parameters import Parameters
from kernelsearch.serve.texts import StoredDocument

#: Options of the first stage for pseudo-relevance feedback.
FEEDBACK = {"rm3", "rocchio"}

Version = Literal["v1"]
Fallback = Annotated[str | None, Field(description="the reason why a method left the list unchanged; null where it did not")]
Measures = Annotated[
    dict[str, float] | None,
    Field(description=f"{', '.join(DEFAULT)} of the whole list for the topic, before filtering, where a topic is given"),
]
Notes = Annotated[
    list[str],
    Field(
        description="which parts of a method such as auto are in use on this index, and why others are not; one line per method"
    ),
]
Impression = Annotated[
    str, Field(description="a token for clicks on this list; absent where clicks are not recorded, and with an offset")
]
Highlight = Annotated[list[str], Field(description="words of the documents that match the query, in lower case")]


class Answer(TypedDict):
    """What all answers about one index have."""

    api: Version
    index: str


class QueryText(TypedDict):
    """The query of an answer."""

    text: str
    terms: NotRequired[Annotated[list[str] | None, Field(description="the analysed terms (explain only)")]]


class Entry(TypedDict):
    """A document in a ranked list."""

    docid: str
    score: float
    rank: Annotated[int, Field(description="from 1")]
    before: NotRequired[
        Annotated[int | None, Field(description="rank in the first stage's list; null for a document that was not in it")]
    ]
    moved: NotRequired[Annotated[int | None, Field(description="ranks gained since then; absent without rerank")]]
    grade: NotRequired[
        Annotated[int | None, Field(description="the document's grade for the topic; null where it was not judged")]
    ]


class Candidate(Entry):
    """A document in a ranked list, with its text."""

    doc: NotRequired[
        Annotated[
            Any, Field(description="the document as it was indexed: JSON, text, or null where the index does not store it")
        ]
    ]


class Filtered(TypedDict):
    """What the filters left of a list."""

    candidates: Annotated[int, Field(description="documents before filtering")]
    matching: Annotated[int, Field(description="documents that fulfil all conditions")]
    unknown: Annotated[list[str], Field(description="fields of conditions that no document of the list has")]


class RankedQuery(NamedTuple):
    """A query with its list before and after the rerankers, and the reasons why rerankers left it unchanged."""

    query: Query
    before: Candidates
    after: Candidates
    rerankers: tuple[Reranker[Any], ...]
    context: Context
    fallback: str | None


def query_text(served: ServedIndex, parameters: Parameters) -> str:
    """The text of a request's query, or of the judged topic that it names. Raises Refused and InputError."""
    topic, text = parameters.topic, parameters.query
    if topic is not None and (topic not in served.topics or topic not in served.qrels):
        raise Refused(404, f"topic: {topic[:100]!r} is not a judged topic of {served.name}")
    if text is None and topic is not None:
        text = served.topics[topic]
    if text is None or not text.strip():
        raise InputError("query: no text")
    return text


def row_of(served: ServedIndex, docid: str) -> int:
    """A document's row; raises Refused for a docid that the index does not have."""
    try:
        return served.index.row(docid)
    except InputError:
        raise Refused(404, f"docid: {docid[:100]!r} is not in {served.name}") from None


def rank_query(
    served: ServedIndex,
    parameters: Parameters,
    text: str,
    methods: tuple[str, ...],
    before: Candidates | None,
    full: bool = False,
) -> RankedQuery:
    """The list of the query `text` under some methods; `before` is the first stage's list, where it is already computed.

    `full` says that the first stage retrieves as many documents as methods rerank, whatever the request shows.
    """
    depth = first_stage_depth(served, parameters, methods, full)
    pipeline = served.pipeline(methods, parameters.values, depth)
    query = served.index.query(text, served.topic_of(text, parameters.topic))
    if before is None:
        before = pipeline.retrieve([query])[0]
    after = pipeline.rerank([query], [before])[0] if before.depth else before
    return RankedQuery(query, before, after, tuple(pipeline.rerankers), pipeline.context(), fallback_reasons(after.fallbacks))


def first_stage_depth(served: ServedIndex, parameters: Parameters, methods: tuple[str, ...], full: bool = False) -> int:
    """How many documents the first stage retrieves: as methods, filters and topics (or `full`) need, else those shown."""
    p = parameters
    deep = full or bool(methods) or bool(p.filters) or p.topic is not None or bool(FEEDBACK & p.values.get("", {}).keys())
    return p.candidates or (served.limits.candidates if deep else p.offset + p.hits)


def fallback_reasons(fallbacks: Sequence[tuple[str, str]]) -> str | None:
    """The reasons of `fallbacks`, (method, reason) of each method that left the list unchanged; None without any."""
    return "; ".join(reason for _, reason in fallbacks) or None


def notes(served: ServedIndex, rerankers: Sequence[Reranker[Any]]) -> list[str]:
    """Which parts of the `rerankers` are in use, one line per method that has parts."""
    return [served.public_text(line) for reranker in rerankers if (line := reranker.parts_in_use) is not None]


def page_of(candidates: Candidates, parameters: Parameters) -> Candidates:
    """The part of a list that a request asks for."""
    window = slice(parameters.offset, parameters.offset + parameters.hits)
    return Candidates(candidates.docs[window], candidates.scores[window], candidates.fallbacks)


def check_fields(served: ServedIndex, parameters: Parameters) -> None:
    """Raises OptionError for a field to return that no document has."""
    if parameters.fields is not None and (missing := served.texts.missing_fields(parameters.fields)):
        known = sorted(served.texts.known_fields())
        listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        hint = f"; known: {listed}" if known else "; the index stores no documents"
        raise OptionError(f"fields: no document has {', '.join(repr(name[:100]) for name in missing)}{hint}")


def document_answer(document: StoredDocument, parameters: Parameters) -> Any:
    """The document in an answer, or its chosen fields."""
    if parameters.fields is None:
        return document.answer(parameters.parse)
    fields = document.fields()
    return {name: fields[name] for name in parameters.fields if name in fields}


def filter_lists(served: ServedIndex, filters: Sequence[Filter], result: RankedQuery) -> tuple[RankedQuery, Filtered]:
    """A query's lists with the documents that fulfil all conditions, and what the filters did."""
    rows = np.union1d(result.before.docs, result.after.docs)
    records = [document.fields() for document in served.texts.get(rows)]
    matching = rows[[all(condition.matches(record) for condition in filters) for record in records]] if len(rows) else rows
    before, after = (_only(ranked, matching) for ranked in (result.before, result.after))
    names = {name for record in records for name in record}
    report: Filtered = {
        "candidates": result.after.depth,
        "matching": after.depth,
        "unknown": sorted({condition.field for condition in filters} - names) if records else [],
    }
    return result._replace(before=before, after=after), report


def _only(candidates: Candidates, rows: NDArray[np.int32]) -> Candidates:
    chosen = np.isin(candidates.docs, rows)
    return Candidates(candidates.docs[chosen], candidates.scores[chosen], candidates.fallbacks)


def entries_of(
    served: ServedIndex,
    parameters: Parameters,
    result: RankedQuery,
    top: Candidates,
    docids: list[str],
    first_rank: int = 1,
) -> list[Entry]:
    """The documents of `top`, a part of a list, in an answer; `docids` are theirs, `first_rank` is the first one's rank."""
    scores = [round(score, 6) for score in top.scores.tolist()]
    entries: list[Entry] = [
        {"docid": docid, "score": score, "rank": rank}
        for rank, (docid, score) in enumerate(zip(docids, scores, strict=True), first_rank)
    ]
    if result.rerankers:
        ranks = earlier_ranks(result.before, top)
        for entry, before, moved in zip(entries, ranks, rank_changes(ranks, first_rank), strict=True):
            entry["before"] = before
            entry["moved"] = moved
    if parameters.topic is not None:
        grades = served.qrels[parameters.topic]
        for entry in entries:
            entry["grade"] = grades.get(entry["docid"])
    return entries


def measures_of(served: ServedIndex, parameters: Parameters, after: Candidates) -> dict[str, float] | None:
    """The default measures of the whole list, where a topic is given."""
    topic = parameters.topic
    if topic is None:
        return None
    ranked = list(zip(served.index.forward.docids.take(after.docs), after.scores.tolist(), strict=True))
    evaluation = evaluate({topic: served.qrels[topic]}, {topic: ranked}, parse_measures(DEFAULT))
    return {name: round(values[topic], 6) for name, values in evaluation.values.items()}


def highlighted_words(served: ServedIndex, query: Query, rows: NDArray[np.int32]) -> list[str]:
    """The words of the documents in `rows`, in lower case, that match `query`, as `dripping` matches `drip`."""
    texts = (text for document in served.texts.get(rows) for text in document.strings())
    return sorted(matching_words(served.index.lucene, query, texts))
