"""Kinds of fitted files: how they are checked, which command makes them again, and how they are updated when documents change.

A method names its kinds in its declaration (`Method.artefacts`). `kernelsearch.check`, `index --append` and `index --force`
work from these declarations, so they know the artefacts of every installed method.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsearch.core.artefacts import Validate
from kernelsearch.core.progress import Progress
from kernelsearch.rerankers.base import OpenedIndex


@dataclass(frozen=True)
class DocumentChange:
    """Documents of an index were added, replaced or deleted, and a saved artefact has to follow.

    Attributes: `folder`, the artefact of the index `old`; `target`, the folder to save it in for its successor `new`; `added`,
    the docids that are new or have a new text; `progress`, which long steps report to.
    """

    folder: Path
    target: Path
    old: OpenedIndex
    new: OpenedIndex
    added: Collection[str]
    progress: Progress


def _never(meta: Mapping[str, Any]) -> bool:
    return False


@dataclass(frozen=True)
class ArtefactKind:
    """A kind of artefact.

    Parameters
    ----------
    name : the kind, as `kernelsearch.core.artefacts.save` writes it
    version : the version of its format
    command : the verb and flags that make it, with {flags} for those of the index and {name} for the name of its folder
    place : a pattern for the name of its folder, or of the folder around it, which tells the kind where `meta.json` is damaged
    validate : checks its content, as in `kernelsearch.core.artefacts.load`
    derived : whether it is made again on its next use where it is missing
    follow : saves it for changed documents; returns what a user should know, or an empty string, and raises KernelSearchError
        where it can't. None: it is dropped
    learned : says, from its `meta.json`, whether it was learned from judgements or clicks, which the index doesn't hold
    """

    name: str
    version: int
    command: str
    place: str
    validate: Validate | None = None
    derived: bool = False
    follow: Callable[[DocumentChange], str] | None = None
    learned: Callable[[Mapping[str, Any]], bool] = _never
