"""Flags as Python keywords: `--k1 1.2 --rerank klsa --klsa.dims 300` is `k1=1.2, rerank="klsa", klsa_dims=300`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelsearch.core.errors import Flag, OptionError, nearest, quote
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry

#: One method, several in their order, or methods with their options: "klsa", ["pert", "klsa"], {"klsa": {"dims": 300}}.
Rerank = str | Sequence[str] | Mapping[str, Mapping[str, Any]] | None
#: The name of each method with its options, in their order.
MethodOptions = list[tuple[str, dict[str, Any]]]


def split(rerank: Rerank, options: Mapping[str, Any]) -> tuple[MethodOptions, FirstStageSettings]:
    """Splits keyword options into those of the methods that `rerank` names and of the first stage.

    Returns the methods with their options, checked, and the settings of the first stage. Raises OptionError with the name of
    an unknown option, and for a method that is named twice.
    """
    methods = _methods(rerank)
    names = [name for name, _ in methods]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"rerank: {name} is named {names.count(name)} times; a method reranks once")
    known = {option.key for option in FirstStageSettings.options}
    first: dict[str, Any] = {}
    for name, value in options.items():
        if name in known:
            first[name] = value
            continue
        # The longest name: that of a method of another package may have an underscore, and begin like another one.
        owned = max(
            (entry for entry in methods if name.startswith(f"{entry[0]}_")), key=lambda entry: len(entry[0]), default=None
        )
        if owned is None:
            raise OptionError(_unknown_option(name, names))
        owned[1][name.removeprefix(f"{owned[0]}_")] = value
    checked = [(name, registry.method(name).settings.check(values)) for name, values in methods]
    return checked, FirstStageSettings.of(first)


def _methods(rerank: Rerank) -> MethodOptions:
    if rerank is None:
        return []
    if isinstance(rerank, str):
        return [(rerank, {})]
    if not isinstance(rerank, Sequence | Mapping) or not all(isinstance(name, str) for name in rerank):
        raise OptionError(
            f"the name of a method, a list of names, or {{name: options}} was expected, not {quote(rerank)}; methods: "
            f"{', '.join(registry.names())}",
            option=Flag("rerank"),
        )
    if isinstance(rerank, Mapping):
        for name, values in rerank.items():
            if not isinstance(values, Mapping):
                raise OptionError(f"options of {name} by name were expected, not {quote(values)}", option=Flag("rerank"))
        return [(name, dict(values)) for name, values in rerank.items()]
    return [(name, {}) for name in rerank]


def _unknown_option(name: str, methods: list[str]) -> str:
    for owner in sorted(registry.names(), key=len, reverse=True):
        if owner not in methods and name.startswith(f"{owner}_"):
            return f"{name}: has no effect without rerank={owner!r}"
    known = [option.key for option in FirstStageSettings.options]
    for method in methods:
        options = [option.key for option in registry.method(method).options]
        if name in options:
            return f"{name}: unknown option; the one of {method} is {method}_{name}"
        known += [f"{method}_{key}" for key in options]
    return f"{name}: unknown option{nearest(name.lower(), known) or '; known: ' + ', '.join(known)}"
