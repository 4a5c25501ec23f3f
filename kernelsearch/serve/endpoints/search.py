"""A ranked list: `/v1/{index}/search`, by GET and by POST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple, NotRequired

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import Field

from kernelsearch.api.spec import PipelineSpec
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.core.errors import IndexReplaced, KernelSearchError
from kernelsearch.core.types import Query
from kernelsearch.rerankers.base import DEFAULT_CONTEXT
from kernelsearch.serve import parameters as options
from kernelsearch.serve import ranking
from kernelsearch.serve.catalogue import Retired, ServedIndex
from kernelsearch.serve.errors import JSON_TYPE
from kernelsearch.serve.openapi import openapi_body
from kernelsearch.serve.parameters import Parameters, Reader
from kernelsearch.serve.routes import declare, json_body
from kernelsearch.serve.service import JSON_OPTIONS, Service

PATH = "/v1/{index}/search"
PARAMETERS = (
    options.QUERY,
    options.HITS,
    options.OFFSET,
    options.FIELDS,
    options.FILTER,
    options.PARSE,
    options.HIGHLIGHT,
    options.TOPIC,
    options.RERANK,
    options.CANDIDATES,
)


class SearchAnswer(ranking.Answer):
    """A ranked list."""

    query: ranking.QueryText
    candidates: list[ranking.Candidate]
    methods: Annotated[list[str], Field(description="the rerankers, in order")]
    fallback: ranking.Fallback
    notes: ranking.Notes
    measures: ranking.Measures
    filtered: NotRequired[Annotated[ranking.Filtered, Field(description="what the filters did; absent without filter")]]
    highlight: NotRequired[ranking.Highlight]
    impression: NotRequired[ranking.Impression]


class FirstStageOnly(NamedTuple):
    """What requests must have in common to be answered by one call to Lucene."""

    served: ServedIndex
    spec: PipelineSpec


def first_stage_only(served: ServedIndex, parameters: Parameters) -> FirstStageOnly | None:
    """The group of a request that needs nothing but the first stage's list; None for other requests."""
    p = parameters
    if p.columns or p.topic is not None or p.highlight or ranking.FEEDBACK & p.values.get("", {}).keys():
        return None
    if p.fields is not None and not served.texts.known_fields().issuperset(p.fields):
        return None  # looking for a field takes time, and its refusal concerns one request
    return FirstStageOnly(served, served.spec((), p.values, ranking.first_stage_depth(served, p, ())))


def search_batch(group: FirstStageOnly, requests: Sequence[Parameters]) -> list[SearchAnswer]:
    """The answers of `search` to several requests of a group, with one call to Lucene."""
    served = group.served
    topics = [Topic("", ranking.query_text(served, parameters)) for parameters in requests]
    lists = run_topics(group.spec.open(served.index), topics, batch_size=len(topics))
    answers = []
    for parameters, topic, ranked in zip(requests, topics, lists, strict=True):
        result = ranking.RankedQuery(Query(topic.text), ranked.candidates, ranked.candidates, (), DEFAULT_CONTEXT, None)
        answers.append(search(served, parameters, result))
    return answers


def search(served: ServedIndex, parameters: Parameters, result: ranking.RankedQuery | None = None) -> SearchAnswer:
    """One ranked list in the shape of Pyserini's REST API, with further fields; `result` where it is already computed."""
    text = ranking.query_text(served, parameters)
    ranking.check_fields(served, parameters)
    methods = parameters.columns[0] if parameters.columns else ()
    if result is None:
        with served.reading_clicks(methods):
            result = ranking.rank_query(served, parameters, text, methods, None)
    measures = ranking.measures_of(served, parameters, result.after)
    filtered: ranking.Filtered | None = None
    if parameters.filters:
        result, filtered = ranking.filter_lists(served, parameters.filters, result)
    top = ranking.page_of(result.after, parameters)
    documents = served.texts.get(top.docs)
    docids = [document.docid for document in documents]
    entries = ranking.entries_of(served, parameters, result, top, docids, parameters.offset + 1)
    answer: SearchAnswer = {
        "api": "v1",
        "index": served.name,
        "query": {"text": text},
        "candidates": [
            {**entry, "doc": ranking.document_answer(document, parameters)}
            for entry, document in zip(entries, documents, strict=True)
        ],
        "methods": list(methods),
        "fallback": result.fallback,
        "notes": ranking.notes(served, result.rerankers),
        "measures": measures,
    }
    if filtered is not None:
        answer["filtered"] = filtered
    # Click models take the first document of a shown list for the best one.
    if not parameters.offset and (impression := served.sign(text, docids)) is not None:
        answer["impression"] = impression
    if parameters.highlight:
        answer["highlight"] = ranking.highlighted_words(served, result.query, top.docs)
    return answer


async def answer_search(service: Service, name: str, parameters: Parameters) -> bytes:
    """The answer to a search as JSON. Concurrent requests that need the first stage alone share calls to Lucene."""
    group = first_stage_only(service.index(name), parameters)
    if group is not None:
        try:
            return await service.workers.run_together(_answer_group, group, parameters)
        except (Retired, IndexReplaced):
            pass  # the index was replaced while the request waited
    return await service.answer(name, search, parameters)


def _answer_group(group: FirstStageOnly, requests: list[Parameters]) -> list[bytes]:
    with group.served.in_use():
        try:
            answers = search_batch(group, requests)
        except KernelSearchError as problem:
            group.served.make_public(problem)
            raise
        return [orjson.dumps(answer, option=JSON_OPTIONS) for answer in answers]


def add(app: FastAPI, service: Service) -> None:
    """Adds the routes. `app.SearchRoute` answers GET before FastAPI sees the request."""
    reader = Reader(PARAMETERS, service.settings.limits, ranks=True)

    @app.get(PATH, **declare(SearchAnswer, reader))
    async def search_index(request: Request) -> Response:
        """A ranked list: that of the first stage, or of methods that rerank it."""
        read = reader.read(request.scope["query_string"])
        return Response(await answer_search(service, request.path_params["index"], read), media_type=JSON_TYPE)

    # A JSON body has no limits of URLs, and is in nobody's access log.
    @app.post(PATH, **declare(SearchAnswer, body=openapi_body(reader)))
    async def search_index_by_post(request: Request) -> Response:
        """As GET, with the parameters as a JSON object: `{"query": "...", "rerank": ["klsa"], "klsa.z": 5}`."""
        read, _ = reader.read_json(await json_body(request))
        return Response(await answer_search(service, request.path_params["index"], read), media_type=JSON_TYPE)
