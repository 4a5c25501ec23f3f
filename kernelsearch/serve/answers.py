"""Answers to requests as plain data. These functions block and run in worker threads; none depends on HTTP.

Parameters of the functions: `served`, the index that is asked; `parameters`, those of the request; `docid`, a document's id;
`methods`, names of rerankers, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.results import earlier_ranks, matching_words, rank_changes
from kernelsearch.api.spec import PipelineSpec
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, Reranker
from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.filters import Filter
from kernelsearch.serve.parameters import Parameters
from kernelsearch.serve.settings import RequestLimits
from kernelsearch.serve.texts import StoredDocument
from kernelsearch.serve.workers import stop_if_dropped

#: Options of the first stage for pseudo-relevance feedback.
FEEDBACK = {"rm3", "rocchio"}
#: Queries of a batch that methods rank at once; in between, a batch that has timed out ends.
BATCH_STEP = 8


class NotFound(Exception):
    """An index, document or topic that does not exist; answered with 404."""


class RankedQuery(NamedTuple):
    """A query with its list before and after the rerankers, and the reasons why rerankers left it unchanged."""

    query: Query
    before: Candidates
    after: Candidates
    rerankers: tuple[Reranker[Any], ...]
    context: Context
    fallback: str | None


class FirstStageOnly(NamedTuple):
    """What requests must have in common to be answered by one call to Lucene."""

    served: ServedIndex
    spec: PipelineSpec


def first_stage_only(served: ServedIndex, parameters: Parameters) -> FirstStageOnly | None:
    """The group of a request that needs nothing but the first stage's list; None for other requests."""
    p = parameters
    if p.columns or p.topic is not None or p.highlight or FEEDBACK & p.values.get("", {}).keys():
        return None
    if p.fields is not None and not served.texts.known_fields().issuperset(p.fields):
        return None  # looking for a field takes time, and its refusal concerns one request
    return FirstStageOnly(served, served.spec((), p.values, first_stage_depth(served, p, ())))


def search_batch(group: FirstStageOnly, requests: Sequence[Parameters]) -> list[dict[str, Any]]:
    """The answers of `search` to several requests of a group, with one call to Lucene."""
    served = group.served
    topics = [Topic("", query_text(served, parameters)) for parameters in requests]
    lists = run_topics(group.spec.open(served.index), topics, batch_size=len(topics))
    answers = []
    for parameters, topic, ranked in zip(requests, topics, lists, strict=True):
        result = RankedQuery(Query(topic.text), ranked.candidates, ranked.candidates, (), DEFAULT_CONTEXT, None)
        answers.append(search(served, parameters, result))
    return answers


def search(served: ServedIndex, parameters: Parameters, result: RankedQuery | None = None) -> dict[str, Any]:
    """One ranked list in the shape of Pyserini's REST API, with further fields; `result` where it is already computed."""
    text = query_text(served, parameters)
    _check_fields(served, parameters)
    methods = parameters.columns[0] if parameters.columns else ()
    if result is None:
        with served.reading_clicks(methods):
            result = rank_query(served, parameters, text, methods, None)
    measures = _measures(served, parameters, result.after)
    filtered = None
    if parameters.filters:
        result, filtered = _filter_lists(served, parameters.filters, result)
    top = _page(result.after, parameters)
    documents = served.texts.get(top.docs)
    docids = [document.docid for document in documents]
    entries = _entries(served, parameters, result, top, docids, parameters.offset + 1)
    for entry, document in zip(entries, documents, strict=True):
        entry["doc"] = _document_answer(document, parameters)
    answer: dict[str, Any] = {
        "api": "v1",
        "index": served.name,
        "query": {"text": text},
        "candidates": entries,
        "methods": list(methods),
        **fallback_entries(result.fallback),
        "notes": notes(served, result.rerankers),
        "measures": measures,
    }
    if filtered is not None:
        answer["filtered"] = filtered
    if not parameters.offset:  # click models take the first document of a shown list for the best one
        answer.update(served.sign(text, docids))
    if parameters.highlight:
        answer["highlight"] = highlighted_words(served, result.query, top.docs)
    return answer


