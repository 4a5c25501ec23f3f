"""Answers to requests as plain data. Everything here blocks and runs in the workers' threads; nothing knows of HTTP."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelsearch.api.results import earlier_ranks
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Reranker
from kernelsearch.serve.catalogue import Served
from kernelsearch.serve.parameters import Asked

FEEDBACK = {"rm3", "rocchio"}
WORD = re.compile(r"\w+")
_drawing = threading.Lock()  # matplotlib's font cache belongs to all threads


class NotFound(Exception):
    """An index, document or topic that isn't there; answered with 404."""


class Ranked(NamedTuple):
    """A query's list before and after some methods, and why methods left it alone."""

    query: Query
    before: Candidates
    after: Candidates
    methods: tuple[Reranker[Any], ...]
    context: Context
    kept: str | None


class FirstStageOnly(NamedTuple):
    """What requests have in common that one call to Lucene can answer."""

    served: Served
    first: tuple[tuple[str, Any], ...]
    depth: int


def first_stage_only(served: Served, asked: Asked) -> FirstStageOnly | None:
    """For a request that the first stage answers by itself, what it has in common with others of the kind; None for others."""
    if asked.columns or asked.own["topic"] is not None or asked.own["highlight"] or FEEDBACK & asked.first.keys():
        return None
    return FirstStageOnly(served, tuple(asked.first.items()), _depth(served, asked, ()))


def searches(served: Served, first: tuple[tuple[str, Any], ...], depth: int, several: Sequence[Asked]) -> list[dict[str, Any]]:
    """As `search` for each of several requests, which share one call to Lucene."""
    topics = [Topic("", _text(served, asked)) for asked in several]
    lists = run_topics(served.pipeline((), {}, dict(first), depth), topics, batch_size=len(topics))
    return [
        search(served, asked, Ranked(Query(topic.text), found.candidates, found.candidates, (), DEFAULT_CONTEXT, None))
        for asked, topic, found in zip(several, topics, lists, strict=True)
    ]


def search(served: Served, asked: Asked, found: Ranked | None = None) -> dict[str, Any]:
    """One list, in the shape of Pyserini's REST API, with what is more after it; `found`: where it is known."""
    text = _text(served, asked)
    methods = asked.columns[0] if asked.columns else ()
    if found is None:
        with served.using(methods):
            found = _rank(served, asked, text, methods, None)
    top = found.after.top(asked.own["hits"])
    texts, parse = served.texts.get(top.docs), asked.own["parse"]
    entries = _entries(served, asked, found, top, [one.docid for one in texts])
    for entry, one in zip(entries, texts, strict=True):
        entry["doc"] = one.answer(parse)
    answer: dict[str, Any] = {
        "api": "v1",
        "index": served.name,
        "query": {"text": text},
        "candidates": entries,
        "methods": list(methods),
        "kept": found.kept,
        "measures": _measures(served, asked, found.after),
    }
    if asked.own["highlight"]:
        answer["highlight"] = highlight(served, found.query, top.docs)
    return answer


def compare(served: Served, asked: Asked) -> dict[str, Any]:
    """The first stage's list and up to three others, with every document given once."""
    text = _text(served, asked)
    columns: list[dict[str, Any]] = []
    shown: dict[str, int] = {}
    before = None
    with served.using(tuple(name for column in asked.columns for name in column)):
        for methods in [(), *asked.columns]:
            found = _rank(served, asked, text, methods, before, full=True)
            before = found.before
            top = found.after.top(asked.own["hits"])
            docids = served.index.forward.docids.take(top.docs)
            shown.update(zip(docids, top.docs.tolist(), strict=True))
            columns.append(
                {
                    "methods": list(methods),
                    "candidates": _entries(served, asked, found, top, docids),
                    "kept": found.kept,
                    "measures": _measures(served, asked, found.after),
                }
            )
    rows = np.fromiter(shown.values(), dtype=np.int32, count=len(shown))
    docs = served.texts.answers(rows, asked.own["parse"])
    answer = {
        "api": "v1",
        "index": served.name,
        "query": {"text": text},
        "columns": columns,
        "docs": dict(zip(shown, docs, strict=True)),
    }
    if asked.own["highlight"]:
        answer["highlight"] = highlight(served, found.query, rows)
    return answer


