"""A document as it was indexed: `/v1/{index}/doc/{docid}`."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import Response
from typing_extensions import TypedDict

from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.parameters import PARSE, Parameters, Reader
from kernelsearch.serve.ranking import Version, row_of
from kernelsearch.serve.routes import answer_query, declare
from kernelsearch.serve.service import Service

PARAMETERS = (PARSE,)


class DocAnswer(TypedDict):
    """A stored document."""

    api: Version
    index: str
    docid: str
    doc: Any


def document(served: ServedIndex, docid: str, parameters: Parameters) -> DocAnswer:
    """One document, in the shape of Pyserini's REST API."""
    docs = served.texts.answers(np.array([row_of(served, docid)], dtype=np.int32), parameters.parse)
    return {"api": "v1", "index": served.name, "docid": docid, "doc": docs[0]}


def add(app: FastAPI, service: Service) -> None:
    """Adds the route."""
    reader = Reader(PARAMETERS, service.settings.limits)

    @app.get("/v1/{index}/doc/{docid:path}", **declare(DocAnswer, reader, path=("index", "docid")))
    async def get_document(request: Request) -> Response:
        """A document as it was indexed."""
        return await answer_query(service, request, reader, document, request.path_params["docid"])
