"""Options of Robust BM25."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class ClickSettings(Settings):
    """Options of all methods that use a click log."""

    owner: ClassVar[str] = ""

    clicks: str | None = option(
        None, "click log: a database of kernelsearch.clicks or a log file; default: the one beside the index", names="clicks"
    )
    similar: int = option(20, "number of similar queries to use per query", low=1, high=1000, request_high=30)
    hits: int = option(100, "number of documents to retrieve per similar query", low=0, high=10000)
    min_similarity: float = option(0.1, "smallest kernel value of a similar query", low=0)
    click_weight: float = option(1.0, "weight of shared clicks in the query kernel, in which texts have 1 in all", low=0)
    queries: str | None = option(None, "kernel of vectors to add to the query kernel: vectors:NAME")


@dataclass(frozen=True, kw_only=True)
class RobustBM25Settings(ClickSettings):
    """Options of `rbm25`."""

    owner: ClassVar[str] = "rbm25"

    prior: float = option(1.5, "largest weight a of BM25, for queries without evidence in the log", low=0)
    pairs: str = option(
        "shown",
        "documents that a clicked one is preferred to: shown without a click, skipped above it, or of a lower click rate",
        choices=("shown", "skipped", "rate"),
    )
    lambda_: float = option(10.0, "regularisation of the learned function", low=1e-06)
    epsilon: float = option(
        0.5, "constant added to BM25 (scaled to 1) so that documents without query terms can rise", low=0, high=1
    )
    documents: str = option(
        "body",
        "texts whose cosine is the document kernel: body, title, both, or indexed fields such as url or body,url; "
        "vectors:NAME: the cosine of vectors",
        requests=("body", "title", "both"),
    )
