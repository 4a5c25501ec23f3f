"""Several ranked lists of one query side by side: `/v1/{index}/compare`."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.parameters import CANDIDATES, HIGHLIGHT, HITS, PARSE, QUERY, RERANK, TOPIC, Parameters, Reader
from kernelsearch.serve.ranking import (
    Entry,
    Fallback,
    Highlight,
    Impression,
    Measures,
    Notes,
    QueryText,
    Version,
    entries_of,
    highlighted_words,
    measures_of,
    notes,
    query_text,
    rank_query,
)
from kernelsearch.serve.routes import answer_query, declare
from kernelsearch.serve.service import Service

PARAMETERS = (QUERY, HITS, PARSE, HIGHLIGHT, TOPIC, RERANK, CANDIDATES)
#: Lists beside the first stage's that can be compared at once.
COLUMNS = 3


class Column(TypedDict):
    """One of the compared lists."""

    methods: Annotated[list[str], Field(description="empty for the first stage")]
    candidates: list[Entry]
    fallback: Fallback
    notes: Notes
    measures: Measures
    impression: NotRequired[Impression]


class CompareAnswer(TypedDict):
    """Several ranked lists of one query."""

    api: Version
    index: str
    query: QueryText
    columns: Annotated[list[Column], Field(description="the first stage's list first")]
    docs: Annotated[dict[str, Any], Field(description="every document of the columns once, by docid")]
    highlight: NotRequired[Highlight]


def compare(served: ServedIndex, parameters: Parameters) -> CompareAnswer:
    """The first stage's list beside up to three others; every document is in the answer once."""
    text = query_text(served, parameters)
    columns: list[Column] = []
    shown: dict[str, int] = {}
    before = None
    with served.reading_clicks(tuple(name for column in parameters.columns for name in column)):
        for methods in [(), *parameters.columns]:
            result = rank_query(served, parameters, text, methods, before, full=True)
            before = result.before
            top = result.after.top(parameters.hits)
            docids = served.index.forward.docids.take(top.docs)
            shown.update(zip(docids, top.docs.tolist(), strict=True))
            column: Column = {
                "methods": list(methods),
                "candidates": entries_of(served, parameters, result, top, docids),
                "fallback": result.fallback,
                "notes": notes(served, result.rerankers),
                "measures": measures_of(served, parameters, result.after),
            }
            if (impression := served.sign(text, docids)) is not None:
                column["impression"] = impression
            columns.append(column)
    rows = np.fromiter(shown.values(), dtype=np.int32, count=len(shown))
    docs = served.texts.answers(rows, parameters.parse)
    answer: CompareAnswer = {
        "api": "v1",
        "index": served.name,
        "query": {"text": text},
        "columns": columns,
        "docs": dict(zip(shown, docs, strict=True)),
    }
    if parameters.highlight:
        answer["highlight"] = highlighted_words(served, result.query, rows)
    return answer


def add(app: FastAPI, service: Service) -> None:
    """Adds the route."""
    reader = Reader(PARAMETERS, service.settings.limits, ranks=True, columns=COLUMNS)

    @app.get("/v1/{index}/compare", **declare(CompareAnswer, reader))
    async def compare_lists(request: Request) -> Response:
        """The first stage's list and up to three others, one per `rerank` parameter, with rank changes."""
        return await answer_query(service, request, reader, compare)
