"""Adding and deleting documents: `/v1/{index}/documents`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from kernelsearch.serve.gate import Refused
from kernelsearch.serve.routes import declare, json_response, validated_body
from kernelsearch.serve.service import Service


class DocumentsChange(BaseModel):
    """Documents to add and ids of documents to delete; at least one of the two."""

    model_config = ConfigDict(extra="forbid", strict=True)

    add: list[dict[str, Any]] = Field(
        default_factory=list, description="documents with `id`, `contents` and other fields; one of the same id is replaced"
    )
    delete: list[str] = Field(default_factory=list, description="ids of documents to delete")


class DocumentsAnswer(TypedDict):
    """The outcome of a change of documents."""

    documents: Annotated[int, Field(description="documents in the index now")]
    added: int
    replaced: Annotated[int, Field(description="added documents that replaced one of the same id")]
    deleted: int
    empty: Annotated[int, Field(description="documents that were left out because they have no text")]
    unknown: Annotated[list[str], Field(description="ids to delete that the index did not have")]


def add(app: FastAPI, service: Service) -> None:
    """Adds the route."""
    limits = service.settings.limits
    schema = DocumentsChange.model_json_schema()
    for documents in schema["properties"].values():
        documents["maxItems"] = limits.documents

    @app.post("/v1/{index}/documents", **declare(DocumentsAnswer, body=schema))
    async def change_documents(request: Request) -> Response:
        """Adds and deletes documents; searches see the new state afterwards. Needs a server started with --allow-updates.

        The index is written anew, which may take longer than the time limit of other requests.
        """
        name = request.path_params["index"]
        service.index(name)
        if not service.settings.allow_updates:
            raise Refused(403, "documents cannot be changed: the server was started without --allow-updates")
        change = await validated_body(request, DocumentsChange)
        if not change.add and not change.delete:
            raise Refused(400, "body: nothing to add or to delete")
        if max(len(change.add), len(change.delete)) > limits.documents:
            raise Refused(413, f"more than {limits.documents} documents in one request")
        loop = asyncio.get_running_loop()
        updated = await loop.run_in_executor(None, service.update, name, change.add, change.delete)
        answer: DocumentsAnswer = {
            "documents": updated.documents,
            "added": updated.added,
            "replaced": updated.replaced,
            "deleted": updated.deleted,
            "empty": updated.empty,
            "unknown": list(updated.unknown),
        }
        return json_response(answer)
