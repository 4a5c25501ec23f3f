"""`python -m kernelsearch.merge`: one run file from those of parts of the topics."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsearch.cli import config, console
from kernelsearch.cli.inputs import load_topics
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import lines, write_file
from kernelsearch.core.options import Option, add_flags, collect, resolve
from kernelsearch.search import IN_CONFIG
from kernelsearch.trec import read_run
from kernelsearch.trec.topics import parse_part

OPTIONS = (
    Option("output", str, None, "the run file to write"),
    Option("topics", str, None, "order the run as this file of topics (or irds:NAME) is ordered; default: as the parts are"),
    Option("topics-format", str, None, "how to read it; guessed if not given", choices=("tsv", "trec", "jsonl", "cacm")),
    Option(
        "overlap", str, "refuse", "a topic in two runs: refuse it, or keep the first run's list", choices=("refuse", "first")
    ),
    Option("incomplete", bool, False, "merge although parts are missing"),
    Option("any-settings", bool, False, "merge although the runs were made with different settings"),
)

EXAMPLES = """Parts are runs of `search --shard I/N`: they are put in order, and one that is missing is noticed. The settings
that search writes beside each run (RUN.toml) must agree; a run without them is taken as it is.

examples:
  python -m kernelsearch.merge runs/part-*.txt --output runs/all.txt
  python -m kernelsearch.merge old.txt new.txt --output both.txt --topics topics.tsv --overlap first"""

#: What parts of one run may differ in: where they were made and how fast. Files are compared by what is in them instead.
FREE = {"output", "shard", "index", "topics", "run", "threads", "batch_size", "java_heap"}
FREE_MADE = {"output-sha256", "python"}


@dataclass(frozen=True)
class Run:
    """A run file as it stands, and the recipe beside it."""

    path: Path
    topics: dict[str, list[str]]  #: lines of each topic
    columns: int  #: in a line; 0 for a run without lines
    recipe: config.Config | None

    @property
    def part(self) -> tuple[int, int] | None:
        """(i, n) where the recipe says `--shard i/n`."""
        shard = self.recipe.verb.get("shard") if self.recipe else None
        return parse_part(shard) if shard else None


def main(argv: list[str]) -> None:
    parser = console.Parser(prog="python -m kernelsearch.merge", description="Merges run files of parts.", epilog=EXAMPLES)
    add_flags(parser, OPTIONS)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the run files")
    arguments = parser.parse_args(argv)
    settings = resolve(OPTIONS, collect(arguments, OPTIONS))
    if settings["output"] is None:
        parser.error("--output: the run file to write is not given")
    output = Path(settings["output"])
    if any(Path(path).resolve() == output.resolve() for path in arguments.runs):
        raise InputError(f"--output: {output} is one of the runs to merge")
    runs = in_order([read(Path(path)) for path in arguments.runs], settings["incomplete"])
    if not settings["any_settings"]:
        refuse_differences(runs)
    topics = merged(runs, settings["overlap"] == "first")
    if settings["topics"]:
        order = load_topics(settings["topics"], settings["topics_format"])
        for qid in topics:
            if qid not in order:
                raise InputError(f"{_holder(runs, qid).path}: topic {qid} is not in {settings['topics']}")
        topics = {qid: topics[qid] for qid in order if qid in topics}
    with write_file(output) as stream:
        for found in topics.values():
            stream.writelines(f"{line}\n" for line in found)
    if all(run.recipe for run in runs) and not settings["any_settings"]:
        write_recipe(runs[0], output)
    console.notice(f"{output}: {len(topics)} queries from {len(runs)} runs")


def read(path: Path) -> Run:
    """A run and its recipe. A part of the topics may be empty, or find nothing; any other run may not."""
    topics: dict[str, list[str]] = {}
    columns = 0
    for _, line in lines(path):
        if words := line.split():
            topics.setdefault(words[0], []).append(line)
            columns = len(words)
    beside = Path(f"{path}.toml")
    recipe = config.read(beside, IN_CONFIG) if beside.exists() else None
    if recipe and recipe.made.get("output-sha256") not in (None, _digest(path)):
        raise InputError(f"{path}: changed, or cut short, since {beside} was written; search again, or remove {beside.name}")
    run = Run(path, topics, columns, recipe)
    if topics or run.part is None:
        read_run(path)  # for its complaints
    return run


def in_order(runs: Sequence[Run], incomplete: bool = False) -> list[Run]:
    """Parts in the order of their numbers, all of them there; other runs as they come."""
    for run in runs:
        first = next((one for one in runs if one.columns), run)
        if run.columns and run.columns != first.columns:
            raise InputError(f"{run.path}: {run.columns} columns, where {first.path} has {first.columns}")
    parts = [run.part for run in runs]
    if not all(parts):
        return list(runs)
    count = parts[0][1]  # type: ignore[index]
    held: dict[int, Run] = {}
    for run in runs:
        number, of = run.part  # type: ignore[misc]
        if of != count:
            raise InputError(f"{run.path}: part {number}/{of}, where {runs[0].path} is one of {count} parts")
        if number in held:
            raise InputError(f"{run.path}: part {number}/{count}, as {held[number].path} is")
        held[number] = run
    missing = [number for number in range(1, count + 1) if number not in held]
    if missing and not incomplete:
        named = ", ".join(f"{number}/{count}" for number in missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise InputError(f"{len(missing)} of {count} parts {'is' if len(missing) == 1 else 'are'} missing: {named}")
    return [held[number] for number in sorted(held)]


def refuse_differences(runs: Sequence[Run]) -> None:
    """Names the first setting in which two recipes differ."""
    known = [(run, _settings(run.recipe)) for run in runs if run.recipe]
    for run in runs:
        if known and not run.recipe:
            console.notice(f"{run.path}: no {run.path.name}.toml beside it, so its settings are not compared")
    for run, found in known[1:]:
        first, expected = known[0]
        for name in [*expected, *(name for name in found if name not in expected)]:
            if found.get(name) != expected.get(name):
                raise InputError(
                    f"{run.path}: made with {name} {_shown(found.get(name))}, where {first.path} has "
                    f"{_shown(expected.get(name))}; --any-settings merges them all the same"
                )


def _settings(recipe: config.Config) -> dict[str, Any]:
    """Everything that parts of one run must agree in, by name."""
    verb = {name: value for name, value in recipe.verb.items() if name not in FREE}
    if "topics-sha256" not in recipe.made:  # irds:NAME
        verb["topics"] = recipe.verb.get("topics")
    methods = {f"{name}.{key}": value for name, options in recipe.methods for key, value in options.items()}
    made = {name: value for name, value in recipe.made.items() if name not in FREE_MADE}
    return {"rerank": [name for name, _ in recipe.methods], **verb, **recipe.first, **methods, **made}


def _shown(value: Any) -> str:
    return "unset" if value is None else repr(value)


def merged(runs: Sequence[Run], first: bool) -> dict[str, list[str]]:
    """The lines of all topics; of a topic in two runs the first ones, where that is allowed."""
    topics: dict[str, list[str]] = {}
    for run in runs:
        for qid, found in run.topics.items():
            if qid not in topics:
                topics[qid] = found
            elif not first:
                raise InputError(
                    f"{run.path}: topic {qid} is in {_holder(runs, qid).path} too; --overlap first keeps the first list"
                )
    return topics


def _holder(runs: Sequence[Run], qid: str) -> Run:
    return next(run for run in runs if qid in run.topics)


def write_recipe(run: Run, output: Path) -> None:
    """The parts' recipe for the whole: it makes the merged run in one go."""
    assert run.recipe is not None
    verb = {name: value for name, value in run.recipe.verb.items() if name != "shard"} | {"output": str(output)}
    made = {**run.recipe.made, "output-sha256": _digest(output)}
    path = Path(f"{output}.toml")
    again = f"python -m kernelsearch.search --config {path} makes {output} again"
    config.write(path, verb, run.recipe.first, run.recipe.methods, made, again)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    console.run(main)
