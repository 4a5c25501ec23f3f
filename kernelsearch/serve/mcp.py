"""The service for language models: an endpoint of the Model Context Protocol at /mcp with six tools.

A tool reads its arguments as the REST API reads a JSON body, so that checks, limits and answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import ConfigDict, ValidationError

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.installed import install_command
from kernelsearch.core.version import __version__
from kernelsearch.serve.endpoints import doc as documents
from kernelsearch.serve.endpoints import explain as explaining
from kernelsearch.serve.endpoints import search as searching
from kernelsearch.serve.endpoints import similar as similarity
from kernelsearch.serve.endpoints.indexes import describe_indexes
from kernelsearch.serve.endpoints.methods import describe_methods
from kernelsearch.serve.errors import describe_error, describe_invalid
from kernelsearch.serve.parameters import Reader
from kernelsearch.serve.service import Service

if TYPE_CHECKING:
    from fastapi import FastAPI


PATH = "/mcp"


def add_mcp(app: FastAPI, service: Service) -> AbstractAsyncContextManager[None]:
    """Adds the endpoint of `service` to `app`; returns a context that must be open while the application serves."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.server.mcpserver.tools import Tool
        from mcp.server.transport_security import TransportSecuritySettings
    except ImportError:
        raise OptionError(f"needs the package mcp; {install_command('mcp')}", option=Flag("mcp")) from None
    limits = service.settings.limits
    search_reader = Reader(searching.PARAMETERS, limits, ranks=True)
    explain_reader = Reader(explaining.PARAMETERS, limits, ranks=True)
    doc_reader, similar_reader = Reader(documents.PARAMETERS, limits), Reader(similarity.PARAMETERS, limits)

    class StrictTool(Tool):
        """A tool that refuses arguments which it does not have, and those of another type, in one line."""

        async def run(self, arguments: dict[str, Any], *args: Any, **options: Any) -> Any:
            try:
                self.fn_metadata.validate_arguments(arguments)
            except ValidationError as problem:
                line = describe_invalid(problem, self.fn_metadata.arg_model.model_fields)
                raise ToolError(f"Error executing tool {self.name}: {line}") from None
            return await super().run(arguments, *args, **options)

    def strict(tool: Tool) -> Tool:
        """The library would ignore arguments that a tool does not have."""
        lenient = tool.fn_metadata.arg_model

        class Arguments(lenient):  # type: ignore[misc, valid-type]
            """The arguments of the tool, and no others."""

            model_config = ConfigDict(extra="forbid")

        tool.fn_metadata.arg_model = Arguments
        tool.parameters = Arguments.model_json_schema(by_alias=True)
        return tool

    def reporting(tool: Callable[..., Any]) -> Callable[..., Any]:
        """The function `tool` with its errors described as the REST API describes them."""

        @wraps(tool)
        async def run(*args: Any, **arguments: Any) -> str:
            try:
                return str(await tool(*args, **arguments))
            except Exception as error:
                raise ToolError(describe_error(error)[1]) from None

        return run

    async def answer(
        function: Callable[..., Any],
        index: str,
        reader: Reader,
        own: Mapping[str, object],
        options: Mapping[str, object],
        *args: str,
    ) -> str:
        if both := sorted(own.keys() & options.keys()):
            raise OptionError(f"options: {both[0]} is an argument of the tool itself")
        read = reader.read_record({**options, **own})
        return (await service.answer(index, function, *args, read)).decode()

    async def search(index: str, query: str, hits: int = 10, rerank: str | None = None, options: dict[str, Any] = {}) -> str:  # noqa: B006  never changed
        """Searches an index. `rerank` names a method (klsa, mslm, pert, rbm25, auto, ...), or several separated by commas;
        `options` are parameters such as {"klsa.z": 5, "k1": 1.2}. Returns JSON: candidates with docid, score, rank, doc."""
        return await answer(searching.search, index, search_reader, {"query": query, "hits": hits, "rerank": rerank}, options)

    async def doc(index: str, docid: str) -> str:
        """Returns a document of an index by its docid, as JSON."""
        return await answer(documents.get_document, index, doc_reader, {}, {}, docid)

    async def explain(
        index: str,
        query: str,
        rerank: str | None = None,
        docid: str | None = None,
        options: dict[str, Any] = {},  # noqa: B006  never changed
    ) -> str:
        """Explains the score of a document (default: the first of the list) by contributions that sum to it: under the method
        `rerank`, or without one by the terms of the query."""
        own = {"query": query, "rerank": rerank, "docid": docid}
        return await answer(explaining.explain_score, index, explain_reader, own, options)

    async def similar(index: str, docid: str, hits: int = 10, other: str | None = None) -> str:
        """Returns the documents of an index that are most similar to one of them, as JSON; the similarity to the document
        `other` is explained."""
        return await answer(similarity.similar_documents, index, similar_reader, {"hits": hits, "other": other}, {}, docid)

    async def list_indexes() -> str:
        """Lists the indexes with their numbers of documents and the methods that are ready on each, as JSON."""
        described = await service.workers.run(describe_indexes, service)
        return described.decode()

    async def list_methods() -> str:
        """Lists the methods for `rerank` with their options (name, type, bounds, default, help), as JSON."""
        return orjson.dumps(describe_methods(limits)).decode()

    functions = (search, doc, explain, similar, list_indexes, list_methods)
    server = MCPServer(
        "kernelsearch",
        version=__version__,
        instructions=f"Searches the indexes {', '.join(service.names)} with BM25 and reranks with kernel methods.",
        log_level="WARNING",
        tools=[strict(StrictTool.from_function(reporting(function), structured_output=False)) for function in functions],
    )
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
