"""Which files of the package a command enters, and how often execution changes file: what a reader of the code has to follow.

    python -m tools.trace search --index indexes/cran --query "boundary layer" --rerank klsa
    python -m tools.trace --calls train --index indexes/cran --rerank klsa

A file counts when one of its functions runs after the verb's `main` was called. What Python does while it imports a module
(module and class bodies, generated methods of dataclasses, option declarations) is not counted, nor are the libraries in
between: a call of ours that goes through numpy or argparse and comes back to another file of ours is one change. A change of
file is a call from one file to another; returns are not counted. Files of `core`, the vocabulary of all packages, are listed
and counted apart.

For `search --query`, the same query is answered a second time with everything opened: that is the path of a query, without
the command line, the start of Java and the opening of files.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import kernelsearch
from kernelsearch.api.pipeline import Pipeline

ROOT = Path(kernelsearch.__file__).parent
#: The packages above `core` from the highest layer to the lowest, as in CONTRIBUTING.md.
LAYERS = (
    *("reproduce", "demo", "cli", "integrations", "serve", "api", "tuning", "similarity", "rerankers"),
    *("learning", "clicks", "evaluation", "plots", "engines", "kernels", "vectors", "neighbours", "encoders"),
    *("lucene", "forward", "trec"),
)


class Trace:
    """The calls between files of the package while a function runs."""

    def __init__(self) -> None:
        #: {(calling file, called file, called function): number of calls}, in the order of the first call
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self._names: dict[str, str | None] = {}

    def run(self, function: Callable[[list[str]], object], argv: list[str]) -> None:
        """Calls `function`, a verb's `main`, with its arguments `argv` and records the calls."""
        threading.setprofile(self._record)
        sys.setprofile(self._record)
        try:
            with suppress(SystemExit):  # how --help ends
                function(argv)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def files(self) -> list[str]:
        """The files entered, in order."""
        return list(dict.fromkeys(called for _, called, _ in self.calls))

    def changes(self) -> int:
        """How often execution went from one file into another."""
        return sum(self.calls.values())

    def _record(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or (called := self._file(frame)) is None or self._importing(frame):
            return
        caller = frame.f_back
        while caller is not None and self._file(caller) is None:
            caller = caller.f_back
        calling = self._file(caller) if caller is not None else ""
        if calling != called:
            self.calls[calling or "", called, frame.f_code.co_name] += 1

    def _file(self, frame: FrameType) -> str | None:
        """The file of a frame inside the package, None for other code and for what is generated."""
        path = frame.f_code.co_filename
        if path not in self._names:
            inside = path.startswith(str(ROOT))
            self._names[path] = str(Path(path).relative_to(ROOT)) if inside else None
        return self._names[path]

    def _importing(self, frame: FrameType) -> bool:
        """Whether a module is being imported, in which case its declarations run and not the command."""
        current: FrameType | None = frame
        while current is not None:
            if current.f_code.co_name == "<module>" and self._file(current) is not None:
                return True
            current = current.f_back
        return False


def describe(title: str, trace: Trace) -> str:
    """The trace as lines: `title` with the totals, then who calls each file, then which packages above call each package."""
    files = [file for file in trace.files() if not file.startswith("core/")]
    core = [file for file in trace.files() if file.startswith("core/")]
    lines = [f"{title}: {len(files)} files and {len(core)} of core, {trace.changes()} changes of file"]
    for file in [*files, *core]:
        callers = Counter[str]()
        for (calling, called, _), count in trace.calls.items():
            if called == file:
                callers[calling or "the command"] += count
        lines.append(f"  {file:32} from {', '.join(f'{calling} {count}' for calling, count in callers.items())}")
    lines += [f"  package {package:24} from {', '.join(above)}" for package, above in packages(trace).items()]
    return "\n".join(lines)


def packages(trace: Trace) -> dict[str, list[str]]:
    """{package: the packages of higher layers that call it, in order of their first call} for the calls in `trace`.

    `core` is left out, since all packages call it.
    """
    callers: dict[str, list[str]] = {}
    for calling, called, _ in trace.calls:
        upper, lower = (file.partition("/")[0] for file in (calling, called))
        if upper in LAYERS and lower in LAYERS and LAYERS.index(upper) < LAYERS.index(lower):
            above = callers.setdefault(lower, [])
            if upper not in above:
                above.append(upper)
    return callers


def main() -> None:
    """Runs the verb with its flags, and prints the trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", action="store_true", help="print every call from one file to another, too")
    parser.add_argument("verb", help="a verb of kernelsearch, such as search")
    parser.add_argument("flags", nargs=argparse.REMAINDER, help="the flags of the verb")
    options = parser.parse_args()
    verb, arguments = options.verb, options.flags
    trace, pipelines = Trace(), list[Pipeline]()
    create = Pipeline.__init__

    def keep(self: Pipeline, *arguments: Any, **keywords: Any) -> None:
        create(self, *arguments, **keywords)
        pipelines.append(self)

    with patch.object(Pipeline, "__init__", keep):
        trace.run(import_module(f"kernelsearch.{verb}").main, arguments)
    print("\n" + describe(verb, trace))
    if options.calls:
        print()
        for (calling, called, function), count in trace.calls.items():
            print(f"{calling:36} {called:36} {function:32} {count}")
    if verb == "search" and "--query" in arguments:
        again = Trace()
        again.run(lambda texts: print(pipelines[0].answer(texts[0], 10).docids), [arguments[arguments.index("--query") + 1]])
        print("\n" + describe("the query, with everything opened", again))


if __name__ == "__main__":
    main()
