"""The engine of several processes on this machine, which map the same index files.

Most of a query is many short steps in Python, which threads of one process execute one at a time. This process begins alone;
where the first tasks show that the others will take long enough, it starts further processes and goes on meanwhile.

joblib's loky, which scikit-learn brings, was measured in its place (version 3.6, two busy cores, 6,750 queries of Cranfield
reranked by klsa with two processes, five runs of each in turns): it took 1.1 to 2.1 times as long, and a worker's first result
2.2 to 2.6 seconds instead of 0.7 to 1.2. Its workers outlive a parent that is killed, the task of a worker that was stopped
(SIGSTOP) never ends, and a worker that dies fails all pending tasks. What repairs this would be about as long as this module.
"""

from __future__ import annotations

import fcntl
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, NamedTuple

from kernelsearch.core.execution import Item, LocalEngine, Result, Shared
from kernelsearch.engines.worker import Failure, Open, Preparation, Task, Warned, send
from kernelsearch.lucene import jvm

#: Seconds of remaining work from which on further processes are started: one takes about a second until it searches.
WORTH = 3.0
#: Seconds of remaining work from which on their Java compiles with its optimising compiler, too, which takes some seconds of
#: CPU time. Below, commands of 5 to 8 seconds became 10 % shorter by further processes without it, and 5 % longer by
#: processes with it (docs/speed.md).
LONG = 20.0
#: Seconds of work after which the time of a task says something about the next ones: the first tasks load what all use.
TELLING = 0.5
#: Seconds without a result after which this process, which has nothing else to do, looks whether a worker was stopped.
PATIENCE = 1.0
#: Tasks per process that may be finished or under way before their turn, so that memory doesn't grow with their number.
AHEAD = 4
#: The libraries of linear algebra get one thread in each worker, because the workers share the cores already.
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
#: Bytes that a pipe to or from a worker holds: with the system's 64 KB, a worker could not write a batch of lists before this
#: process, busy with a batch of its own, has read the beginning.
PIPE_SIZE = 1 << 20
#: What a worker runs: not multiprocessing's spawn, which would import the user's main module again.
PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from kernelsearch.engines.worker import main; main()"

logger = logging.getLogger(__name__)


