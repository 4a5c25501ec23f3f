"""xgboost's tracker on a Dask cluster, in a process of its own.

xgboost starts the tracker, which connects the workers, inside the scheduler's process, and a worker's death ends the tracker's
whole process from within C++: a scheduler that others use too, or this very process. Here the scheduler starts a child instead.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client

#: Starts the tracker, prints its address, and stays until it has ended.
TRACKER = """
import json, pickle, sys, threading
start, arguments = pickle.load(sys.stdin.buffer)
print(json.dumps(start(*arguments)), flush=True)
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
"""
#: Children of this process, where it is a scheduler.
_trackers: list[subprocess.Popen[bytes]] = []


class TrackerClient(Client):
    """A Dask client that runs functions in a child of the scheduler's process; xgboost calls nothing but its tracker so."""

    def run_on_scheduler(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """The result of function(*arguments), which must be JSON data; `keywords` are those of Dask's method.

        The child stays until the function's threads have ended. Raises RuntimeError where it didn't start.
        """
        return super().run_on_scheduler(_start_child, function, *arguments, **keywords)  # type: ignore[no-untyped-call]


@contextmanager
def client_with_tracker_apart(client: Any) -> Iterator[Any]:
    """A second client of the same scheduler for xgboost, current inside the block; its trackers end with the block."""
    connect: Any = TrackerClient  # Dask's client has no type annotations
    with connect(client.scheduler.address, security=client.security, set_as_default=False) as training, training.as_current():
        try:
            yield training
        finally:
            client.run_on_scheduler(_end_children)


async def _start_child(start: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Starts the child in a thread: it imports xgboost, and the scheduler answers its workers meanwhile."""
    return await asyncio.to_thread(_child_address, start, *arguments)


def _child_address(start: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    child = subprocess.Popen(
        [sys.executable, "-c", TRACKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    _trackers.append(child)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(pickle.dumps((start, arguments)))
    child.stdin.close()
    with child.stdout:
        answer = child.stdout.readline()
    if not answer:
        raise RuntimeError("xgboost's tracker did not start")
    return dict(json.loads(answer))


def _end_children() -> None:
    while _trackers:
        child = _trackers.pop()
        child.kill()
        child.wait()
