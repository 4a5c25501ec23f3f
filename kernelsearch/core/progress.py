"""Progress of long work, reported through a callback: library code prints nothing itself."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Bar(Protocol):
    """Receives the progress of one task."""

    def update(self, steps: int = 1, /) -> object:
        """Adds completed steps."""

    def note(self, text: str, /) -> object:
        """Shows a short text beside the count."""


class Progress(Protocol):
    """Makes a progress bar for one task; `total` is the number of steps where it is known, `unit` what a step is."""

    def __call__(self, label: str, *, total: int | None = None, unit: str = "it") -> AbstractContextManager[Bar]: ...


class _SilentBar:
    def update(self, steps: int = 1, /) -> None:
        """Does nothing."""

    def note(self, text: str, /) -> None:
        """Does nothing."""


def silent(label: str, *, total: int | None = None, unit: str = "it") -> AbstractContextManager[Bar]:
    """A `Progress` that shows nothing: the default everywhere. The parameters are those of `Progress`."""
    return nullcontext(_SilentBar())
