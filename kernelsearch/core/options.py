"""Parameters declared once: flags, `--help`, checks, HTTP parameters, docs and saved recipes follow from the declaration.

A group of parameters is a `Settings` class whose fields are declared with `option`:

>>> @dataclass(frozen=True, kw_only=True)
... class Smoothing(Settings):
...     owner = "mine"
...     mu: float = option(1000.0, "Dirichlet prior", low=0)
...     field: str | None = option(None, "field to smooth")
>>> Smoothing(mu="250").mu
250.0
>>> Smoothing.of({"mu": -1})
Traceback (most recent call last):
kernelsearch.core.errors.OptionError: --mine.mu: -1.0 is below 0
"""

from __future__ import annotations

import dataclasses
import keyword
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

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


def option(
    default: Any,
    help: str,
    *,
    choices: tuple[Any, ...] | None = None,
    low: float | None = None,
    high: float | None = None,
    repeat: bool = False,
    words: bool = False,
    name: str | None = None,
) -> Any:
    """A field of a `Settings` class; the field's name and type complete the declaration.

    A field of type `tuple[T, ...]` takes comma-separated values. `name` is the option's name where it isn't the field's own
    with hyphens.
    """
    declaration = {"help": help, "choices": choices, "low": low, "high": high, "repeat": repeat, "words": words, "name": name}
    return dataclasses.field(default=default, metadata=declaration)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of typed settings. Values are checked when an object is made; messages name `--OWNER.option`.

    Names in `given`, `to_dict` and the command line are the options' own (`lambda`, `save_queries`); a Python keyword gets an
    underscore as a field (`lambda_`).
    """

    owner: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for field, declared in _fields_of(type(self)).items():
            value = getattr(self, field)
            # A default stands as it was declared, so that None keeps its meaning of "not given".
            if value is not declared.default:
                object.__setattr__(self, field, declared.parse(value, self.owner))

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """The declared options, in order."""
        return tuple(_fields_of(cls).values())

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Settings from values by option name; unknown names are refused."""
        known = {declared.key: field for field, declared in _fields_of(cls).items()}
        for name in given:
            if name.replace("-", "_") not in known:
                label = cls.owner or "option"
                raise OptionError(f"{label}: unknown option {name!r}; known: {', '.join(sorted(known)) or 'none'}")
        return cls(**{known[name.replace("-", "_")]: value for name, value in given.items()})

    @classmethod
    def check(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The given values, checked, by option name; what isn't given stays absent."""
        checked = cls.of(given).to_dict()
        return {name.replace("-", "_"): checked[name.replace("-", "_")] for name in given}

    def to_dict(self) -> dict[str, Any]:
        """All values by option name."""
        return {declared.key: getattr(self, field) for field, declared in _fields_of(type(self)).items()}


_known_fields: dict[type[Settings], dict[str, Option]] = {}


def _fields_of(cls: type[Settings]) -> dict[str, Option]:
    """{field: option} of a settings class, worked out once."""
    if cls not in _known_fields:
        _known_fields[cls] = _read_fields(cls)
    return _known_fields[cls]


def _read_fields(cls: type[Settings]) -> dict[str, Option]:
    hints = get_type_hints(cls)
    found = {}
    by_name = {field.name: field for field in dataclasses.fields(cls)}
    # A class's own options come first, then those of its bases.
    names = dict.fromkeys(name for base in cls.__mro__ for name in vars(base).get("__annotations__", {}) if name in by_name)
    for field in (by_name[name] for name in names):
        members = [hints[field.name]]
        if get_args(members[0]) and get_origin(members[0]) is not tuple:
            members = [one for one in get_args(members[0]) if one is not NoneType]
        many = get_origin(members[0]) is tuple
        kind = get_args(members[0])[0] if many else members[0]
        declaration = dict(field.metadata)
        plain = field.name.removesuffix("_") if keyword.iskeyword(field.name.removesuffix("_")) else field.name
        name = declaration.pop("name") or plain.replace("_", "-")
        found[field.name] = Option(name, kind, field.default, many=many, **declaration)
    return found
