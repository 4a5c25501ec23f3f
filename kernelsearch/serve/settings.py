"""What a server is started with: indexes and what belongs to them, limits, the API key."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

#: The API key may stand in this environment variable, where other users of the machine can't see it as they see flags.
KEY_VARIABLE = "KERNELSEARCH_API_KEY"


@dataclass(frozen=True)
class Limits:
    """What a request may ask for, and how much is done at once."""

    query: int = 1000  #: characters of a query
    hits: int = 1000  #: documents in an answer
    candidates: int = 1000  #: documents that the first stage finds for the rerankers
    body: int = 64 * 1024  #: bytes of a request's body
    seconds: float = 10.0  #: until a request is given up with 504
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)  #: requests that are worked on at once
    waiting: int = 64  #: requests that may wait for a thread; more are refused with 503


@dataclass(frozen=True)
class Source:
    """One index to serve: its name in addresses, its folder, its topics and judgements, and its click log."""

    name: str
    path: str
    topics: dict[str, str] = field(default_factory=dict)
    qrels: dict[str, dict[str, int]] = field(default_factory=dict)
    clicks: str | None = None


@dataclass(frozen=True)
class Settings:
    """Everything that a server is started with."""

    sources: tuple[Source, ...]
    limits: Limits = field(default_factory=Limits)
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)  #: options of methods that requests start from
    api_key: str | None = None
    hosts: frozenset[str] | None = None  #: names by which clients may call; None: any
    record_clicks: bool = False
    language: str | None = None
    mcp: bool = False
    java_heap: str | None = None
