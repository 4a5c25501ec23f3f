"""Engines: where work in parts is done. The interface, and the engine that works in this process.

Work comes in parts, cut the same way for every engine, and results are put together in the parts' order. What is computed does
therefore not depend on the engine, on how many workers there are, or on which of them did what.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Shared = TypeVar("Shared")


class Held(ABC):
    """Values that stay where they were made."""

    @abstractmethod
    def map(self, function: Callable[[Any, Any], Result], shared: Any, *, label: str) -> Iterator[Result]:
        """function(value, shared) of each value, in their order; only `shared` and the results travel."""

    @abstractmethod
    def sum(self, function: Callable[[Any, Any], Any], shared: Any, *, label: str) -> Any:
        """The sum over all values of function(value, shared), added up by the tree of `halves` and so always rounded alike."""


class Engine(ABC):
    """Does work in parts. Functions are module-level (or partials of such), so that they can be sent elsewhere by name."""

    name: str
    client: Any = None  #: Dask's own client, where there is one, for libraries that speak to Dask themselves

    @abstractmethod
    def map(self, function: Callable[[Item], Result], items: Sequence[Item], *, label: str) -> Iterator[Result]:
        """function(item) of each item, in their order, as they become ready."""

    @abstractmethod
    def map_shared(
        self, function: Callable[[Item, Shared], Result], items: Sequence[Item], shared: Shared, *, label: str
    ) -> Iterator[Result]:
        """function(item, shared) of each item, in their order, as they become ready.

        `shared` is sent to a worker once, however many items it gets; it must be picklable where workers are processes.
        """

    @abstractmethod
    def hold(self, function: Callable[[Item], Any], items: Sequence[Item], *, label: str) -> Held:
        """function(item) of each item, made where it will be used and kept there."""

    @abstractmethod
    def close(self) -> None:
        """Ends what the engine has started."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *rest: object) -> None:
        self.close()


class LocalEngine(Engine):
    """One part after the other, in this process."""

    name = "local"

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], *, label: str) -> Iterator[Result]:
        return map(function, items)

    def map_shared(
        self, function: Callable[[Item, Shared], Result], items: Sequence[Item], shared: Shared, *, label: str
    ) -> Iterator[Result]:
        return (function(item, shared) for item in items)

    def hold(self, function: Callable[[Item], Any], items: Sequence[Item], *, label: str) -> Held:
        return _HeldHere([function(item) for item in items])

    def close(self) -> None:
        """There is nothing to end."""


class _HeldHere(Held):
    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def map(self, function: Callable[[Any, Any], Result], shared: Any, *, label: str) -> Iterator[Result]:
        return (function(value, shared) for value in self._values)

    def sum(self, function: Callable[[Any, Any], Any], shared: Any, *, label: str) -> Any:
        def total(values: list[Any]) -> Any:
            if len(values) == 1:
                return function(values[0], shared)
            first, second = halves(values)
            return total(first) + total(second)

        return total(self._values)


def halves(values: list[Any]) -> tuple[list[Any], list[Any]]:
    """Both halves of a list, the first one the larger where they differ."""
    middle = (len(values) + 1) // 2
    return values[:middle], values[middle:]
