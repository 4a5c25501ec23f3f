"""Pipelines as TOML files: read for `--config`, and written beside every run file so that the run can be repeated.

    index = "indexes/cran"        # options of search, by their flags' names
    topics = "topics.tsv"

    [first-stage]                 # hits, BM25, feedback, ...
    k1 = 1.2

    [[rerank]]                    # one table per method, in order
    name = "klsa"
    z = 10

Flags override the file: the flag of an option replaces its value, and `--rerank` replaces the whole list of methods. Paths are
relative to the working directory, as they are in flags. A table `[made-with]` records the versions and files that a run was
made with; differences are reported, and nothing is set from it.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import tomli_w

from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.spec import Values, check
from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.files import write_file
from kernelsearch.core.options import Option, find_option, unknown_option
from kernelsearch.core.reading import parse_json, read_toml
from kernelsearch.core.streams import raise_shortage
from kernelsearch.core.version import __version__
from kernelsearch.lucene.jvm import find_jar
from kernelsearch.rerankers import registry

FIRST, RERANK, MADE = "first-stage", "rerank", "made-with"

#: Libraries whose version can change the last digit of a score.
LIBRARIES = ("numpy", "scipy", "scikit-learn", "faiss-cpu")


@dataclass(frozen=True)
class Config:
    """The content of a config file.

    Attributes: `verb`, the options at the top level by Python name; `methods`, the names of the methods in order; `values`,
    {owner: {option: value}} of the methods and, by "", of the first stage; `made`, the table `[made-with]` as written.
    """

    verb: dict[str, Any] = field(default_factory=dict)
    methods: list[str] = field(default_factory=list)
    values: Values = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)


def read(path: str | Path, options: Sequence[Option]) -> Config:
    """Reads and checks the config file `path`; `options` are those that its top level may hold.

    Raises InputError for a file that is not TOML, an unknown option or method, and a value that its option refuses.
    """
    table = read_toml(path)
    first, made, methods = table.pop(FIRST, {}), table.pop(MADE, {}), table.pop(RERANK, [])
    if not isinstance(first, dict) or not isinstance(made, dict):
        raise InputError(f"{FIRST} and {MADE} must be tables, such as [{FIRST}]", path=path)
    if not isinstance(methods, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in methods
    ):
        raise InputError(
            f'{RERANK} must be a list of tables, each with a name: [[{RERANK}]] and below it name = "klsa"', path=path
        )
    names = [entry.pop("name") for entry in methods]
    pairs = [(("", name), value) for name, value in first.items()]
    for owner, entry in zip(names, methods, strict=True):
        pairs += [((owner, name), value) for name, value in entry.items()]
    try:
        values = check(names, pairs)
        return Config({option.key: option.parse(value) for option, value in _find(table, options)}, names, values, made)
    except OptionError as problem:
        moved = [
            Flag(name, owner)
            for (owner, name), _ in pairs
            if owner in registry.names() and name in registry.method(owner).moved
        ]
        others = [flag.in_request() for flag in moved if flag != problem.option]
        raise InputError(problem, *([f"; remove or move also {', '.join(others)}"] if others else []), path=path) from None


def _find(values: Mapping[str, Any], options: Sequence[Option]) -> Iterator[tuple[Option, Any]]:
    """The declarations of options at the top level with their values; raises OptionError for an unknown one."""
    for name, value in values.items():
        option = find_option(name, options)
        if option is None:
            raise unknown_option(name, options)
        yield option, value


def write(
    path: str | Path,
    verb: Mapping[str, Any],
    first: Mapping[str, Any],
    methods: Sequence[tuple[str, Mapping[str, Any]]],
    made: Mapping[str, Any] | None = None,
    comment: str = "",
) -> None:
    """Writes a config file that `read` understands, atomically. Options whose value is None are left out.

    Parameters
    ----------
    path : the file
    verb : options of the verb
    first : options of the first stage
    methods : (name, options) of each method, in order
    made : the table `[made-with]`
    comment : lines for the head of the file
    """
    parts = ["".join(f"# {line}\n" for line in comment.splitlines()) + tomli_w.dumps(_table(verb))]
    if first:
        parts.append(tomli_w.dumps({FIRST: _table(first)}))
    # Methods are written one by one, since tomli-w would put short tables into one inline array.
    parts += [f"[[{RERANK}]]\n{tomli_w.dumps(_table({'name': name, **options}))}" for name, options in methods]
    if made:
        parts.append(tomli_w.dumps({MADE: _table(made)}))
    with write_file(path) as stream:
        stream.write("\n".join(parts))


def _table(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options as TOML has them: names with hyphens, only those that have a value."""
    return {
        name.replace("_", "-"): _table(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


def made_with(pipeline: Pipeline, files: Mapping[str, str | None]) -> dict[str, Any]:
    """The table `[made-with]`: what a run depends on besides its options.

    It holds versions, the fingerprint of the index of `pipeline`, the parameters of fitted state, and the SHA-256 of each of
    `files` ({name: path}) that exists.
    """
    made: dict[str, Any] = {
        "kernelsearch": __version__,
        "python": platform.python_version(),
        "jar": find_jar().name,
    }
    made |= {name: version for name in LIBRARIES if (version := _version(name))}
    made["index-fingerprint"] = pipeline.index.fingerprint
    for name, path in files.items():
        if path is not None and Path(path).is_file():
            made[f"{name}-sha256"] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    for reranker in pipeline.rerankers:
        state = _fitted(reranker.settings.to_dict(), pipeline.index.artefacts / reranker.name)
        if state is not None:
            made[f"fitted-{reranker.name}"] = {
                key: value for key, value in state.items() if isinstance(value, bool | int | float | str)
            }
    return made


def _version(library: str) -> str | None:
    """The version of a library; None where it was installed under another name (faiss from conda)."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _fitted(settings: Mapping[str, Any], usual: Path) -> dict[str, Any] | None:
    """The parameters of a method's fitted state: of the folder that an option names, or else of the usual one."""
    folders = [Path(value) for value in settings.values() if isinstance(value, str) and (Path(value) / "meta.json").is_file()]
    try:
        return dict(parse_json(((folders or [usual])[0] / "meta.json").read_bytes(), "meta.json")["parameters"])
    except (OSError, InputError, ValueError, KeyError, TypeError) as problem:
        raise_shortage(problem)
        return None


def differences(config: Config, pipeline: Pipeline) -> list[str]:
    """Messages about what has changed since the run of `config` was made: the index of `pipeline`, versions of libraries."""
    then, messages = config.made, []
    if then.get("index-fingerprint") not in (None, pipeline.index.fingerprint):
        messages.append(f"{pipeline.index.name}: not the index (or not its state) that this config was written for")
    now = made_with(pipeline, {})
    for name in ("kernelsearch", "jar", *LIBRARIES):
        if name in then and name in now and then[name] != now[name]:
            messages.append(f"{name}: {now[name]}, where the config was written with {then[name]}")
    return messages
