"""The served indexes: `/v1/indexes`."""

from __future__ import annotations

import logging
from typing import Annotated

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from kernelsearch.core.errors import KernelSearchError
from kernelsearch.serve.catalogue import MethodState, ServedIndex
from kernelsearch.serve.errors import JSON_TYPE
from kernelsearch.serve.parameters import Reader
from kernelsearch.serve.ranking import Version
from kernelsearch.serve.recording import LogSize
from kernelsearch.serve.routes import declare
from kernelsearch.serve.service import JSON_OPTIONS, Service

logger = logging.getLogger("kernelsearch.serve")


class IndexDescription(TypedDict):
    """A served index."""

    name: str
    documents: int
    topics: int
    judged: int
    clicks: Annotated[LogSize | None, Field(description="the click log's size; null where there is none, or it cannot be read")]
    recording: Annotated[bool, Field(description="whether clicks are added to the log")]
    methods: list[MethodState]


class IndexesAnswer(TypedDict):
    """All served indexes."""

    api: Version
    indexes: list[IndexDescription]


def _describe(served: ServedIndex) -> IndexDescription:
    try:
        clicks = served.clicks.totals()
    except KernelSearchError as problem:  # requests that need the log are answered with this message; others go on
        logger.info("%s: %s", served.name, problem)
        clicks = None
    return {
        "name": served.name,
        "documents": len(served.index.forward.live_docs),
        "topics": len(served.topics),
        "judged": len(served.topics.keys() & served.qrels.keys()),
        "clicks": clicks,
        "recording": served.clicks.recording,
        "methods": served.methods(),
    }


def describe_indexes(service: Service) -> bytes:
    """The answer as JSON."""
    described: IndexesAnswer = {"api": "v1", "indexes": [service.call(name, _describe) for name in service.names]}
    return orjson.dumps(described, option=JSON_OPTIONS)


def add(app: FastAPI, service: Service) -> None:
    """Adds the route."""
    reader = Reader((), service.settings.limits)

    @app.get("/v1/indexes", **declare(IndexesAnswer, reader, path=()))
    async def list_indexes(request: Request) -> Response:
        """The indexes, the methods that are ready on each, and the size of each click log."""
        reader.read(request.scope["query_string"])
        return Response(await service.workers.run(describe_indexes, service), media_type=JSON_TYPE)
