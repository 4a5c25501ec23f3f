"""Pairs of a path and a peer, measured by turns, and peers in processes of their own."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools import environment

#: Does the work once.
Work = Callable[[], object]
#: Does the work once and returns what it cost; less is better.
Cost = Callable[[], float]
#: Repetitions that are not counted: Java and numba compile meanwhile.
WARM_UP = 2


@dataclass(frozen=True)
class Pair:
    """A path of kernelsearch and a peer's, on a number of documents; `peer` is empty for a path without one.

    `once` is for what takes too long to be repeated; its row has no range.
    """

    path: str
    peer: str
    documents: int
    ours: Cost
    theirs: Cost | None = None
    unit: str = "CPU ms"
    warm_up: int = WARM_UP
    once: bool = False


@dataclass(frozen=True)
class Row:
    """What was measured of a pair: medians of both costs, the median of the ratios and their range, where there is a peer."""

    path: str
    peer: str
    documents: int
    unit: str
    ours: float
    theirs: float | None
    ratio: float | None
    least: float
    most: float
    repetitions: int


def measure(pair: Pair, repetitions: int) -> Row:
    """Measures `pair`, with path and peer by turns, so that a busy machine slows both alike.

    `repetitions` are counted, after those of the warm-up; one alone where the pair is measured `once`.
    """
    count, warm_up = (1, 0) if pair.once else (repetitions, pair.warm_up)
    costs = [(pair.ours(), pair.theirs() if pair.theirs else None) for _ in range(warm_up + count)][warm_up:]
    own = [ours for ours, _ in costs]
    other = [theirs for _, theirs in costs if theirs is not None]
    ratios = [ours / theirs for ours, theirs in zip(own, other, strict=False)]
    spread = ratios or own
    return Row(
        pair.path,
        pair.peer,
        pair.documents,
        pair.unit,
        ours=statistics.median(own),
        theirs=statistics.median(other) if other else None,
        ratio=statistics.median(ratios) if ratios else None,
        least=min(spread),
        most=max(spread),
        repetitions=count,
    )


def used_cpu() -> float:
    """CPU seconds of this process and of those that it has started and that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def cpu_time(work: Work, scale: float = 1000) -> Cost:
    """A function that returns the CPU seconds of one call of `work`, times `scale`.

    1000 gives milliseconds, 1000 / queries milliseconds per query.
    """

    def run() -> float:
        start = used_cpu()
        work()
        return (used_cpu() - start) * scale

    return run


def clock_time(work: Work, scale: float = 1000) -> Cost:
    """A function that returns the seconds of one call of `work` by the clock, times `scale`."""

    def run() -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) * scale

    return run


class Peers:
    """Libraries of another environment in one process, `tools.bench.speed.peers`; it is started when it is first needed.

    `python` is the interpreter of that environment; `missing` are the tasks that could not be set up, with the reason.
    """

    def __init__(self, python: Path) -> None:
        self.python = python
        self.missing: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None

    def task(self, name: str, folder: Path, scale: float = 1000, *, clock: bool = False) -> Cost | None:
        """Sets the task `name` up on what `folder` holds; returns a function that runs it once and gives its cost.

        The cost is in CPU seconds (or by the `clock`) times `scale`. None where the environment or the library is not
        installed.
        """
        if not self.python.exists():
            self.missing[name] = f"{self.python} does not exist"
            return None
        answer = self._ask({"task": name, "folder": str(folder), "setup": True})
        if "error" in answer:
            self.missing[name] = answer["error"]
            return None
        kind = "clock" if clock else "cpu"
        return lambda: float(self._ask({"task": name, "folder": str(folder)})[kind]) * scale

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._process is None:
            command = [str(self.python), "-m", "tools.bench.speed.peers"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment()
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.python}: the process of the peers ended at {question}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer and not question.get("setup"):
            raise SystemExit(f"{self.python}: {question['task']}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None


@dataclass
class Bench:
    """What the groups of pairs share: the folder, the sizes, the peers of both environments, and the rows so far."""

    folder: Path
    sizes: tuple[int, ...]
    repetitions: int
    libraries: Peers
    pyserini: Peers
    rows: list[Row] = field(default_factory=list)

    def add(self, pair: Pair | None) -> None:
        """Measures `pair` and adds its row; None stands for one whose peer is not installed."""
        if pair is None:
            return
        row = measure(pair, self.repetitions)
        self.rows.append(row)
        print(f"{row.path} / {row.peer or '-'} / {row.documents}: {row.ours:.3g} {row.theirs or 0:.3g}", file=sys.stderr)

    def compare(self, path: str, peer: str, documents: int, ours: Cost, theirs: Cost | None, **options: Any) -> None:
        """Measures `path` beside `peer` on so many `documents`, with the costs `ours` and `theirs`.

        Does nothing where `theirs` is None: the peer is not installed. `options` are further fields of `Pair`.
        """
        if theirs is not None:
            self.add(Pair(path, peer, documents, ours, theirs, **options))
