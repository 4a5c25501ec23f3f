"""How far long work is, reported through a callback: library code draws nothing itself."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Bar(Protocol):
    """Where one piece of work reports its steps."""

    def update(self, steps: int = 1, /) -> object:
        """Counts steps that are done."""

    def note(self, text: str, /) -> object:
        """Shows a short text beside the count."""


class Progress(Protocol):
    """Makes a bar for one piece of work; `total` is the number of steps where it is known."""

    def __call__(self, label: str, *, total: int | None = None, unit: str = "it") -> AbstractContextManager[Bar]: ...


class _SilentBar:
    def update(self, steps: int = 1, /) -> None:
        """Counts nothing."""

    def note(self, text: str, /) -> None:
        """Shows nothing."""


def silent(label: str, *, total: int | None = None, unit: str = "it") -> AbstractContextManager[Bar]:
    """The progress of those who don't want to see any, and the default everywhere."""
    return nullcontext(_SilentBar())
