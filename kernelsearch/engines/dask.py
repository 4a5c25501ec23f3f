"""The engine on a Dask cluster: an existing one by its address, or worker processes on this machine."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from kernelsearch.core.errors import Flag, InputError, KernelSearchError, OptionError
from kernelsearch.core.execution import Engine, Held, Item, Result, Shared, halves
from kernelsearch.core.installed import install_command

#: Seconds to wait for a scheduler to answer, and for its first worker.
ANSWER, FIRST_WORKER = 10.0, 60.0
#: Number of workers that may die during a task before it is given up: Dask's own default (allowed-failures).
DEATHS = 3
#: Tasks per worker thread that are submitted at a time, so that the scheduler's memory doesn't limit the number of topics.
AHEAD = 4

#: The address that a cluster of this machine listens on.
LOOPBACK = "127.0.0.1"

logger = logging.getLogger(__name__)


class DaskEngine(Engine):
    """Runs tasks on Dask workers. If a worker dies, its tasks, and the tasks whose results it held, run again on another one.

    `scheduler` is the address of a running scheduler. Without it, a cluster of `workers` processes (default: one per core) is
    started on this machine. Raises InputError where no scheduler answers, OptionError where Dask is not installed.
    """

    name = "dask"

    def __init__(self, scheduler: str | None = None, workers: int | None = None) -> None:
        try:
            import dask
            import distributed
        except ImportError:
            raise OptionError(
                f"needs Dask; install it with: {install_command('dask')}", option=Flag("engine", value="dask")
            ) from None
        _silence_loggers()
        # Matrices for all workers are sent with a task, and Dask would warn about each.
        dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})
        self._distributed: Any = distributed  # a package without type annotations
        self._cluster: Any = None
        self._number = 0
        if scheduler is None:
            # Processes with one thread each: Java and BLAS use one core per task, and a worker that dies loses one task.
            # Dask's memory limit counts mapped files, and would end a worker for memory that it doesn't own.
            self._cluster = self._distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                # Both to loopback: whoever reaches the scheduler can run code, and the dashboard shows what is computed.
                host=LOOPBACK,
                dashboard_address=f"{LOOPBACK}:0",
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            )
        try:
            self.client = self._distributed.Client(self._cluster or scheduler, timeout=ANSWER, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as problem:
            if self._cluster is not None:
                self._cluster.close()
            raise InputError(
                f"{scheduler}: no Dask scheduler answers there ({_reason(problem)})", option=Flag("engine")
            ) from None
        self._wait_for_a_worker(scheduler)
        logger.info("dask: %d workers, dashboard at %s", len(self.workers()), self.client.dashboard_link)

    def _wait_for_a_worker(self, scheduler: str | None) -> None:
        try:
            self.client.wait_for_workers(1, timeout=FIRST_WORKER)
        except TimeoutError:
            self.close()
            raise InputError(
                f"{scheduler or 'local cluster'}: no worker has connected in {FIRST_WORKER:.0f} s", option=Flag("engine")
            ) from None

    def workers(self) -> dict[str, Any]:
        """The scheduler's records of its workers, by address."""
        records: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        return records

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], *, label: str) -> Iterator[Result]:
        """See `Engine.map`. AHEAD tasks per worker thread are submitted at a time."""
        call, waiting = self._next(), deque(enumerate(items))
        running: deque[Any] = deque()
        ahead = AHEAD * max(1, sum(worker["nthreads"] for worker in self.workers().values()))
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
        self,
        function: Callable[[Item, Shared], Result],
        items: Sequence[Item],
        shared: Shared,
        *,
        label: str,
    ) -> Iterator[Result]:
        """See `Engine.map_shared`. `shared` is the result of a task, which each worker fetches once."""
        shared_future = self._send(shared, label)
        yield from self.map(partial(_call, function), [(item, shared_future) for item in items], label=label)

    def _send(self, shared: Any, label: str) -> Any:
        """A future of `shared`; a tuple of futures where it is a tuple.

        Dask's `scatter` is faster, but scattered data is lost with the workers that hold it, while a task is run again.
        """
        if isinstance(shared, tuple):
            return tuple(self._send(part, label) for part in shared)
        return self._submit(_identity, shared, key=f"send-{label}-{self._next()}")

    def hold(self, function: Callable[[Item], Any], items: Sequence[Item], *, label: str) -> Held:
        """See `Engine.hold`. The values are futures, which stay on their workers."""
        call = self._next()
        return _HeldByWorkers(self, [self._submit(function, item, key=f"{label}-{call}-{n}") for n, item in enumerate(items)])

    def close(self) -> None:
        """Disconnects, and ends the cluster if it was started here."""
        if self.client is not None:
            self.client.close()
        if self._cluster is not None:
            self._cluster.close()

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _submit(self, function: Callable[..., Any], *arguments: Any, key: str) -> Any:
        # The dashboard shows the text of a key before its numbers; the id of the client distinguishes several drivers.
        return self.client.submit(function, *arguments, key=f"{key}-{self.client.id[-8:]}", pure=False, retries=0)

    def _result(self, future: Any, label: str) -> Any:
        try:
            return future.result()
        except KernelSearchError:
            raise
        except self._distributed.KilledWorker:
            raise InputError(
                f"task {label}: {DEATHS + 1} workers died during it (out of memory?)", option=Flag("engine", value="dask")
            ) from None


class _HeldByWorkers(Held):
    """Futures: when the worker that holds a value dies, Dask computes the value again on another one."""

    def __init__(self, engine: DaskEngine, values: list[Any]) -> None:
        self._engine, self._values = engine, values

    def map(self, function: Callable[[Any, Any], Result], shared: Any, *, label: str) -> Iterator[Result]:
        yield from self._engine.map_shared(function, self._values, shared, label=label)

    def sum(self, function: Callable[[Any, Any], Any], shared: Any, *, label: str) -> Any:
        shared_future, call = self._engine._send(shared, label), self._engine._next()
        return self._engine._result(self._total(function, shared_future, self._values, f"{label}-{call}", [0]), label)

    def _total(self, function: Callable[..., Any], shared_future: Any, values: list[Any], label: str, count: list[int]) -> Any:
        """A future of the sum; partial sums are added on the workers."""
        count[0] += 1
        key = f"{label}-{count[0]}"
        if len(values) == 1:
            return self._engine._submit(function, values[0], shared_future, key=key)
        parts = [self._total(function, shared_future, half, label, count) for half in halves(values)]
        return self._engine._submit(add, *parts, key=f"add-{key}")


def _identity(value: Any) -> Any:
    return value


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(*arguments)


def add(left: Any, right: Any) -> Any:
    """The sum of two partial results, `left` and `right`."""
    return left + right


def _silence_loggers() -> None:
    """Dask logs every lost connection to stderr, although the loss of a worker is handled; the dashboard shows it as well."""
    for name in ("distributed", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _reason(problem: BaseException) -> str:
    return str(problem).split(" after ")[0] or type(problem).__name__
