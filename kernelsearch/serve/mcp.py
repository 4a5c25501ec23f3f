"""The service for language models: an endpoint of the Model Context Protocol at /mcp with six tools.

A tool builds the query string that a client of the REST API would send, so that checks, limits and answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson

from kernelsearch.core.errors import KernelSearchError, OptionError
from kernelsearch.core.version import __version__
from kernelsearch.serve import answers, explanations, parameters
from kernelsearch.serve.parameters import Reader
from kernelsearch.serve.service import Service, describe_indexes
from kernelsearch.serve.workers import Overloaded, TimedOut

if TYPE_CHECKING:
    from fastapi import FastAPI


PATH = "/mcp"


def add_mcp(app: FastAPI, service: Service) -> AbstractAsyncContextManager[None]:
    """Adds the endpoint of `service` to the application; returns a context that must be open while the application serves."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.server.transport_security import TransportSecuritySettings
    except ImportError:
        raise OptionError("--mcp: needs the package mcp; pip install 'kernelsearch[mcp]'") from None
    limits = service.settings.limits
    search_reader = Reader(parameters.SEARCH, limits, ranks=True)
    explain_reader = Reader(parameters.EXPLAIN, limits, ranks=True)
    doc_reader, similar_reader = Reader(parameters.DOC, limits), Reader(parameters.SIMILAR, limits)
    server = MCPServer(
        "kernelsearch",
        version=__version__,
        instructions=f"Searches the indexes {', '.join(service.names)} with BM25 and reranks with kernel methods.",
        log_level="WARNING",
    )

    async def answer(function: Callable[..., Any], index: str, reader: Reader, values: Mapping[str, object], *args: str) -> str:
        chosen = {name: value for name, value in values.items() if value is not None}
        try:
            read = reader.read(urlencode(chosen, errors="replace").encode())
            return (await service.answer(index, function, *args, read)).decode()
        except (KernelSearchError, answers.NotFound) as problem:
            raise ToolError(str(problem)) from None
        except (Overloaded, TimedOut):
            raise ToolError("the server is busy; try again later") from None

    async def search(index: str, query: str, hits: int = 10, rerank: str | None = None, options: dict[str, str] = {}) -> str:  # noqa: B006  never changed
        """Searches an index. `rerank` names a method (klsa, mslm, pert, rbm25, auto, ...), or several separated by commas;
        `options` are parameters such as {"klsa.z": "5", "k1": "1.2"}. Returns JSON: candidates with docid, score, rank, doc."""
        return await answer(answers.search, index, search_reader, {**options, "query": query, "hits": hits, "rerank": rerank})

    async def doc(index: str, docid: str) -> str:
        """Returns a document of an index by its docid, as JSON."""
        return await answer(answers.document, index, doc_reader, {}, docid)

    async def explain(
        index: str,
        query: str,
        rerank: str | None = None,
        docid: str | None = None,
        options: dict[str, str] = {},  # noqa: B006  never changed
    ) -> str:
        """Explains the score of a document (default: the first of the list) by contributions that sum to it: under the method
        `rerank`, or without one by the terms of the query."""
        return await answer(
            explanations.explain, index, explain_reader, {**options, "query": query, "rerank": rerank, "docid": docid}
        )

    async def similar(index: str, docid: str, hits: int = 10) -> str:
        """Returns the documents of an index that are most similar to one of them, as JSON."""
        return await answer(answers.similar, index, similar_reader, {"hits": hits}, docid)

    async def list_indexes() -> str:
        """Lists the indexes with their numbers of documents and the methods that are ready on each, as JSON."""
        described = await service.workers.run(describe_indexes, service)
        return described.decode()

    async def list_methods() -> str:
        """Lists the methods for `rerank` with their options (name, type, bounds, default, help), as JSON."""
        return orjson.dumps(service.methods).decode()

    for tool in (search, doc, explain, similar, list_indexes, list_methods):
        server.tool(structured_output=False)(tool)
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.body,
        # The gate has checked the Host header already.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    app.router.routes.extend(inner.routes)
    return server.session_manager.run()
