"""Several ranked lists of one query side by side: `/v1/{index}/compare`."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

import numpy as np
from pydantic import Field
from typing_extensions import TypedDict

from kernelsearch.serve import parameters as options
from kernelsearch.serve import ranking
from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.parameters import Parameters
from kernelsearch.serve.routes import query_route

PARAMETERS = (options.QUERY, options.HITS, options.PARSE, options.HIGHLIGHT, options.TOPIC, options.RERANK, options.CANDIDATES)
#: Lists beside the first stage's that can be compared at once.
COLUMNS = 3


class Column(TypedDict):
    """One of the compared lists."""

    methods: Annotated[list[str], Field(description="empty for the first stage")]
    candidates: list[ranking.Entry]
    fallback: ranking.Fallback
    notes: ranking.Notes
    measures: ranking.Measures
    impression: NotRequired[ranking.Impression]


class CompareAnswer(ranking.Answer):
    """Several ranked lists of one query."""

    query: ranking.QueryText
    columns: Annotated[list[Column], Field(description="the first stage's list first")]
    docs: Annotated[dict[str, Any], Field(description="every document of the columns once, by docid")]
    highlight: NotRequired[ranking.Highlight]


def compare_lists(served: ServedIndex, parameters: Parameters) -> CompareAnswer:
    """The first stage's list and up to three others, one per `rerank` parameter, with rank changes."""
    text = ranking.query_text(served, parameters)
    columns: list[Column] = []
    shown: dict[str, int] = {}
    before = None
    with served.reading_clicks(tuple(name for column in parameters.columns for name in column)):
        for methods in [(), *parameters.columns]:
            result = ranking.rank_query(served, parameters, text, methods, before, full=True)
            before = result.before
            top = result.after.top(parameters.hits)
            docids = served.index.forward.docids.take(top.docs)
            shown.update(zip(docids, top.docs.tolist(), strict=True))
            column: Column = {
                "methods": list(methods),
                "candidates": ranking.entries_of(served, parameters, result, top, docids),
                "fallback": result.fallback,
                "notes": ranking.notes(served, result.rerankers),
                "measures": ranking.measures_of(served, parameters, result.after),
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
        answer["highlight"] = ranking.highlighted_words(served, result.query, rows)
    return answer


add = query_route("/v1/{index}/compare", compare_lists, PARAMETERS, ranks=True, columns=COLUMNS)
