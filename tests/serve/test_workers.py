"""The threads behind the service: what waits together is answered together, and nobody pays for another's fault."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from typing import Any

import pytest

from kernelsearch.serve.workers import MAX_BATCH, MAX_QUICK_BATCH, QUICK, Overloaded, TimedOut, Workers

pytest.importorskip("fastapi")


@pytest.fixture
def make():
    made: list[Workers] = []

    def make(threads: int = 1, waiting: int = 100, seconds: float = 60) -> Workers:
        made.append(Workers(threads, waiting, seconds))
        return made[-1]

    yield make
    for workers in made:
        workers.close()


class Calls:
    """A function that remembers how it was called; the first call waits until it is let go.

    `cpu` are the seconds of CPU time that each call takes for each of its items.
    """

    def __init__(self, cpu: float = 0) -> None:
        self.cpu = cpu
        self.seen: list[list[Any]] = []
        self.release = threading.Event()

    def __call__(self, shared: str, items: list[Any]) -> list[str]:
        self.seen.append(items)
        if len(self.seen) == 1:
            self.release.wait(60)
        end = time.thread_time() + self.cpu * len(items)
        while time.thread_time() < end:
            pass
        if "bad" in items:
            raise ValueError(f"bad among {len(items)}")
        return [f"{shared} {item}" for item in items]


async def ask(workers: Workers, calls: Calls, items: list[tuple[str, Any]]) -> list[Any]:
    """Asks for "first" alone, for all items while it keeps the thread, and gives the outcomes of these."""
    first = asyncio.ensure_future(workers.run_together(calls, "a", "first"))
    while not calls.seen:
        await asyncio.sleep(0.001)
    others = [asyncio.ensure_future(workers.run_together(calls, shared, item)) for shared, item in items]
    await asyncio.sleep(0.01)
    calls.release.set()
    assert await first == "a first"
    return await asyncio.gather(*others, return_exceptions=True)


def test_waiting_requests_share_a_call_and_each_gets_its_answer(make):
    calls = Calls()
    assert asyncio.run(ask(make(), calls, [("a", 1), ("a", 2), ("a", 3)])) == ["a 1", "a 2", "a 3"]
    assert calls.seen == [["first"], [1, 2, 3]]


def test_only_consecutive_requests_of_one_kind_share_a_call(make):
    calls = Calls()
    assert asyncio.run(ask(make(), calls, [("a", 1), ("b", 2), ("b", 3), ("a", 4)])) == ["a 1", "b 2", "b 3", "a 4"]
    assert calls.seen == [["first"], [1], [2, 3], [4]]


@pytest.mark.parametrize(("cpu", "most"), [(0, MAX_QUICK_BATCH), (4 * QUICK, MAX_BATCH)])
def test_requests_per_call_are_limited(make, cpu, most):
    calls = Calls(cpu)
    asyncio.run(ask(make(), calls, [("a", number) for number in range(most + 2)]))
    assert [len(items) for items in calls.seen] == [1, most, 2]


def test_one_thread_makes_quick_calls_and_others_take_what_can_not_share_one(make):
    calls = Calls()
    calls.release.set()

    async def work() -> list[Any]:
        workers = make(threads=2)
        await workers.run_together(calls, "a", "first")  # tells that calls are quick
        calls.release.clear()
        calls.seen.clear()
        waiting = [asyncio.ensure_future(workers.run_together(calls, "a", 1))]
        while not calls.seen:
            await asyncio.sleep(0.001)
        waiting += [asyncio.ensure_future(workers.run_together(calls, "a", number)) for number in (2, 3)]
        await asyncio.sleep(0.02)
        assert await workers.run(len, "four") == 4
        assert calls.seen == [[1]]  # though a thread was free
        calls.release.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(work()) == ["a 1", "a 2", "a 3"]
    assert calls.seen == [[1], [2, 3]]


def test_free_threads_share_what_waits(make):
    async def work() -> None:
        both = threading.Barrier(2, timeout=60)  # passed only where two threads are at work

        def meet(_: str, items: list[int]) -> list[int]:
            both.wait()
            return items

        workers = make(threads=2)
        assert await asyncio.gather(*(workers.run_together(meet, "a", number) for number in range(4))) == [0, 1, 2, 3]

    asyncio.run(work())


def test_one_bad_request_fails_alone(make):
    calls = Calls()
    good, bad, last = asyncio.run(ask(make(), calls, [("a", 1), ("a", "bad"), ("a", 3)]))
    assert (good, last) == ("a 1", "a 3")
    assert isinstance(bad, ValueError) and str(bad) == "bad among 1"


def test_a_request_that_timed_out_in_the_queue_is_not_started(make):
    calls = Calls()

    async def work() -> None:
        workers = make(seconds=0.2)
        first = asyncio.ensure_future(workers.run_together(calls, "a", "first"))
        while not calls.seen:
            await asyncio.sleep(0.001)
        with pytest.raises(TimedOut):
            await workers.run_together(calls, "a", "late")
        with pytest.raises(TimedOut):
            await first
        assert workers.busy == 2  # the first one can't be stopped, and the other waits behind it
        calls.release.set()
        while workers.busy:
            await asyncio.sleep(0.001)

    asyncio.run(work())
    assert calls.seen == [["first"]]


def test_a_full_queue_refuses_and_takes_again(make):
    release = threading.Event()

    async def work() -> None:
        workers = make(waiting=1)
        busy = [asyncio.ensure_future(workers.run(release.wait, 60)) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await workers.run(release.wait, 60)
        release.set()
        assert await asyncio.gather(*busy) == [True, True]
        assert await workers.run(release.wait, 60)

    asyncio.run(work())


class Held:
    """Something that a job refers to, as jobs of the service do to an opened index."""


def test_a_thread_that_waits_for_work_keeps_nothing_of_its_last(make):
    workers, held = make(), Held()
    assert asyncio.run(workers.run_together(lambda shared, items: [type(shared) for _ in items], held, 1)) is Held
    asyncio.run(workers.run(isinstance, held, Held))
    reference = weakref.ref(held)
    del held
    deadline = time.monotonic() + 5  # the thread may still be on its way back
    while reference() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reference() is None
