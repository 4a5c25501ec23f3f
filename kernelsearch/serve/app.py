"""The application: addresses, and how problems are answered."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from kernelsearch.core.errors import ArtefactError, IndexProblem, JavaError, KernelSearchError
from kernelsearch.core.version import __version__
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.serve import answers, models, parameters
from kernelsearch.serve.answers import NotFound
from kernelsearch.serve.catalogue import Served, about_methods
from kernelsearch.serve.gate import Gate, Receive, Refused, Send
from kernelsearch.serve.metrics import Metrics
from kernelsearch.serve.parameters import Asked, Reader, described, first_stage_options, openapi_parameters
from kernelsearch.serve.settings import Settings
from kernelsearch.serve.workers import Overloaded, TooSlow, Workers

PAGE = Path(__file__).parent / "page"
JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
COLUMNS = 3  #: lists beside the first stage's that can be compared at once
SEARCH = "/v1/{index}/search"
SEARCHED = re.compile("/v1/([^/]+)/search")
RETRY_AFTER = "1"
log = logging.getLogger("kernelsearch.serve")

DESCRIPTION = """Search with Lucene, rerank with kernel methods, compare, and see why.

`/v1/{index}/search` and `/v1/{index}/doc/{docid}` have the shapes of Pyserini's REST API. Errors are `{"error": "..."}` with
one line that says what to change. Parameters of methods carry the method's name: `rerank=klsa&klsa.z=5&klsa.lambda=0.3`."""


class Service:
    """The state behind the addresses: opened indexes, threads, counts."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.served = {source.name: Served(source, settings) for source in settings.sources}
        limits = settings.limits
        self.workers = Workers(limits.threads, limits.waiting, limits.seconds)
        self.metrics = Metrics(lambda: self.workers.busy)
        self.search_reader = Reader(parameters.SEARCH, limits, ranks=True)
        self.methods = {
            "api": "v1",
            "first_stage": [described(option) for option in first_stage_options()],
            "methods": about_methods(),
            "limits": asdict(limits),
        }

    def index(self, name: str) -> Served:
        if name not in self.served:
            raise NotFound(f"index: {name[:100]!r} is not one of {', '.join(self.served)}")
        return self.served[name]

    async def answer(self, function: Callable[..., Any], *args: Any) -> Response:
        """A function's answer as JSON; both are made in a worker's thread."""
        return Response(await self.workers.run(_encoded, function, args), media_type="application/json")

    async def search(self, name: str, query_string: bytes) -> bytes:
        """The answer to a search as JSON. Those for the first stage's own list share calls to Lucene where they meet."""
        served, asked = self.index(name), self.search_reader.read(query_string)
        shared = answers.first_stage_only(served, asked)
        if shared is None:
            return await self.workers.run(_encoded, answers.search, (served, asked))
        return await self.workers.run_together(_searches, shared, asked)


