"""The file of conditions: which collections there are, what is run on them, and what must come out."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelsearch.api.bundled import BUNDLED as BUNDLED_FOLDER
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import open_bytes

#: The conditions that come with the package.
SHIPPED = Path(__file__).parent / "conditions.toml"
#: A figure agrees if it differs in no printed digit.
EXACT = 0.00005
#: Stands for the folder of the bundled collection.
BUNDLED = "{bundled}"


@dataclass(frozen=True)
class Collection:
    """Documents, topics and judgements: files, or irds: names.

    `training` are topics and judgements of their own to learn from, `headline` says whether the headline table has its column.
    """

    name: str
    documents: str
    topics: str
    qrels: str
    irds: str | None = None
    training: tuple[str, ...] = ()
    headline: bool = True

    def found(self, folder: Path) -> Collection | None:
        """The collection with real paths, through ir_datasets where the files are absent; None where neither is there."""
        parts = (self.documents, self.topics, self.qrels, *self.training)
        paths = [folder / part.replace(BUNDLED, str(BUNDLED_FOLDER)) for part in parts]
        if all(path.is_file() for path in paths):
            documents, topics, qrels, *training = map(str, paths)
            return replace(self, documents=documents, topics=topics, qrels=qrels, training=tuple(training))
        name = f"irds:{self.irds}"
        return replace(self, documents=name, topics=name, qrels=name, training=()) if self.irds else None


@dataclass(frozen=True)
class Condition:
    """Flags of search and the figures expected of them, {collection: {measure: figure}}.

    `train` are flags of train for what is fitted first, `on` the collections that it is run on (none: all). In flags
    {bundled} is the folder of the bundled collection and {model} a place for a model. A condition that learns from {topics}
    and {qrels} gets the collection's training topics; where there are none, it learns and ranks by five folds over the topics.
    """

    name: str
    title: str
    flags: tuple[str, ...]
    source: str = ""
    expected: dict[str, dict[str, float]] = field(default_factory=dict)
    train: tuple[str, ...] = ()
    on: tuple[str, ...] = ()

    def commands(self) -> list[str]:
        """The commands as one may type them."""
        search = ["python", "-m", "kernelsearch.search", "--index", "INDEX", "--topics", "TOPICS", "--output", "RUN"]
        train = ["python", "-m", "kernelsearch.train", "--index", "INDEX"]
        typed = [[*train, *self.train]] if self.train else []
        names = {BUNDLED: "BUNDLED", "{model}": "MODEL", "{topics}": "TRAINING_TOPICS", "{qrels}": "TRAINING_QRELS"}
        return [" ".join(map(shlex.quote, filled(command, names))) for command in (*typed, [*search, *self.flags])]

    @property
    def learns(self) -> bool:
        """Whether it learns from judged topics."""
        return "{topics}" in self.train

    def runs_on(self, collection: Collection) -> bool:
        return not self.on or collection.name in self.on


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


def counted(verdicts: Sequence[str]) -> str:
    """How many there are of each, for people; empty where there are none."""
    return ", ".join(f"{verdicts.count(kind)} {kind}" for kind in ("OK", "OKish", "FAIL", "new") if kind in verdicts)


def read_conditions(path: str | Path = SHIPPED) -> Conditions:
    """Reads and checks a file of conditions."""
    try:
        with open_bytes(path) as stream:
            table = tomllib.loads(stream.read().decode("utf-8"))
        collections = {name: _collection(name, given) for name, given in table["collections"].items()}
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
        if unknown := {*condition.expected, *condition.on} - set(collections):
            raise InputError(
                f"{path}: condition {condition.name!r} expects figures of {min(unknown)!r}, which is no collection"
            )
    return found


def _collection(name: str, given: dict[str, Any]) -> Collection:
    training = given.pop("training", None)
    return Collection(name, **given, training=(training["topics"], training["qrels"]) if training else ())


def _condition(given: dict[str, Any]) -> Condition:
    return Condition(
        given["name"],
        given["title"],
        tuple(shlex.split(given["flags"])),
        given.get("source", ""),
        given.get("expected", {}),
        tuple(shlex.split(given.get("train", ""))),
        tuple(given.get("on", ())),
    )


def _script(given: dict[str, Any]) -> Script:
    return Script(given["name"], tuple(tuple(shlex.split(command)) for command in given["commands"]), given["page"])


def filled(flags: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Flags with the names in braces replaced."""
    out = []
    for flag in flags:
        for name, value in names.items():
            flag = flag.replace(name, value)
        out.append(flag)
    return out


def collections_folder() -> Path:
    """KERNELSEARCH_COLLECTIONS, or ../shared/collections."""
    return Path(os.environ.get("KERNELSEARCH_COLLECTIONS") or Path("..") / "shared" / "collections")
