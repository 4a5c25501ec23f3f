"""Conditions on the fields of stored documents: `category=plumbing`, `minutes<=30`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kernelsearch.core.errors import OptionError, quote
from kernelsearch.core.reading import to_number

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.eq,  # negated: true also for a document without the field
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SYNTAX = re.compile(r"([^=!<>]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one field: its name, an operator of OPERATORS, and the value to compare with."""

    field: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Filter:
        """Reads the `text` FIELD=VALUE, with any operator; raises OptionError.

        >>> Filter.parse("minutes <= 30")
        Filter(field='minutes', operator='<=', value='30')
        """
        match = SYNTAX.fullmatch(text)
        if match is None or not match[1].strip() or match[3].lstrip().startswith(("=", "<", ">")):
            raise OptionError(f"{quote(text[:100])} is not FIELD=VALUE (or !=, <, <=, >, >=)")
        return cls(match[1].strip(), match[2], match[3].strip())

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Whether a document, `record` by field, fulfils the condition; of a list, whether one of its values does.

        Values are compared as numbers where both are, and as text otherwise.

        >>> Filter("minutes", "<", "30").matches({"minutes": 9}), Filter("tools", "=", "saw").matches({"tools": ["axe", "saw"]})
        (True, True)
        """
        compare = OPERATORS[self.operator]
        holds = any(compare(*_comparable(value, self.value)) for value in _values(record.get(self.field)))
        return not holds if self.operator == "!=" else holds


def _values(value: Any) -> Iterable[Any]:
    """The scalar values of a field; none for a field that is missing, null or an object."""
    values = value if isinstance(value, list) else [value]
    return (item for item in values if isinstance(item, str | int | float))


def _comparable(value: Any, wanted: str) -> tuple[Any, Any]:
    if isinstance(value, bool):
        return str(value).lower(), wanted.lower()
    number, other = _number(value), _number(wanted)
    if number is None or other is None:
        return str(value), wanted
    if isinstance(number, int) and isinstance(other, int):
        return number, other
    return float(number), float(other)  # a stored number of more than 64 bits is a float, too


def _number(value: Any) -> int | float | None:
    """A value as a finite number: whole numbers exactly, since ids of 64 bits have more digits than a float."""
    try:
        as_float = to_number(value) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):  # text, or a whole number beyond the range of floats
        return None
    if not math.isfinite(as_float):
        return None
    try:
        return as_float if isinstance(value, float) else int(value)
    except ValueError:
        return as_float
