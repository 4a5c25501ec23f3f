"""Threads for what Java and numpy do: few of them, a bounded queue before them, and a clock on every request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Overloaded(Exception):
    """More requests than the queue holds; answered with 503."""


class TooSlow(Exception):
    """A request took longer than it may; answered with 504."""


class Workers:
    """Runs blocking functions in threads.

    A request that is given up keeps its place until its thread is done with it: what can't be stopped still counts as load.
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self.threads, self.waiting, self.seconds = threads, waiting, seconds
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="kernelsearch")
        self._lock = threading.Lock()
        self._busy = 0

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
        work = self._pool.submit(self._work, function, args)
        try:
            async with asyncio.timeout(self.seconds):
                return await asyncio.wrap_future(work)
        except TimeoutError:
            raise TooSlow from None
        finally:
            # Only work that no thread has begun can be cancelled: time was up, or the client has gone.
            if work.cancel():
                self._release()

    def _work(self, function: Callable[..., T], args: tuple[Any, ...]) -> T:
        try:
            return function(*args)
        finally:
            self._release()

    def _release(self) -> None:
        with self._lock:
            self._busy -= 1

    def close(self) -> None:
        """Waits for what is being worked on."""
        self._pool.shutdown(wait=True)