def fallback_entries(reason: str | None) -> dict[str, str | None]:
    """The field with the reason why a method left the list unchanged; `kept` is its name in earlier versions."""
    return {"fallback": reason, "kept": reason}


def notes(served: ServedIndex, rerankers: Sequence[Reranker[Any]]) -> list[str]:
    """Which parts of the `rerankers` are in use, one line per method that has parts."""
    return [served.public_text(line) for reranker in rerankers if (line := reranker.parts_in_use) is not None]


def _page(candidates: Candidates, parameters: Parameters) -> Candidates:
    """The part of a list that a request asks for."""
    window = slice(parameters.offset, parameters.offset + parameters.hits)
    return Candidates(candidates.docs[window], candidates.scores[window], candidates.fallbacks)


def _check_fields(served: ServedIndex, parameters: Parameters) -> None:
    """Raises OptionError for a field to return that no document has."""
    if parameters.fields is not None and (missing := served.texts.missing_fields(parameters.fields)):
        known = sorted(served.texts.known_fields())
        listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        hint = f"; known: {listed}" if known else "; the index stores no documents"
        raise OptionError(f"fields: no document has {', '.join(repr(name[:100]) for name in missing)}{hint}")


def _document_answer(document: StoredDocument, parameters: Parameters) -> Any:
    """The document in an answer, or its chosen fields."""
    if parameters.fields is None:
        return document.answer(parameters.parse)
    fields = document.fields()
    return {name: fields[name] for name in parameters.fields if name in fields}


def _filter_lists(served: ServedIndex, filters: Sequence[Filter], result: RankedQuery) -> tuple[RankedQuery, dict[str, Any]]:
    """A query's lists with the documents that fulfil all conditions, and what the filters did."""
    rows = np.union1d(result.before.docs, result.after.docs)
    records = [document.fields() for document in served.texts.get(rows)]
    matching = rows[[all(condition.matches(record) for condition in filters) for record in records]] if len(rows) else rows
    before, after = (_only(ranked, matching) for ranked in (result.before, result.after))
    names = {name for record in records for name in record}
    report = {
        "candidates": result.after.depth,
        "matching": after.depth,
        "unknown": sorted({condition.field for condition in filters} - names) if records else [],
    }
    return result._replace(before=before, after=after), report


def _only(candidates: Candidates, rows: NDArray[np.int32]) -> Candidates:
    chosen = np.isin(candidates.docs, rows)
    return Candidates(candidates.docs[chosen], candidates.scores[chosen], candidates.fallbacks)


def run_batch(served: ServedIndex, queries: Sequence[Topic], parameters: Parameters) -> dict[str, Any]:
    """The ranked lists of several queries under one pipeline."""
    _check_fields(served, parameters)
    methods = parameters.columns[0] if parameters.columns else ()
    depth = first_stage_depth(served, parameters, methods)
    step = BATCH_STEP if methods else len(queries)
    results = []
    with served.reading_clicks(methods):
        pipeline = served.pipeline(methods, parameters.values, depth)
        for query, ranked in zip(queries, run_topics(pipeline, queries, batch_size=step), strict=True):
            stop_if_dropped()
            result = RankedQuery(Query(query.text), ranked.candidates, ranked.candidates, (), DEFAULT_CONTEXT, None)
            extra: dict[str, Any] = {}
            if parameters.filters:
                result, extra["filtered"] = _filter_lists(served, parameters.filters, result)
            top = _page(result.after, parameters)
            entries = zip(served.texts.get(top.docs), top.scores.tolist(), strict=True)
            results.append(
                {
                    "qid": query.qid,
                    "query": {"text": query.text},
                    "candidates": [
                        {
                            "docid": document.docid,
                            "score": round(score, 6),
                            "rank": rank,
                            "doc": _document_answer(document, parameters),
                        }
                        for rank, (document, score) in enumerate(entries, parameters.offset + 1)
                    ],
                    **fallback_entries("; ".join(reason for _, reason in ranked.candidates.fallbacks) or None),
                    **extra,
                }
            )
        report = notes(served, pipeline.rerankers)
    return {"api": "v1", "index": served.name, "methods": list(methods), "notes": report, "results": results}


