"""`python -m kernelsearch.merge`: merges run files of parts of the topics into one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.cli.inputs import load_topics
from kernelsearch.cli.merging import merge_runs
from kernelsearch.cli.settings import TOPIC_FORMATS
from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class MergeSettings(Settings):
    """Options of merge."""

    output: str | None = option(None, "run file to write; - is standard output")
    topics: str | None = option(
        None, "topics, a file or irds:NAME, in whose order the run is written; default: the order of the parts"
    )
    topics_format: str | None = option(None, "format of the topics; guessed if not given", choices=TOPIC_FORMATS)
    overlap: str = option(
        "refuse",
        "what to do with a topic in two runs: refuse it, or keep the list of the first run",
        choices=("refuse", "first"),
    )
    incomplete: bool = option(False, "merge although parts are missing")
    any_settings: bool = option(False, "merge although the runs were made with different settings")


EXAMPLES = """Parts are runs of `search --shard I/N`: they are put in order, and a missing part is refused. The settings that
search writes beside each run (RUN.toml) must agree; a run without them is not checked.

examples:
  python -m kernelsearch.merge runs/part-*.txt --output runs/all.txt
  python -m kernelsearch.merge old.txt new.txt --output both.txt --topics topics.tsv --overlap first"""


def main(argv: list[str]) -> None:
    """Parses the flags, merges the runs and writes one."""
    parser = console.Parser(
        prog="python -m kernelsearch.merge", description="Merges the run files of a search in parts into one.", epilog=EXAMPLES
    )
    add_flags(parser, MergeSettings.options)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run files to merge")
    arguments = parser.parse_args(argv)
    settings = read_flags(MergeSettings, arguments)
    if settings.output is None:
        parser.error("--output: the run file to write is not given")
    topics = load_topics(settings.topics, settings.topics_format) if settings.topics else None
    count = merge_runs(
        [Path(path) for path in arguments.runs],
        Path(settings.output),
        order=topics,
        source=settings.topics or "",
        first=settings.overlap == "first",
        incomplete=settings.incomplete,
        any_settings=settings.any_settings,
    )
    console.notice(f"{settings.output}: {count} queries from {len(arguments.runs)} runs")


if __name__ == "__main__":
    console.run(main)