def explain(served: Served, asked: Asked) -> dict[str, Any]:
    """Why a document stands where one method puts it."""
    methods = _one_method(asked)
    text = _text(served, asked)
    with served.using(methods):
        found = _rank(served, asked, text, methods, None)
        row = _document(served, asked, found)
        explanation = None
        if found.kept is None:
            explanation = found.methods[0].explain(found.query, found.before, row, found.context).to_dict()
    one = Candidates(np.array([row], dtype=np.int32), np.zeros(1))
    docids = served.index.forward.docids.take(one.docs)
    place = int(np.flatnonzero(found.after.docs == row)[0])
    return {
        "api": "v1",
        "index": served.name,
        "query": {"text": text, "terms": list(found.query.terms)},
        "method": methods[0],
        "docid": docids[0],
        "score": round(float(found.after.scores[place]), 6),
        "rank": place + 1,
        "before": earlier_ranks(found.before, one)[0],
        "kept": found.kept,
        "explanation": explanation,
    }


def plot(served: Served, asked: Asked) -> bytes:
    """The method's picture of a query, and of a document where one is named, as SVG."""
    methods = _one_method(asked)
    text = _text(served, asked)
    with served.using(methods), _drawing, tempfile.TemporaryDirectory() as folder:
        found = _rank(served, asked, text, methods, None)
        if found.kept is not None:
            raise InputError(f"{methods[0]} keeps the first stage's list for this query: {found.kept}")
        row = _document(served, asked, found)
        path = Path(folder) / "plot.svg"
        if not prepare_drawing():
            raise OptionError("pictures need matplotlib where the server runs; pip install kernelsearch[plots]")
        try:
            chosen = row if asked.own["docid"] is not None else None
            found.methods[0].plot(found.query, found.before, chosen, path, found.context)
        except CannotAct as reason:
            raise InputError(f"{methods[0]} has nothing to draw for this query: {reason}") from None
        return path.read_bytes()


def similar(served: Served, docid: str, asked: Asked) -> dict[str, Any]:
    """The documents most similar to one."""
    row = row_of(served, docid)
    finder = served.similar_documents()
    top = finder.ranked(row).top(asked.own["hits"])
    docids = served.index.forward.docids.take(top.docs)
    docs = served.texts.answers(top.docs, asked.own["parse"])
    told = None
    if asked.own["other"] is not None:
        row_of(served, asked.own["other"])
        told = finder.explain(docid, asked.own["other"]).to_dict()
    scores = [round(score, 6) for score in top.scores.tolist()]
    return {
        "api": "v1",
        "index": served.name,
        "docid": docid,
        "candidates": [
            {"docid": name, "score": score, "rank": rank, "doc": doc}
            for rank, (name, score, doc) in enumerate(zip(docids, scores, docs, strict=True), 1)
        ],
        "explanation": told,
    }


def document(served: Served, docid: str, asked: Asked) -> dict[str, Any]:
    """One document, in the shape of Pyserini's REST API."""
    docs = served.texts.answers(np.array([row_of(served, docid)]), asked.own["parse"])
    return {"api": "v1", "index": served.name, "docid": docid, "doc": docs[0]}


def topics(served: Served) -> dict[str, Any]:
    """The collection's topics; those that are judged come with how many documents were judged relevant."""
    found = [
        {"topic": qid, "text": text, "relevant": sum(grade > 0 for grade in served.qrels[qid].values())}
        for qid, text in served.topics.items()
        if qid in served.qrels
    ]
    return {"api": "v1", "index": served.name, "topics": found}


def row_of(served: Served, docid: str) -> int:
    """A document's row; NotFound for a docid that the index doesn't have."""
    row = int(served.index.forward.rows_of([docid])[0])
    if row < 0:
        raise NotFound(f"docid: {docid[:100]!r} is not in {served.name}")
    return row


