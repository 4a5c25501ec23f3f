"""`python -m kernelsearch.demo`: indexes the bundled collection, runs every method on it, and compares them.

Each step is an ordinary command; it is printed before it runs, so that it can be tried with other options.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.cli.inputs import load_topics
from kernelsearch.core.options import Settings, option
from kernelsearch.demo.steps import (
    MEASURES,
    Report,
    build_demo_index,
    bundled_file,
    evaluate_demo,
    run_all,
    showcase_table,
    write_markdown,
)
from kernelsearch.evaluation.tables import render


@dataclass(frozen=True, kw_only=True)
class DemoSettings(Settings):
    """Options of demo."""

    index: str = option("indexes/demo", "folder to build the index in")
    runs: str = option("runs/demo", "folder to write the run files and the report to")


DESCRIPTION = """Indexes the bundled collection, runs every method on it, and compares them.

Each step is an ordinary command; it is printed before it runs, so that it can be tried with other options."""
EXAMPLES = """examples:
  python -m kernelsearch.demo
  python -m kernelsearch.demo --index /tmp/demo --runs /tmp/runs"""


def main(argv: list[str]) -> None:
    """Parses the flags, and indexes, trains, searches and evaluates."""
    parser = console.Parser(prog="python -m kernelsearch.demo", description=DESCRIPTION, epilog=EXAMPLES)
    add_flags(parser, DemoSettings.options)
    settings = read_flags(DemoSettings, parser.parse_args(argv))
    index, runs = Path(settings.index), Path(settings.runs)
    report = Report(command=_print_command, message=console.notice, progress=console.progress)
    build_demo_index(index, report)
    written = run_all(index, runs, report)
    print()
    evaluations = evaluate_demo(written, report)
    print(render("text", evaluations, MEASURES), end="")
    print("\n" + showcase_table(evaluations, load_topics(bundled_file("topics.tsv"))))
    write_markdown(runs / "report.md", evaluations)
    console.notice(f"{runs / 'report.md'}: the same as a table in Markdown")


def _print_command(command: str) -> None:
    print(f"$ {command}", flush=True)


if __name__ == "__main__":
    console.run(main)
