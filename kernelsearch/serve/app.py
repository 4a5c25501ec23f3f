"""The ASGI application: routes, and how errors are answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, Response
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from starlette.middleware.cors import CORSMiddleware

from kernelsearch.core.version import __version__
from kernelsearch.serve.endpoints import ENDPOINTS, search
from kernelsearch.serve.endpoints.explain import load_matplotlib
from kernelsearch.serve.errors import ANSWERED, JSON_TYPE, error_response
from kernelsearch.serve.gate import Application, Gate, Receive, Scope, Send
from kernelsearch.serve.parameters import Reader
from kernelsearch.serve.routes import json_response
from kernelsearch.serve.service import Service
from kernelsearch.serve.settings import ServiceSettings

PAGE = Path(__file__).parent / "page"
SWAGGER = Path(fastapi_offline.__file__).parent / "static"  #: Swagger UI's script and styles

DESCRIPTION = """Search with Lucene, rerank with kernel methods, compare the lists, and explain the scores.

`/v1/{index}/search` and `/v1/{index}/doc/{docid}` have the shapes of Pyserini's REST API. Errors are `{"error": "..."}` with
one line that says what to change. Parameters of a method have its name as a prefix: `rerank=klsa&klsa.z=5&klsa.lambda=0.3`."""


def make_app(settings: ServiceSettings) -> Application:
    """The ASGI application of a server with `settings`. Indexes are opened here; Java starts with the application."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        # Done before the server listens: in the background it would slow down the first requests.
        matplotlib = loop.run_in_executor(None, load_matplotlib)
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
    for endpoint in ENDPOINTS:
        endpoint.add(app, service)
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
        return json_response({"name": "kernelsearch", "version": __version__, "documentation": "/docs"})

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> Response:
        return FileResponse(PAGE / "docs.html")

    gate = Gate(SearchRoute(app, service), settings, service.metrics)
    if not settings.cors:
        return gate
    # Outside the gate, because a preflight has no key.
    return CORSMiddleware(
        gate,
        allow_origins=settings.cors,
        allow_methods=("GET", "HEAD", "POST"),
        allow_headers=("content-type", "x-api-key", "authorization"),
    )


def _add_error_handlers(app: FastAPI) -> None:
    async def handle(_: Request, error: Exception) -> Response:
        return error_response(error)

    for kind in ANSWERED:
        app.add_exception_handler(kind, handle)


class SearchRoute:
    """An ASGI application that answers searches by GET directly, and calls `app`, whose route it is, for all other requests.

    FastAPI's middleware, dependency resolution and routing take longer than a short search; this route needs none of them.
    """

    def __init__(self, app: FastAPI, service: Service) -> None:
        self.app, self.service = app, service
        self.route = next(route for route in app.routes if isinstance(route, APIRoute) and route.path == search.PATH)
        self.reader = Reader(search.PARAMETERS, service.settings.limits, ranks=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        direct = scope["type"] == "http" and scope["method"] == "GET"
        match = self.route.path_regex.match(scope["path"]) if direct else None
        if match is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = self.route  # the metrics read it
        try:
            body = await search.answer_search(self.service, match["index"], self.reader.read(scope["query_string"]))
        except Exception as error:
            await error_response(error)(scope, receive, send)
            return
        headers = [(b"content-length", str(len(body)).encode()), (b"content-type", JSON_TYPE.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
