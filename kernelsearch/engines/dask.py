"""The engine on a Dask cluster: an existing one by its address, or worker processes on this machine."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from kernelsearch.core.errors import InputError, KernelSearchError, OptionError
from kernelsearch.core.execution import Engine, Held, Item, Result, Shared, halves

#: Seconds to wait for a scheduler to answer, and for its first worker.
ANSWER, FIRST_WORKER = 10.0, 60.0
#: How many workers may die over a task before it is given up: the task itself is then the likely cause.
DEATHS = 3
#: Tasks a worker thread that are in the scheduler's hands at a time, so that topics of any number fit in its memory.
AHEAD = 4

logger = logging.getLogger(__name__)


class DaskEngine(Engine):
    """Tasks on Dask workers. A task whose worker dies is run again elsewhere; so is what the worker held."""

    name = "dask"

    def __init__(self, scheduler: str | None = None, workers: int | None = None) -> None:
        try:
            import dask
            import distributed
        except ImportError:
            raise OptionError("--engine dask: needs Dask; install it with: pip install 'kernelsearch[dask]'") from None
        _be_quiet()
        # Matrices that are sent to all workers travel with the task; Dask would warn of each.
        dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})
        self._distributed = distributed
        self._cluster: Any = None
        self._number = 0
        if scheduler is None:
            # Processes, one thread each: Java and BLAS use one core a task, and a worker that dies takes one task along.
            # Dask's own memory limit counts mapped files, which are not the worker's, and would end it for them.
            self._cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            )
        try:
            self.client = distributed.Client(self._cluster or scheduler, timeout=ANSWER, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as problem:
            if self._cluster is not None:
                self._cluster.close()
            raise InputError(f"--scheduler: {scheduler}: no Dask scheduler answers there ({_reason(problem)})") from None
        self._wait_for_a_worker(scheduler)
        logger.info("dask: %d workers, dashboard at %s", len(self.workers()), self.client.dashboard_link)

    def _wait_for_a_worker(self, scheduler: str | None) -> None:
        try:
            self.client.wait_for_workers(1, timeout=FIRST_WORKER)
        except TimeoutError:
            self.close()
            raise InputError(
                f"--scheduler: {scheduler or 'local cluster'}: no worker has come in {FIRST_WORKER:.0f} s"
            ) from None

    def workers(self) -> dict[str, Any]:
        """What the scheduler knows of its workers, by address."""
        return self.client.scheduler_info(n_workers=-1)["workers"]

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], *, label: str) -> Iterator[Result]:
        """As the base class says; a few tasks a worker are under way at a time, and the rest wait here."""
        call, waiting = self._next(), deque(enumerate(items))
        running: deque[Any] = deque()
        ahead = AHEAD * max(1, sum(one["nthreads"] for one in self.workers().values()))
        try:
            while waiting or running:
                while waiting and len(running) < ahead:
                    place, item = waiting.popleft()
                    running.append(self._submit(function, item, key=f"{label}-{call}-{place}"))
                future = running.popleft()
                yield self._result(future, label)
                future.release()
        finally:
            self.client.cancel(list(running))

    def map_shared(
        self, function: Callable[[Item, Shared], Result], items: Sequence[Item], shared: Shared, *, label: str
    ) -> Iterator[Result]:
        """As the base class says: Dask's workers keep `shared` as the result of a task, which each fetches once."""
        sent = self._send(shared, label)
        yield from self.map(partial(_call, function), [(item, sent) for item in items], label=label)

    def _send(self, shared: Any, label: str) -> Any:
        """`shared` as a task's result, each element on its own where it is a tuple.

        Dask's scatter is quicker, but what it sent is lost with the workers that have it; a task is run again.
        """
        if isinstance(shared, tuple):
            return tuple(self._send(part, label) for part in shared)
        return self._submit(_same, shared, key=f"send-{label}-{self._next()}")

    def hold(self, function: Callable[[Item], Any], items: Sequence[Item], *, label: str) -> Held:
        call = self._next()
        return _HeldThere(self, [self._submit(function, item, key=f"{label}-{call}-{n}") for n, item in enumerate(items)])

    def close(self) -> None:
        if self.client is not None:
            self.client.close()
        if self._cluster is not None:
            self._cluster.close()

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _submit(self, function: Callable[..., Any], *arguments: Any, key: str) -> Any:
        # The key's text before the numbers is what the dashboard shows; the client's id keeps several drivers apart.
        return self.client.submit(function, *arguments, key=f"{key}-{self.client.id[-8:]}", pure=False, retries=0)

    def _result(self, future: Any, label: str) -> Any:
        try:
            return future.result()
        except KernelSearchError:
            raise
        except self._distributed.KilledWorker:
            raise InputError(f"--engine dask: task {label}: {DEATHS + 1} workers have died over it (out of memory?)") from None


class _HeldThere(Held):
    """Futures: Dask makes a value again, elsewhere, when the worker that holds it dies."""

    def __init__(self, engine: DaskEngine, values: list[Any]) -> None:
        self._engine, self._values = engine, values

    def map(self, function: Callable[[Any, Any], Result], shared: Any, *, label: str) -> Iterator[Result]:
        yield from self._engine.map_shared(function, self._values, shared, label=label)

    def sum(self, function: Callable[[Any, Any], Any], shared: Any, *, label: str) -> Any:
        sent, call = self._engine._send(shared, label), self._engine._next()
        return self._engine._result(self._total(function, sent, self._values, f"{label}-{call}", [0]), label)

    def _total(self, function: Callable[..., Any], sent: Any, values: list[Any], label: str, count: list[int]) -> Any:
        """A future of the sum; partial sums are added where they are."""
        count[0] += 1
        key = f"{label}-{count[0]}"
        if len(values) == 1:
            return self._engine._submit(function, values[0], sent, key=key)
        parts = [self._total(function, sent, half, label, count) for half in halves(values)]
        return self._engine._submit(add, *parts, key=f"add-{key}")


def _same(value: Any) -> Any:
    return value


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(*arguments)


def add(one: Any, other: Any) -> Any:
    """The sum of two partial results."""
    return one + other


def _be_quiet() -> None:
    """Dask reports every lost connection on stderr; a worker's death is survived, and said once by the scheduler's page."""
    for name in ("distributed", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _reason(problem: BaseException) -> str:
    return str(problem).split(" after ")[0] or type(problem).__name__
