"""Parameters declared once as data; flags, `--help`, checks and saved recipes follow from the declaration."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kernelsearch.core.errors import OptionError


@dataclass(frozen=True)
class Option:
    """One parameter of a reranker or a verb.

    `kind` is int, float, str or bool. `low` and `high` are inclusive bounds. A bool becomes a switch (`--x.flag`,
    `--x.no-flag`). A default of None means "not given" and is not checked. `many` takes comma-separated values as a tuple.
    `repeat` takes the flag several times: one value stays as it is, several are a tuple. `words` takes several words after the
    flag, for `many`.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[Any, ...] | None = None
    low: float | None = None
    high: float | None = None
    many: bool = False
    repeat: bool = False
    words: bool = False

    @cached_property
    def key(self) -> str:
        """The name in Python: `save-queries` is `save_queries`."""
        return self.name.replace("-", "_").replace(".", "_")

    def parse(self, value: Any, owner: str = "") -> Any:
        """The checked value, from a command line's string or from Python."""
        label = f"--{owner}.{self.name}" if owner else f"--{self.name}"
        if value is None:
            return None
        if self.many:
            items = value.split(",") if isinstance(value, str) else [part for one in value for part in _parts(one)]
            return tuple(self._one(item, label) for item in items if item != "")
        if self.repeat and isinstance(value, list | tuple):
            if not value:
                raise OptionError(f"{label}: an empty list")
            return self._one(value[0], label) if len(value) == 1 else tuple(self._one(item, label) for item in value)
        return self._one(value, label)

    def _one(self, value: Any, label: str) -> Any:
        try:
            if self.kind is bool:
                parsed: Any = value if isinstance(value, bool) else {"true": True, "false": False}[str(value).lower()]
            elif self.kind is int:
                parsed = int(value)
                if isinstance(value, float) and value != parsed:
                    raise ValueError
            else:
                parsed = self.kind(value)
        except (ValueError, TypeError, KeyError):
            raise OptionError(f"{label}: {value!r} is not {_describe(self.kind)}") from None
        if self.choices is not None and parsed not in self.choices:
            raise OptionError(f"{label}: {parsed!r} is not one of {', '.join(map(str, self.choices))}")
        if self.kind is float and math.isnan(parsed):
            raise OptionError(f"{label}: not a number")
        if self.low is not None and parsed < self.low:
            raise OptionError(f"{label}: {parsed} is below {self.low:g}")
        if self.high is not None and parsed > self.high:
            raise OptionError(f"{label}: {parsed} is above {self.high:g}")
        return parsed


def _parts(value: Any) -> list[Any]:
    """Words after a flag may be separated by commas as well."""
    return value.split(",") if isinstance(value, str) else [value]


def _describe(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")


def resolve(options: Iterable[Option], given: Mapping[str, Any], owner: str = "") -> dict[str, Any]:
    """Defaults filled in, values checked, unknown names refused. Keys are Python names."""
    known = {option.key: option for option in options}
    for name in given:
        if name.replace("-", "_") not in known:
            raise OptionError(f"{owner or 'option'}: unknown option {name!r}; known: {', '.join(sorted(known)) or 'none'}")
    values = {name.replace("-", "_"): value for name, value in given.items()}
    return {key: option.parse(values[key], owner) if key in values else option.default for key, option in known.items()}


def add_flags(parser: argparse.ArgumentParser, options: Iterable[Option], owner: str = "", title: str | None = None) -> None:
    """Adds `--OWNER.name` flags; values not given stay absent, so that config files and defaults can fill them."""
    group = parser.add_argument_group(title or owner) if (title or owner) else parser
    for option in options:
        stem = f"{owner}.{option.name}" if owner else option.name
        dest = f"{owner}.{option.key}" if owner else option.key
        text = option.help.replace("%", "%%")
        if option.kind is bool and not option.many:
            # Only the switch that changes something is shown; the other one is understood all the same.
            off = f"{owner}.no-{option.name}" if owner else f"no-{option.name}"
            help_on, help_off = (argparse.SUPPRESS, f"don't {text}") if option.default is True else (text, argparse.SUPPRESS)
            group.add_argument(f"--{stem}", dest=dest, action="store_true", default=argparse.SUPPRESS, help=help_on)
            group.add_argument(f"--{off}", dest=dest, action="store_false", default=argparse.SUPPRESS, help=help_off)
            continue
        if option.choices:
            text += f" ({', '.join(map(str, option.choices))})"
        if option.default is not None:
            shown = ",".join(map(str, option.default)) if option.many else option.default
            text += f" [{shown}]"
        metavar = {int: "N", float: "X"}.get(option.kind, "TEXT")
        action, count = "append" if option.repeat else "store", "+" if option.words else None
        group.add_argument(
            f"--{stem}", dest=dest, action=action, nargs=count, default=argparse.SUPPRESS, metavar=metavar, help=text
        )


def collect(arguments: argparse.Namespace, options: Iterable[Option], owner: str = "") -> dict[str, Any]:
    """The checked values that were given on the command line for one owner, by Python name."""
    found = {}
    for option in options:
        dest = f"{owner}.{option.key}" if owner else option.key
        if hasattr(arguments, dest):
            found[option.key] = option.parse(getattr(arguments, dest), owner)
    return found
