"""A pool of threads for blocking work in Java and numpy, with a bounded queue and a time limit per request."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from kernelsearch.lucene import jvm

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")

#: Maximum number of requests per call: each of them waits for all.
MAX_BATCH = 8
#: The job that the present thread runs by itself, as `job`.
_present = threading.local()


class Overloaded(Exception):
    """The queue is full; answered with 503."""


class TimedOut(Exception):
    """A request took longer than its time limit; answered with 504."""


class Outcome(NamedTuple):
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
        call (two context switches, a call into Java) is paid once. Where the call fails, each item is tried alone.
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
        while self._free and self._waiting:
            most = min(MAX_BATCH, -(-len(self._waiting) // self._free))  # an equal share for each free thread
            jobs = [self._waiting.popleft()]
            while self._waiting and len(jobs) < most and self._waiting[0].can_join(jobs[0]):
                jobs.append(self._waiting.popleft())
            self._free -= 1
            self._batches.put(jobs)

    def _finish(self, jobs: list[Job[Any]], outcomes: list[Outcome]) -> None:
        self.busy -= len(jobs)
        self._free += 1
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
        outcomes = _outcomes(jobs)
        loop = jobs[0].future.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._finish, jobs, outcomes)
        return True

    def close(self) -> None:
        """Waits for running calls and ends the threads."""
        for _ in self._running:
            self._batches.put(None)
        for thread in self._running:
            thread.join()


def _outcomes(jobs: list[Job[Any]]) -> list[Outcome]:
    """The outcome of each job; an empty one for a dropped job."""
    wanted = [job for job in jobs if not job.dropped]
    by_job = dict(zip(map(id, wanted), _run_together(wanted), strict=True))
    return [by_job.get(id(job), Outcome()) for job in jobs]


def _run_together(jobs: list[Job[Any]]) -> list[Outcome]:
    if len(jobs) > 1:
        try:
            return [Outcome(result) for result in jobs[0].function(jobs[0].shared, [job.item for job in jobs])]
        except Exception:  # it may come from one item: the calls below raise it again for that item only
            pass
    return [_run_alone(job) for job in jobs]


def _run_alone(job: Job[Any]) -> Outcome:
    _present.job = job
    try:
        if job.shared is None:
            return Outcome(job.function(*job.item))
        return Outcome(job.function(job.shared, [job.item])[0])
    except Exception as problem:
        return Outcome(problem=problem)
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
