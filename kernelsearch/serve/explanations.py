"""Explanations and plots as answers to requests, like those of `kernelsearch.serve.answers`.

Parameters of the functions: `served`, the index that is asked; `parameters`, those of the request.
"""

from __future__ import annotations

import tempfile
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.api.explaining import explain_first_stage, explain_reranked
from kernelsearch.api.readable import Reading, read_explanation
from kernelsearch.api.results import earlier_ranks
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.rerankers.explanations import Explanation
from kernelsearch.serve.answers import (
    NotFound,
    RankedQuery,
    fallback_entries,
    fallback_reasons,
    first_stage_depth,
    notes,
    query_text,
    rank_query,
    row_of,
)
from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.parameters import Parameters

#: The name of the first stage in explanations, where a method's name would be.
FIRST_STAGE = "first stage"
_drawing = threading.Lock()  # matplotlib's font cache is shared by all threads and not thread-safe


def explain(served: ServedIndex, parameters: Parameters) -> dict[str, Any]:
    """The explanation of a document's score under methods, or of its score in the first stage, by term."""
    methods = parameters.columns[0] if parameters.columns else ()
    text = query_text(served, parameters)
    with served.reading_clicks(methods):
        result = rank_query(served, parameters, text, methods, None, full=True)
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
        **fallback_entries(fallback),
        "notes": notes(served, result.rerankers),
        "explanation": explanation.to_dict() if explanation else None,
        **asdict(reading),
    }


def _explain_row(
    served: ServedIndex, parameters: Parameters, result: RankedQuery, row: int
) -> tuple[Explanation | None, str | None]:
    """The explanation, None where the methods left the list unchanged, and the reasons of those that did."""
    if not result.rerankers:
        pipeline = served.pipeline((), parameters.values, first_stage_depth(served, parameters, (), full=True))
        return explain_first_stage(pipeline, result.query, row), None
    explanation, fallbacks = explain_reranked(result.rerankers, result.query, result.before, result.after, row, result.context)
    return explanation, fallback_reasons(fallbacks)


def plot(served: ServedIndex, parameters: Parameters) -> bytes:
    """The method's plot of a query, and of a document where one is named, as SVG."""
    methods = _single_method(parameters)
    text = query_text(served, parameters)
    with served.reading_clicks(methods), _drawing, tempfile.TemporaryDirectory() as folder:
        result = rank_query(served, parameters, text, methods, None)
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


def _listed_row(served: ServedIndex, parameters: Parameters, result: RankedQuery) -> int:
    """The row of the document to explain; raises NotFound where the list does not have it."""
    if not result.after.depth:
        raise NotFound("query: no document matches")
    docid = parameters.docid
    if docid is None:
        return int(result.after.docs[0])
    row = row_of(served, docid)
    if not np.any(result.after.docs == row):
        raise NotFound(f"docid: {docid[:100]!r} is not among this query's {result.after.depth} documents")
    return row


def load_matplotlib() -> bool:
    """Imports matplotlib, which takes seconds; False where it is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True
