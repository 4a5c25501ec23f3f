"""The contributions to a score: `/v1/{index}/explain`, and as a picture `/v1/{index}/explain/plot.svg`."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from kernelsearch.api.explaining import explain_first_stage, explain_reranked
from kernelsearch.api.readable import Reading, read_explanation
from kernelsearch.api.results import earlier_ranks
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates
from kernelsearch.rerankers import explanations
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.serve import parameters as options
from kernelsearch.serve import ranking
from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.gate import Refused
from kernelsearch.serve.parameters import Parameters, Reader
from kernelsearch.serve.routes import declare, query_route
from kernelsearch.serve.service import Service

PARAMETERS = (options.QUERY, options.DOCID, options.TOPIC, options.METHOD, options.CANDIDATES)
#: The name of the first stage in explanations, where a method's name would be.
FIRST_STAGE = "first stage"
#: Opened by itself, an SVG file is a document that could run scripts: it may only use its own styles.
SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_drawing = threading.Lock()  # matplotlib's font cache is shared by all threads and not thread-safe

#: A string, or a reference.
Pieces = Annotated[
    list[str | dict[str, str]],
    Field(
        description="the text in pieces: strings, and references {document | term | feature | symbol: text, "
        "meaning: text if known}"
    ),
]


class Contribution(TypedDict):
    """A contribution to a score. The values of `parts` sum to `value`."""

    label: str
    detail: str
    value: float
    label_pieces: Pieces
    detail_pieces: Pieces
    parts: list[Contribution]


class Explanation(TypedDict):
    """The explanation of a score: contributions that sum to it."""

    method: str
    docid: str
    score: float
    contributions: list[Contribution]
    notes: Annotated[dict[str, Any], Field(description="further values that depend on the method")]


class ExplainAnswer(ranking.Answer):
    """A document's place in a list, and the explanation of its score."""

    query: ranking.QueryText
    method: Annotated[str, Field(description="the method's name, or `first stage`")]
    docid: str
    score: float
    rank: int
    before: int | None
    fallback: ranking.Fallback
    notes: ranking.Notes
    explanation: Annotated[Explanation | None, Field(description="null where the method left the list unchanged")]
    titles: Annotated[dict[str, str], Field(description="titles of the documents that the explanation mentions, by docid")]
    words: Annotated[dict[str, str], Field(description="words for the terms that the explanation mentions, where they differ")]


def explain_score(served: ServedIndex, parameters: Parameters) -> ExplainAnswer:
    """The contributions to a document's score, which sum to it: under one method, or by term without `rerank`."""
    methods = parameters.columns[0] if parameters.columns else ()
    text = ranking.query_text(served, parameters)
    with served.reading_clicks(methods):
        result = ranking.rank_query(served, parameters, text, methods, None, full=True)
        row = _listed_row(served, parameters, result)
        explanation, fallback = _explain_row(served, parameters, result, row)
    docid = served.index.forward.docids.take([row])[0]
    reading = Reading()
    if explanation is not None:
        reading = read_explanation(
            served.index,
            explanation,
            text,
            lambda rows: [(document.docid, document.fields()) for document in served.texts.get(rows)],
        )
    place = int(np.flatnonzero(result.after.docs == row)[0])
    listed = Candidates(result.after.docs[place : place + 1], result.after.scores[place : place + 1])
    return {
        "api": "v1",
        "index": served.name,
        "query": {"text": text, "terms": list(result.query.terms)},
        "method": ",".join(methods) or FIRST_STAGE,
        "docid": docid,
        "score": round(float(listed.scores[0]), 6),
        "rank": place + 1,
        "before": earlier_ranks(result.before, listed)[0],
        "fallback": fallback,
        "notes": ranking.notes(served, result.rerankers),
        "explanation": cast(Explanation, explanation.to_dict()) if explanation else None,
        "titles": reading.titles,
        "words": reading.words,
    }


def _explain_row(
    served: ServedIndex, parameters: Parameters, result: ranking.RankedQuery, row: int
) -> tuple[explanations.Explanation | None, str | None]:
    """The explanation, None where the methods left the list unchanged, and the reasons of those that did."""
    if not result.rerankers:
        pipeline = served.pipeline((), parameters.values, ranking.first_stage_depth(served, parameters, (), full=True))
        return explain_first_stage(pipeline, result.query, row), None
    explanation, fallbacks = explain_reranked(result.rerankers, result.query, result.before, result.after, row, result.context)
    return explanation, ranking.fallback_reasons(fallbacks)


def plot(served: ServedIndex, parameters: Parameters) -> bytes:
    """The method's plot of a query, and of a document where one is named, as SVG."""
    methods = _single_method(parameters)
    text = ranking.query_text(served, parameters)
    with served.reading_clicks(methods), _drawing, tempfile.TemporaryDirectory() as folder:
        result = ranking.rank_query(served, parameters, text, methods, None)
        if result.fallback is not None:
            raise InputError(f"{methods[0]} keeps the first stage's list for this query: {result.fallback}")
        row = _listed_row(served, parameters, result)
        path = Path(folder) / "plot.svg"
        if not load_matplotlib():
            raise OptionError("plots need matplotlib where the server runs (the extra plots of kernelsearch)")
        try:
            document = row if parameters.docid is not None else None
            result.rerankers[0].plot(result.query, result.before, document, path, result.context)
        except CannotAct as reason:
            raise InputError(f"{methods[0]} has nothing to plot for this query: {reason}") from None
        return path.read_bytes()


def _single_method(parameters: Parameters) -> tuple[str, ...]:
    if not parameters.columns or len(parameters.columns[0]) != 1:
        raise OptionError("rerank: exactly one method is expected")
    return parameters.columns[0]


def _listed_row(served: ServedIndex, parameters: Parameters, result: ranking.RankedQuery) -> int:
    """The row of the document to explain; raises Refused where the list does not have it."""
    if not result.after.depth:
        raise Refused(404, "query: no document matches")
    docid = parameters.docid
    if docid is None:
        return int(result.after.docs[0])
    row = ranking.row_of(served, docid)
    if not np.any(result.after.docs == row):
        raise Refused(404, f"docid: {docid[:100]!r} is not among this query's {result.after.depth} documents")
    return row


def load_matplotlib() -> bool:
    """Imports matplotlib, which takes seconds; False where it is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def add(app: FastAPI, service: Service) -> None:
    """Adds the routes."""
    query_route("/v1/{index}/explain", explain_score, PARAMETERS, ranks=True)(app, service)
    reader = Reader(PARAMETERS, service.settings.limits, ranks=True)

    @app.get("/v1/{index}/explain/plot.svg", **declare(None, reader, media="image/svg+xml"))
    async def draw_explanation(request: Request) -> Response:
        """The method's plot of a query, and of a document where one is named."""
        read, name = reader.read(request.scope["query_string"]), request.path_params["index"]
        service.index(name)
        picture = await service.workers.run(service.call, name, plot, read)
        return Response(picture, media_type="image/svg+xml", headers={"content-security-policy": SVG_POLICY})
