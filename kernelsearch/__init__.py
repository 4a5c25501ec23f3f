"""Kernel methods that repair vocabulary mismatch behind BM25, on top of Lucene.

>>> import kernelsearch
>>> index = kernelsearch.open("indexes/cacm")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelsearch.core.errors import KernelSearchError
from kernelsearch.core.version import __version__

if TYPE_CHECKING:
    from kernelsearch.api.index import Index
    from kernelsearch.lucene.shards import Source

__all__ = ["Index", "KernelSearchError", "__version__", "open"]


def open(path: Source, *, language: str | None = None) -> Index:
    """Opens an index for searching and reranking; a folder of shards, or several indexes, count as one collection.

    Java starts with the first search, not here.
    """
    from kernelsearch.api.index import Index

    return Index(path, language=language)


def __getattr__(name: str) -> Any:
    # Resolved on first use: importing kernelsearch must stay quick.
    if name == "Index":
        from kernelsearch.api.index import Index

        return Index
    raise AttributeError(f"module 'kernelsearch' has no attribute {name!r}")
