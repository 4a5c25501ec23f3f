"""The judged topics of a collection: `/v1/{index}/topics`."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.parameters import Parameters, Reader
from kernelsearch.serve.ranking import Version
from kernelsearch.serve.routes import answer_query, declare
from kernelsearch.serve.service import Service


class JudgedTopic(TypedDict):
    """A judged topic."""

    topic: str
    text: str
    relevant: Annotated[int, Field(description="documents judged relevant")]


class TopicsAnswer(TypedDict):
    """The judged topics of a collection."""

    api: Version
    index: str
    topics: list[JudgedTopic]


def topics(served: ServedIndex, parameters: Parameters) -> TopicsAnswer:
    """The judged topics of the collection, each with the number of documents that were judged relevant."""
    judged: list[JudgedTopic] = [
        {"topic": qid, "text": text, "relevant": sum(grade > 0 for grade in served.qrels[qid].values())}
        for qid, text in served.topics.items()
        if qid in served.qrels
    ]
    return {"api": "v1", "index": served.name, "topics": judged}


def add(app: FastAPI, service: Service) -> None:
    """Adds the route."""
    reader = Reader((), service.settings.limits)

    @app.get("/v1/{index}/topics", **declare(TopicsAnswer, reader))
    async def list_topics(request: Request) -> Response:
        """The judged topics of the collection, for the parameter `topic` of search, compare and explain."""
        return await answer_query(service, request, reader, topics)
