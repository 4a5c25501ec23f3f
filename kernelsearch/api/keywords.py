"""Flags as Python keywords: `--k1 1.2 --rerank klsa --klsa.dims 300` is `k1=1.2, rerank="klsa", klsa_dims=300`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelsearch import rerankers
from kernelsearch.api.pipeline import FIRST_STAGE
from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import resolve

#: One method, several in their order, or methods with their options: "klsa", ["pert", "klsa"], {"klsa": {"dims": 300}}.
Rerank = str | Sequence[str] | Mapping[str, Mapping[str, Any]] | None
Methods = list[tuple[str, dict[str, Any]]]


def split(rerank: Rerank, options: Mapping[str, Any]) -> tuple[Methods, dict[str, Any]]:
    """(methods with their options, the first stage's settings) of keywords. Unknown ones are refused by name."""
    methods = _methods(rerank)
    known = {option.key for option in FIRST_STAGE}
    first: dict[str, Any] = {}
    for name, value in options.items():
        if name in known:
            first[name] = value
            continue
        owner, _, rest = name.partition("_")
        chosen = [given for method, given in methods if method == owner]
        if not rest or not chosen:
            raise OptionError(_unknown(name, owner, [method for method, _ in methods]))
        for given in chosen:
            given[rest] = value
    checked = [(name, _checked(name, given)) for name, given in methods]
    return checked, resolve(FIRST_STAGE, first)


def _methods(rerank: Rerank) -> Methods:
    if rerank is None:
        return []
    if isinstance(rerank, str):
        return [(rerank, {})]
    if isinstance(rerank, Mapping):
        return [(name, dict(given)) for name, given in rerank.items()]
    return [(name, {}) for name in rerank]


def _checked(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, each with its checked value."""
    settings = resolve(rerankers.method(name).options, given, name)
    return {key.replace("-", "_"): settings[key.replace("-", "_")] for key in given}


def _unknown(name: str, owner: str, methods: list[str]) -> str:
    if owner in rerankers.names():
        return f"{name}: has no effect without rerank={owner!r}"
    known = [option.key for option in FIRST_STAGE]
    for method in methods:
        options = [option.key for option in rerankers.method(method).options]
        if name in options:
            return f"{name}: unknown option; the one of {method} is {method}_{name}"
        known += [f"{method}_{key}" for key in options]
    return f"{name}: unknown option; known: {', '.join(known)}"
