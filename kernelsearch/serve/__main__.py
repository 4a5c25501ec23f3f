"""`python -m kernelsearch.serve`: a service for applications and a page for people, on one or several indexes."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, collect, read_flags
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core import options
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.options import option
from kernelsearch.rerankers import registry
from kernelsearch.serve.settings import KEY_VARIABLE, Limits, Settings, Source

DEFAULTS = Limits()


@dataclass(frozen=True, kw_only=True)
class ServeSettings(options.Settings):
    """Options of serve."""

    host: str = option("127.0.0.1", "address to listen on; one that other machines reach needs an API key")
    port: int = option(8080, "port; 0 takes a free one", low=0, high=65535)
    api_key: str | None = option(None, f"clients must send this key; better set in the variable {KEY_VARIABLE}")
    no_api_key: bool = option(False, "listen on a reachable address without a key")
    record_clicks: bool = option(False, "add clicks on the page to the click log")
    mcp: bool = option(False, "an endpoint of the Model Context Protocol at /mcp, for language models")
    threads: int = option(DEFAULTS.threads, "requests that are worked on at once", low=1, high=256)
    waiting: int = option(DEFAULTS.waiting, "requests that may wait; more are refused with 503", low=0)
    timeout: float = option(DEFAULTS.seconds, "seconds until a request is given up with 504", low=0.001)
    max_hits: int = option(DEFAULTS.hits, "most documents in an answer", low=1)
    max_candidates: int = option(DEFAULTS.candidates, "most documents that are reranked", low=1)
    max_query: int = option(DEFAULTS.query, "longest query, in characters", low=1)
    grace: int = option(30, "seconds that requests have to finish when the server is stopped", low=0)
    access_log: bool = option(False, "print a line for each request")
    language: str | None = option(None, "analyse queries in this language; default: the index's own")
    java_heap: str | None = option(None, "Java's heap, such as 4g")


EXAMPLES = """examples:
  python -m kernelsearch.serve --index indexes/cacm
  python -m kernelsearch.serve --index indexes/cacm --topics topics.tsv --qrels qrels.txt --index indexes/cran --port 9000
  python -m kernelsearch.serve --index news=indexes/robust04 --clicks clicks.db --record-clicks
  KERNELSEARCH_API_KEY=... python -m kernelsearch.serve --index indexes/cacm --host 0.0.0.0
  curl "http://127.0.0.1:8080/v1/cacm/search?query=time+sharing&hits=5&rerank=klsa&klsa.z=5"
"""


@dataclass
class GivenSource:
    """An index with what the flags after it name."""

    name: str
    path: str
    topics: str | None = None
    qrels: str | None = None
    clicks: str | None = None


def _read_source(given: GivenSource) -> Source:
    topics = load_topics(given.topics) if given.topics else {}
    qrels = load_qrels(given.qrels) if given.qrels else {}
    if topics and qrels and not topics.keys() & qrels.keys():
        raise InputError(f"{given.qrels}: judges none of the topics of {given.topics}")
    return Source(given.name, given.path, topics, qrels, given.clicks)


class OfIndex(argparse.Action):
    """--index begins a new source; --topics, --qrels and --clicks belong to the --index before them."""

    def __call__(self, parser: Any, namespace: Any, value: Any, option: str | None = None) -> None:
        sources: list[GivenSource] = getattr(namespace, "sources", None) or []
        namespace.sources = sources
        if self.dest == "index":
            name, equals, path = value.partition("=")
            name, path = (name, path) if equals else (Path(value).resolve().name, value)
            if not name or any(letter in name for letter in "/?#%"):
                parser.error(f"--index: {name!r} can't be a name; give one with --index NAME=FOLDER")
            if any(source.name == name for source in sources):
                parser.error(f"--index: two are named {name}; give another name with --index NAME=FOLDER")
            sources.append(GivenSource(name, path))
        elif not sources:
            parser.error(f"{option}: belongs after the --index that it is for")
        elif getattr(sources[-1], self.dest) is not None:
            parser.error(f"{option}: given twice for --index {sources[-1].name}")
        else:
            setattr(sources[-1], self.dest, value)


def make_parser() -> argparse.ArgumentParser:
    """All flags; a method's options here are what requests start from, and the only way to name its files."""
    parser = console.Parser(prog="python -m kernelsearch.serve", description="Serves indexes over HTTP.", epilog=EXAMPLES)
    for name, metavar, told in (
        ("index", "[NAME=]FOLDER", "an index to serve, under the folder's name or another; repeatable"),
        ("topics", "FILE", "its topics"),
        ("qrels", "FILE", "their judgements: measures are shown live"),
        ("clicks", "FILE", "its click log: suggestions, and what rbm25 learns from; default: the index's own"),
    ):
        parser.add_argument(f"--{name}", action=OfIndex, metavar=metavar, help=told, default=argparse.SUPPRESS)
    add_flags(parser, ServeSettings.options)
    for name, method in registry.methods().items():
        add_flags(parser, method.options, owner=name, title=f"{name}: {method.summary}")
    return parser


