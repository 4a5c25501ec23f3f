"""The documents most similar to a document: `/v1/{index}/similar/{docid}`."""

from __future__ import annotations

from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.responses import Response
from typing_extensions import TypedDict

from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.endpoints.explain import Explanation
from kernelsearch.serve.parameters import HITS, PARSE, Parameters, Reader, text_option
from kernelsearch.serve.ranking import Version, row_of
from kernelsearch.serve.routes import answer_query, declare
from kernelsearch.serve.service import Service

PARAMETERS = (HITS, PARSE, text_option("other", "a second document, whose similarity is explained"))


class SimilarEntry(TypedDict):
    """A similar document."""

    docid: str
    score: float
    rank: int
    doc: Any


class SimilarAnswer(TypedDict):
    """The documents most similar to a document."""

    api: Version
    index: str
    docid: str
    candidates: list[SimilarEntry]
    explanation: Explanation | None


def similar(served: ServedIndex, docid: str, parameters: Parameters) -> SimilarAnswer:
    """The documents most similar to a document."""
    row = row_of(served, docid)
    finder = served.similar_documents()
    top = finder.ranked(row).top(parameters.hits)
    docids = served.index.forward.docids.take(top.docs)
    docs = served.texts.answers(top.docs, parameters.parse)
    explanation = None
    if parameters.other is not None:
        row_of(served, parameters.other)
        explanation = cast(Explanation, finder.explain(docid, parameters.other).to_dict())
    scores = [round(score, 6) for score in top.scores.tolist()]
    return {
        "api": "v1",
        "index": served.name,
        "docid": docid,
        "candidates": [
            {"docid": name, "score": score, "rank": rank, "doc": doc}
            for rank, (name, score, doc) in enumerate(zip(docids, scores, docs, strict=True), 1)
        ],
        "explanation": explanation,
    }


def add(app: FastAPI, service: Service) -> None:
    """Adds the route."""
    reader = Reader(PARAMETERS, service.settings.limits)

    @app.get("/v1/{index}/similar/{docid:path}", **declare(SimilarAnswer, reader, path=("index", "docid")))
    async def similar_documents(request: Request) -> Response:
        """The documents most similar to a document, with an explanation of one similarity where `other` is given."""
        return await answer_query(service, request, reader, similar, request.path_params["docid"])
