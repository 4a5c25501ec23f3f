"""Options declared once: flags, `--help`, checks, HTTP parameters, docs and config files are derived from the declaration.

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
kernelsearch.core.errors.OptionError: mine_mu: -1.0 is below 0
"""

from __future__ import annotations

import dataclasses
import keyword
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

from kernelsearch.core.errors import Flag, OptionError, closest, quote

#: The largest whole number of an option: what Java's and numpy's 32-bit integers hold.
LARGEST = 2**31 - 1
#: The largest number of an option that isn't `unbounded`: 32-bit floats hold it, and 64-bit floats its powers up to 10.
LARGEST_FLOAT = 1e30
#: Largest number in a request, of an option that declares no bound, so that a single request cannot ask for unbounded work.
REQUEST_INT, REQUEST_FLOAT = 1000, 1e6
#: What a text may name; "" where it names nothing.
NAMED = ("", "file", "clicks", "vectors")


@dataclass(frozen=True)
class Option:
    """One option of a reranker or a verb.

    `kind` is int, float, str or bool. `low` and `high` are inclusive bounds. A bool becomes a switch (`--x.flag`,
    `--x.no-flag`). A default of None means "not set" and is not checked; for a number it can be written `auto`. With `many` the
    value is a tuple, comma-separated on the command line, and with `words` also several words after the flag. With `repeat` the
    flag may be repeated: a single value stays as it is, several are a tuple. A number must be finite unless it is `unbounded`.

    `names` says what a text names: a "file" (or folder), the index's click log ("clicks", a file as well), or "vectors" of the
    index. `requests` says whether requests to a service may set the option: True, False, or the values that they may give
    (besides the index's names of vectors). By default they may set all but files and texts without choices. `request_high` is
    the largest value in a request; None: `high`, and at most 1000, or a million for a float. `request_values` is the largest
    number of values in a request, for an option with `many`.
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
    unbounded: bool = False
    names: str = ""
    requests: bool | tuple[Any, ...] | None = None
    request_high: float | None = None
    request_values: int = 8

    #: The name in Python and in config files: `save-queries` is `save_queries`.
    key: str = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.name.replace("-", "_").replace(".", "_"))
        if self.names not in NAMED:
            raise ValueError(f"option {self.name}: names={self.names!r} is not one of {', '.join(map(repr, NAMED))}")
        if self.requests is None:
            settable = self.names == "vectors" or self.kind in (int, float, bool) or self.choices is not None
            object.__setattr__(self, "requests", settable and not self.is_file)
        if self.is_file and self.requests:
            raise ValueError(f"option {self.name}: requests cannot set an option that names a file")

    @property
    def is_file(self) -> bool:
        """Whether the option names a file or folder."""
        return self.names in ("file", "clicks")

    def parse(self, value: object, owner: str = "") -> Any:
        """Returns the checked value of the option, from a string of the command line or from Python.

        `owner` is the method that the option belongs to, for messages. Raises OptionError.
        """
        option = Flag(self.name, owner)
        if self.default is None and (value is None or (value == "auto" and self.kind in (int, float))):
            return None
        if self.many:
            values = value if isinstance(value, list | tuple) else [value]
            items = [word for item in values for word in _split(item)]
            return tuple(self._parse_single(item, option) for item in items if item != "")
        if self.repeat and isinstance(value, list | tuple):
            if not value:
                raise OptionError("an empty list", option=option)
            parsed = tuple(self._parse_single(item, option) for item in value)
            return parsed[0] if len(parsed) == 1 else parsed
        return self._parse_single(value, option)

    def for_requests(self) -> Option | None:
        """The option as requests may set it, with bounds on every number; None for an option that they may not set."""
        if not self.requests:
            return None
        if isinstance(self.requests, tuple) and self.names != "vectors":
            return dataclasses.replace(self, choices=self.requests)
        if self.kind not in (int, float):
            return self
        high = self.request_high
        if high is None:
            most = REQUEST_INT if self.kind is int else REQUEST_FLOAT
            high = most if self.high is None else min(self.high, most)
        # An unbounded number may be infinite; `parse_request` compares the others with `request_high`.
        return dataclasses.replace(self, high=self.high if self.unbounded else high, request_high=high)

    def parse_request(self, value: object, owner: str = "") -> Any:
        """As `parse`, for a value in a request to a service."""
        option, public = Flag(self.name, owner), self.for_requests()
        if public is None:
            reason = "names a file, which requests cannot set" if self.is_file else "requests cannot set it"
            raise OptionError(reason, option=option)
        parsed = public.parse(value, owner)
        values = parsed if isinstance(parsed, tuple) else (parsed,)
        if len(values) > self.request_values:
            raise OptionError(f"more than {self.request_values} values", option=option)
        if public.unbounded and any(item is not None and public.request_high < item < math.inf for item in values):
            raise OptionError(f"a value is above {public.request_high} and not inf", option=option)
        return parsed

    def _parse_single(self, value: Any, option: Flag) -> Any:
        try:
            if value is None or isinstance(value, list | tuple | dict):
                raise TypeError
            if self.kind is bool:
                parsed: Any = value if isinstance(value, bool) else {"true": True, "false": False}[str(value).lower()]
            elif isinstance(value, bool):  # which Python counts as the numbers 0 and 1
                raise TypeError
            elif self.kind is int:
                parsed = int(value)
                if isinstance(value, float) and value != parsed:
                    raise ValueError
            else:
                parsed = self.kind(value)
        except (ValueError, TypeError, KeyError, OverflowError):
            raise OptionError(f"{quote(value)} is not {_describe(self.kind)}", option=option) from None
        if parsed == "" and self.default is None:
            # `--output "$UNSET"` must not mean the default place.
            raise OptionError("an empty text", option=option)
        if self.choices is not None and parsed not in self.choices:
            raise OptionError(f"{quote(parsed)} is not one of {', '.join(map(str, self.choices))}", option=option)
        if self.kind is float and math.isnan(parsed):
            raise OptionError("not a number", option=option)
        if self.kind is float and math.isinf(parsed) and not self.unbounded:
            raise OptionError(f"{parsed} is not a finite number", option=option)
        if self.kind is int and abs(parsed) > LARGEST:
            raise OptionError(f"{quote(parsed)} is beyond {LARGEST}", option=option)
        if self.kind is float and abs(parsed) > LARGEST_FLOAT and not self.unbounded:
            raise OptionError(f"{parsed} is beyond {LARGEST_FLOAT:g}", option=option)
        if self.low is not None and parsed < self.low:
            raise OptionError(f"{parsed} is below {self.low:g}", option=option)
        if self.high is not None and parsed > self.high:
            raise OptionError(f"{parsed} is above {self.high:g}", option=option)
        return parsed


def _split(value: object) -> list[Any]:
    """The values in one word after a flag: a word may hold several, separated by commas."""
    return value.split(",") if isinstance(value, str) else [value]


def find_option(name: str, options: Iterable[Option]) -> Option | None:
    """The option of a `name` that is written with hyphens or underscores; None where there is none."""
    key = name.replace("-", "_").replace(".", "_")
    for option in options:
        if option.key == key:
            return option
    return None


def unknown_option(name: str, options: Iterable[Option], owner: str = "") -> OptionError:
    """The error for a `name` that none of the `options` of `owner` has; it suggests the nearest, or lists them."""
    known, flag = [option.name for option in options], Flag(name[:100].replace("_", "-"), owner)
    if near := closest(flag.name.lower(), known):
        return OptionError("unknown option; did you mean ", Flag(near, owner), "?", option=flag)
    return OptionError(f"unknown option; known: {', '.join(known) or 'none'}", option=flag)


def _describe(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")


def option(
    default: object,
    help: str,
    *,
    choices: tuple[Any, ...] | None = None,
    low: float | None = None,
    high: float | None = None,
    repeat: bool = False,
    words: bool = False,
    unbounded: bool = False,
    name: str | None = None,
    names: str = "",
    requests: bool | tuple[Any, ...] | None = None,
    request_high: float | None = None,
) -> Any:
    """Returns a field of a `Settings` class, whose name and type complete the declaration.

    The parameters are those of `Option`. A field of type `tuple[T, ...]` has `many` values. `name` is the option's name where
    it isn't the field's with hyphens.
    """
    bounds = {"choices": choices, "low": low, "high": high, "unbounded": unbounded}
    service = {"names": names, "requests": requests, "request_high": request_high}
    declaration = {"help": help, "repeat": repeat, "words": words, "name": name, **bounds, **service}
    return dataclasses.field(default=default, metadata=declaration)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base class of typed settings. Values are checked when an object is made; messages name OWNER and option.

    Dictionaries and the command line use the options' own names (`lambda`, `save_queries`); the field of an option whose name
    is a Python keyword ends in an underscore (`lambda_`).
    """

    owner: ClassVar[str] = ""
    #: The options that the class declares, its own first, then those of its bases.
    options: ClassVar[tuple[Option, ...]] = ()
    #: The same by the name of the field.
    _declared: ClassVar[Mapping[str, Option]] = {}
    #: {the option's name in Python: the field}.
    _fields: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, dataclasses.Field)}
        hints = get_type_hints(cls)
        options = {name: _read_option(name, hints[name], declaration) for name, declaration in declared.items()}
        for base in cls.__mro__[1:]:
            for name, inherited in getattr(base, "_declared", {}).items():
                options.setdefault(name, inherited)
        cls._declared, cls.options = options, tuple(options.values())
        cls._fields = {declared.key: field for field, declared in options.items()}

    def __post_init__(self) -> None:
        for field, declared in self._declared.items():
            value = getattr(self, field)
            # The default is not parsed, so that None keeps its meaning of "not set".
            if value is not declared.default:
                object.__setattr__(self, field, declared.parse(value, self.owner))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Returns settings from values by option name. Raises OptionError for an unknown name or a value out of bounds."""
        return cls(**cls._by_field(values))

    def change(self, values: Mapping[str, Any]) -> Self:
        """Returns the settings with other values by option name; raises OptionError as `of` does."""
        return dataclasses.replace(self, **self._by_field(values)) if values else self

    @classmethod
    def _by_field(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        fields = {}
        for name, value in values.items():
            key = name if name in cls._fields else name.replace("-", "_")
            if key not in cls._fields:
                raise unknown_option(name, cls.options, cls.owner)
            fields[cls._fields[key]] = value
        return fields

    def to_dict(self) -> dict[str, Any]:
        """Returns all values by option name."""
        return {declared.key: getattr(self, field) for field, declared in self._declared.items()}


def _read_option(field: str, hint: Any, declaration: dataclasses.Field[Any]) -> Option:
    """The option that a field of a settings class declares; `hint` is the field's type."""
    if get_origin(hint) is not tuple and get_args(hint):  # T | None
        hint = next(member for member in get_args(hint) if member is not NoneType)
    many = get_origin(hint) is tuple
    metadata = dict(declaration.metadata)
    plain = field.removesuffix("_") if keyword.iskeyword(field.removesuffix("_")) else field
    name = metadata.pop("name") or plain.replace("_", "-")
    return Option(name, get_args(hint)[0] if many else hint, declaration.default, many=many, **metadata)
