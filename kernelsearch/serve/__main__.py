"""`python -m kernelsearch.serve`: one or several indexes over HTTP, with a search page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from kernelsearch.api.spec import check
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, pipeline_pairs, read_flags, refuse_flag
from kernelsearch.cli.served_indexes import IndexAction
from kernelsearch.core.errors import OptionError
from kernelsearch.core.installed import install_command
from kernelsearch.rerankers import registry
from kernelsearch.serve.settings import ServeSettings, ServiceSettings

EXAMPLES = """examples:
  python -m kernelsearch.serve --index indexes/cacm
  python -m kernelsearch.serve --index indexes/cacm --topics topics.tsv --qrels qrels.txt --index indexes/cran --port 9000
  python -m kernelsearch.serve --index news=indexes/robust04 --clicks clicks.db --record-clicks
  KERNELSEARCH_API_KEY=... python -m kernelsearch.serve --index indexes/cacm --host 0.0.0.0
  curl "http://127.0.0.1:8080/v1/cacm/search?query=time+sharing&hits=5&rerank=klsa&klsa.z=5"
"""

#: Options of the short help.
COMMON = ("index", "topics", "qrels", "clicks", "host", "port", "api-key", "record-clicks", "mcp", "threads")


def make_parser() -> argparse.ArgumentParser:
    """The parser of all flags. Methods' options are defaults that requests may override; files are set only here."""
    parser = console.Parser(
        prog="python -m kernelsearch.serve",
        description="Serves indexes over HTTP, with a page for people.",
        epilog=EXAMPLES,
        common=COMMON,
        apart=registry.paper_names(),
        refuse=refuse_flag,
    )
    for name, metavar, text in (
        ("index", "[NAME=]FOLDER", "an index to serve, by default under the folder's name; repeatable"),
        ("topics", "FILE", "topics of the index before it"),
        ("qrels", "FILE", "judgements of these topics; answers then contain measures"),
        ("clicks", "FILE", "click log of the index before it, for suggestions and rbm25; default: the one beside the index"),
        ("vectors", "NAME", "name of the vectors that methods use by default, of the index before it; default: the only ones"),
        ("query-vectors", "FILE", "vectors of queries by topic id, or by text, for the vectors of the index before it"),
    ):
        parser.add_argument(f"--{name}", action=IndexAction, metavar=metavar, help=text, default=argparse.SUPPRESS)
    add_flags(parser, ServeSettings.options, title="server")
    for name, method in registry.methods().items():
        add_flags(parser, method.options, owner=name, title=f"rerank={name}: {method.summary}")
    return parser


def read_settings(argv: Sequence[str]) -> tuple[ServeSettings, ServiceSettings]:
    """The settings of the server and of the service that a command line asks for."""
    arguments = make_parser().parse_args(argv)
    settings = read_flags(ServeSettings, arguments)
    indexes = [flags.load() for flags in getattr(arguments, "indexes", ())]
    return settings, settings.for_service(indexes, check(registry.names(), pipeline_pairs(arguments)))


def main(argv: list[str]) -> None:
    """Runs the server until it is stopped."""
    settings, service = read_settings(argv)
    console.notice(f"kernelsearch: opening {', '.join(spec.name for spec in service.indexes)}")
    try:
        from kernelsearch.serve.server import run_server
    except ModuleNotFoundError as problem:
        if (problem.name or "").startswith("kernelsearch"):
            raise
        raise OptionError(f"the server needs the package {problem.name}; {install_command('serve')}") from None
    run_server(service, settings, console.notice)


if __name__ == "__main__":
    console.run(main)
