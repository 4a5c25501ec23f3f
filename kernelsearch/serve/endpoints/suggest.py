"""Logged queries that begin with a text: `/v1/{index}/suggest`."""

from __future__ import annotations

from typing_extensions import TypedDict

from kernelsearch.core.options import Option
from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.parameters import Parameters, text_option
from kernelsearch.serve.ranking import Answer
from kernelsearch.serve.routes import query_route

PARAMETERS = (
    text_option("prefix", "the beginning of a query", ""),
    Option("limit", int, 10, "maximum number of suggestions", low=1, high=100),
)


class Suggestion(TypedDict):
    """A logged query."""

    query: str
    clicks: int
    impressions: int


class SuggestAnswer(Answer):
    """Logged queries, most clicked first."""

    suggestions: list[Suggestion]


def suggest_queries(served: ServedIndex, parameters: Parameters) -> SuggestAnswer:
    """Queries of the click log that begin with a text, most clicked first."""
    found = served.clicks.suggestions(parameters.prefix, parameters.limit)
    suggestions: list[Suggestion] = [{"query": text, "clicks": clicks, "impressions": shown} for text, shown, clicks in found]
    return {"api": "v1", "index": served.name, "suggestions": suggestions}


add = query_route("/v1/{index}/suggest", suggest_queries, PARAMETERS)
