"""Engines: where tasks are executed. The interface, and the engine that executes them in this process.

Work is split into the same tasks for every engine, and results are combined in the order of the tasks. Results therefore don't
depend on the engine, the number of workers, or the worker that executed a task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Shared = TypeVar("Shared")


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """Returns function(item) for every one of `items`, in order, computed by `threads` threads of this process.

    For functions that spend their time in compiled loops, which release the GIL. The results don't depend on `threads`.
    """
    if min(threads, len(items)) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="kernelsearch") as pool:
        return list(pool.map(function, items))


class Held(ABC):
    """Values that stay in the process that computed them."""

    @abstractmethod
    def map(self, function: Callable[[Any, Any], Result], shared: Any, *, label: str) -> Iterator[Result]:
        """Returns function(value, shared) for every value, in order; only `shared` and the results are transferred.

        `label` names the work for progress.
        """

    @abstractmethod
    def sum(self, function: Callable[[Any, Any], Any], shared: Any, *, label: str) -> Any:
        """Returns the sum of function(value, shared) over all values.

        Terms are added in a fixed tree (see `halves`), so that rounding doesn't depend on the engine. `label` as in `map`.
        """


class Engine(ABC):
    """Executes tasks. Functions are module-level (or partials of such), so that they can be pickled by name."""

    name: str
    client: Any = None  #: Dask's client, where there is one, for libraries with Dask support of their own
    processes: int = 1  #: processes of this machine that share its cores: how many tasks of `map_shared` it executes at a time

    @abstractmethod
    def map(self, function: Callable[[Item], Result], items: Sequence[Item], *, label: str) -> Iterator[Result]:
        """Yields function(item) for each of `items`, in order, as results become ready; `label` names the work for progress."""

    @abstractmethod
    def map_shared(
        self,
        function: Callable[[Item, Shared], Result],
        items: Sequence[Item],
        shared: Shared,
        *,
        label: str,
    ) -> Iterator[Result]:
        """Yields function(item, shared) for every one of `items`, in order, as results become ready.

        `label` is that of `map`. `shared` is sent to each worker once; it must be picklable where workers are processes.
        """

    @abstractmethod
    def hold(self, function: Callable[[Item], Any], items: Sequence[Item], *, label: str) -> Held:
        """Computes function(item) for each of `items` and leaves the values where they were computed; `label` as in `map`."""

    @abstractmethod
    def close(self) -> None:
        """Stops what the engine has started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *rest: object) -> None:
        self.close()


class LocalEngine(Engine):
    """Executes tasks one after the other, in this process."""

    name = "local"

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], *, label: str) -> Iterator[Result]:
        return map(function, items)

    def map_shared(
        self,
        function: Callable[[Item, Shared], Result],
        items: Sequence[Item],
        shared: Shared,
        *,
        label: str,
    ) -> Iterator[Result]:
        return (function(item, shared) for item in items)

    def hold(self, function: Callable[[Item], Any], items: Sequence[Item], *, label: str) -> Held:
        return _LocalHeld([function(item) for item in items])

    def close(self) -> None:
        """Does nothing: there is nothing to stop."""


class _LocalHeld(Held):
    """Values in a list."""

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
    """Returns both halves of `values`; the first is one longer where the length is odd."""
    middle = (len(values) + 1) // 2
    return values[:middle], values[middle:]
