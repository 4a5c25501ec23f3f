"""The file of conditions: collections, the conditions that are run on them, and the expected figures."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelsearch.api.bundled import BUNDLED_FOLDER
from kernelsearch.core.errors import InputError, quote, short
from kernelsearch.core.reading import read_toml

#: The conditions that come with the package.
SHIPPED = Path(__file__).parent / "conditions.toml"
#: A figure is OK if it differs in no printed digit.
EXACT = 0.00005
#: Placeholder for the folder of the bundled collection.
BUNDLED = "{bundled}"


@dataclass(frozen=True)
class Collection:
    """Documents, topics and judgements: files, or irds: names.

    `irds` is the name in ir_datasets, for where the files are missing. `training` has a file of topics and one of judgements to
    learn from. `headline` says whether the collection has a column in the headline table.
    """

    name: str
    documents: str
    topics: str
    qrels: str
    irds: str | None = None
    training: tuple[str, ...] = ()
    headline: bool = True

    def locate(self, folder: Path) -> Collection | None:
        """The collection with paths below a folder, or with its irds: name where a file is missing; None where it has none."""
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

    `source` says where the expected figures come from, `train` has the flags of train for what is fitted first, `on` the
    collections that the condition is run on (empty: all). In flags, {bundled} is the folder of the bundled collection and
    {model} a path for a model. A condition that learns from {topics} and {qrels} gets the training topics of the collection;
    where there are none, it learns and ranks by five-fold cross-validation over the topics.
    """

    name: str
    title: str
    flags: tuple[str, ...]
    source: str = ""
    expected: dict[str, dict[str, float]] = field(default_factory=dict)
    train: tuple[str, ...] = ()
    on: tuple[str, ...] = ()

    def commands(self) -> list[str]:
        """The commands to type, with placeholders in capitals."""
        search = ["python", "-m", "kernelsearch.search", "--index", "INDEX", "--topics", "TOPICS", "--output", "RUN"]
        train = ["python", "-m", "kernelsearch.train", "--index", "INDEX"]
        typed = [[*train, *self.train]] if self.train else []
        names = {BUNDLED: "BUNDLED", "{model}": "MODEL", "{topics}": "TRAINING_TOPICS", "{qrels}": "TRAINING_QRELS"}
        return [" ".join(map(shlex.quote, fill_placeholders(command, names))) for command in (*typed, [*search, *self.flags])]

    @property
    def learns(self) -> bool:
        """Whether the condition learns from judged topics."""
        return "{topics}" in self.train

    def runs_on(self, collection: Collection) -> bool:
        """Whether the condition is run on a collection."""
        return not self.on or collection.name in self.on


@dataclass(frozen=True)
class Script:
    """A longer reproduction that writes a page of its own, run when it is named on the command line."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    page: str


@dataclass(frozen=True)
class Conditions:
    """The content of the file: `okish` is the largest difference of OKish, `baseline` the condition to compare with."""

    okish: float
    baseline: str
    collections: dict[str, Collection]
    conditions: list[Condition]
    scripts: list[Script]

    def judge(self, expected: float, measured: float) -> str:
        """OK, OKish or FAIL: `measured` against `expected`. Half a unit of the last printed digit is rounding."""
        gap = abs(round(measured, 4) - expected)
        return "OK" if gap < EXACT else "OKish" if gap <= self.okish + 1e-9 else "FAIL"


def count_verdicts(verdicts: Sequence[str]) -> str:
    """The number of each of `verdicts` as text, such as "3 OK, 1 new"; empty where there are none."""
    return ", ".join(f"{verdicts.count(kind)} {kind}" for kind in ("OK", "OKish", "FAIL", "new") if kind in verdicts)


def read_conditions(path: str | Path = SHIPPED) -> Conditions:
    """Reads and checks the conditions in `path`. Raises InputError for a file that has none, and for contradictions."""
    table = read_toml(path)
    try:
        collections = {name: _collection(name, entry) for name, entry in table["collections"].items()}
        conditions = [_condition(entry) for entry in table["condition"]]
        scripts = [_script(entry) for entry in table.get("script", [])]
        content = Conditions(float(table["okish"]), str(table["baseline"]), collections, conditions, scripts)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as problem:
        raise InputError(f"{path}: not a file of conditions ({type(problem).__name__}: {short(str(problem))})") from None
    names = [condition.name for condition in conditions] + [script.name for script in scripts]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path}: condition {quote(name)} is listed twice")
    if content.baseline not in names:
        raise InputError(f"{path}: the baseline {quote(content.baseline)} is not one of the conditions")
    for condition in conditions:
        if unknown := {*condition.expected, *condition.on} - set(collections):
            raise InputError(
                f"{path}: condition {quote(condition.name)} expects figures of {quote(min(unknown))}, which is no collection"
            )
    return content


def _collection(name: str, entry: dict[str, Any]) -> Collection:
    training = entry.pop("training", None)
    return Collection(name, **entry, training=(training["topics"], training["qrels"]) if training else ())


def _condition(entry: dict[str, Any]) -> Condition:
    return Condition(
        entry["name"],
        entry["title"],
        tuple(shlex.split(entry["flags"])),
        entry.get("source", ""),
        entry.get("expected", {}),
        tuple(shlex.split(entry.get("train", ""))),
        tuple(entry.get("on", ())),
    )


def _script(entry: dict[str, Any]) -> Script:
    return Script(entry["name"], tuple(tuple(shlex.split(command)) for command in entry["commands"]), entry["page"])


def fill_placeholders(flags: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """The `flags` with placeholders replaced; `names` is {placeholder: value}."""
    replaced = []
    for flag in flags:
        for name, value in names.items():
            flag = flag.replace(name, value)
        replaced.append(flag)
    return replaced


def collections_folder() -> Path:
    """The folder of collections: KERNELSEARCH_COLLECTIONS, or ../shared/collections."""
    return Path(os.environ.get("KERNELSEARCH_COLLECTIONS") or Path("..") / "shared" / "collections")
