"""Logged queries that begin with a text: `/v1/{index}/suggest`."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import Response
from typing_extensions import TypedDict

from kernelsearch.core.options import Option
from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.parameters import Parameters, Reader, text_option
from kernelsearch.serve.ranking import Version
from kernelsearch.serve.routes import answer_query, declare
from kernelsearch.serve.service import Service

PARAMETERS = (
    text_option("prefix", "the beginning of a query", ""),
    Option("limit", int, 10, "maximum number of suggestions", low=1, high=100),
)


class Suggestion(TypedDict):
    """A logged query."""

    query: str
    clicks: int
    impressions: int


class SuggestAnswer(TypedDict):
    """Logged queries, most clicked first."""

    api: Version
    index: str
    suggestions: list[Suggestion]


def suggest(served: ServedIndex, parameters: Parameters) -> SuggestAnswer:
    """Logged queries that begin with a text."""
    found = served.clicks.suggestions(parameters.prefix, parameters.limit)
    suggestions: list[Suggestion] = [{"query": text, "clicks": clicks, "impressions": shown} for text, shown, clicks in found]
    return {"api": "v1", "index": served.name, "suggestions": suggestions}


def add(app: FastAPI, service: Service) -> None:
    """Adds the route."""
    reader = Reader(PARAMETERS, service.settings.limits)

    @app.get("/v1/{index}/suggest", **declare(SuggestAnswer, reader))
    async def suggest_queries(request: Request) -> Response:
        """Queries of the click log that begin with a text, most clicked first."""
        return await answer_query(service, request, reader, suggest)
