"""Merging run files of parts of the topics, with the config files beside them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsearch.api import config
from kernelsearch.cli.search_settings import IN_CONFIG
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import is_special, write_file
from kernelsearch.core.reading import byte_lines
from kernelsearch.trec.runs import parse_run
from kernelsearch.trec.topics import parse_part

logger = logging.getLogger(__name__)

#: Options in which parts of one run may differ: where and how fast they were made. Files are compared by their content instead.
FREE = {"output", "shard", "index", "topics", "run", "threads", "batch_size", "java_heap"}
FREE_MADE = {"output-sha256", "python"}


@dataclass(frozen=True)
class RunFile:
    """A run file with the config file beside it (`recipe`)."""

    path: Path
    topics: dict[str, list[str]]  #: the lines of each topic
    columns: int  #: number of columns; 0 for a run without lines
    recipe: config.Config | None

    @property
    def part(self) -> tuple[int, int] | None:
        """(i, n) of `--shard i/n`; None for a run of all topics."""
        shard = self.recipe.verb.get("shard") if self.recipe else None
        return parse_part(shard) if shard else None


def read(path: Path) -> RunFile:
    """Reads the run file `path` and the config file beside it. Only a run of a part of the topics may be empty."""
    topics: dict[str, list[str]] = {}
    columns, digest, numbered = 0, hashlib.sha256(), []
    for number, raw in byte_lines(path):
        digest.update(raw)
        try:
            numbered.append((number, raw.decode("utf-8").rstrip("\r\n")))
        except UnicodeDecodeError as problem:
            raise InputError(f"{path}: line {number}, column {problem.start + 1}: not valid UTF-8") from None
    for _, line in numbered:
        if words := line.split():
            topics.setdefault(words[0], []).append(line)
            columns = len(words)
    beside = Path(f"{path}.toml")
    recipe = config.read(beside, IN_CONFIG) if beside.exists() else None
    if recipe and recipe.made.get("output-sha256") not in (None, digest.hexdigest()):
        raise InputError(f"{path}: changed, or cut short, since {beside} was written; search again, or remove {beside.name}")
    run = RunFile(path, topics, columns, recipe)
    # Raises InputError for lines that are not those of a run.
    if not parse_run(path, numbered) and run.part is None:
        raise InputError(f"{path}: no results in it")
    return run


def in_order(runs: Sequence[RunFile], incomplete: bool = False) -> list[RunFile]:
    """Parts in the order of their numbers; runs that are not parts in their own order.

    Raises InputError for runs with different columns, and for parts that are doubled or (unless `incomplete`) missing.
    """
    for run in runs:
        first = next((other for other in runs if other.columns), run)
        if run.columns and run.columns != first.columns:
            raise InputError(f"{run.path}: {run.columns} columns, where {first.path} has {first.columns}")
    parts = [(run, *run.part) for run in runs if run.part is not None]
    if len(parts) < len(runs) or not parts:
        return list(runs)
    count = parts[0][2]
    by_number: dict[int, RunFile] = {}
    for run, number, total in parts:
        if total != count:
            raise InputError(f"{run.path}: part {number}/{total}, where {runs[0].path} is one of {count} parts")
        if number in by_number:
            raise InputError(f"{run.path}: part {number}/{count}, as {by_number[number].path} is")
        by_number[number] = run
    missing = [number for number in range(1, count + 1) if number not in by_number]
    if missing and not incomplete:
        listed = ", ".join(f"{number}/{count}" for number in missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise InputError(f"{len(missing)} of {count} parts {'is' if len(missing) == 1 else 'are'} missing: {listed}")
    return [by_number[number] for number in sorted(by_number)]


def refuse_differences(runs: Sequence[RunFile]) -> None:
    """Raises InputError for the first setting in which the runs differ, by the config files beside them."""
    known = [(run, _settings(run.recipe)) for run in runs if run.recipe]
    for run in runs:
        if known and not run.recipe:
            logger.info("%s: no %s.toml beside it, so its settings are not compared", run.path, run.path.name)
    for run, values in known[1:]:
        first, expected = known[0]
        for name in [*expected, *(name for name in values if name not in expected)]:
            if values.get(name) != expected.get(name):
                raise InputError(
                    f"{run.path}: made with {name} {_shown(values.get(name))}, where {first.path} has "
                    f"{_shown(expected.get(name))}; --any-settings merges them all the same"
                )


def _settings(recipe: config.Config) -> dict[str, Any]:
    """The settings in which parts of one run must agree, by name."""
    verb = {name: value for name, value in recipe.verb.items() if name not in FREE}
    if "topics-sha256" not in recipe.made:  # irds:NAME
        verb["topics"] = recipe.verb.get("topics")
    values = {f"{owner}.{key}" if owner else key: value for owner, part in recipe.values.items() for key, value in part.items()}
    made = {name: value for name, value in recipe.made.items() if name not in FREE_MADE}
    return {"rerank": recipe.methods, **verb, **values, **made}


def _shown(value: object) -> str:
    return "unset" if value is None else repr(value)


def merge_topics(runs: Sequence[RunFile], first: bool) -> dict[str, list[str]]:
    """The lines of all topics. A topic in two runs is refused or, with `first`, has the lines of the first run."""
    topics: dict[str, list[str]] = {}
    for run in runs:
        for qid, entries in run.topics.items():
            if qid not in topics:
                topics[qid] = entries
            elif not first:
                raise InputError(
                    f"{run.path}: topic {qid} is in {run_with_topic(runs, qid).path} too; --overlap first keeps the first list"
                )
    return topics


def run_with_topic(runs: Sequence[RunFile], qid: str) -> RunFile:
    """The first of `runs` that has the topic `qid`."""
    return next(run for run in runs if qid in run.topics)


def write_recipe(run: RunFile, output: Path) -> None:
    """Writes the config file of the merged run file `output`, which makes it in one search; `run` is one of those merged."""
    assert run.recipe is not None
    verb = {name: value for name, value in run.recipe.verb.items() if name != "shard"} | {"output": str(output)}
    made = {**run.recipe.made, "output-sha256": _digest(output)}
    path = Path(f"{output}.toml")
    again = f"python -m kernelsearch.search --config {path} makes {output} again"
    methods = [(name, run.recipe.values.get(name, {})) for name in run.recipe.methods]
    config.write(path, verb, run.recipe.values.get("", {}), methods, made, again)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def merge_runs(
    paths: Sequence[Path],
    output: Path,
    *,
    order: Mapping[str, str] | None = None,
    source: str = "",
    first: bool = False,
    incomplete: bool = False,
    any_settings: bool = False,
) -> int:
    """Merges the run files `paths` into `output`, with a config file where all have one; returns the number of queries.

    `order` has the topics in the order of the merged run (default: that of the parts), `source` names their file in messages.
    `first` keeps the first list of a topic in two runs, `incomplete` allows missing parts, `any_settings` different settings.
    """
    if any(path.resolve() == output.resolve() for path in paths):
        raise InputError(f"--output: {output} is one of the runs to merge")
    runs = in_order([read(path) for path in paths], incomplete)
    if not any_settings:
        refuse_differences(runs)
    topics = merge_topics(runs, first)
    if order is not None:
        for qid in topics:
            if qid not in order:
                raise InputError(f"{run_with_topic(runs, qid).path}: topic {qid} is not in {source}")
        topics = {qid: topics[qid] for qid in order if qid in topics}
    with write_file(output) as stream:
        for ranked in topics.values():
            stream.writelines(f"{line}\n" for line in ranked)
    if all(run.recipe for run in runs) and not any_settings and not is_special(output):
        write_recipe(runs[0], output)
    return len(topics)