def make_app(settings: Settings) -> Any:
    """The ASGI application of a server."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        for served in service.served.values():
            await loop.run_in_executor(None, served.warm_up)
        drawing = loop.run_in_executor(None, answers.prepare_drawing)
        async with models_endpoint:
            yield
        await drawing
        service.workers.close()

    app = FastAPI(
        title="kernelsearch",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # it would load its scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    _add_problems(app)
    _add_search(app, service)
    _add_about(app, service)
    _add_clicks(app, service)
    app.mount("/page", StaticFiles(directory=PAGE, check_dir=False))
    models_endpoint: AbstractAsyncContextManager[None] = nullcontext()
    if settings.mcp:
        from kernelsearch.serve.mcp import add_mcp

        models_endpoint = add_mcp(app, service)

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        if (PAGE / "index.html").is_file():
            return FileResponse(PAGE / "index.html")
        return _json({"name": "kernelsearch", "version": __version__, "documentation": "/openapi.json"})

    return Gate(Shortcut(app, service), settings, service.metrics)


def _add_search(app: FastAPI, service: Service) -> None:
    limits = service.settings.limits
    compare = Reader(parameters.SEARCH, limits, ranks=True, columns=COLUMNS)
    explain = Reader(parameters.EXPLAIN, limits, ranks=True)
    similar = Reader(parameters.SIMILAR, limits)
    doc = Reader(parameters.DOC, limits)

    @app.get(SEARCH, **_told(service.search_reader, models.SearchAnswer))
    async def search_index(request: Request) -> Response:
        """A ranked list: the first stage's, or that of methods which rerank it."""
        found = await service.search(request.path_params["index"], request.scope["query_string"])
        return Response(found, media_type="application/json")

    @app.get("/v1/{index}/compare", **_told(compare, models.CompareAnswer))
    async def compare_lists(request: Request) -> Response:
        """The first stage's list and up to three others beside it, one for each `rerank`, with who moved where."""
        return await service.answer(answers.compare, _index(service, request), compare.read(request.scope["query_string"]))

    @app.get("/v1/{index}/explain", **_told(explain, models.ExplainAnswer))
    async def explain_score(request: Request) -> Response:
        """Why a document stands where one method puts it: contributions that sum to its score."""
        return await service.answer(answers.explain, _index(service, request), explain.read(request.scope["query_string"]))

    @app.get("/v1/{index}/explain/plot.svg", **_told(explain, None, media="image/svg+xml"))
    async def draw_explanation(request: Request) -> Response:
        """The method's picture of a query, and of a document where one is named."""
        asked = explain.read(request.scope["query_string"])
        picture = await service.workers.run(_named, answers.plot, (_index(service, request), asked))
        # Opened by itself, a picture is a document: its style is its own, and it runs nothing.
        return Response(
            picture,
            media_type="image/svg+xml",
            headers={"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"},
        )

    @app.get("/v1/{index}/similar/{docid:path}", **_told(similar, models.SimilarAnswer, path=("index", "docid")))
    async def similar_documents(request: Request) -> Response:
        """The documents most similar to one, and why one of them is."""
        asked = similar.read(request.scope["query_string"])
        return await service.answer(answers.similar, _index(service, request), request.path_params["docid"], asked)

    @app.get("/v1/{index}/doc/{docid:path}", **_told(doc, models.DocAnswer, path=("index", "docid")))
    async def get_document(request: Request) -> Response:
        """A document as it was indexed."""
        asked = doc.read(request.scope["query_string"])
        return await service.answer(answers.document, _index(service, request), request.path_params["docid"], asked)