def read_batch(queries: Any, limits: RequestLimits) -> list[Topic]:
    """The queries of a batch: texts, or {"qid": ..., "text": ...}. Raises InputError for others, and beyond `limits`."""
    if not isinstance(queries, list) or not 1 <= len(queries) <= limits.batch:
        raise InputError(f"queries: a list of 1 to {limits.batch} queries is expected")
    topics = []
    for number, query in enumerate(queries, 1):
        record = {"text": query} if isinstance(query, str) else query
        if not isinstance(record, dict) or not record.keys() <= {"qid", "text"} or not isinstance(record.get("text"), str):
            raise InputError(f'queries: number {number} is not a text or {{"qid": ..., "text": ...}}')
        qid, text = record.get("qid", str(number)), record["text"]
        if not isinstance(qid, str) or len(qid) > limits.query:
            raise InputError(f"queries: the qid of number {number} is not a text of at most {limits.query} characters")
        if not text.strip() or len(text) > limits.query:
            raise InputError(f"queries: number {number}: between 1 and {limits.query} characters are expected")
        topics.append(Topic(qid, text))
    return topics


def compare(served: ServedIndex, parameters: Parameters) -> dict[str, Any]:
    """The first stage's list beside up to three others; every document is in the answer once."""
    text = query_text(served, parameters)
    columns: list[dict[str, Any]] = []
    shown: dict[str, int] = {}
    before = None
    with served.reading_clicks(tuple(name for column in parameters.columns for name in column)):
        for methods in [(), *parameters.columns]:
            result = rank_query(served, parameters, text, methods, before, full=True)
            before = result.before
            top = result.after.top(parameters.hits)
            docids = served.index.forward.docids.take(top.docs)
            shown.update(zip(docids, top.docs.tolist(), strict=True))
            columns.append(
                {
                    "methods": list(methods),
                    "candidates": _entries(served, parameters, result, top, docids),
                    **fallback_entries(result.fallback),
                    "notes": notes(served, result.rerankers),
                    "measures": _measures(served, parameters, result.after),
                    **served.sign(text, docids),
                }
            )
    rows = np.fromiter(shown.values(), dtype=np.int32, count=len(shown))
    docs = served.texts.answers(rows, parameters.parse)
    answer = {
        "api": "v1",
        "index": served.name,
        "query": {"text": text},
        "columns": columns,
        "docs": dict(zip(shown, docs, strict=True)),
    }
    if parameters.highlight:
        answer["highlight"] = highlighted_words(served, result.query, rows)
    return answer


def similar(served: ServedIndex, docid: str, parameters: Parameters) -> dict[str, Any]:
    """The documents most similar to a document."""
    row = row_of(served, docid)
    finder = served.similar_documents()
    top = finder.ranked(row).top(parameters.hits)
    docids = served.index.forward.docids.take(top.docs)
    docs = served.texts.answers(top.docs, parameters.parse)
    explanation = None
    if parameters.other is not None:
        row_of(served, parameters.other)
        explanation = finder.explain(docid, parameters.other).to_dict()
    scores = [round(score, 6) for score in top.scores.tolist()]
    return {
        "api": "v1",
        "index": served.name,
        "docid": docid,
        "candidates": [
            {"docid": name, "score": score, "rank": rank, "doc": doc}
            for rank, (name, score, doc) in enumerate(zip(docids, scores, docs, strict=True), 1)
        ],
        "explanation": explanation,
    }


