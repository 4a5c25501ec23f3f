"""Pipelines as TOML files: read for `--config`, written beside every run file so that it can be made again.

    index = "indexes/cran"        # options of search, by their flags' names
    topics = "topics.tsv"

    [first-stage]                 # hits, BM25, feedback, ...
    k1 = 1.2

    [[rerank]]                    # one table a method, in order
    name = "klsa"
    z = 10

Flags override the file: an option's flag its value, and `--rerank` its whole list of methods. Paths are taken from where the
command runs, as they are in flags. A table `[made-with]` says what a run was made with; it is compared, not obeyed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.files import open_bytes, write_file
from kernelsearch.core.options import Option
from kernelsearch.core.version import __version__
from kernelsearch.lucene.first_stage import FirstStageSettings
from kernelsearch.lucene.jvm import find_jar
from kernelsearch.rerankers import registry

FIRST, RERANK, MADE = "first-stage", "rerank", "made-with"

#: Libraries whose version can change a score's last digit.
LIBRARIES = ("numpy", "scipy", "scikit-learn", "faiss-cpu")


@dataclass(frozen=True)
class Config:
    """What a file says: values are as written, names are Python names."""

    verb: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    methods: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)


def read(path: str | Path, options: Iterable[Option]) -> Config:
    """Reads and checks a config file; `options` are those that its top level may hold."""
    try:
        with open_bytes(path) as stream:
            table = tomllib.loads(stream.read().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: not a TOML file ({problem})") from None
    first, made, methods = table.pop(FIRST, {}), table.pop(MADE, {}), table.pop(RERANK, [])
    if not isinstance(first, dict) or not isinstance(made, dict):
        raise InputError(f"{path}: {FIRST} and {MADE} must be tables, such as [{FIRST}]")
    if not isinstance(methods, list) or not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in methods):
        raise InputError(
            f'{path}: {RERANK} must be a list of tables, each with a name: [[{RERANK}]] and below it name = "klsa"'
        )
    chosen: list[tuple[str, dict[str, Any]]] = []
    for one in methods:
        name = one.pop("name")
        if name not in registry.names():
            raise InputError(f"{path}: {RERANK}: {name!r} is not one of {', '.join(registry.names())}")
        if name in dict(chosen):
            raise InputError(f"{path}: {RERANK}: {name} is listed twice")
        chosen.append((name, _checked(path, f"[[{RERANK}]] {name}", one, registry.method(name).options)))
    return Config(
        _checked(path, "top level", table, options),
        _checked(path, f"[{FIRST}]", first, FirstStageSettings.options),
        chosen,
        made,
    )


def _checked(path: str | Path, where: str, given: Mapping[str, Any], options: Iterable[Option]) -> dict[str, Any]:
    known = {option.key: option for option in options}
    found = {}
    for name, value in given.items():
        option = known.get(name.replace("-", "_"))
        if option is None:
            raise InputError(f"{path}: {where}: unknown option {name!r}; known: {', '.join(sorted(known)) or 'none'}")
        if isinstance(value, bool) and option.kind in (int, float):
            raise InputError(f"{path}: {where}: {name} = {str(value).lower()} is not a number")
        try:
            found[option.key] = option.parse(value)
        except OptionError as problem:
            raise InputError(f"{path}: {where}: {str(problem).removeprefix('--')}") from None
    return found


def fill(arguments: argparse.Namespace, config: Config) -> None:
    """Gives parsed arguments the file's values wherever the command line has none."""
    if not arguments.rerank:
        arguments.rerank = [name for name, _ in config.methods]
    values = {**config.verb, **config.first}
    for name, options in config.methods:
        if name in arguments.rerank:
            values.update({f"{name}.{key}": value for key, value in options.items()})
    for dest, value in values.items():
        if not hasattr(arguments, dest):
            setattr(arguments, dest, value)


def write(
    path: str | Path,
    verb: Mapping[str, Any],
    first: Mapping[str, Any],
    methods: Sequence[tuple[str, Mapping[str, Any]]],
    made: Mapping[str, Any] | None = None,
    comment: str = "",
) -> None:
    """Writes a config that `read` understands, atomically. Options that have no value are left out."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += _lines(verb)
    if first:
        lines += ["", f"[{FIRST}]", *_lines(first)]
    for name, options in methods:
        lines += ["", f"[[{RERANK}]]", *_lines({"name": name, **options})]
    if made:
        lines += ["", f"[{MADE}]", *_lines({key: value for key, value in made.items() if not isinstance(value, dict)})]
        for key, value in made.items():
            if isinstance(value, dict):
                lines += ["", f"[{MADE}.{key}]", *_lines(value)]
    with write_file(path) as stream:
        stream.write("\n".join(lines) + "\n")


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{key.replace('_', '-')} = {_value(value)}" for key, value in table.items() if value is not None]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | Path):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's basic strings are JSON's
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, int | float):
        return repr(value)
    raise TypeError(f"{value!r} can't be written as TOML")


def made_with(pipeline: Pipeline, files: Mapping[str, str | None]) -> dict[str, Any]:
    """What a run depends on besides its options: versions, the index, the fitted state of methods, the input files."""
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
    """A library's version; None where it was installed under another name (conda's faiss)."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _fitted(settings: Mapping[str, Any], usual: Path) -> dict[str, Any] | None:
    """The parameters that a method's state was fitted with: of a folder that an option names, or of the usual one."""
    named = [Path(value) for value in settings.values() if isinstance(value, str) and (Path(value) / "meta.json").is_file()]
    try:
        return dict(json.loads(((named or [usual])[0] / "meta.json").read_text(encoding="utf-8"))["parameters"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def differences(config: Config, pipeline: Pipeline) -> list[str]:
    """What has changed since the file's run was made, in words."""
    then, said = config.made, []
    if then.get("index-fingerprint") not in (None, pipeline.index.fingerprint):
        said.append(f"{pipeline.index.name}: not the index (or not its state) that this config was written for")
    now = made_with(pipeline, {})
    for name in ("kernelsearch", "jar", *LIBRARIES):
        if name in then and name in now and then[name] != now[name]:
            said.append(f"{name}: {now[name]}, where the config was written with {then[name]}")
    return said
