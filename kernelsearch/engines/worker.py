"""A worker process of `kernelsearch.engines.processes`: executes tasks that arrive on its standard input.

Messages are pickles, in both directions: the other end of both pipes is the process that started this one. A worker listens on
no socket. It ends as soon as its standard input is closed, also in the middle of a task.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import signal
import sys
import threading
from typing import IO, Any, NamedTuple

from kernelsearch.lucene import jvm


class Preparation(NamedTuple):
    """What a worker takes over from the process that starts it."""

    java_heap: str | None
    java_options: tuple[str, ...]
    brief: bool  #: whether it will not work for long


class Open(NamedTuple):
    """What all further tasks share, pickled; answered by None or a Failure."""

    shared: bytes


class Task(NamedTuple):
    """A function and an item, pickled together; answered by a Result or a Failure."""

    content: bytes


class Warned(NamedTuple):
    """A warning that was logged during a task: the logger's name, the text before and after its arguments are filled in."""

    logger: str
    template: str
    text: str


class Result(NamedTuple):
    """The value of a task and the warnings that were logged meanwhile."""

    value: Any
    warnings: list[Warned]


class Failure(NamedTuple):
    """What went wrong, as one line. The process that sent the task then executes it and meets the problem itself."""

    reason: str


def send(stream: IO[bytes], message: Any) -> None:
    """Writes `message` to a pipe, `stream`."""
    pickle.dump(message, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


class _Warnings(logging.Handler):
    """Collects warnings, which the parent process repeats: it knows where they are to be shown."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.collected: list[Warned] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.collected.append(Warned(record.name, str(record.msg), record.getMessage()))


def main() -> None:
    """Executes tasks until standard input is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    # Answers have a pipe of their own: what a library prints must not get between them.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings = _Warnings()
    library = logging.getLogger("kernelsearch")
    library.addHandler(warnings)
    library.propagate = False
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(messages,), daemon=True).start()
    _prepare(messages.get())
    shared: Any = None
    while True:
        message = messages.get()
        answer: Result | Failure | None = None
        warnings.collected = []
        try:
            if isinstance(message, Open):
                shared = None  # frees the memory of the last one first
                shared = pickle.loads(message.shared)
            else:
                function, item = pickle.loads(message.content)
                answer = Result(function(item, shared), warnings.collected)
        except Exception as problem:
            answer = Failure(" ".join(f"{type(problem).__name__}: {problem}".split()))
        try:
            send(answers, answer)
        except BrokenPipeError:
            os._exit(0)


def _prepare(preparation: Preparation) -> None:
    jvm.configure(heap=preparation.java_heap, options=preparation.java_options)
    if preparation.brief:
        jvm.expect_few_calls()


def _receive(messages: queue.SimpleQueue[Any]) -> None:
    """Passes `messages` on to the main thread; ends the process where there are no more, because the parent has ended."""
    try:
        while True:
            messages.put(pickle.load(sys.stdin.buffer))
    except (EOFError, OSError, pickle.UnpicklingError):
        os._exit(0)
