"""What a server is started with: its indexes, limits, the API key, and the flags that set them."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelsearch.api.spec import Values
from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Settings, option
from kernelsearch.vectors.settings import VectorSettings

#: An environment variable for the API key: other users of the machine can read flags, but not this.
KEY_VARIABLE = "KERNELSEARCH_API_KEY"


@dataclass(frozen=True)
class RequestLimits:
    """What a request may ask for, and how many requests are processed at once."""

    query: int = 1000  #: characters of a query
    hits: int = 1000  #: documents in an answer
    candidates: int = 1000  #: documents that the first stage retrieves for the rerankers
    body: int = 64 * 1024  #: bytes of a request's body
    documents_body: int = 16 << 20  #: bytes of a body with documents to add
    documents: int = 10_000  #: documents to add, and to delete, per request
    batch: int = 100  #: queries of a batch
    seconds: float = 10.0  #: until a request times out with 504
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)  #: requests that are processed at once
    waiting: int = 64  #: requests that may wait for a thread; more are refused with 503
    head: int = 64 * 1024  #: bytes of a request besides its body
    request_seconds: float = 20.0  #: until a connection that has not sent a complete request is closed
    connections: int = 500  #: open connections; more are refused with 503
    clicks_per_minute: int = 30  #: recorded clicks per client; more are refused with 429


@dataclass(frozen=True)
class IndexSpec:
    """One index to serve.

    `name` is its name in URLs, `path` its folder, `topics` are {qid: text}, `qrels` {qid: {docid: grade}}, `clicks` is the file
    of its click log (None: the one beside the index, where there is one), `vectors` says which vectors its methods use.
    """

    name: str
    path: str
    topics: dict[str, str] = field(default_factory=dict)
    qrels: dict[str, dict[str, int]] = field(default_factory=dict)
    clicks: str | None = None
    vectors: VectorSettings = field(default_factory=VectorSettings)


@dataclass(frozen=True)
class ServiceSettings:
    """Everything that a server is started with."""

    indexes: tuple[IndexSpec, ...]
    limits: RequestLimits = field(default_factory=RequestLimits)
    methods: Values = field(default_factory=dict)  #: checked options of methods, which requests may override
    api_key: str | None = None
    hosts: frozenset[str] | None = None  #: accepted values of the Host header; None: any
    cors: tuple[str, ...] = ()  #: origins of other pages that may call the service
    record_clicks: bool = False
    language: str | None = None
    mcp: bool = False
    java_heap: str | None = None
    allow_updates: bool = False  #: whether clients may add and delete documents


DEFAULTS = RequestLimits()


@dataclass(frozen=True, kw_only=True)
class ServeSettings(Settings):
    """The flags of `kernelsearch.serve`."""

    host: str = option("127.0.0.1", "address to listen on; one that other machines can reach requires an API key")
    port: int = option(8080, "port to listen on; 0 takes a free one", low=0, high=65535)
    api_key: str | None = option(None, f"key that clients must send; safer in the environment variable {KEY_VARIABLE}")
    no_api_key: bool = option(False, "allow an address that other machines can reach without an API key")
    record_clicks: bool = option(False, "add clicks on the page to the click log")
    click_rate: int = option(DEFAULTS.clicks_per_minute, "maximum number of recorded clicks per client and minute", low=1)
    proxy: str | None = option(None, "IP address or network of a reverse proxy whose X-Forwarded-For header names the client")
    host_names: str | None = option(
        None, "host names, separated by commas, under which a reverse proxy passes requests on, such as search.example.org"
    )
    allow_updates: bool = option(
        False, "allow clients to add and delete documents; without an API key, everybody who can reach the server can"
    )
    mcp: bool = option(False, "serve the Model Context Protocol at /mcp, for language models")
    cors: str | None = option(None, "origins of web pages that may call the service (CORS), separated by commas; * for any")
    threads: int = option(DEFAULTS.threads, "number of requests that are processed at the same time", low=1, high=256)
    waiting: int = option(DEFAULTS.waiting, "number of requests that may wait for a thread; more are refused with 503", low=0)
    timeout: float = option(DEFAULTS.seconds, "seconds until a request times out with 504", low=0.001)
    request_timeout: float = option(
        DEFAULTS.request_seconds, "seconds until a connection that has not sent a complete request is closed", low=0.001
    )
    connections: int = option(DEFAULTS.connections, "maximum number of open connections; more are refused with 503", low=1)
    max_hits: int = option(DEFAULTS.hits, "maximum number of documents in an answer", low=1)
    max_candidates: int = option(DEFAULTS.candidates, "maximum number of documents to rerank per query", low=1)
    max_query: int = option(DEFAULTS.query, "maximum length of a query, in characters", low=1)
    grace: int = option(30, "seconds to wait for running requests when the server is stopped", low=0)
    access_log: bool = option(False, "print one line per request")
    language: str | None = option(None, "language of the analyser for queries; default: that of the index")
    java_heap: str | None = option(None, "maximum size of the Java heap, such as 4g")

    def for_service(self, indexes: Sequence[IndexSpec], methods: Values) -> ServiceSettings:
        """The settings of the service for some indexes, with options of methods by their name.

        Raises OptionError where other machines could reach the server without a key.
        """
        if not indexes:
            raise OptionError("--index is not given")
        _check_proxy(self.proxy)
        key = self.api_key or os.environ.get(KEY_VARIABLE) or None
        local = is_loopback(self.host)
        if not local and key is None and not self.no_api_key:
            raise OptionError(
                f"--host {self.host}: other machines can reach it, so clients need a key: set {KEY_VARIABLE} (or --api-key), "
                "or pass --no-api-key"
            )
        return ServiceSettings(
            tuple(indexes),
            RequestLimits(
                query=self.max_query,
                hits=self.max_hits,
                candidates=self.max_candidates,
                seconds=self.timeout,
                threads=self.threads,
                waiting=self.waiting,
                request_seconds=self.request_timeout,
                connections=self.connections,
                clicks_per_minute=self.click_rate,
            ),
            methods,
            key,
            _host_names(self.host, self.host_names) if local or self.host_names is not None else None,
            _origins(self.cors),
            self.record_clicks,
            self.language,
            self.mcp,
            self.java_heap,
            self.allow_updates,
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_names(address: str, value: str | None) -> frozenset[str]:
    """The accepted names of the server that listens on `address`: this machine's and those of --host-names."""
    names = {name.strip().lower() for name in value.split(",")} if value is not None else set()
    for name in names:
        if not re.fullmatch(r"[a-z0-9.-]+|\[[0-9a-f:.]+\]", name):
            raise OptionError(f"--host-names: {name!r} is not a host name such as search.example.org, without port or path")
    own = f"[{address.lower()}]" if ":" in address else address.lower()
    return frozenset({"localhost", "127.0.0.1", "[::1]", own} | names)


def _check_proxy(value: str | None) -> None:
    """Raises OptionError for a value of --proxy that no connection would match, or that trusts everybody."""
    for address in value.split(",") if value is not None else ():
        try:
            ipaddress.ip_network(address.strip())
        except ValueError:
            raise OptionError(f"--proxy: {address!r} is not an IP address or a network, such as 127.0.0.1") from None


def _origins(value: str | None) -> tuple[str, ...]:
    """The origins of --cors; raises OptionError for one that no browser would send."""
    origins = tuple(origin.strip() for origin in value.split(",")) if value is not None else ()
    for origin in origins:
        if origin != "*" and not re.fullmatch(r"https?://[^/\s?#@]+", origin):
            raise OptionError(f"--cors: {origin!r} is not an origin such as https://example.org or http://localhost:3000")
    return origins
