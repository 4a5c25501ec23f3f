"""The file of conditions: which collections there are, what is run on them, and what must come out."""

from __future__ import annotations

import os
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelsearch.errors import InputError
from kernelsearch.files import open_bytes

#: The conditions that come with the package.
SHIPPED = Path(__file__).parent / "conditions.toml"
#: A figure agrees if it differs in no printed digit.
EXACT = 0.00005


@dataclass(frozen=True)
class Collection:
    """Documents, topics and judgements: files, or irds: names."""

    name: str
    documents: str
    topics: str
    qrels: str
    irds: str | None = None

    def found(self, folder: Path) -> Collection | None:
        """The collection with real paths, through ir_datasets where the files are absent; None where neither is there."""
        paths = [folder / part for part in (self.documents, self.topics, self.qrels)]
        if all(path.is_file() for path in paths):
            return Collection(self.name, *map(str, paths))
        return Collection(self.name, *[f"irds:{self.irds}"] * 3) if self.irds else None


@dataclass(frozen=True)
class Condition:
    """Flags of search and the figures expected of them, {collection: {measure: figure}}."""

    name: str
    title: str
    flags: tuple[str, ...]
    source: str = ""
    expected: dict[str, dict[str, float]] = field(default_factory=dict)

    def command(self) -> str:
        """The command as one may type it."""
        flags = f" {shlex.join(self.flags)}" if self.flags else ""
        return f"python -m kernelsearch.search --index INDEX --topics TOPICS --output RUN{flags}"


@dataclass(frozen=True)
class Script:
    """A longer reproduction that writes its own page, run when it is named."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    page: str


@dataclass(frozen=True)
class Conditions:
    """The whole file."""

    okish: float
    baseline: str
    collections: dict[str, Collection]
    conditions: list[Condition]
    scripts: list[Script]

    def judge(self, expected: float, found: float) -> str:
        """OK, OKish or FAIL. Half a unit of the last printed digit is rounding, not a difference."""
        gap = abs(round(found, 4) - expected)
        return "OK" if gap < EXACT else "OKish" if gap <= self.okish + 1e-9 else "FAIL"


def read_conditions(path: str | Path = SHIPPED) -> Conditions:
    """Reads and checks a file of conditions."""
    try:
        with open_bytes(path) as stream:
            table = tomllib.loads(stream.read().decode("utf-8"))
        collections = {name: Collection(name, **given) for name, given in table["collections"].items()}
        conditions = [_condition(given) for given in table["condition"]]
        scripts = [_script(given) for given in table.get("script", [])]
        found = Conditions(float(table["okish"]), str(table["baseline"]), collections, conditions, scripts)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as problem:
        raise InputError(f"{path}: not a file of conditions ({type(problem).__name__}: {problem})") from None
    names = [one.name for one in conditions] + [one.name for one in scripts]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path}: condition {name!r} stands there twice")
    if found.baseline not in names:
        raise InputError(f"{path}: the baseline {found.baseline!r} is not one of the conditions")
    for condition in conditions:
        if unknown := set(condition.expected) - set(collections):
            raise InputError(
                f"{path}: condition {condition.name!r} expects figures of {min(unknown)!r}, which is no collection"
            )
    return found


def _condition(given: dict[str, Any]) -> Condition:
    return Condition(
        given["name"], given["title"], tuple(shlex.split(given["flags"])), given.get("source", ""), given.get("expected", {})
    )


def _script(given: dict[str, Any]) -> Script:
    return Script(given["name"], tuple(tuple(shlex.split(command)) for command in given["commands"]), given["page"])


def collections_folder() -> Path:
    """KERNELSEARCH_COLLECTIONS, or ../shared/collections."""
    return Path(os.environ.get("KERNELSEARCH_COLLECTIONS") or Path("..") / "shared" / "collections")
