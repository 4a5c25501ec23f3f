"""The ranked lists of several queries: `/v1/{index}/batch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NotRequired

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.core.errors import InputError
from kernelsearch.core.types import Query
from kernelsearch.rerankers.base import DEFAULT_CONTEXT
from kernelsearch.serve import parameters as options
from kernelsearch.serve import ranking
from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.errors import JSON_TYPE
from kernelsearch.serve.openapi import openapi_body
from kernelsearch.serve.parameters import Parameters, Reader
from kernelsearch.serve.routes import declare, json_body
from kernelsearch.serve.service import Service
from kernelsearch.serve.settings import RequestLimits
from kernelsearch.serve.workers import stop_if_dropped

#: Without what belongs to a single query: measures, highlighted words.
PARAMETERS = (options.HITS, options.OFFSET, options.FIELDS, options.FILTER, options.PARSE, options.RERANK, options.CANDIDATES)
#: Queries of a batch that methods rank at once; in between, a batch that has timed out ends.
BATCH_STEP = 8


class BatchQuery(TypedDict):
    """A query of a batch."""

    qid: NotRequired[Annotated[str, Field(description="comes back with the list; default: the query's number from 1")]]
    text: str


class BatchResult(TypedDict):
    """The ranked list of one query of a batch."""

    qid: str
    query: ranking.QueryText
    candidates: list[ranking.Candidate]
    fallback: ranking.Fallback
    filtered: NotRequired[Annotated[ranking.Filtered, Field(description="what the filters did; absent without filter")]]


class BatchAnswer(ranking.Answer):
    """The ranked lists of a batch, in the order of its queries."""

    methods: list[str]
    notes: ranking.Notes
    results: list[BatchResult]


def run_batch(served: ServedIndex, queries: Sequence[Topic], parameters: Parameters) -> BatchAnswer:
    """The ranked lists of several queries under one pipeline."""
    ranking.check_fields(served, parameters)
    methods = parameters.columns[0] if parameters.columns else ()
    depth = ranking.first_stage_depth(served, parameters, methods)
    step = BATCH_STEP if methods else len(queries)
    results: list[BatchResult] = []
    with served.reading_clicks(methods):
        pipeline = served.pipeline(methods, parameters.values, depth)
        for query, ranked in zip(queries, run_topics(pipeline, queries, batch_size=step), strict=True):
            stop_if_dropped()
            result = ranking.RankedQuery(Query(query.text), ranked.candidates, ranked.candidates, (), DEFAULT_CONTEXT, None)
            filtered: ranking.Filtered | None = None
            if parameters.filters:
                result, filtered = ranking.filter_lists(served, parameters.filters, result)
            top = ranking.page_of(result.after, parameters)
            documents, scores = served.texts.get(top.docs), top.scores.tolist()
            entry: BatchResult = {
                "qid": query.qid,
                "query": {"text": query.text},
                "candidates": [
                    {
                        "docid": text.docid,
                        "score": round(score, 6),
                        "rank": rank,
                        "doc": ranking.document_answer(text, parameters),
                    }
                    for rank, (text, score) in enumerate(zip(documents, scores, strict=True), parameters.offset + 1)
                ],
                "fallback": ranking.fallback_reasons(ranked.candidates.fallbacks),
            }
            if filtered is not None:
                entry["filtered"] = filtered
            results.append(entry)
        report = ranking.notes(served, pipeline.rerankers)
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


def add(app: FastAPI, service: Service) -> None:
    """Adds the route."""
    limits = service.settings.limits
    reader = Reader(PARAMETERS, limits, ranks=True)
    text = {"type": "string", "minLength": 1, "maxLength": limits.query}
    query = {"oneOf": [text, {**TypeAdapter(BatchQuery).json_schema(), "additionalProperties": False}]}
    listed = "texts, with or without ids"
    queries = {"type": "array", "minItems": 1, "maxItems": limits.batch, "items": query, "description": listed}

    @app.post("/v1/{index}/batch", **declare(BatchAnswer, body=openapi_body(reader, queries=queries)))
    async def search_batch(request: Request) -> Response:
        """The ranked lists of several queries, which share all other parameters; one time limit holds for all of them."""
        read, rest = reader.read_json(await json_body(request), "queries")
        topics = read_batch(rest.get("queries"), limits)
        answer = await service.answer(request.path_params["index"], run_batch, topics, read)
        return Response(answer, media_type=JSON_TYPE)
