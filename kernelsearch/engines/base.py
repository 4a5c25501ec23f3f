"""The interface that both engines have, and the one that works in this process.

Work comes in parts, cut the same way for every engine, and results are put together in the parts' order. What is computed does
therefore not depend on the engine, on how many workers there are, or on which of them did what.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Option

Item = TypeVar("Item")
Result = TypeVar("Result")

OPTIONS = (
    Option("engine", str, "local", "where the work is done", choices=("local", "dask")),
    Option("scheduler", str, None, "address of a Dask scheduler, such as tcp://HOST:8786; default: a cluster on this machine"),
    Option("workers", int, None, "worker processes of the cluster on this machine; default: one a core", low=1),
)

_opened: dict[Hashable, Any] = {}


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


def make_engine(settings: Mapping[str, Any]) -> Engine:
    """The engine that the options ask for."""
    if settings["engine"] == "local":
        for name in ("scheduler", "workers"):
            if settings[name] is not None:
                raise OptionError(f"--{name}: has no effect without --engine dask")
        return LocalEngine()
    from kernelsearch.engines.dask import DaskEngine

    if settings["scheduler"] is not None and settings["workers"] is not None:
        raise OptionError("--workers: a cluster that runs already (--scheduler) has its own")
    return DaskEngine(settings["scheduler"], settings["workers"])


def keep_open(key: Hashable, opened: Any) -> None:
    """What tasks of this process find under the key from now on, whatever an earlier command of the process left there."""
    _opened[key] = opened


def opened_once(key: Hashable, make: Callable[[], Any]) -> Any:
    """What `make` gives, once a process and key: a worker opens its indexes once, however many tasks it does."""
    if key not in _opened:
        _opened[key] = make()
    return _opened[key]