def document(served: ServedIndex, docid: str, parameters: Parameters) -> dict[str, Any]:
    """One document, in the shape of Pyserini's REST API."""
    docs = served.texts.answers(np.array([row_of(served, docid)], dtype=np.int32), parameters.parse)
    return {"api": "v1", "index": served.name, "docid": docid, "doc": docs[0]}


def topics(served: ServedIndex) -> dict[str, Any]:
    """The judged topics of the collection, each with the number of documents that were judged relevant."""
    judged = [
        {"topic": qid, "text": text, "relevant": sum(grade > 0 for grade in served.qrels[qid].values())}
        for qid, text in served.topics.items()
        if qid in served.qrels
    ]
    return {"api": "v1", "index": served.name, "topics": judged}


def suggest(served: ServedIndex, parameters: Parameters) -> dict[str, Any]:
    """Logged queries that begin with a text."""
    suggestions = served.clicks.suggestions(parameters.prefix, parameters.limit)
    return {"api": "v1", "index": served.name, "suggestions": suggestions}


def row_of(served: ServedIndex, docid: str) -> int:
    """A document's row; raises NotFound for a docid that the index does not have."""
    try:
        return served.index.row(docid)
    except InputError:
        raise NotFound(f"docid: {docid[:100]!r} is not in {served.name}") from None


def highlighted_words(served: ServedIndex, query: Query, rows: NDArray[np.int32]) -> list[str]:
    """The words of the documents in `rows`, in lower case, that match `query`, as `dripping` matches `drip`."""
    texts = (text for document in served.texts.get(rows) for text in document.strings())
    return sorted(matching_words(served.index.lucene, query, texts))


def query_text(served: ServedIndex, parameters: Parameters) -> str:
    """The text of a request's query, or of the judged topic that it names. Raises NotFound and InputError."""
    topic, text = parameters.topic, parameters.query
    if topic is not None and (topic not in served.topics or topic not in served.qrels):
        raise NotFound(f"topic: {topic[:100]!r} is not a judged topic of {served.name}")
    if text is None and topic is not None:
        text = served.topics[topic]
    if text is None or not text.strip():
        raise InputError("query: no text")
    return text


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


def fallback_reasons(fallbacks: Sequence[tuple[str, str]]) -> str | None:
    """The reasons of `fallbacks`, (method, reason) of each method that left the list unchanged; None without any."""
    return "; ".join(reason for _, reason in fallbacks) or None


def first_stage_depth(served: ServedIndex, parameters: Parameters, methods: tuple[str, ...], full: bool = False) -> int:
    """How many documents the first stage retrieves: as methods, filters and topics (or `full`) need, else those shown."""
    p = parameters
    deep = full or bool(methods) or bool(p.filters) or p.topic is not None or bool(FEEDBACK & p.values.get("", {}).keys())
    return p.candidates or (served.limits.candidates if deep else p.offset + p.hits)


def _entries(
    served: ServedIndex,
    parameters: Parameters,
    result: RankedQuery,
    top: Candidates,
    docids: list[str],
    first_rank: int = 1,
) -> list[dict[str, Any]]:
    scores = [round(score, 6) for score in top.scores.tolist()]
    entries: list[dict[str, Any]] = [
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


def _measures(served: ServedIndex, parameters: Parameters, after: Candidates) -> dict[str, float] | None:
    """The default measures of the whole list, where a topic is given."""
    topic = parameters.topic
    if topic is None:
        return None
    from kernelsearch.evaluation.measures import DEFAULT, evaluate, parse_measures

    ranked = list(zip(served.index.forward.docids.take(after.docs), after.scores.tolist(), strict=True))
    evaluation = evaluate({topic: served.qrels[topic]}, {topic: ranked}, parse_measures(DEFAULT))
    return {name: round(values[topic], 6) for name, values in evaluation.values.items()}
