"""`python -m kernelsearch.merge`: one run file from those of parts of the topics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.cli.inputs import load_topics
from kernelsearch.cli.merging import holder, in_order, merged, read, refuse_differences, write_recipe
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import write_file
from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class MergeSettings(Settings):
    """Options of merge."""

    output: str | None = option(None, "the run file to write")
    topics: str | None = option(
        None, "order the run as this file of topics (or irds:NAME) is ordered; default: as the parts are"
    )
    topics_format: str | None = option(None, "how to read it; guessed if not given", choices=("tsv", "trec", "jsonl", "cacm"))
    overlap: str = option("refuse", "a topic in two runs: refuse it, or keep the first run's list", choices=("refuse", "first"))
    incomplete: bool = option(False, "merge although parts are missing")
    any_settings: bool = option(False, "merge although the runs were made with different settings")


EXAMPLES = """Parts are runs of `search --shard I/N`: they are put in order, and one that is missing is noticed. The settings
that search writes beside each run (RUN.toml) must agree; a run without them is taken as it is.

examples:
  python -m kernelsearch.merge runs/part-*.txt --output runs/all.txt
  python -m kernelsearch.merge old.txt new.txt --output both.txt --topics topics.tsv --overlap first"""


def main(argv: list[str]) -> None:
    """Parses the flags, merges the runs and writes one."""
    parser = console.Parser(prog="python -m kernelsearch.merge", description="Merges run files of parts.", epilog=EXAMPLES)
    add_flags(parser, MergeSettings.options)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the run files")
    arguments = parser.parse_args(argv)
    settings = read_flags(MergeSettings, arguments)
    if settings.output is None:
        parser.error("--output: the run file to write is not given")
    output = Path(settings.output)
    if any(Path(path).resolve() == output.resolve() for path in arguments.runs):
        raise InputError(f"--output: {output} is one of the runs to merge")
    runs = in_order([read(Path(path)) for path in arguments.runs], settings.incomplete)
    if not settings.any_settings:
        refuse_differences(runs)
    topics = merged(runs, settings.overlap == "first")
    if settings.topics:
        order = load_topics(settings.topics, settings.topics_format)
        for qid in topics:
            if qid not in order:
                raise InputError(f"{holder(runs, qid).path}: topic {qid} is not in {settings.topics}")
        topics = {qid: topics[qid] for qid in order if qid in topics}
    with write_file(output) as stream:
        for found in topics.values():
            stream.writelines(f"{line}\n" for line in found)
    if all(run.recipe for run in runs) and not settings.any_settings:
        write_recipe(runs[0], output)
    console.notice(f"{output}: {len(topics)} queries from {len(runs)} runs")


if __name__ == "__main__":
    console.run(main)
