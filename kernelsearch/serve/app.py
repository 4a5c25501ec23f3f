"""The ASGI application: routes, and how errors are answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import fastapi_offline
import orjson
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ValidationError
from starlette.middleware.cors import CORSMiddleware

from kernelsearch.core.errors import Flag, InputError
from kernelsearch.core.reading import parse_json
from kernelsearch.core.version import __version__
from kernelsearch.serve import answers, explanations, models, parameters
from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.errors import ANSWERED, JSON_TYPE, describe_invalid, error_response
from kernelsearch.serve.gate import Application, Gate, Receive, Refused, Scope, Send
from kernelsearch.serve.openapi import openapi_body, openapi_parameters
from kernelsearch.serve.parameters import Reader
from kernelsearch.serve.service import JSON_OPTIONS, Service, describe_indexes
from kernelsearch.serve.settings import RequestLimits, ServiceSettings

M = TypeVar("M", bound=BaseModel)

PAGE = Path(__file__).parent / "page"
SWAGGER = Path(fastapi_offline.__file__).parent / "static"  #: Swagger UI's script and styles
INLINE_BODY = 64 * 1024  #: bytes of a JSON body up to which it is parsed at once; a larger one is parsed in a thread
#: Brackets and braces in a body: Python's parser lets no other thread run, and 5 million empty arrays take it seconds.
MAX_BRACKETS = 1_000_000
COLUMNS = 3  #: lists beside the first stage's that can be compared at once

DESCRIPTION = """Search with Lucene, rerank with kernel methods, compare the lists, and explain the scores.

