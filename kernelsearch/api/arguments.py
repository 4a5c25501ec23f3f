"""Arguments of the public functions: one of another type than is declared, and an unknown keyword, are one clear line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Integral
from os import PathLike
from typing import ParamSpec, TypeVar

from kernelsearch.core.errors import Flag, InputError, OptionError, nearest, quote

P = ParamSpec("P")
R = TypeVar("R")

#: What other libraries call a parameter of ours.
ELSEWHERE = {
    "k": ("top", "top_k", "topk", "limit", "num_results", "n"),
    "rerank": ("method", "model", "ranker"),
    "hits": ("top", "depth", "k"),
}
#: Likeness (difflib's ratio) to a parameter's name from which a keyword is taken for it.
ALIKE = 0.8


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The `function`, which raises InputError for an argument of another type than its annotation says.

    OptionError is raised for a keyword that is not a parameter but nearly the name of one. Further keywords are left to the
    function, if it takes any.
    """
    signature = inspect.signature(function)
    parameters = signature.parameters
    names = [name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD and name != "self"]

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        for name in keywords:
            hint = "" if name in names else _suggestion(name, names)
            if hint:
                raise OptionError(f"unknown option{hint}", option=Flag(name))
        try:
            bound = signature.bind(*args, **keywords)
        except TypeError as problem:
            raise InputError(f"{function.__name__}: {problem}") from None
        for name in names:
            if name in bound.arguments:
                _check(name, bound.arguments[name], str(parameters[name].annotation))
        return function(*args, **keywords)

    return call


def _suggestion(name: str, names: list[str]) -> str:
    """The end of a message about the keyword `name`, if it means one of the parameters `names`."""
    for own, others in ELSEWHERE.items():
        if name in others and own in names:
            return f"; did you mean {own}?"
    return nearest(name, names, ALIKE)


def _check(name: str, value: object, annotation: str) -> None:
    """Raises InputError for a value that is not of the type in `annotation`, where that is a simple type or a collection."""
    kinds = annotation.split(" | ")
    expected = None
    if "None" in kinds and value is None:
        return
    if set(kinds) <= {"str", "None"}:
        expected = None if isinstance(value, str) else "a text"
    elif set(kinds) <= {"int", "None"}:
        expected = None if isinstance(value, Integral) and not isinstance(value, bool) else "a whole number"
    elif set(kinds) <= {"str", "Path", "None"}:
        expected = None if isinstance(value, str | PathLike) else "a path"
    elif kinds == ["Sequence[str]"]:
        listed = isinstance(value, Iterable) and not isinstance(value, str)
        expected = None if listed else "a list of texts"
    elif kinds[0].startswith("Mapping[") and set(kinds[1:]) <= {"None"}:
        expected = None if isinstance(value, Mapping) else "a dict"
    elif "Sequence[" in annotation or "Iterable[" in annotation:
        expected = None if isinstance(value, Iterable) else "a collection"
    if expected is not None:
        raise InputError(f"{expected} was expected, not {quote(value)}{_converted(value, expected)}", option=Flag(name))


def _converted(value: object, expected: str) -> str:
    """The end of a message that names the value as the expected type, where that is plain."""
    if expected == "a text" and isinstance(value, Integral):
        return f"; did you mean {str(value)!r}?"
    if expected == "a whole number" and isinstance(value, str) and value.isdecimal():
        return f"; did you mean {int(value)}?"
    return (
        f"; did you mean [{value!r}]?" if expected == "a list of texts" and isinstance(value, str) and len(value) < 50 else ""
    )
