"""What all endpoints use to declare and answer their routes: OpenAPI, JSON bodies, answers as JSON."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from inspect import getdoc
from typing import Annotated, Any, TypeVar, get_type_hints

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field, ValidationError
from typing_extensions import TypedDict

from kernelsearch.core.errors import Flag, InputError
from kernelsearch.core.options import Option
from kernelsearch.core.reading import parse_json
from kernelsearch.serve.errors import JSON_TYPE, describe_invalid
from kernelsearch.serve.gate import Refused
from kernelsearch.serve.openapi import openapi_parameters
from kernelsearch.serve.parameters import Reader
from kernelsearch.serve.service import JSON_OPTIONS, Service

M = TypeVar("M", bound=BaseModel)

INLINE_BODY = 64 * 1024  #: bytes of a JSON body up to which it is parsed at once; a larger one is parsed in a thread
#: Brackets and braces in a body: Python's parser lets no other thread run, and 5 million empty arrays take it seconds.
MAX_BRACKETS = 1_000_000

#: Error statuses that every endpoint declares in OpenAPI.
STATUSES = {
    400: "invalid parameters",
    401: "missing or wrong API key",
    403: "not allowed on this server",
    404: "no such index, document or topic",
    409: "the index lacks something that the method needs, or another change of its documents is running",
    413: "body too large",
    415: "unsupported type of body",
    429: "too many clicks from one client",
    421: "Host header of another host",
    500: "internal error",
    503: "too many requests at once, or a locked click log",
    504: "timed out",
    507: "no space is left where documents or clicks are written",
}


class Problem(TypedDict):
    """An error, described in one line."""

    error: Annotated[str, Field(examples=["klsa.z: 0 is below 1"])]


def declare(
    answer: Any,
    reader: Reader | None = None,
    *,
    path: tuple[str, ...] = ("index",),
    media: str | None = None,
    body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The arguments of a route that declare its parameters, those that `reader` reads, and its answers in OpenAPI.

    `answer` is the shape of a JSON answer, `path` names the parameters in the path, `media` is the type of another answer,
    `body` the schema of a JSON body.
    """
    success: dict[str, Any] = {"description": "the answer"}
    if media is None:
        success["model"] = answer
    else:
        success["content"] = {media: {"schema": {"type": "string"}}}
    responses: dict[int | str, dict[str, Any]] = {200: success}
    responses.update({status: {"description": text, "model": Problem} for status, text in STATUSES.items()})
    extra: dict[str, Any] = {"parameters": openapi_parameters(reader, path)}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {JSON_TYPE: {"schema": body}}}
    return {
        "responses": responses,
        "response_model": None,
        "response_class": Response if media else JSONResponse,
        "openapi_extra": extra,
    }


def query_route(
    path: str, function: Callable[..., Any], own: Sequence[Option] = (), *, ranks: bool = False, columns: int = 1
) -> Callable[[FastAPI, Service], None]:
    """Returns what adds the route of GET requests for `path` that `function(served, ..., parameters)` answers.

    Its arguments are the index, the other names in the path and the parameters; its return type is the shape of the answer,
    its docstring the description. `own`, `ranks` and `columns` are those of `Reader`.
    """
    names = tuple(re.findall(r"{(\w+)", path))

    def add(app: FastAPI, service: Service) -> None:
        reader = Reader(own, service.settings.limits, ranks=ranks, columns=columns)

        async def answer(request: Request) -> Response:
            read = reader.read(request.scope["query_string"])
            index, *others = (request.path_params[name] for name in names)
            return Response(await service.answer(index, function, *others, read), media_type=JSON_TYPE)

        declared = declare(get_type_hints(function)["return"], reader, path=names)
        app.add_api_route(path, answer, name=function.__name__, description=getdoc(function), **declared)

    return add


def json_response(data: object) -> Response:
    """An answer that is made without a worker thread."""
    return Response(orjson.dumps(data, option=JSON_OPTIONS), media_type=JSON_TYPE)


async def json_body(request: Request) -> Any:
    """The value of a JSON body; raises Refused."""
    # A page of another origin can send this type only after a CORS preflight, which is refused without --cors.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        raise Refused(415, "Content-Type: application/json is expected")
    body = await request.body()
    if len(body) <= INLINE_BODY:
        return _parse_body(body)
    return await asyncio.get_running_loop().run_in_executor(None, _parse_body, body)


def _parse_body(body: bytes) -> Any:
    if body.count(b"[") + body.count(b"{") > MAX_BRACKETS:
        raise Refused(413, f"the body has more than {MAX_BRACKETS} brackets and braces")
    try:
        return parse_json(body, "body", finite=True)
    except InputError as problem:
        raise Refused(400, problem.message(Flag.in_request)) from None


async def validated_body(request: Request, model: type[M]) -> M:
    """A JSON body as a `model`; raises Refused, which names the first field that is wrong."""
    try:
        return model.model_validate(await json_body(request))
    except ValidationError as problem:
        raise Refused(400, describe_invalid(problem, model.model_fields)) from None
