"""The shapes of answers for OpenAPI. Answers are built as plain data: building them from these models would be slower."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kernelsearch.evaluation.measures import DEFAULT


class Problem(BaseModel):
    """An error, described in one line."""

    error: str = Field(examples=["klsa.z: 0 is below 1"])


class QueryText(BaseModel):
    """The query of an answer."""

    text: str
    terms: list[str] | None = Field(None, description="the analysed terms (explain only)")


class Entry(BaseModel):
    """A document in a ranked list."""

    docid: str
    score: float
    rank: int = Field(description="from 1")
    before: int | None = Field(None, description="rank in the first stage's list; null for a document that was not in it")
    moved: int | None = Field(None, description="ranks gained since then; absent without rerank")
    grade: int | None = Field(None, description="the document's grade for the topic; null where it was not judged")


class Candidate(Entry):
    """A document in a ranked list, with its text."""

    doc: Any = Field(None, description="the document as it was indexed: JSON, text, or null where the index does not store it")


class Filtered(BaseModel):
    """What the filters left of a list."""

    candidates: int = Field(description="documents before filtering")
    matching: int = Field(description="documents that fulfil all conditions")
    unknown: list[str] = Field(description="fields of conditions that no document of the list has")


MEASURES = f"{', '.join(DEFAULT)} of the whole list for the topic, before filtering, where a topic is given"
FALLBACK = "the reason why a method left the list unchanged; null where it did not"
KEPT = Field(description="the same as fallback, under its earlier name", deprecated=True)
NOTES = "which parts of a method such as auto are in use on this index, and why others are not; one line per method"
IMPRESSION = "a token for clicks on this list; absent where clicks are not recorded, and with an offset"


class SearchAnswer(BaseModel):
    """A ranked list."""

    api: str = "v1"
    index: str
    query: QueryText
    candidates: list[Candidate]
    methods: list[str] = Field(description="the rerankers, in order")
    fallback: str | None = Field(description=FALLBACK)
    kept: str | None = KEPT
    notes: list[str] = Field(description=NOTES)
    measures: dict[str, float] | None = Field(description=MEASURES)
    filtered: Filtered | None = Field(None, description="what the filters did; absent without filter")
    highlight: list[str] | None = Field(None, description="words of the documents that match the query, in lower case")
    impression: str | None = Field(None, description=IMPRESSION)


class BatchResult(BaseModel):
    """The ranked list of one query of a batch."""

    qid: str
    query: QueryText
    candidates: list[Candidate]
    fallback: str | None = Field(description=FALLBACK)
    kept: str | None = KEPT
    filtered: Filtered | None = Field(None, description="what the filters did; absent without filter")


class BatchAnswer(BaseModel):
    """The ranked lists of a batch, in the order of its queries."""

    api: str = "v1"
    index: str
    methods: list[str]
    notes: list[str] = Field(description=NOTES)
    results: list[BatchResult]


class BatchQuery(BaseModel):
    """A query of a batch."""

    qid: str = Field(description="comes back with the list; default: the query's number from 1")
    text: str


class Column(BaseModel):
    """One of the compared lists."""

    methods: list[str] = Field(description="empty for the first stage")
    candidates: list[Entry]
    fallback: str | None = Field(description=FALLBACK)
    kept: str | None = KEPT
    notes: list[str] = Field(description=NOTES)
    measures: dict[str, float] | None = Field(description=MEASURES)
    impression: str | None = Field(None, description=IMPRESSION)


class CompareAnswer(BaseModel):
    """Several ranked lists of one query."""

    api: str = "v1"
    index: str
    query: QueryText
    columns: list[Column] = Field(description="the first stage's list first")
    docs: dict[str, Any] = Field(description="every document of the columns once, by docid")
    highlight: list[str] | None = None


PIECES = "the text in pieces: strings, and references {document | term | feature | symbol: text, meaning: text if known}"


class Contribution(BaseModel):
    """A contribution to a score. The values of `parts` sum to `value`."""

    label: str
    detail: str
    value: float
    label_pieces: list[str | dict[str, str]] = Field(description=PIECES)
    detail_pieces: list[str | dict[str, str]] = Field(description=PIECES)
    parts: list[Contribution]


class Explanation(BaseModel):
    """The explanation of a score: contributions that sum to it."""

    method: str
    docid: str
    score: float
    contributions: list[Contribution]
    notes: dict[str, Any] = Field(description="further values that depend on the method")


class ExplainAnswer(BaseModel):
    """A document's place in a list, and the explanation of its score."""

    api: str = "v1"
    index: str
    query: QueryText
    method: str = Field(description="the method's name, or `first stage`")
    docid: str
    score: float
    rank: int
    before: int | None
    fallback: str | None = Field(description=FALLBACK)
    kept: str | None = KEPT
    notes: list[str] = Field(description=NOTES)
    explanation: Explanation | None = Field(description="null where the method left the list unchanged")
    titles: dict[str, str] = Field(description="titles of the documents that the explanation mentions, by docid")
    words: dict[str, str] = Field(description="words for the terms that the explanation mentions, where they differ")


