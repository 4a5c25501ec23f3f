"""`python -m kernelsearch.clicks`: imports, exports, aggregates, describes and simulates click logs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags, require
from kernelsearch.cli.inputs import load_clicks
from kernelsearch.cli.simulating import SimulateSettings, simulate_log
from kernelsearch.clicks.importing import WRITER_TIMEOUT, aggregate, import_log
from kernelsearch.clicks.pairs import preferences_by_query
from kernelsearch.clicks.records import write_log
from kernelsearch.clicks.settings import AggregateSettings, ExportSettings, ImportSettings, PairsSettings, StatsSettings
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.files import check_output
from kernelsearch.core.options import Settings
from kernelsearch.core.replacing import lock_folder
from kernelsearch.core.tables import text_table

DESCRIPTION = "Imports, exports, aggregates, describes and simulates click logs."
EXAMPLES = """examples:
  python -m kernelsearch.clicks import --input sessions.jsonl.gz --output clicks.db
  python -m kernelsearch.clicks import --input monday.tsv --output clicks.db --append
  python -m kernelsearch.clicks import --input monday.db tuesday.db --output clicks.db
  python -m kernelsearch.clicks export --log clicks.db --output log.jsonl
  python -m kernelsearch.clicks stats --log clicks.db
  python -m kernelsearch.clicks pairs --log clicks.db --query "new york" --kind skipped
  python -m kernelsearch.clicks simulate --index indexes/cacm --topics topics.tsv --qrels qrels.txt --output sessions.jsonl
"""


def main(argv: list[str]) -> None:
    """Parses the flags `argv` and runs one of the verbs."""
    parser = console.Parser(prog="python -m kernelsearch.clicks", description=DESCRIPTION, epilog=EXAMPLES)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="import|export|aggregate|stats|pairs|simulate")

    def add(name: str, text: str, settings: type[Settings], act: Callable[[ArgumentParser, Namespace], None]) -> ArgumentParser:
        verb: ArgumentParser = verbs.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=_examples(name)
        )
        add_flags(verb, settings.options)
        verb.set_defaults(act=act, parser=verb)
        return verb

    verb = add("import", "read logs into a database", ImportSettings, _import)
    verb.add_argument("--input", required=True, nargs="+", help="JSON lines, tables, click databases, or irds:NAME")
    add("export", "write the records of a database as JSON lines, which import reads", ExportSettings, _export)
    add("aggregate", "sum the records of a database again with another position bias", AggregateSettings, _aggregate)
    add("stats", "print the size of a log and its most clicked queries", StatsSettings, _stats)
    verb = add("pairs", "print preference pairs as TSV: query, preferred, other, weight", PairsSettings, _pairs)
    verb.add_argument("--query", nargs="*", help="queries to print pairs of; default: all")
    add("simulate", "make a log from judged topics with a seeded click model", SimulateSettings, _simulate)
    arguments = parser.parse_args(argv)
    arguments.act(arguments.parser, arguments)


def _examples(verb: str) -> str:
    """The examples of one verb."""
    lines = [line for line in EXAMPLES.splitlines() if f"kernelsearch.clicks {verb} " in line]
    return "\n".join(["examples:", *lines]) if lines else ""


def _import(parser: ArgumentParser, arguments: Namespace) -> None:
    settings = read_flags(ImportSettings, arguments)
    require(parser, settings, "output")
    output = Path(settings.output or "")
    check_output("output", output, arguments.input)
    # A log that grows may be that of an index which is being replaced, or that of a service which adds its first click.
    with lock_folder(output.absolute().parent, WRITER_TIMEOUT) if settings.append else nullcontext():
        imported = import_log(
            arguments.input,
            output,
            append=settings.append,
            eta=settings.eta,
            progress=console.progress,
            read_source=load_clicks,
        )
    if imported.replaced is not None:
        console.notice(f"{settings.output}: held other clicks, which are kept in {imported.replaced} (--append adds to them)")


def _export(parser: ArgumentParser, arguments: Namespace) -> None:
    settings = read_flags(ExportSettings, arguments)
    require(parser, settings, "log", "output")
    assert settings.log is not None and settings.output is not None
    check_output("--output", settings.output, [settings.log])
    log = ClickLog(settings.log)
    count = write_log(log.records(), settings.output)
    console.notice(f"{settings.output}: {count} records of {settings.log}, which has --eta {log.eta:g}")


def _aggregate(parser: ArgumentParser, arguments: Namespace) -> None:
    settings = read_flags(AggregateSettings, arguments)
    require(parser, settings, "log", "eta")
    assert settings.log is not None and settings.eta is not None
    aggregate(settings.log, settings.eta)


def _stats(parser: ArgumentParser, arguments: Namespace) -> None:
    settings = read_flags(StatsSettings, arguments)
    require(parser, settings, "log")
    log = ClickLog(settings.log or "")
    console.show(text_table(("count", "value"), list(asdict(log.totals()).items())))
    if settings.top:
        print()
        console.show(text_table(("query", "impressions", "clicks"), log.most_clicked(settings.top)))


def _pairs(parser: ArgumentParser, arguments: Namespace) -> None:
    settings = read_flags(PairsSettings, arguments)
    require(parser, settings, "log")
    log = ClickLog(settings.log or "")
    for text, better, worse, weight in preferences_by_query(
        log, arguments.query, kind=settings.kind, limit=settings.limit, corrected=settings.corrected
    ):
        console.show(f"{text}\t{better}\t{worse}\t{weight:.4g}")


def _simulate(parser: ArgumentParser, arguments: Namespace) -> None:
    settings = read_flags(SimulateSettings, arguments)
    require(parser, settings, "topics", "qrels", "output")
    impressions, queries = simulate_log(settings, progress=console.progress)
    console.notice(f"{settings.output}: {impressions} impressions of {queries} queries")


if __name__ == "__main__":
    console.run(main)
