"""Threads for what Java and numpy do: few of them, a bounded queue before them, and a clock on every request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from kernelsearch.lucene import jvm

T = TypeVar("T")


class Overloaded(Exception):
    """More requests than the queue holds; answered with 503."""


class TooSlow(Exception):
    """A request took longer than it may; answered with 504."""


@dataclass
class Job:
    """A call for a thread, and where its outcome is awaited."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[Any]
    dropped: bool = False


class Workers:
    """Runs blocking functions in threads of its own, which stay attached to Java: attaching takes as long as a short search.

    A request that is given up keeps its place until a thread is done with it: what can't be stopped still counts as load.
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self.threads, self.waiting, self.seconds = threads, waiting, seconds
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._busy = 0
        self._running = [threading.Thread(target=self._work, name=f"worker {n}", daemon=True) for n in range(threads)]
        for thread in self._running:
            thread.start()

    @property
    def busy(self) -> int:
        """Requests that are worked on or wait."""
        return self._busy

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """What the function gives; Overloaded or TooSlow otherwise, or whatever the function raises."""
        with self._lock:
            if self._busy >= self.threads + self.waiting:
                raise Overloaded
            self._busy += 1
        loop = asyncio.get_running_loop()
        job = Job(function, args, loop, loop.create_future())
        self._jobs.put(job)
        try:
            async with asyncio.timeout(self.seconds):
                return await job.outcome
        except TimeoutError:
            raise TooSlow from None
        finally:
            job.dropped = True  # what no thread has begun by now, nobody waits for any more

    def _work(self) -> None:
        with jvm.staying_attached():
            while (job := self._jobs.get()) is not None:
                result, problem = None, None
                try:
                    if not job.dropped:
                        result = job.function(*job.args)
                except Exception as raised:
                    problem = raised
                with self._lock:
                    self._busy -= 1
                if not job.loop.is_closed():
                    job.loop.call_soon_threadsafe(_settle, job.outcome, result, problem)

    def close(self) -> None:
        """Lets the threads finish what they have, and ends them."""
        for _ in self._running:
            self._jobs.put(None)
        for thread in self._running:
            thread.join()


def _settle(outcome: asyncio.Future[Any], result: Any, problem: Exception | None) -> None:
    if outcome.done():  # given up meanwhile
        return
    if problem is not None:
        outcome.set_exception(problem)
    else:
        outcome.set_result(result)
