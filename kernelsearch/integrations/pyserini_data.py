"""What the full pyserini can download: prebuilt indexes and topics, by their names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernelsearch.core.errors import InputError
from kernelsearch.core.installed import install_command
from kernelsearch.lucene import jvm


def download_prebuilt(name: str, verbose: bool = False) -> str:
    """The folder of Pyserini's prebuilt index `name`, which Pyserini downloads if necessary, with `verbose` messages.

    Raises InputError for a name that Pyserini doesn't have.
    """
    util = import_pyserini("pyserini.util")
    try:
        return str(util.download_prebuilt_index(name, verbose=verbose))
    except ValueError as problem:
        raise InputError(f"prebuilt index {name!r}: {problem}") from None


def pyserini_topics(name: str) -> dict[str | int, dict[str, str]] | None:
    """Pyserini's topics of a name, {qid: {field: text}}, downloaded if necessary; None for an unknown name."""
    search = import_pyserini("pyserini.search")
    import jnius

    try:
        return dict(search.get_topics(name))
    except ValueError:
        return None
    except jnius.JavaException as problem:
        raise InputError(f"topics {name!r}: {' '.join(str(problem.innermessage or problem).split())[:200]}") from None


def import_pyserini(module: str) -> Any:
    """Imports a module of Pyserini; raises InputError where its dependencies are missing."""
    jvm.start()  # before Pyserini starts Java with an option that a small runtime does not support
    try:
        return import_module(module)
    except ImportError as problem:
        raise InputError(f"{module} could not be imported ({problem}); {install_command('pyserini')}") from None
