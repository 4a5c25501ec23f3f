"""`python -m kernelsearch.reproduce`: runs conditions on collections and compares their figures with the expected ones."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.core.options import Settings, option
from kernelsearch.core.tables import text_table
from kernelsearch.papers.reproduce.conditions import SHIPPED, Conditions, collections_folder, count_verdicts, read_conditions
from kernelsearch.papers.reproduce.page import write_pages
from kernelsearch.papers.reproduce.running import run_conditions, select
from kernelsearch.papers.reproduce.scripts import run_script


@dataclass(frozen=True, kw_only=True)
class ReproduceSettings(Settings):
    """Options of reproduce."""

    conditions: str | None = option(None, "TOML file of conditions; default: that of the package")
    on: tuple[str, ...] = option((), "collections to run the conditions on; default: all")
    indexes: str = option("indexes/reproduce", "folder in which indexes are built and looked for")
    runs: str = option("runs/reproduce", "folder to write run files to")
    reuse: bool = option(False, "evaluate run files that exist instead of searching again")
    threads: int = option(2, "search threads", low=1)
    docs: str | None = option(None, "folder to write the page and its plot to, such as docs/reproductions")
    readme: str | None = option(None, "with --docs: file to put the table of all figures into, between its marks")
    list: bool = option(False, "list conditions and collections and run nothing")


DESCRIPTION = "Runs conditions on collections and compares their figures with the published ones."
EXAMPLES = """examples:
  python -m kernelsearch.reproduce --list
  python -m kernelsearch.reproduce                            # all conditions, on every collection that is found
  python -m kernelsearch.reproduce bm25 rm3 --on cacm,cran
  python -m kernelsearch.reproduce --docs docs/reproductions --readme README.md

Collections are looked for in KERNELSEARCH_COLLECTIONS (or ../shared/collections), then through ir_datasets."""


def main(argv: list[str]) -> None:
    """Parses the flags, runs conditions and scripts, prints their figures, and ends with status 1 where one fails."""
    parser = console.Parser(prog="python -m kernelsearch.reproduce", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("names", nargs="*", metavar="NAME", help="conditions or scripts; default: all conditions")
    add_flags(parser, ReproduceSettings.options)
    arguments = parser.parse_args(argv)
    settings = read_flags(ReproduceSettings, arguments)
    conditions = read_conditions(settings.conditions or SHIPPED)
    if settings.list:
        _print_list(conditions)
        return
    chosen, collections = select(conditions, arguments.names, settings.on)
    if settings.docs and (arguments.names or settings.on):
        parser.error("--docs: a page holds all conditions on all collections; don't name some")
    indexes, runs = Path(settings.indexes), Path(settings.runs)
    outcomes, verdicts = run_conditions(
        conditions,
        chosen,
        collections,
        indexes,
        runs,
        threads=settings.threads,
        reuse=settings.reuse,
        report=_print_line,
    )
    for script in conditions.scripts:
        if script.name in arguments.names:
            verdicts += run_script(conditions, script, indexes / "scripts", _print_line)
    print(count_verdicts(verdicts) or "nothing was run")
    if settings.docs and outcomes:
        readme = Path(settings.readme) if settings.readme else None
        for path in write_pages(conditions, outcomes, Path(settings.docs), readme):
            console.notice(f"{path}: written")
    if "FAIL" in verdicts:
        sys.exit(1)


def _print_line(line: str) -> None:
    print(line, flush=True)


def _print_list(conditions: Conditions) -> None:
    rows = [(condition.name, condition.title, "; ".join(condition.commands())) for condition in conditions.conditions]
    rows += [
        (script.name, f"script, writes {script.page}", "; ".join(" ".join(command) for command in script.commands))
        for script in conditions.scripts
    ]
    print(text_table(("condition", "what", "command"), rows, align="<<<"), end="\n\n")
    located = {name: collection.locate(collections_folder()) for name, collection in conditions.collections.items()}
    places = [(name, "not found" if collection is None else collection.documents) for name, collection in located.items()]
    print(text_table(("collection", "documents"), places, align="<<"))


if __name__ == "__main__":
    console.run(main)
