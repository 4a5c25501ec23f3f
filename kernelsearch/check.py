"""`python -m kernelsearch.check`: verifies every file of an index and says what is damaged and how to make it again."""

from __future__ import annotations

from dataclasses import dataclass

from kernelsearch.api.checking import check_index, parts_in_use
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.core.errors import IndexProblem
from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class CheckSettings(Settings):
    """Options of check."""

    index: str | tuple[str, ...] | None = option(
        None, "folder of the index to check, if it is not given as an argument; repeatable", repeat=True
    )
    repair: bool = option(
        False, "write damaged forward indexes again and remove other derived files, which are made on next use"
    )


EXAMPLES = """examples:
  python -m kernelsearch.check indexes/mine
  python -m kernelsearch.check indexes/mine --repair

One line per part: Lucene's own CheckIndex, checksums and content of every artefact, the click databases; then which parts of
auto are in use. The exit status is 2 where something is damaged and wasn't repaired."""


def main(argv: list[str]) -> None:
    """Checks an index."""
    parser = console.Parser(
        prog="python -m kernelsearch.check", description="Verifies every file of an index.", epilog=EXAMPLES
    )
    parser.add_argument("folders", nargs="*", metavar="INDEX", help="folder of the index to check; several are one collection")
    add_flags(parser, CheckSettings.options)
    arguments = parser.parse_args(argv)
    settings = read_flags(CheckSettings, arguments)
    chosen = settings.index or ()
    folders = [*arguments.folders, *([chosen] if isinstance(chosen, str) else chosen)]
    if not folders:
        parser.error("INDEX: the index to check is not given")
    damaged = parts = 0
    for finding in check_index(folders if len(folders) > 1 else folders[0], repair=settings.repair, progress=console.progress):
        print(finding, flush=True)
        parts += 1
        damaged += finding.problem is not None and not finding.repaired
    for line in parts_in_use(folders) if not damaged else ():
        print(line, flush=True)
    if damaged:
        raise IndexProblem(f"{' + '.join(folders)}: {damaged} of {parts} parts are damaged")


if __name__ == "__main__":
    console.run(main)
