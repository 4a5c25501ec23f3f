"""The shapes of answers, for OpenAPI. Answers are built as plain data, not through these, which would take most of the time."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """What went wrong, in one line."""

    error: str = Field(examples=["klsa.z: 0 is below 1"])


class QueryText(BaseModel):
    text: str
    terms: list[str] | None = Field(None, description="the index's own terms (explain only)")


class Entry(BaseModel):
    """A document in a ranked list."""

    docid: str
    score: float
    rank: int = Field(description="from 1")
    before: int | None = Field(None, description="rank in the first stage's list; null for a document that was not in it")
    moved: int | None = Field(None, description="places risen from there; absent where nothing was reranked")
    grade: int | None = Field(None, description="the topic's judgement; null where the document was not judged")


class Candidate(Entry):
    doc: Any = Field(None, description="the document as it was indexed: JSON, text, or null where the index doesn't store it")


class Measures(BaseModel):
    """Measures of the whole list, not only of what the answer shows."""

    AP: float
    nDCG_at_10: float = Field(alias="nDCG@10")


class SearchAnswer(BaseModel):
    api: str = "v1"
    index: str
    query: QueryText
    candidates: list[Candidate]
    methods: list[str] = Field(description="the rerankers, in order")
    kept: str | None = Field(description="why a method kept the list that it was given, where it did")
    measures: Measures | None = Field(description="of the topic, where one was given")
    highlight: list[str] | None = Field(None, description="words of the documents that match the query, in lower case")


class Column(BaseModel):
    methods: list[str] = Field(description="empty for the first stage")
    candidates: list[Entry]
    kept: str | None
    measures: Measures | None


class CompareAnswer(BaseModel):
    api: str = "v1"
    index: str
    query: QueryText
    columns: list[Column] = Field(description="the first stage's list first")
    docs: dict[str, Any] = Field(description="every document of the columns once, by docid")
    highlight: list[str] | None = None


class Part(BaseModel):
    """One reason for a score. The values of a level sum to the value above them."""

    label: str
    value: float
    detail: str
    parts: list[Part]


class Reasons(BaseModel):
    method: str
    docid: str
    score: float
    contributions: list[Part]
    notes: dict[str, Any] = Field(description="what else the method has to show")


class ExplainAnswer(BaseModel):
    api: str = "v1"
    index: str
    query: QueryText
    method: str
    docid: str
    score: float
    rank: int
    before: int | None
    kept: str | None
    explanation: Reasons | None = Field(description="null where the method kept the first stage's list")


class DocAnswer(BaseModel):
    api: str = "v1"
    index: str
    docid: str
    doc: Any


class SimilarEntry(BaseModel):
    docid: str
    score: float
    rank: int
    doc: Any


class SimilarAnswer(BaseModel):
    api: str = "v1"
    index: str
    docid: str
    candidates: list[SimilarEntry]
    explanation: Reasons | None


class Topic(BaseModel):
    topic: str
    text: str
    relevant: int = Field(description="documents judged relevant")


class TopicsAnswer(BaseModel):
    api: str = "v1"
    index: str
    topics: list[Topic]


class Suggestion(BaseModel):
    query: str
    clicks: int
    impressions: int


class SuggestAnswer(BaseModel):
    api: str = "v1"
    index: str
    suggestions: list[Suggestion]


class Click(BaseModel):
    """A list that was shown, and a click on one of its documents. Nothing about the person or the machine."""

    model_config = ConfigDict(extra="forbid", strict=True)

    impression: str = Field(
        pattern=r"^[0-9A-Za-z-]{8,64}$", description="a random number of this showing of the list, made by the page"
    )
    query: str = Field(min_length=1, max_length=1000)
    docids: list[str] = Field(min_length=1, max_length=100, description="the list as shown, best first")
    clicked: str | None = Field(None, description="the document that was clicked; null: the list was shown, nothing clicked")


class LogSize(BaseModel):
    queries: int
    impressions: int
    clicks: int


class ClickAnswer(BaseModel):
    recorded: bool = Field(description="false for a click that is in the log already")
    clicks: LogSize


class MethodState(BaseModel):
    name: str
    ready: bool
    why: str | None = Field(description="what keeps the method from working on this index")


class AboutIndex(BaseModel):
    name: str
    documents: int
    topics: int
    judged: int
    clicks: LogSize | None = Field(description="the click log's size; null where there is none")
    recording: bool = Field(description="whether clicks are added to the log")
    methods: list[MethodState]


class IndexesAnswer(BaseModel):
    api: str = "v1"
    indexes: list[AboutIndex]


class AboutOption(BaseModel):
    """What a form or a slider needs."""

    name: str
    parameter: str = Field(description="its name in requests", examples=["klsa.lambda"])
    type: str = Field(description="integer, number, boolean or string")
    many: bool = Field(description="several values, separated by commas")
    default: Any
    low: float | None
    high: float | None
    choices: list[Any] | None
    help: str


class AboutMethod(BaseModel):
    name: str
    summary: str
    retrieves: bool = Field(description="whether it brings documents that the first stage didn't find")
    explains: bool
    draws: bool
    options: list[AboutOption]


class MethodsAnswer(BaseModel):
    api: str = "v1"
    first_stage: list[AboutOption]
    methods: list[AboutMethod]
    limits: dict[str, float]


class Health(BaseModel):
    status: str
    version: str
    indexes: list[str]
