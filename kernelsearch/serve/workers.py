"""A pool of threads for blocking work in Java and numpy, with a bounded queue and a time limit per request."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from kernelsearch.lucene import jvm

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")

#: Maximum number of requests per call: each of them waits for all. The larger one is for quick calls.
MAX_BATCH, MAX_QUICK_BATCH = 8, 32
#: CPU seconds per request below which a shared call is quick: most of them are Python's, which one thread executes at a time.
#: With 32 clients, one thread with larger calls then answered 1.2 times as many requests as two (docs/speed.md, Service).
QUICK = 0.0005
#: The job that the present thread runs by itself, as `job`.
_present = threading.local()


class Overloaded(Exception):
    """The queue is full; answered with 503."""


class TimedOut(Exception):
    """A request took longer than its time limit; answered with 504."""


class CallOutcome(NamedTuple):
    """What a call returned, or the exception that it raised."""

    result: Any = None
    problem: Exception | None = None


@dataclass(slots=True)
class Job(Generic[T]):
    """A call to make in a thread, and the future of its result.

    `shared` is None for `function(*item)`; otherwise the call is `function(shared, items)`, with the items of several jobs.
    `dropped` is set when nobody waits for the result any more.
    """

    function: Callable[..., Any]
    item: Any
    shared: Hashable | None
    future: asyncio.Future[T]
    dropped: bool = False

    def can_join(self, other: Job[Any]) -> bool:
        """Whether one call can answer this job and `other`."""
        return self.shared is not None and self.function is other.function and self.shared == other.shared


class Workers:
    """Runs blocking functions in threads, which stay attached to Java: attaching takes as long as a short search.

    A request that timed out counts as load until its thread has finished, because a running call cannot be stopped; one that
    consists of many steps asks `stop_if_dropped` between them.
    Everything but `_work` and what it calls runs in the server's event loop.

    Parameters
    ----------
    threads : number of threads
    waiting : maximum number of requests that wait for a thread
    seconds : time limit of a request
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self.threads, self.waiting, self.seconds = threads, waiting, seconds
        self.busy = 0  #: requests that run or wait
        self._free = threads
        self._sharing = 0  # threads that run a shared call
        self._cost = math.inf  # CPU seconds per request of the last shared call
        self._waiting: deque[Job[Any]] = deque()
        self._batches: SimpleQueue[list[Job[Any]] | None] = SimpleQueue()
        self._running = [threading.Thread(target=self._work, name=f"worker {n}", daemon=True) for n in range(threads)]
        for thread in self._running:
            thread.start()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Returns `function(*args)`; raises Overloaded, TimedOut, or what the function raises."""
        return await self._await(Job(function, args, None, asyncio.get_running_loop().create_future()))

    async def run_together(self, function: Callable[[S, list[Any]], Sequence[T]], shared: S, item: Any) -> T:
        """As `run`, for `function(shared, items)`, which returns one result per item.

        Requests with the same function and `shared` that wait at the same time are answered by one call, so that the cost per
        call (two context switches, a call into Java) is paid once. Where the call fails, each item is tried alone. As long as
        such calls are quick, one thread makes them.
        """
        return await self._await(Job(function, item, shared, asyncio.get_running_loop().create_future()))

    async def _await(self, job: Job[T]) -> T:
        if self.busy >= self.threads + self.waiting:
            raise Overloaded
        loop = asyncio.get_running_loop()
        self.busy += 1
        self._waiting.append(job)
        loop.call_soon(self._dispatch)  # after all requests that arrived together with this one
        timer = loop.call_later(self.seconds, _time_out, job.future)
        try:
            return await job.future
        finally:
            timer.cancel()
            job.dropped = True  # a thread that has not started it need not

    def _dispatch(self) -> None:
        """Gives waiting jobs to free threads, in batches."""
        while self._free and (jobs := self._take()):
            self._free -= 1
            self._sharing += jobs[0].shared is not None
            self._batches.put(jobs)

    def _take(self) -> list[Job[Any]]:
        """The next jobs for a thread, which one call answers; none where nothing waits but what the next quick call answers."""
        waiting, quick = self._waiting, self._cost < QUICK
        if quick and self._sharing and waiting and waiting[0].shared is not None:
            place = next((number for number, job in enumerate(waiting) if job.shared is None), None)
            if place is None:
                return []
            job = waiting[place]
            del waiting[place]
            return [job]
        most = MAX_QUICK_BATCH if quick else min(MAX_BATCH, -(-len(waiting) // self._free))  # an equal share per free thread
        jobs: list[Job[Any]] = []
        while waiting and len(jobs) < most and (not jobs or waiting[0].can_join(jobs[0])):
            jobs.append(waiting.popleft())
        return jobs

    def _finish(self, jobs: list[Job[Any]], outcomes: list[CallOutcome], cpu: float) -> None:
        """Passes the outcomes on; the call took `cpu` seconds of CPU time."""
        self.busy -= len(jobs)
        self._free += 1
        if jobs[0].shared is not None:
            self._sharing -= 1
            self._cost = cpu / len(jobs)
        for job, (result, problem) in zip(jobs, outcomes, strict=True):
            if job.future.done():  # timed out
                continue
            if problem is not None:
                job.future.set_exception(problem)
            else:
                job.future.set_result(result)
        self._dispatch()

    def _work(self) -> None:
        with jvm.stay_attached():
            while self._run_batch():
                pass

    def _run_batch(self) -> bool:
        """Waits for jobs and runs them; returns False at the end.

        A thread that waits for its next jobs keeps none: they refer to the state of an index that may have been replaced.
        """
        jobs = self._batches.get()
        if jobs is None:
            return False
        begun = time.thread_time()
        outcomes = _outcomes(jobs)
        cpu = time.thread_time() - begun
        loop = jobs[0].future.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._finish, jobs, outcomes, cpu)
        return True

    def close(self) -> None:
        """Waits for running calls and ends the threads."""
        for _ in self._running:
            self._batches.put(None)
        for thread in self._running:
            thread.join()


def _outcomes(jobs: list[Job[Any]]) -> list[CallOutcome]:
    """The outcome of each job; an empty one for a dropped job."""
    wanted = [job for job in jobs if not job.dropped]
    by_job = dict(zip(map(id, wanted), _run_together(wanted), strict=True))
    return [by_job.get(id(job), CallOutcome()) for job in jobs]


def _run_together(jobs: list[Job[Any]]) -> list[CallOutcome]:
    if len(jobs) > 1:
        try:
            return [CallOutcome(result) for result in jobs[0].function(jobs[0].shared, [job.item for job in jobs])]
        except Exception:  # it may come from one item: the calls below raise it again for that item only
            pass
    return [_run_alone(job) for job in jobs]


def _run_alone(job: Job[Any]) -> CallOutcome:
    _present.job = job
    try:
        if job.shared is None:
            return CallOutcome(job.function(*job.item))
        return CallOutcome(job.function(job.shared, [job.item])[0])
    except Exception as problem:
        return CallOutcome(problem=problem)
    finally:
        del _present.job


def stop_if_dropped() -> None:
    """Raises TimedOut in a worker thread whose request has timed out: nobody waits for the result."""
    job: Job[Any] | None = getattr(_present, "job", None)
    if job is not None and job.dropped:
        raise TimedOut


def _time_out(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(TimedOut())
