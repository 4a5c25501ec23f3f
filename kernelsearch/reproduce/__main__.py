"""`python -m kernelsearch.reproduce`: runs conditions on the collections at hand and holds them against expected figures."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.core.errors import InputError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.tables import text_table
from kernelsearch.reproduce.conditions import SHIPPED, Conditions, collections_folder, counted, read_conditions
from kernelsearch.reproduce.page import write_pages
from kernelsearch.reproduce.running import Outcome, run_collection, selected
from kernelsearch.reproduce.scripts import run_script


@dataclass(frozen=True, kw_only=True)
class ReproduceSettings(Settings):
    """Options of reproduce."""

    conditions: str = option(str(SHIPPED), "the TOML file of conditions")
    on: tuple[str, ...] = option((), "only on these collections")
    indexes: str = option("indexes/reproduce", "where indexes are built and looked for")
    runs: str = option("runs/reproduce", "where run files go")
    reuse: bool = option(False, "take run files that are there instead of searching again")
    threads: int = option(2, "search threads", low=1)
    docs: str | None = option(None, "write the page and its picture into this folder, such as docs/reproductions")
    readme: str | None = option(None, "put the table of all figures into this file, between its marks")
    list: bool = option(False, "list conditions and collections, run nothing")


EXAMPLES = """examples:
  python -m kernelsearch.reproduce --list
  python -m kernelsearch.reproduce                            # everything, on every collection that is found
  python -m kernelsearch.reproduce bm25 rm3 --on cacm,cran
  python -m kernelsearch.reproduce --docs docs/reproductions --readme README.md

Collections are looked for in KERNELSEARCH_COLLECTIONS (or ../shared/collections), then through ir_datasets."""


def main(argv: list[str]) -> None:
    parser = console.Parser(prog="python -m kernelsearch.reproduce", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("names", nargs="*", metavar="NAME", help="conditions or scripts; default: all conditions")
    add_flags(parser, ReproduceSettings.options)
    arguments = parser.parse_args(argv)
    settings = read_flags(ReproduceSettings, arguments)
    conditions = read_conditions(settings.conditions)
    if settings.list:
        show(conditions)
        return
    chosen, collections = selected(conditions, arguments.names, settings.on)
    if settings.docs and (arguments.names or settings.on):
        parser.error("--docs: a page holds all conditions on all collections; don't name some")
    verdicts: list[str] = []
    outcomes: list[Outcome] = []
    for collection in collections if chosen else ():
        found = collection.found(collections_folder())
        if found is None:
            print(f"{collection.name:<9} skipped: not found in {collections_folder()}", flush=True)
            continue
        outcome = Outcome(found)
        try:
            for condition, one in run_collection(
                found,
                chosen,
                Path(settings.indexes),
                Path(settings.runs),
                threads=settings.threads,
                reuse=settings.reuse,
            ):
                outcome.found[condition.name] = one
                cells = []
                for measure in one.values:
                    wanted, got = condition.expected.get(collection.name, {}).get(measure), one.mean(measure)
                    verdict = "new" if wanted is None else conditions.judge(wanted, got)
                    verdicts.append(verdict)
                    cells.append(
                        f"{measure} {got:.4f} {verdict}" + (f" (expected {wanted:.4f})" if verdict not in ("OK", "new") else "")
                    )
                print(f"{collection.name:<9} {condition.name:<9} {'  '.join(cells)}", flush=True)
        except InputError as problem:
            if not found.documents.startswith("irds:"):
                raise
            print(f"{collection.name:<9} skipped: {problem}", flush=True)
            continue
        outcomes.append(outcome)
    for script in conditions.scripts:
        if script.name in arguments.names:
            verdicts += run_script(conditions, script, Path(settings.indexes) / "scripts")
    print(counted(verdicts) or "nothing was run")
    if settings.docs and outcomes:
        readme = Path(settings.readme) if settings.readme else None
        for path in write_pages(conditions, outcomes, Path(settings.docs), readme):
            console.notice(f"{path}: written")
    if "FAIL" in verdicts:
        sys.exit(1)


def show(conditions: Conditions) -> None:
    """Prints what there is."""
    rows: list[tuple[str, str, str]] = [(one.name, one.title, "; ".join(one.commands())) for one in conditions.conditions]
    rows += [
        (one.name, f"script, writes {one.page}", "; ".join(" ".join(command) for command in one.commands))
        for one in conditions.scripts
    ]
    print(text_table(("condition", "what", "command"), rows, align="<<<"), end="\n\n")
    folder = collections_folder()
    where = []
    for one in conditions.collections.values():
        found = one.found(folder)
        where.append((one.name, "not found" if found is None else found.documents))
    print(text_table(("collection", "documents"), where, align="<<"))


if __name__ == "__main__":
    console.run(main)
