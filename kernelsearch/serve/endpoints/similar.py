"""The documents most similar to a document: `/v1/{index}/similar/{docid}`."""

from __future__ import annotations

from typing import Any, cast

from typing_extensions import TypedDict

from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.endpoints.explain import Explanation
from kernelsearch.serve.parameters import HITS, PARSE, Parameters, text_option
from kernelsearch.serve.ranking import Answer, row_of
from kernelsearch.serve.routes import query_route

PARAMETERS = (HITS, PARSE, text_option("other", "a second document, whose similarity is explained"))


class SimilarEntry(TypedDict):
    """A similar document."""

    docid: str
    score: float
    rank: int
    doc: Any


class SimilarAnswer(Answer):
    """The documents most similar to a document."""

    docid: str
    candidates: list[SimilarEntry]
    explanation: Explanation | None


def similar_documents(served: ServedIndex, docid: str, parameters: Parameters) -> SimilarAnswer:
    """The documents most similar to a document, with an explanation of one similarity where `other` is given."""
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


add = query_route("/v1/{index}/similar/{docid:path}", similar_documents, PARAMETERS)