class ProcessEngine(LocalEngine):
    """Executes tasks in this process and, where it is worth their start, in others; `processes` is the number of all of them.

    Only `map_shared` uses other processes. They stay until `close`, and end with this process however it ends. The task of a
    worker that fails or dies is executed by this process.
    """

    name = "processes"

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._workers: list[_Worker] = []
        self._shared: tuple[Any, bytes] | None = None
        self._warnings = _Templates()

    def map_shared(
        self,
        function: Callable[[Item, Shared], Result],
        items: Sequence[Item],
        shared: Shared,
        *,
        label: str,
    ) -> Iterator[Result]:
        """Yields function(item, shared) for every one of `items`, in order, as results become ready.

        `shared` is pickled and sent to each process once; `label` has no effect.
        """
        if self.processes < 2 or len(items) < 2:
            return super().map_shared(function, items, shared, label=label)
        return self._map(function, items, shared)

    def _map(self, function: Callable[[Item, Any], Result], items: Sequence[Item], shared: Any) -> Iterator[Result]:
        call = _Call(function, items, AHEAD * self.processes)
        library = logging.getLogger("kernelsearch")
        library.addHandler(self._warnings)
        complete, spent = False, 0.0
        self._workers = [worker for worker in self._workers if worker.alive]
        try:
            if self._workers:
                self._share(call, shared)
            for place in range(len(items)):
                while (outcome := call.outcome(place)) is None:
                    mine = call.take_here(place)
                    if mine is None:
                        for worker in self._workers:
                            worker.end_if_stopped()
                        continue
                    begun = time.perf_counter()
                    call.finish(mine, _executed(function, items[mine], shared))
                    seconds = time.perf_counter() - begun
                    spent += seconds
                    left = len(items) - mine - 1
                    if mine and not self._workers and self.processes > 1 and _worth_starting(spent, seconds * left):
                        self.start(brief=seconds * left < LONG)
                        self._share(call, shared)
                yield outcome.value()
                self._repeat(outcome.warnings)
            complete = True
        finally:
            library.removeHandler(self._warnings)
            call.cancel()
            if not complete:
                self.close()  # workers may be in the middle of tasks whose results nobody will read

    def start(self, *, brief: bool = False) -> None:
        """Starts the other processes, for callers who know that they will be worth it.

        `brief` says that they will end before optimised code pays for the time that Java takes to make it.
        """
        try:
            while len(self._workers) < self.processes - 1:
                self._workers.append(_Worker(brief))
        except (OSError, TypeError) as problem:  # TypeError: a program that embeds Python, without an interpreter to start
            logger.info("processes: %d of %d could be started (%s)", len(self._workers), self.processes - 1, problem)
            self.processes = 1 + len(self._workers)

    def _share(self, call: _Call, shared: Any) -> None:
        """Lets the workers take part in `call`; they open `shared` anew unless it is the object that they have."""
        if self._shared is None or self._shared[0] is not shared:
            try:
                self._shared = (shared, pickle.dumps(shared, protocol=pickle.HIGHEST_PROTOCOL))
            except Exception as problem:  # an object of the user's, of which anything can be expected
                logger.info("processes: only this one is used (%s: %s)", type(problem).__name__, problem)
                self.close()
                self.processes = 1
                return
        for worker in self._workers:
            worker.calls.put((call, self._shared))

    def _repeat(self, warnings: Sequence[Warned]) -> None:
        """Logs the warnings of workers, unless this process or another worker has said the same, if of another query."""
        for warned in warnings:
            if warned.template not in self._warnings.logged:
                self._warnings.logged.add(warned.template)
                logging.getLogger(warned.logger).warning("%s", warned.text)

    def close(self) -> None:
        """Ends the workers, also in the middle of a task."""
        for worker in self._workers:
            worker.end()
        self._workers = []


def _worth_starting(spent: float, remaining: float) -> bool:
    """Whether tasks that took `spent` seconds so far show that those that remain, for `remaining` seconds, take long enough."""
    return spent >= TELLING and remaining > WORTH


class _Outcome(NamedTuple):
    """What a task returned or raised, and the warnings of the worker that executed it."""

    result: Any
    problem: Exception | None = None
    warnings: Sequence[Warned] = ()

    def value(self) -> Any:
        """The result; raises the problem instead where there is one."""
        if self.problem is not None:
            raise self.problem
        return self.result


def _executed(function: Callable[[Any, Any], Any], item: Any, shared: Any) -> _Outcome:
    try:
        return _Outcome(function(item, shared))
    except Exception as problem:  # raised when its turn has come, as if tasks were executed one after the other
        return _Outcome(None, problem)


