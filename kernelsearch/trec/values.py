"""Values of records: texts, lists of texts, and values inside nested objects, which `--columns contents=body.text` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelsearch.core.errors import Flag, InputError, short


def find_value(record: Mapping[str, Any], name: str) -> Any:
    """The value at the key `name` of `record`, apart from case, or at a path of keys such as `body.text`; KeyError without.

    >>> find_value({"Body": {"text": "a tap"}}, "body.text")
    'a tap'
    """
    lower = {str(key).lower(): key for key in record}
    if name in record or name.lower() in lower:
        return record[name if name in record else lower[name.lower()]]
    first, dot, rest = name.partition(".")
    inner = find_value(record, first) if dot else None
    if not isinstance(inner, Mapping):
        raise KeyError(name)
    return find_value(inner, rest)


def text_of(value: object, key: str, place: str) -> str:
    """The text `value`, the lines of a list of texts, or "" for null; InputError, with `place` and key, for other values."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    if isinstance(value, Mapping) and value:
        inner = next((name for name in value if isinstance(value[name], str)), next(iter(value)))
        raise InputError(
            f"{key} is an object ({short(', '.join(map(str, value)), 100)}), a text was expected; ",
            Flag("columns"),
            f" {'title' if key == 'title' else 'contents'}={key}.{inner} names a text in it",
            path=place,
        )
    raise InputError(f"{key} has the type {type(value).__name__}, a text was expected", path=place)