`/v1/{index}/search` and `/v1/{index}/doc/{docid}` have the shapes of Pyserini's REST API. Errors are `{"error": "..."}` with
one line that says what to change. Parameters of a method have its name as a prefix: `rerank=klsa&klsa.z=5&klsa.lambda=0.3`."""

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


def make_app(settings: ServiceSettings) -> Application:
    """The ASGI application of a server with `settings`. Indexes are opened here; Java starts with the application."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        # Done before the server listens: in the background it would slow down the first requests.
        matplotlib = loop.run_in_executor(None, explanations.load_matplotlib)
        for name in service.names:
            await loop.run_in_executor(None, service.index(name).warm_up)
        await matplotlib
        watching = asyncio.create_task(service.watch())
        async with mcp_session:
            yield
        watching.cancel()
        service.workers.close()

    app = FastAPI(
        title="kernelsearch",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # FastAPI's pages load their scripts from another host
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    _add_error_handlers(app)
    direct = _add_search_route(app, service)
    _add_body_routes(app, service)
    _add_ranking_routes(app, service)
    _add_description_routes(app, service)
    _add_click_route(app, service)
    _add_documents_route(app, service)
    app.mount("/page/swagger", StaticFiles(directory=SWAGGER))
    app.mount("/page", StaticFiles(directory=PAGE, check_dir=False))
    mcp_session: AbstractAsyncContextManager[None] = nullcontext()
    if settings.mcp:
        from kernelsearch.serve.mcp import add_mcp

        mcp_session = add_mcp(app, service)

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        if (PAGE / "index.html").is_file():
            return FileResponse(PAGE / "index.html")
        return _json_response({"name": "kernelsearch", "version": __version__, "documentation": "/docs"})

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> Response:
        return FileResponse(PAGE / "docs.html")

    gate = Gate(direct, settings, service.metrics)
    if not settings.cors:
        return gate
    # Outside the gate, because a preflight has no key.
    return CORSMiddleware(
        gate,
        allow_origins=settings.cors,
        allow_methods=("GET", "HEAD", "POST"),
        allow_headers=("content-type", "x-api-key", "authorization"),
    )


def _add_search_route(app: FastAPI, service: Service) -> DirectRoute:
    """Adds the route of searches; returns the application that answers them without FastAPI."""
    path, reader = "/v1/{index}/search", Reader(parameters.SEARCH, service.settings.limits, ranks=True)

    async def answer(name: str, query_string: bytes) -> bytes:
        return await service.search(name, reader.read(query_string))

    @app.get(path, **_openapi(reader, models.SearchAnswer))
    async def search_index(request: Request) -> Response:
        """A ranked list: that of the first stage, or of methods that rerank it."""
        return Response(await answer(request.path_params["index"], request.scope["query_string"]), media_type=JSON_TYPE)

    route = next(route for route in app.routes if isinstance(route, APIRoute) and route.path == path)
    return DirectRoute(app, route, answer)


def _add_body_routes(app: FastAPI, service: Service) -> None:
    """Searches whose parameters are a JSON body: without limits of URLs, and not in anybody's access log."""
    limits = service.settings.limits
    search = Reader(parameters.SEARCH, limits, ranks=True)
    batch = Reader(parameters.BATCH, limits, ranks=True)
    text = {"type": "string", "minLength": 1, "maxLength": limits.query}
    query = {"oneOf": [text, {**models.BatchQuery.model_json_schema(), "required": ["text"], "additionalProperties": False}]}
    queries = {
        "type": "array",
        "minItems": 1,
        "maxItems": limits.batch,
        "items": query,
        "description": "texts, with or without ids",
    }

    @app.post("/v1/{index}/search", **_openapi_post(openapi_body(search), models.SearchAnswer, limits))
    async def search_index_by_post(request: Request) -> Response:
        """As GET, with the parameters as a JSON object: `{"query": "...", "rerank": ["klsa"], "klsa.z": 5}`."""
        read, _ = search.read_json(await _json_body(request))
        return Response(await service.search(request.path_params["index"], read), media_type=JSON_TYPE)

    @app.post("/v1/{index}/batch", **_openapi_post(openapi_body(batch, queries=queries), models.BatchAnswer, limits))
    async def search_batch(request: Request) -> Response:
        """The ranked lists of several queries, which share all other parameters; one time limit holds for all of them."""
        read, rest = batch.read_json(await _json_body(request), "queries")
        topics = answers.read_batch(rest.get("queries"), limits)
        return Response(
            await service.answer(request.path_params["index"], answers.run_batch, topics, read), media_type=JSON_TYPE
        )


async def _json_body(request: Request) -> Any:
    """The value of a JSON body; raises Refused."""
    # A page of another origin can send this type only after a CORS preflight, which is refused without --cors.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        raise Refused(415, "Content-Type: application/json is expected")
    body = await request.body()
    if len(body) <= INLINE_BODY:
        return _parse_body(body)
    return await asyncio.get_running_loop().run_in_executor(None, _parse_body, body)


def _parse_body(body: bytes) -> Any:
    """The value of a JSON body; raises Refused."""
    if body.count(b"[") + body.count(b"{") > MAX_BRACKETS:
        raise Refused(413, f"the body has more than {MAX_BRACKETS} brackets and braces")
    try:
        return parse_json(body, "body", finite=True)
    except InputError as problem:
        raise Refused(400, problem.message(Flag.in_request)) from None


def _openapi_post(schema: dict[str, Any], model: type[BaseModel], limits: RequestLimits) -> dict[str, Any]:
    """As `_openapi`, for a route with a JSON body."""
    declaration = _openapi(Reader((), limits), model)
    declaration["openapi_extra"]["requestBody"] = {"required": True, "content": {JSON_TYPE: {"schema": schema}}}
    return declaration


def _add_ranking_routes(app: FastAPI, service: Service) -> None:
    limits = service.settings.limits
    compare = Reader(parameters.COMPARE, limits, ranks=True, columns=COLUMNS)
    explain = Reader(parameters.EXPLAIN, limits, ranks=True)
    similar = Reader(parameters.SIMILAR, limits)
    doc = Reader(parameters.DOC, limits)

    async def answer(request: Request, function: Callable[..., Any], reader: Reader, *args: Any) -> Response:
        read = reader.read(request.scope["query_string"])
        return Response(await service.answer(request.path_params["index"], function, *args, read), media_type=JSON_TYPE)

    @app.get("/v1/{index}/compare", **_openapi(compare, models.CompareAnswer))
    async def compare_lists(request: Request) -> Response:
        """The first stage's list and up to three others, one per `rerank` parameter, with rank changes."""
        return await answer(request, answers.compare, compare)

    @app.get("/v1/{index}/explain", **_openapi(explain, models.ExplainAnswer))
    async def explain_score(request: Request) -> Response:
        """The contributions to a document's score, which sum to it: under one method, or by term without `rerank`."""
        return await answer(request, explanations.explain, explain)

    @app.get("/v1/{index}/explain/plot.svg", **_openapi(explain, None, media="image/svg+xml"))
    async def draw_explanation(request: Request) -> Response:
        """The method's plot of a query, and of a document where one is named."""
        read = explain.read(request.scope["query_string"])
        name = request.path_params["index"]
        service.index(name)
        picture = await service.workers.run(service.call, name, explanations.plot, read)
        # Opened by itself, an SVG file is a document that could run scripts: it may only use its own styles.
        return Response(
            picture,
            media_type="image/svg+xml",
            headers={"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"},
        )

    @app.get("/v1/{index}/similar/{docid:path}", **_openapi(similar, models.SimilarAnswer, path=("index", "docid")))
    async def similar_documents(request: Request) -> Response:
        """The documents most similar to a document, with an explanation of one similarity where `other` is given."""
        return await answer(request, answers.similar, similar, request.path_params["docid"])

    @app.get("/v1/{index}/doc/{docid:path}", **_openapi(doc, models.DocAnswer, path=("index", "docid")))
    async def get_document(request: Request) -> Response:
        """A document as it was indexed."""
        return await answer(request, answers.document, doc, request.path_params["docid"])


def _add_description_routes(app: FastAPI, service: Service) -> None:
    no_parameters = Reader((), service.settings.limits)
    suggest = Reader(parameters.SUGGEST, service.settings.limits)

    @app.get("/v1/indexes", **_openapi(no_parameters, models.IndexesAnswer, path=()))
    async def list_indexes(request: Request) -> Response:
        """The indexes, the methods that are ready on each, and the size of each click log."""
        no_parameters.read(request.scope["query_string"])
        return Response(await service.workers.run(describe_indexes, service), media_type=JSON_TYPE)

    @app.get("/v1/methods", **_openapi(no_parameters, models.MethodsAnswer, path=()))
    async def list_methods(request: Request) -> Response:
        """The options of the first stage and of all methods, and the limits of the server."""
        no_parameters.read(request.scope["query_string"])
        return _json_response(service.methods)

    @app.get("/v1/{index}/topics", **_openapi(no_parameters, models.TopicsAnswer))
    async def list_topics(request: Request) -> Response:
        """The judged topics of the collection, for the parameter `topic` of search, compare and explain."""
        no_parameters.read(request.scope["query_string"])
        return Response(await service.answer(request.path_params["index"], answers.topics), media_type=JSON_TYPE)

    @app.get("/v1/{index}/suggest", **_openapi(suggest, models.SuggestAnswer))
    async def suggest_queries(request: Request) -> Response:
        """Queries of the click log that begin with a text, most clicked first."""
        name, read = request.path_params["index"], suggest.read(request.scope["query_string"])
        return Response(await service.answer(name, answers.suggest, read), media_type=JSON_TYPE)

    @app.get("/health", **_openapi(no_parameters, models.Health, path=()))
    async def health() -> Response:
        """Whether the server is running; needs no key and no worker thread."""
        return _json_response({"status": "ok", "version": __version__, "indexes": service.names})

    @app.get("/metrics", **_openapi(no_parameters, None, path=(), media="text/plain"))
    async def metrics() -> Response:
        """Counts and times in Prometheus's text format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")


def _add_click_route(app: FastAPI, service: Service) -> None:
    schema = models.Click.model_json_schema()
    schema["properties"]["query"]["maxLength"] = service.settings.limits.query

    @app.post("/v1/{index}/click", **_openapi_post(schema, models.ClickAnswer, service.settings.limits))
    async def record_click(request: Request) -> Response:
        """Adds a shown list and a click to the click log; needs a server that was started with --record-clicks."""
        name = request.path_params["index"]
        if not service.index(name).clicks.recording:
            raise Refused(403, "clicks are not recorded: the server was started without --record-clicks")
        click = _validated(models.Click, await _json_body(request))
        client = request.client.host if request.client is not None else ""
        return Response(await service.answer(name, _record_click, service, click, client), media_type=JSON_TYPE)


def _validated(model: type[M], record: Any) -> M:
    """A JSON value as a model; raises Refused, which names the first field that is wrong."""
    try:
        return model.model_validate(record)
    except ValidationError as problem:
        raise Refused(400, describe_invalid(problem, model.model_fields)) from None


def _add_documents_route(app: FastAPI, service: Service) -> None:
    limits = service.settings.limits
    schema = models.DocumentsChange.model_json_schema()
    for documents in schema["properties"].values():
        documents["maxItems"] = limits.documents

    @app.post("/v1/{index}/documents", **_openapi_post(schema, models.DocumentsAnswer, limits))
    async def change_documents(request: Request) -> Response:
        """Adds and deletes documents; searches see the new state afterwards. Needs a server started with --allow-updates.

        The index is written anew, which may take longer than the time limit of other requests.
        """
        name = request.path_params["index"]
        service.index(name)
        if not service.settings.allow_updates:
            raise Refused(403, "documents cannot be changed: the server was started without --allow-updates")
        change = _validated(models.DocumentsChange, await _json_body(request))
        if not change.add and not change.delete:
            raise Refused(400, "body: nothing to add or to delete")
        if max(len(change.add), len(change.delete)) > limits.documents:
            raise Refused(413, f"more than {limits.documents} documents in one request")
        loop = asyncio.get_running_loop()
        updated = await loop.run_in_executor(None, service.update, name, change.add, change.delete)
        return _json_response(asdict(updated))


def _record_click(served: ServedIndex, service: Service, click: models.Click, client: str) -> dict[str, Any]:
    limits = service.settings.limits
    if not click.query.strip() or len(click.query) > limits.query:
        raise Refused(400, f"query: between 1 and {limits.query} characters are expected")
    if len(set(click.docids)) < len(click.docids):
        raise Refused(400, "docids: a document is listed twice")
    if click.clicked is not None and click.clicked not in click.docids:
        raise Refused(400, "clicked: not among the docids")
    for docid, row in zip(click.docids, served.index.forward.rows_of(click.docids).tolist(), strict=True):
        if row < 0:
            raise Refused(400, f"docids: {docid[:100]!r} is not in {served.name}")
    service.impressions.check(click.impression, served.name, click.query, click.docids)
    if not service.click_rates.take(client):
        raise Refused(429, f"more than {limits.clicks_per_minute} clicks per minute; try again later")
    recorded = served.clicks.record(click.impression, click.query, click.docids, click.clicked)
    if recorded and click.clicked is not None:
        service.metrics.clicks.inc()
    return {"recorded": recorded, "clicks": served.clicks.totals()}


def _add_error_handlers(app: FastAPI) -> None:
    async def handle(_: Request, error: Exception) -> Response:
        return error_response(error)

    for kind in ANSWERED:
        app.add_exception_handler(kind, handle)


class DirectRoute:
    """An ASGI application that answers GET requests of one route directly, and calls `app`, whose route it is, for all others.

    FastAPI's middleware, dependency resolution and routing take longer than a short search; this route needs none of them.
    `answer` gets the index's name in the path and the query string, and returns the answer as JSON.
    """

    def __init__(self, app: FastAPI, route: APIRoute, answer: Callable[[str, bytes], Awaitable[bytes]]) -> None:
        self.app, self.route, self.answer = app, route, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        direct = scope["type"] == "http" and scope["method"] == "GET"
        match = self.route.path_regex.match(scope["path"]) if direct else None
        if match is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = self.route  # the metrics read it
        try:
            body = await self.answer(match["index"], scope["query_string"])
        except Exception as error:
            await error_response(error)(scope, receive, send)
            return
        headers = [(b"content-length", str(len(body)).encode()), (b"content-type", JSON_TYPE.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _openapi(
    reader: Reader, model: type[BaseModel] | None, path: tuple[str, ...] = ("index",), media: str | None = None
) -> dict[str, Any]:
    """The arguments of a route that declare its parameters and answers in OpenAPI.

    `model` is the shape of a JSON answer, `path` names the parameters in the path, `media` is the type of another answer.
    """
    success: dict[str, Any] = {"description": "the answer"}
    if model is not None:
        success["model"] = model
    if media is not None:
        success["content"] = {media: {"schema": {"type": "string"}}}
    responses: dict[int | str, dict[str, Any]] = {200: success}
    responses.update({status: {"description": text, "model": models.Problem} for status, text in STATUSES.items()})
    return {
        "responses": responses,
        "response_model": None,
        "response_class": Response if media else JSONResponse,
        "openapi_extra": {"parameters": openapi_parameters(reader, path)},
    }


def _json_response(data: object) -> Response:
    return Response(orjson.dumps(data, option=JSON_OPTIONS), media_type=JSON_TYPE)
