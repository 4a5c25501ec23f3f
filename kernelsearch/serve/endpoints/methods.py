"""The options of requests: `/v1/methods`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Reranker
from kernelsearch.serve.openapi import OptionDescription, describe_option
from kernelsearch.serve.parameters import Reader, first_stage_options, method_options
from kernelsearch.serve.ranking import Version
from kernelsearch.serve.routes import declare, json_response
from kernelsearch.serve.service import Service
from kernelsearch.serve.settings import RequestLimits


class MethodDescription(TypedDict):
    """A method and its options."""

    name: str
    summary: str
    retrieves: Annotated[bool, Field(description="whether it may add documents that the first stage did not retrieve")]
    explains: bool
    draws: bool
    options: list[OptionDescription]


class MethodsAnswer(TypedDict):
    """The options of requests and the limits of the server."""

    api: Version
    first_stage: list[OptionDescription]
    methods: list[MethodDescription]
    limits: dict[str, float]


def describe_methods(limits: RequestLimits) -> MethodsAnswer:
    """The answer of a server with these `limits`."""
    return {
        "api": "v1",
        "first_stage": [describe_option(option) for option in first_stage_options()],
        "methods": [_describe(name) for name in registry.names()],
        "limits": asdict(limits),
    }


def _describe(name: str) -> MethodDescription:
    method = registry.method(name)
    reranker = method.load()
    return {
        "name": name,
        "summary": method.summary,
        "retrieves": method.retrieves,
        "explains": reranker.explain is not Reranker.explain,
        "draws": reranker.plot is not Reranker.plot,
        "options": [describe_option(option, name) for option in method_options(name)],
    }


def add(app: FastAPI, service: Service) -> None:
    """Adds the route."""
    reader = Reader((), service.settings.limits)
    described = describe_methods(service.settings.limits)

    @app.get("/v1/methods", **declare(MethodsAnswer, reader, path=()))
    async def list_methods(request: Request) -> Response:
        """The options of the first stage and of all methods, and the limits of the server."""
        reader.read(request.scope["query_string"])
        return json_response(described)
