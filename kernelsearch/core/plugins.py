"""Plugins, the entry points of other distributions: their errors under their name, and the interface that they must have."""

from __future__ import annotations

import inspect
import traceback
from importlib.metadata import EntryPoint
from typing import Any

from kernelsearch.core.errors import KernelSearchError

#: {top-level module: (names of plugins, their distribution)} of the entry points that were read.
_sources: dict[str, tuple[list[str], str]] = {}


class PluginError(KernelSearchError):
    """A mistake in the code of the plugin `source`, which the `reason` describes."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, reason)
        self.source = source
        self.reason = reason

    def _reason(self, *_: Any) -> str:
        return f"{self.source}: {self.reason}"


def register(entry: EntryPoint) -> str:
    """Makes errors in the module of `entry` known as the plugin's; returns the plugin's name, with that of its distribution.

    The entry points of kernelsearch itself are no plugins.
    """
    origin = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    package = entry.module.partition(".")[0]
    if package != __name__.partition(".")[0]:
        names, _ = _sources.setdefault(package, ([], origin))
        if entry.name not in names:
            names.append(entry.name)
    return f"plugin {entry.name}{origin} ({entry.value})"


def source_of(module: str) -> str | None:
    """The plugin, or the plugins, that `module` belongs to, with the distribution; None for a module that is no plugin's."""
    if (found := _sources.get(module.partition(".")[0])) is None:
        return None
    names, origin = found
    return f"plugin {', '.join(names)}{origin}"


def plugin_error(problem: BaseException) -> PluginError | None:
    """The exception `problem` as the error of the plugin whose code is innermost in its traceback; None where there is none."""
    for frame, line in reversed(list(traceback.walk_tb(problem.__traceback__))):
        source = source_of(frame.f_globals.get("__name__", ""))
        if source is not None:
            place = f"{frame.f_code.co_filename}, line {line}"
            return PluginError(source, f"{type(problem).__name__}: {problem} ({place}); report it to its authors")
    return None


def check_methods(kind: type, base: type, source: str) -> None:
    """Raises PluginError for a class of a plugin with a method that can't be called as that of its `base` class is.

    `source` names the plugin in the message; so does it for abstract methods that `kind` lacks.
    """
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        wanted = inspect.signature(getattr(base, missing[0]))
        raise PluginError(source, f"{kind.__name__} has no method {missing[0]}{_parameters(wanted)}")
    for name, declared in vars(base).items():
        own = getattr(kind, name)
        if not inspect.isfunction(declared) or not inspect.isfunction(own) or own is declared or name.startswith("_"):
            continue
        signature = inspect.signature(declared)
        try:
            inspect.signature(own).bind(*signature.parameters)
        except TypeError:
            found = f"{name}{_parameters(inspect.signature(own))}"
            raise PluginError(source, f"{kind.__name__}.{found} must take {_parameters(signature)}") from None


def _parameters(signature: inspect.Signature) -> str:
    """The names of a method's parameters, in parentheses."""
    return f"({', '.join(list(signature.parameters)[1:])})"


def accepted(factory: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Those of the `parameters` that the function or class `factory` takes by name."""
    declared = inspect.signature(factory).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in declared.values()):
        return parameters
    return {name: value for name, value in parameters.items() if name in declared}
