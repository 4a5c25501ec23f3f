"""Whether the server is running, and its metrics: `/health` and `/metrics`."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import Response
from typing_extensions import TypedDict

from kernelsearch.core.version import __version__
from kernelsearch.serve.routes import declare, json_response
from kernelsearch.serve.service import Service


class Health(TypedDict):
    """The state of the server."""

    status: str
    version: str
    indexes: list[str]


def add(app: FastAPI, service: Service) -> None:
    """Adds the routes."""

    @app.get("/health", **declare(Health, path=()))
    async def health() -> Response:
        """Whether the server is running; needs no key and no worker thread."""
        state: Health = {"status": "ok", "version": __version__, "indexes": service.names}
        return json_response(state)

    @app.get("/metrics", **declare(None, path=(), media="text/plain"))
    async def metrics() -> Response:
        """Counts and times in Prometheus's text format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")
