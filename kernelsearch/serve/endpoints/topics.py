"""The judged topics of a collection: `/v1/{index}/topics`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.parameters import Parameters
from kernelsearch.serve.ranking import Answer
from kernelsearch.serve.routes import query_route


class JudgedTopic(TypedDict):
    """A judged topic."""

    topic: str
    text: str
    relevant: Annotated[int, Field(description="documents judged relevant")]


class TopicsAnswer(Answer):
    """The judged topics of a collection."""

    topics: list[JudgedTopic]


def list_topics(served: ServedIndex, parameters: Parameters) -> TopicsAnswer:
    """The judged topics of the collection, for the parameter `topic` of search, compare and explain."""
    judged: list[JudgedTopic] = [
        {"topic": qid, "text": text, "relevant": sum(grade > 0 for grade in served.qrels[qid].values())}
        for qid, text in served.topics.items()
        if qid in served.qrels
    ]
    return {"api": "v1", "index": served.name, "topics": judged}


add = query_route("/v1/{index}/topics", list_topics)
