"""Kernel methods against vocabulary mismatch, as rerankers behind Lucene's BM25.

>>> import kernelsearch
>>> index = kernelsearch.open("indexes/cacm")  # doctest: +SKIP

Versions follow semantic versioning. Public are the names in `kernelsearch.__all__` and `kernelsearch.api.__all__`, the classes
of `kernelsearch.integrations` that docs/api.md lists, and the commands with their flags and config files. While the version is
0.x, a minor release may change them, with a note in CHANGELOG.md; a patch release does not. All other modules and names may
change in any release.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelsearch.core.errors import KernelSearchError
from kernelsearch.core.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from kernelsearch.api.index import Index
    from kernelsearch.evaluate import evaluate
    from kernelsearch.lucene.shards import Source
    from kernelsearch.tune import tune

# The threads of OpenBLAS, which numpy loads, spin for a tenth of a second before they sleep, when they start and after each
# product: a quarter of the CPU time of a short command. 2^20 clock cycles, less than a millisecond, are enough to stay awake
# between the products of a loop.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

__all__ = ["Index", "KernelSearchError", "__version__", "build", "evaluate", "open", "tune"]


def open(path: Source, *, language: str | None = None, vectors: str | Mapping[str, Any] | None = None) -> Index:
    """Opens an index for searching and reranking.

    `path` is the folder of an index, a folder of shards, or a list of indexes; several indexes are searched as one collection.
    `language` chooses the analyser of queries, by default the one that the index was built with. `vectors` are those of methods
    that name none: a name, or options by name as `Index` takes them. Java starts with the first search. Raises IndexProblem
    where there is no index.
    """
    from kernelsearch.api.arguments import checked
    from kernelsearch.api.index import Index

    return checked(Index)(path, language=language, vectors=vectors)


def build(path: str | Path, documents: Iterable[Mapping[str, Any]] | Any, *, join_titles: bool = True, **options: Any) -> Index:
    """Builds an index from dicts, or from a pandas DataFrame, and opens it.

    A document has `id`, `contents` and perhaps `title` and other fields. With `join_titles` the title is searched, too. Options
    are those of `kernelsearch.index` (`force=True`, `fields=("title", "url")`, `language="pt"`, `shards=4`). Raises InputError
    for documents without id or text, and where `path` exists and `force` is not set.
    """
    from kernelsearch.api.python_documents import build as build_from_documents

    return build_from_documents(path, documents, join_titles=join_titles, **options)


def __getattr__(name: str) -> object:
    # Imported on first use, so that `import kernelsearch` stays quick.
    if name == "Index":
        from kernelsearch.api.index import Index

        return Index
    if name in ("evaluate", "tune"):  # modules of verbs that can be called
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'kernelsearch' has no attribute {name!r}")
