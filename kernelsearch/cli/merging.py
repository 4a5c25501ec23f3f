"""Merging run files of parts of the topics, with the recipes beside them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsearch.cli import config
from kernelsearch.cli.search_settings import IN_CONFIG
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import lines
from kernelsearch.trec import read_run
from kernelsearch.trec.topics import parse_part

logger = logging.getLogger(__name__)

#: What parts of one run may differ in: where they were made and how fast. Files are compared by what is in them instead.
FREE = {"output", "shard", "index", "topics", "run", "threads", "batch_size", "java_heap"}
FREE_MADE = {"output-sha256", "python"}


@dataclass(frozen=True)
class RunFile:
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


def read(path: Path) -> RunFile:
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
    run = RunFile(path, topics, columns, recipe)
    if topics or run.part is None:
        read_run(path)  # for its complaints
    return run


def in_order(runs: Sequence[RunFile], incomplete: bool = False) -> list[RunFile]:
    """Parts in the order of their numbers, all of them there; other runs as they come."""
    for run in runs:
        first = next((one for one in runs if one.columns), run)
        if run.columns and run.columns != first.columns:
            raise InputError(f"{run.path}: {run.columns} columns, where {first.path} has {first.columns}")
    parts = [run.part for run in runs]
    if not all(parts):
        return list(runs)
    count = parts[0][1]  # type: ignore[index]
    held: dict[int, RunFile] = {}
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


def refuse_differences(runs: Sequence[RunFile]) -> None:
    """Names the first setting in which two recipes differ."""
    known = [(run, _settings(run.recipe)) for run in runs if run.recipe]
    for run in runs:
        if known and not run.recipe:
            logger.info("%s: no %s.toml beside it, so its settings are not compared", run.path, run.path.name)
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


def merged(runs: Sequence[RunFile], first: bool) -> dict[str, list[str]]:
    """The lines of all topics; of a topic in two runs the first ones, where that is allowed."""
    topics: dict[str, list[str]] = {}
    for run in runs:
        for qid, found in run.topics.items():
            if qid not in topics:
                topics[qid] = found
            elif not first:
                raise InputError(
                    f"{run.path}: topic {qid} is in {holder(runs, qid).path} too; --overlap first keeps the first list"
                )
    return topics


def holder(runs: Sequence[RunFile], qid: str) -> RunFile:
    """The run that holds a topic."""
    return next(run for run in runs if qid in run.topics)


def write_recipe(run: RunFile, output: Path) -> None:
    """The parts' recipe for the whole: it makes the merged run in one go."""
    assert run.recipe is not None
    verb = {name: value for name, value in run.recipe.verb.items() if name != "shard"} | {"output": str(output)}
    made = {**run.recipe.made, "output-sha256": _digest(output)}
    path = Path(f"{output}.toml")
    again = f"python -m kernelsearch.search --config {path} makes {output} again"
    config.write(path, verb, run.recipe.first, run.recipe.methods, made, again)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