class DocAnswer(BaseModel):
    """A stored document."""

    api: str = "v1"
    index: str
    docid: str
    doc: Any


class SimilarEntry(BaseModel):
    """A similar document."""

    docid: str
    score: float
    rank: int
    doc: Any


class SimilarAnswer(BaseModel):
    """The documents most similar to a document."""

    api: str = "v1"
    index: str
    docid: str
    candidates: list[SimilarEntry]
    explanation: Explanation | None


class JudgedTopic(BaseModel):
    """A judged topic."""

    topic: str
    text: str
    relevant: int = Field(description="documents judged relevant")


class TopicsAnswer(BaseModel):
    """The judged topics of a collection."""

    api: str = "v1"
    index: str
    topics: list[JudgedTopic]


class Suggestion(BaseModel):
    """A logged query."""

    query: str
    clicks: int
    impressions: int


class SuggestAnswer(BaseModel):
    """Logged queries, most clicked first."""

    api: str = "v1"
    index: str
    suggestions: list[Suggestion]


class Click(BaseModel):
    """A shown list and a click on one of its documents; no data about the person or the machine."""

    model_config = ConfigDict(extra="forbid", strict=True)

    impression: str = Field(pattern=r"^[0-9A-Za-z_-]{40}$", description="the token that came with the list")
    query: str = Field(min_length=1)
    docids: list[str] = Field(
        min_length=1, max_length=100, description="the list that the token came with, best first; its first 100 documents"
    )
    clicked: str | None = Field(None, description="the docid that was clicked; null for a list without a click")


class LogSize(BaseModel):
    """The size of a click log."""

    queries: int
    impressions: int
    clicks: int


class ClickAnswer(BaseModel):
    """The outcome of recording a click."""

    recorded: bool = Field(description="false for a click that is in the log already")
    clicks: LogSize


class DocumentsChange(BaseModel):
    """Documents to add and ids of documents to delete; at least one of the two."""

    model_config = ConfigDict(extra="forbid", strict=True)

    add: list[dict[str, Any]] = Field(
        default_factory=list, description="documents with `id`, `contents` and other fields; one of the same id is replaced"
    )
    delete: list[str] = Field(default_factory=list, description="ids of documents to delete")


class DocumentsAnswer(BaseModel):
    """The outcome of a change of documents."""

    documents: int = Field(description="documents in the index now")
    added: int
    replaced: int = Field(description="added documents that replaced one of the same id")
    deleted: int
    empty: int = Field(description="documents that were left out because they have no text")
    unknown: list[str] = Field(description="ids to delete that the index did not have")


class PartState(BaseModel):
    """A part of a method that an index may lack."""

    name: str
    in_use: bool
    why: str | None = Field(description="why the part is not in use; null where it is")


class MethodState(BaseModel):
    """Whether a method can be used with an index."""

    name: str
    ready: bool
    why: str | None = Field(description="what the method lacks on this index; null where it is ready")
    parts: list[PartState] = Field(description="parts that an index may lack, such as those of auto; empty for other methods")


class IndexDescription(BaseModel):
    """A served index."""

    name: str
    documents: int
    topics: int
    judged: int
    clicks: LogSize | None = Field(description="the click log's size; null where there is none, or it cannot be read")
    recording: bool = Field(description="whether clicks are added to the log")
    methods: list[MethodState]


class IndexesAnswer(BaseModel):
    """All served indexes."""

    api: str = "v1"
    indexes: list[IndexDescription]


class OptionDescription(BaseModel):
    """An option: its parameter's name, type, bounds, choices, default and help text."""

    name: str
    parameter: str = Field(description="its name in requests", examples=["klsa.lambda"])
    type: str = Field(description="integer, number, boolean or string")
    many: bool = Field(description="several values, separated by commas")
    default: Any
    low: float | None
    high: float | None
    choices: list[Any] | None
    help: str


class MethodDescription(BaseModel):
    """A method and its options."""

    name: str
    summary: str
    retrieves: bool = Field(description="whether it may add documents that the first stage did not retrieve")
    explains: bool
    draws: bool
    options: list[OptionDescription]


class MethodsAnswer(BaseModel):
    """The options of requests and the limits of the server."""

    api: str = "v1"
    first_stage: list[OptionDescription]
    methods: list[MethodDescription]
    limits: dict[str, float]


class Health(BaseModel):
    """The state of the server."""

    status: str
    version: str
    indexes: list[str]