def main(argv: list[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    chosen = read_flags(ServeSettings, arguments)
    settings = make_settings(arguments, chosen)
    try:
        import uvicorn
    except ImportError:
        raise OptionError("the server needs FastAPI and uvicorn; pip install kernelsearch[serve]") from None
    from kernelsearch.serve.app import make_app

    _one_thread_each()
    config = uvicorn.Config(
        make_app(settings),
        host=chosen.host,
        port=chosen.port,
        log_level="info" if chosen.access_log else "warning",
        access_log=chosen.access_log,
        server_header=False,
        timeout_graceful_shutdown=chosen.grace,
        h11_max_incomplete_event_size=64 * 1024,
    )
    _run(uvicorn, config, ", ".join(source.name for source in settings.sources))


def make_settings(arguments: argparse.Namespace, chosen: ServeSettings) -> Settings:
    """What the flags say; refuses to be reachable without a key."""
    sources = tuple(_read_source(given) for given in getattr(arguments, "sources", ()))
    if not sources:
        raise OptionError("--index is not given")
    key = chosen.api_key or os.environ.get(KEY_VARIABLE) or None
    local = _is_local(chosen.host)
    if not local and key is None and not chosen.no_api_key:
        raise OptionError(
            f"--host {chosen.host}: other machines reach it, so clients need a key: set {KEY_VARIABLE} (or --api-key), or "
            "say --no-api-key"
        )
    methods = {name: collect(arguments, method.options, name) for name, method in registry.methods().items()}
    return Settings(
        sources,
        Limits(
            query=chosen.max_query,
            hits=chosen.max_hits,
            candidates=chosen.max_candidates,
            seconds=chosen.timeout,
            threads=chosen.threads,
            waiting=chosen.waiting,
        ),
        {name: given for name, given in methods.items() if given},
        key,
        frozenset({"localhost", "127.0.0.1", "[::1]", chosen.host.lower()}) if local else None,
        chosen.record_clicks,
        chosen.language,
        chosen.mcp,
        chosen.java_heap,
    )


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _one_thread_each() -> None:
    """Requests share the cores; a request that took them all for itself would only make the others wait."""
    from threadpoolctl import threadpool_limits

    from kernelsearch.neighbours.index import load_faiss

    threadpool_limits(1)
    load_faiss().omp_set_num_threads(1)


def _run(uvicorn: Any, config: Any, names: str) -> None:
    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.servers:
                host, port = self.servers[0].sockets[0].getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                console.notice(f"kernelsearch: {names} at http://{shown}:{port}/")

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """A signal asks for the end; what is in flight is finished, and that is a good end."""
            before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    server = Server(config)
    try:
        server.run()
    except SystemExit:
        raise InputError(f"--host, --port: cannot listen on {config.host}:{config.port}") from None
    if not server.started:
        raise InputError(f"the server did not start on {config.host}:{config.port}")


if __name__ == "__main__":
    console.run(main)