def _add_about(app: FastAPI, service: Service) -> None:
    plain = Reader((), service.settings.limits)
    suggest = Reader(parameters.SUGGEST, service.settings.limits)

    @app.get("/v1/indexes", **_told(plain, models.IndexesAnswer, path=()))
    async def list_indexes(request: Request) -> Response:
        """The indexes, which methods are ready on each, and how large its click log is."""
        plain.read(request.scope["query_string"])
        return await service.answer(lambda: {"api": "v1", "indexes": [one.about() for one in service.served.values()]})

    @app.get("/v1/methods", **_told(plain, models.MethodsAnswer, path=()))
    async def list_methods(request: Request) -> Response:
        """The methods and their options, those of the first stage, and the server's limits."""
        plain.read(request.scope["query_string"])
        return _json(service.methods)

    @app.get("/v1/{index}/topics", **_told(plain, models.TopicsAnswer))
    async def list_topics(request: Request) -> Response:
        """The judged topics of the collection; `topic` takes them in search, compare and explain."""
        plain.read(request.scope["query_string"])
        return await service.answer(answers.topics, _index(service, request))

    @app.get("/v1/{index}/suggest", **_told(suggest, models.SuggestAnswer))
    async def suggest_queries(request: Request) -> Response:
        """Queries of the click log that begin with what was typed, most clicked first."""
        served, asked = _index(service, request), suggest.read(request.scope["query_string"])
        return await service.answer(
            lambda: {"api": "v1", "index": served.name, "suggestions": served.clicks.suggestions(**asked.own)}
        )

    @app.get("/health", **_told(plain, models.Health, path=()))
    async def health() -> Response:
        """Whether the server is up; needs no key and no thread."""
        return _json({"status": "ok", "version": __version__, "indexes": list(service.served)})

    @app.get("/metrics", **_told(plain, None, path=(), media="text/plain"))
    async def metrics() -> Response:
        """Counts and times for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")


def _add_clicks(app: FastAPI, service: Service) -> None:
    reader = Reader((), service.settings.limits)
    told = _told(reader, models.ClickAnswer)
    told["openapi_extra"]["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": models.Click.model_json_schema()}},
    }

    @app.post("/v1/{index}/click", **told)
    async def record_click(request: Request) -> Response:
        """Adds a shown list and a click to the click log, where the server was started with --record-clicks."""
        served = _index(service, request)
        if not served.clicks.recording:
            raise Refused(403, "clicks are not recorded: the server was started without --record-clicks")
        # Another site's page can't send this type without asking first, and it is never allowed.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "Content-Type: application/json is expected")
        try:
            click = models.Click.model_validate_json(await request.body())
        except ValidationError as problem:
            first = problem.errors()[0]
            where = ".".join(map(str, first["loc"])) or "body"
            raise Refused(400, f"{where}: {first['msg']}") from None
        return await service.answer(_record, service, served, click)


def _record(service: Service, served: Served, click: models.Click) -> dict[str, Any]:
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
    recorded = served.clicks.record(click.impression, click.query, click.docids, click.clicked)
    if recorded and click.clicked is not None:
        service.metrics.clicks.inc()
    return {"recorded": recorded, "clicks": served.clicks.totals()}


def _add_problems(app: FastAPI) -> None:
    async def answer(_: Request, error: Exception) -> Response:
        status, why, headers = problem(error)
        return Response(orjson.dumps({"error": why}), status, headers, "application/json")

    for kind in (KernelSearchError, NotFound, CannotAct, Refused, Overloaded, TooSlow, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


def problem(error: Exception) -> tuple[int, str, dict[str, str]]:
    """How what was raised is answered: status, one line, further headers."""
    match error:
        case JavaError():
            log.error("%s", error)
            return 500, "the search engine failed; the server's log says why", {}
        case KernelSearchError():
            text = " ".join(str(error).split()).removeprefix("--")
            return 409 if isinstance(error, IndexProblem | ArtefactError) else 400, text, {}
        case NotFound():
            return 404, str(error), {}
        case CannotAct():
            return 400, f"the method keeps the first stage's list for this query: {error}", {}
        case Refused():
            return error.status, str(error), {}
        case Overloaded():
            return 503, "too many requests at once; try again in a moment", {"retry-after": RETRY_AFTER}
        case TooSlow():
            return 504, "this took too long; ask for fewer candidates or a simpler method", {}
        case HTTPException():
            return error.status_code, str(error.detail).lower(), dict(error.headers or {})
    log.error("unforeseen", exc_info=error)
    return 500, "something went wrong; the server's log says what", {}


class Shortcut:
    """An ASGI application around another one: searches are answered here. All that FastAPI does around a call takes longer."""

    def __init__(self, app: Any, service: Service) -> None:
        self.app, self.service = app, service
        self.route = next(route for route in app.routes if getattr(route, "path", None) == SEARCH)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        address = SEARCHED.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if address is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = self.route  # what is counted
        status = 200
        more: dict[str, str] = {}
        try:
            body = await self.service.search(address[1], scope["query_string"])
        except Exception as error:
            status, why, more = problem(error)
            body = orjson.dumps({"error": why})
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        headers += [(name.encode(), value.encode()) for name, value in more.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _told(reader: Reader, model: Any, path: tuple[str, ...] = ("index",), media: str | None = None) -> dict[str, Any]:
    """What OpenAPI says of an address: its parameters and its answers."""
    fine: dict[str, Any] = {"description": "the answer"}
    if model is not None:
        fine["model"] = model
    if media is not None:
        fine["content"] = {media: {"schema": {"type": "string"}}}
    statuses = {400: "bad parameters", 401: "no API key, or a wrong one", 404: "no such index, document or topic"}
    statuses |= {403: "not allowed here", 409: "the index lacks what the method needs", 413: "too large a body"}
    statuses |= {415: "another type of body is expected", 421: "another host's name", 500: "a fault of the server"}
    statuses |= {503: "too many requests at once", 504: "took too long"}
    responses: dict[int | str, dict[str, Any]] = {200: fine}
    responses.update({status: {"description": told, "model": models.Problem} for status, told in statuses.items()})
    return {
        "responses": responses,
        "response_model": None,
        "response_class": Response if media else JSONResponse,
        "openapi_extra": {"parameters": openapi_parameters(reader, path)},
    }


def _index(service: Service, request: Request) -> Served:
    return service.index(request.path_params["index"])


def _json(data: Any) -> Response:
    return Response(orjson.dumps(data, option=JSON), media_type="application/json")


def _searches(shared: answers.FirstStageOnly, several: list[Asked]) -> list[bytes]:
    return [orjson.dumps(one, option=JSON) for one in _named(answers.searches, (*shared, several))]


def _encoded(function: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    return orjson.dumps(_named(function, args), option=JSON)


def _named(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Calls a function; what it complains of names an index as clients know it, not where it stands on this machine."""
    try:
        return function(*args)
    except KernelSearchError as problem:
        served = next((one for one in args if isinstance(one, Served)), None)
        raise type(problem)(served.public(problem) if served is not None else str(problem)) from None