def highlight(served: Served, query: Query, rows: np.ndarray) -> list[str]:
    """The words of documents that the index takes for a word of the query: with `drip`, `dripping` too."""
    words = sorted({word.lower() for one in served.texts.get(rows) for text in one.strings() for word in WORD.findall(text)})
    wanted = set(query.terms)
    return [word for word, terms in zip(words, served.index.lucene.analyze(words), strict=True) if wanted.intersection(terms)]


def _text(served: Served, asked: Asked) -> str:
    topic, text = asked.own["topic"], asked.own["query"]
    if topic is not None and (topic not in served.topics or topic not in served.qrels):
        raise NotFound(f"topic: {topic[:100]!r} is not a judged topic of {served.name}")
    if text is None and topic is not None:
        text = served.topics[topic]
    if text is None or not text.strip():
        raise InputError("query: no text")
    return text


def _one_method(asked: Asked) -> tuple[str, ...]:
    if not asked.columns or len(asked.columns[0]) != 1:
        raise OptionError("rerank: exactly one method can be explained at a time")
    return asked.columns[0]


def _rank(
    served: Served, asked: Asked, text: str, methods: tuple[str, ...], before: Candidates | None, full: bool = False
) -> Ranked:
    """The list of one column; `before` is the first stage's, where it is known already."""
    pipeline = served.pipeline(methods, asked.methods, asked.first, _depth(served, asked, methods, full))
    query = served.index.query(text, asked.own["topic"] or "")
    if before is None:
        before = pipeline.retrieve([query])[0]
    after = pipeline.rerank([query], [before])[0] if before.depth else before
    reasons = "; ".join(reason for _, reason in after.fallbacks) or None
    return Ranked(query, before, after, tuple(pipeline.rerankers), pipeline.context(), reasons)


def _depth(served: Served, asked: Asked, methods: tuple[str, ...], full: bool = False) -> int:
    """How many documents the first stage finds."""
    deep = full or bool(methods) or asked.own["topic"] is not None or bool(FEEDBACK & asked.first.keys())
    return asked.own["candidates"] or (served.limits.candidates if deep else asked.own["hits"])


def _entries(served: Served, asked: Asked, found: Ranked, top: Candidates, docids: list[str]) -> list[dict[str, Any]]:
    scores = [round(score, 6) for score in top.scores.tolist()]
    entries: list[dict[str, Any]] = [
        {"docid": docid, "score": score, "rank": rank}
        for rank, (docid, score) in enumerate(zip(docids, scores, strict=True), 1)
    ]
    if found.methods:
        for entry, old in zip(entries, earlier_ranks(found.before, top), strict=True):
            entry["before"] = old
            entry["moved"] = None if old is None else old - entry["rank"]
    if asked.own["topic"] is not None:
        grades = served.qrels[asked.own["topic"]]
        for entry in entries:
            entry["grade"] = grades.get(entry["docid"])
    return entries


def _measures(served: Served, asked: Asked, after: Candidates) -> dict[str, float] | None:
    """AP and nDCG@10 of the whole list, where a topic is given."""
    topic = asked.own["topic"]
    if topic is None:
        return None
    from kernelsearch.evaluation.measures import evaluate, parse_measures

    ranked = list(zip(served.index.forward.docids.take(after.docs), after.scores.tolist(), strict=True))
    found = evaluate({topic: served.qrels[topic]}, {topic: ranked}, parse_measures(("AP", "nDCG@10")))
    return {name: round(values[topic], 6) for name, values in found.values.items()}


def _document(served: Served, asked: Asked, found: Ranked) -> int:
    if not found.after.depth:
        raise NotFound("query: no document matches")
    if asked.own["docid"] is None:
        return int(found.after.docs[0])
    row = row_of(served, asked.own["docid"])
    if not np.any(found.after.docs == row):
        raise NotFound(f"docid: {asked.own['docid'][:100]!r} is not among this query's {found.after.depth} documents")
    return row


def prepare_drawing() -> bool:
    """Loads what pictures need, which takes seconds; False where it isn't installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True
