"""Threads for what Java and numpy do: few of them, a bounded queue before them, and a clock on every request."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from kernelsearch.lucene import jvm

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")

#: Requests that one call answers at most: the first of them waits for the last.
TOGETHER = 8


class Overloaded(Exception):
    """More requests than the queue holds; answered with 503."""


class TooSlow(Exception):
    """A request took longer than it may; answered with 504."""


class Outcome(NamedTuple):
    """What a call gave, or what it raised."""

    result: Any = None
    problem: Exception | None = None


@dataclass(slots=True)
class Job:
    """A call for a thread, and where its outcome is awaited; with `shared`, it may be answered in one call with others."""

    function: Callable[..., Any]
    item: Any
    shared: Hashable | None
    outcome: asyncio.Future[Any]
    dropped: bool = False

    def joins(self, other: Job) -> bool:
        return self.shared is not None and self.function is other.function and self.shared == other.shared


class Workers:
    """Runs blocking functions in threads of its own, which stay attached to Java: attaching takes as long as a short search.

    A request that is given up keeps its place until a thread is done with it: what can't be stopped still counts as load.
    Everything but `_work` runs in the server's event loop.
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self.threads, self.waiting, self.seconds = threads, waiting, seconds
        self.busy = 0  #: requests that are worked on or wait
        self._free = threads
        self._waiting: deque[Job] = deque()
        self._handed: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._running = [threading.Thread(target=self._work, name=f"worker {n}", daemon=True) for n in range(threads)]
        for thread in self._running:
            thread.start()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """What the function gives; Overloaded or TooSlow otherwise, or whatever the function raises."""
        return await self._await(function, args, None)

    async def run_together(self, function: Callable[[S, list[Any]], Sequence[T]], shared: S, item: Any) -> T:
        """As `run`, for `function(shared, items)`, which gives a result for each item.

        Requests with the same function and `shared` that wait for a thread at the same time are handed to it in one call, so
        that what a call costs by itself (two changes of thread, the way into Java and back) is spent once for all of them.
        Where the call fails, each is tried alone.
        """
        return await self._await(function, item, shared)

    async def _await(self, function: Callable[..., Any], item: Any, shared: Hashable | None) -> Any:
        if self.busy >= self.threads + self.waiting:
            raise Overloaded
        loop = asyncio.get_running_loop()
        job = Job(function, item, shared, loop.create_future())
        self.busy += 1
        self._waiting.append(job)
        loop.call_soon(self._hand_out)  # after all requests that came in together with this one
        clock = loop.call_later(self.seconds, _give_up, job.outcome)
        try:
            return await job.outcome
        finally:
            clock.cancel()
            job.dropped = True  # what no thread has begun by now, nobody waits for any more

    def _hand_out(self) -> None:
        while self._free and self._waiting:
            most = min(TOGETHER, -(-len(self._waiting) // self._free))  # all free threads get their share
            jobs = [self._waiting.popleft()]
            while self._waiting and len(jobs) < most and self._waiting[0].joins(jobs[0]):
                jobs.append(self._waiting.popleft())
            self._free -= 1
            self._handed.put(jobs)

    def _take_back(self, jobs: list[Job], outcomes: list[Outcome]) -> None:
        self.busy -= len(jobs)
        self._free += 1
        for job, (result, problem) in zip(jobs, outcomes, strict=True):
            if job.outcome.done():  # given up meanwhile
                continue
            if problem is not None:
                job.outcome.set_exception(problem)
            else:
                job.outcome.set_result(result)
        self._hand_out()

    def _work(self) -> None:
        with jvm.stay_attached():
            while (jobs := self._handed.get()) is not None:
                outcomes = _outcomes(jobs)
                loop = jobs[0].outcome.get_loop()
                if not loop.is_closed():
                    loop.call_soon_threadsafe(self._take_back, jobs, outcomes)

    def close(self) -> None:
        """Lets the threads finish what they have, and ends them."""
        for _ in self._running:
            self._handed.put(None)
        for thread in self._running:
            thread.join()


def _outcomes(jobs: list[Job]) -> list[Outcome]:
    """The outcome of each job, an empty one for those that were dropped."""
    wanted = [job for job in jobs if not job.dropped]
    found = dict(zip(map(id, wanted), _together(wanted), strict=True))
    return [found.get(id(job), Outcome()) for job in jobs]


def _together(jobs: list[Job]) -> list[Outcome]:
    if len(jobs) > 1:
        try:
            return [Outcome(result) for result in jobs[0].function(jobs[0].shared, [job.item for job in jobs])]
        except Exception:  # one of them may be to blame: the others are answered all the same
            pass
    return [_alone(job) for job in jobs]


def _alone(job: Job) -> Outcome:
    try:
        if job.shared is None:
            return Outcome(job.function(*job.item))
        return Outcome(job.function(job.shared, [job.item])[0])
    except Exception as problem:
        return Outcome(problem=problem)


def _give_up(outcome: asyncio.Future[Any]) -> None:
    if not outcome.done():
        outcome.set_exception(TooSlow())
