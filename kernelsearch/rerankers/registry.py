"""The methods by name: a package per method in this folder, and those that other installed packages bring.

A package of one's own declares an entry point in the group `kernelsearch.rerankers`:

    [project.entry-points."kernelsearch.rerankers"]
    mine = "my_package:METHOD"

whose value is a `Method` or a sequence of them. Nothing else is needed: the method appears in `--rerank`, in the service, in
PyTerrier and in the recipes of fusion.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from kernelsearch import rerankers
from kernelsearch.core.errors import OptionError
from kernelsearch.rerankers.method import Method

GROUP = "kernelsearch.rerankers"

logger = logging.getLogger(__name__)


@cache
def methods() -> dict[str, Method]:
    """All methods by name: ours in alphabetical order of their packages, then those of other packages."""
    found = {method.name: method for method in _bundled()}
    for method, source in _plugins():
        if method.name in found:
            logger.warning("%s: the method %r exists already and is not replaced", source, method.name)
        else:
            found[method.name] = method
    return found


def names() -> list[str]:
    """The names of all methods."""
    return list(methods())


def method(name: str) -> Method:
    """A method by its name."""
    found = methods().get(name)
    if found is None:
        raise OptionError(f"--rerank: {name!r} is not one of {', '.join(methods())}")
    return found


def _bundled() -> Iterator[Method]:
    for module in pkgutil.iter_modules(rerankers.__path__):
        if module.ispkg:
            yield from import_module(f"{rerankers.__name__}.{module.name}").METHODS


def _plugins() -> Iterator[tuple[Method, str]]:
    for entry in entry_points(group=GROUP):
        source = f"plugin {entry.name} ({entry.value})"
        try:
            loaded = entry.load()
        except Exception as problem:  # somebody else's package must not stop ours from working
            logger.warning("%s: cannot be loaded (%s: %s)", source, type(problem).__name__, problem)
            continue
        for declared in [loaded] if isinstance(loaded, Method) else list(loaded):
            if isinstance(declared, Method):
                yield declared, source
            else:
                logger.warning("%s: a Method was expected, not %s", source, type(declared).__name__)