class _Call:
    """The tasks of one call, which this process and the workers take in their order; used from several threads.

    `function` is called with each of `items`. Tasks are taken up to `ahead` places before their turn.
    """

    def __init__(self, function: Callable[..., Any], items: Sequence[Any], ahead: int) -> None:
        self._function, self._items, self._ahead = function, items, ahead
        self._changed = threading.Condition()
        self._outcomes: dict[int, _Outcome] = {}
        self._returned: set[int] = set()
        self._next = self._turn = 0

    def outcome(self, place: int) -> _Outcome | None:
        """The outcome of the task at `place`, whose turn it is; None where there is none yet."""
        with self._changed:
            if place > self._turn:
                self._turn = place
                self._changed.notify_all()
            return self._outcomes.pop(place, None)

    def take_here(self, place: int) -> int | None:
        """A task for this process, which waits for the one at `place`; None after a wait of at most PATIENCE."""
        with self._changed:
            if place in self._returned:
                self._returned.remove(place)
                return place
            if (taken := self._take()) is None and place not in self._outcomes:
                self._changed.wait(PATIENCE)
            return taken

    def take(self, *, wait: bool) -> int | None:
        """The next task for a worker; None where there are no more, or without `wait` none at the moment."""
        with self._changed:
            while (taken := self._take()) is None and wait and self._next < len(self._items):
                self._changed.wait()
            return taken

    def pickled(self, place: int) -> bytes:
        """The function and the item at `place`, pickled; empty where that fails, so that the task fails and is done here."""
        try:
            return pickle.dumps((self._function, self._items[place]), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # whatever the user's own objects raise
            return b""

    def few_left(self) -> bool:
        """Whether the remaining tasks are the last ones, to be left to the process that is first free."""
        return len(self._items) - self._next <= self._ahead

    def _take(self) -> int | None:
        if self._next >= min(len(self._items), self._turn + self._ahead):
            return None
        self._next += 1
        return self._next - 1

    def finish(self, place: int, outcome: _Outcome) -> None:
        """Takes the `outcome` of the task at `place`."""
        with self._changed:
            self._outcomes[place] = outcome
            self._changed.notify_all()

    def give_back(self, place: int) -> None:
        """Leaves the task at `place`, which a worker had taken, to this process."""
        with self._changed:
            self._returned.add(place)
            self._changed.notify_all()

    def cancel(self) -> None:
        """No further tasks are taken."""
        with self._changed:
            self._next = len(self._items)
            self._changed.notify_all()


class _Worker:
    """A worker process, and the thread of this process that sends it tasks and receives their results.

    `brief` says that it will not work for long.
    """

    def __init__(self, brief: bool) -> None:
        self._brief = brief
        command = [sys.executable, "-c", PROGRAM, *sys.path]
        # A session of its own, so that Ctrl-C reaches this process alone, which then ends its workers.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | ONE_THREAD, start_new_session=True
        )
        for stream in (self._process.stdin, self._process.stdout):
            _widen(stream)
        self.calls: queue.SimpleQueue[tuple[_Call, tuple[Any, bytes]] | None] = queue.SimpleQueue()
        self.alive = True
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="kernelsearch worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        opened: Any = None
        pending: deque[int] = deque()
        call: _Call | None = None
        try:
            self._send(Preparation(*jvm.configuration(), self._brief))
            while (work := self.calls.get()) is not None:
                call, (shared, pickled) = work
                if opened is not shared:
                    opened = None
                    self._send(Open(pickled))
                    if (failure := self._receive()) is not None:
                        logger.info("processes: a worker cannot take part (%s)", failure.reason)
                        continue
                    opened = shared
                self._work(call, pending)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            if not self._ended:
                logger.warning("processes: a worker ended (status %s); others take over its tasks", self._process.wait())
        finally:
            self.alive = False
            for place in pending:
                assert call is not None
                call.give_back(place)

    def _work(self, call: _Call, pending: deque[int]) -> None:
        """Lets the worker execute tasks until there are no more; `pending` are those that it has."""
        while True:
            # The worker has the next task when it finishes one, except at the end.
            most = 1 if call.few_left() else 2
            while len(pending) < most and (taken := call.take(wait=not pending)) is not None:
                pending.append(taken)
                self._send(Task(call.pickled(taken)))
            if not pending:
                return
            answer = self._receive()
            place = pending.popleft()
            if isinstance(answer, Failure):
                call.give_back(place)
            else:
                call.finish(place, _Outcome(answer.value, warnings=answer.warnings))

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        send(self._process.stdin, message)

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)

    def end_if_stopped(self) -> None:
        """Ends the process where a signal has stopped it (SIGSTOP): its tasks would never be done."""
        if not hasattr(os, "waitid"):
            return  # macOS
        with suppress(ChildProcessError):  # it has ended
            if os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None:
                self._process.kill()

    def end(self) -> None:
        """Ends the process."""
        self._ended = True
        self.calls.put(None)
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(OSError):  # what is left in a buffer can't be sent any more
                stream.close()


def _widen(pipe: IO[bytes] | None) -> None:
    """Lets `pipe` hold PIPE_SIZE bytes, where the system knows this call and allows so many."""
    if pipe is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_SIZE)


class _Templates(logging.Handler):
    """Remembers the texts of warnings, without their arguments."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.logged: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.logged.add(str(record.msg))
