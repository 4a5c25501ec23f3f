"""Mutation testing by a seeded sample: `python -m tools.mutants` changes one operator or constant at a time and runs the tests.

A mutant is killed where a test fails. The tests run once unchanged, with coverage; a mutant then runs only the tests that
execute its line, in a copy of the checkout, the fastest first, with a limit of CPU time. Tests that would exceed `--budget`
seconds together are not run: the share of killed mutants is then a lower bound. A mutant beyond the limit is listed and not
counted as killed. Survivors are listed with their line: each is a missing test, or
a change without effect.

Every mutant runs in a process that is forked from this one, which has imported what the tests import from other packages.

Mutants run in the random order of the sample, so that a run that was stopped has a sample too. With `--folder`, the copy, its
coverage and every outcome are kept, and the same command continues where it was stopped.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import itertools
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import coverage
import pytest

from tools import ROOT, environment

#: The packages that are mutated, and the tests that have to notice.
PACKAGES = {
    "kernels": ("tests/kernels", "tests/papers"),
    "learning": ("tests/learning", "tests/papers", "tests/verbs/test_classify.py"),
    "rerankers": ("tests/rerankers", "tests/papers", "tests/verbs/test_ltr.py"),
    "forward": ("tests/forward",),
    "clicks": ("tests/clicks",),
}
#: Packages of others that the tests import and that take long to import. A process that is forked has them.
PRELOADED = (
    "hypothesis",
    "numpy",
    "pandas",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "scipy.stats",
    "sklearn.svm",
    "xgboost",
)
#: The ending of the name under which a module is kept while its mutant is tested.
UNCHANGED = ".unchanged"
#: A process is ended after this many times its limit of CPU time, by the clock: other programs may use the cores.
_WAITING = 10
_QUIET = ["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.USub: ast.UAdd,
}


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    package: str
    file: Path  #: relative to the root of the checkout
    lines: range  #: lines of the changed expression
    column: int  #: of the first of them
    change: str  #: the expression before and after
    source: str  #: the changed module


def places(tree: ast.Module) -> list[ast.expr]:
    """The operators and numbers of the module `tree`."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.expr) and _changed(node) is not None]


def mutation(tree: ast.Module, number: int) -> tuple[range, int, str, ast.Module]:
    """(lines, column, what was changed, changed module) for place `number` of the `places` of the module `tree`."""
    mutant = copy.deepcopy(tree)
    node = places(mutant)[number]
    field, value = _changed(node) or ("", None)
    before = ast.unparse(node)
    setattr(node, field, value)
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return lines, node.col_offset, f"{before} -> {ast.unparse(node)}", mutant


def _changed(node: ast.AST) -> tuple[str, object] | None:
    """(field, new value) of the change of a node; None for nodes that aren't changed."""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp) and type(node.op) in _SWAPS:
        return "op", _SWAPS[type(node.op)]()
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        return "ops", [_SWAPS[type(node.ops[0])](), *node.ops[1:]]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return "value", node.value + 1
    return None


def sample(count: int, seed: int, packages: list[str], root: Path = ROOT) -> list[Mutant]:
    """At most `count` random mutants of these `packages` of the checkout at `root`, in random order by `seed`."""
    generator = random.Random(seed)
    modules = {
        (package, file.relative_to(root)): ast.parse(file.read_text(encoding="utf-8"))
        for package in packages
        for file in sorted((root / "kernelsearch" / package).rglob("*.py"))
        if file.name not in ("__init__.py", "__main__.py", "settings.py", "plot.py")
    }
    every = [(package, file, number) for (package, file), tree in modules.items() for number in range(len(places(tree)))]
    result = []
    for package, file, number in generator.sample(every, min(count, len(every))):
        lines, column, change, tree = mutation(modules[package, file], number)
        result.append(Mutant(package, file, lines, column, " ".join(change.split()), ast.unparse(tree)))
    return result


class Tests:
    """The tests of some `packages` in `checkout`, a copy of the project, and which of them execute a line.

    Tests that fail without any change are left out and listed in `broken`. The run without a change is not repeated where its
    results are in the copy. `budget` bounds the seconds that the tests of one mutant take together.
    """

    def __init__(self, checkout: Path, packages: list[str], budget: float = float("inf")) -> None:
        for file in checkout.rglob(f"*{UNCHANGED}"):  # a run was killed
            os.replace(file, file.with_name(file.name.removesuffix(UNCHANGED)))
        self._checkout = checkout
        self._budget = budget  #: seconds that the tests of one mutant may take together, by the run without a change
        results = checkout / "mutant-baseline.json"
        if not results.is_file():
            results.write_text(json.dumps(self._run_unchanged(packages)), encoding="utf-8")
        baseline = json.loads(results.read_text(encoding="utf-8"))
        self.broken = set(baseline["broken"])
        self._seconds: dict[str, float] = baseline["seconds"]
        self._data = coverage.CoverageData(str(checkout / ".coverage"))
        self._data.read()

    def _run_unchanged(self, packages: list[str]) -> dict[str, object]:
        """Runs all tests with coverage; returns those that fail, and the seconds of each."""
        folders = sorted({folder for package in packages for folder in PACKAGES[package]})
        options = ["--cov=kernelsearch", "--cov-context=test", "--cov-report=", "-rfE", "--durations=0", "-vv"]
        command = [sys.executable, "-m", "pytest", *_QUIET, "-p", "pytest_cov", *options, *folders]
        # What is compiled here is read again for every mutant.
        done = subprocess.run(command, cwd=self._checkout, env=self._variables(), capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"the tests cannot be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        broken, seconds = set(), {}
        for words in (line.split(maxsplit=2) for line in done.stdout.splitlines()):
            if len(words) > 1 and words[0] in ("FAILED", "ERROR") and "::" in words[1]:
                broken.add(words[1])
            elif len(words) == 3 and words[1] == "call" and "::" in words[2]:
                seconds[words[2].strip()] = float(words[0].removesuffix("s"))
        return {"broken": sorted(broken), "seconds": seconds}

    def covering(self, mutant: Mutant) -> list[str]:
        """The tests that execute the lines of `mutant`, or for code that runs on import the tests that execute any of the file.

        A fixture may be shared by all tests of a file; where the setup of a test executes the lines, the whole file is run. The
        fastest tests are first.
        """
        by_line = self._data.contexts_by_lineno(str(self._checkout / mutant.file))
        contexts = {context for line in mutant.lines for context in by_line.get(line, [])}
        if contexts == {""}:
            contexts = {context for line in by_line.values() for context in line}
        result, files = set(), set()
        for context in contexts - {""}:
            test, _, phase = context.rpartition("|")
            result.add(test)
            if phase != "run":
                files.add(test.partition("::")[0])
        result |= {test for test in self._seconds if test.partition("::")[0] in files}
        ordered = sorted(result - self.broken, key=lambda test: (self._seconds.get(test, 0.0), test))
        sums = itertools.accumulate(self._seconds.get(test, 0.0) for test in ordered)
        return [
            test for number, (test, total) in enumerate(zip(ordered, sums, strict=True)) if not number or total <= self._budget
        ]

    def outcome(self, mutant: Mutant, limit: float) -> str:
        """What the tests make of `mutant`: "killed", "survived", "not covered", or "too slow" after `limit` CPU seconds."""
        if not (tests := self.covering(mutant)):
            return "not covered"
        target = self._checkout / mutant.file
        unchanged = target.with_name(target.name + UNCHANGED)
        os.replace(target, unchanged)  # keeps the file's times, so that its compiled form is the present one afterwards
        try:
            target.write_text(mutant.source, encoding="utf-8")
            status = self._fork(["-x", *tests], limit)
        finally:
            os.replace(unchanged, target)
        return "too slow" if status is None else "killed" if status else "survived"

    def _variables(self) -> dict[str, str]:
        # The tests need none of the installed plugins, and some take seconds to import.
        return environment(PYTHONPATH=str(self._checkout), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")

    def _fork(self, arguments: list[str], limit: float) -> int | None:
        """The status of pytest in a forked process; None for more than `limit` seconds of CPU time, or if it waits for ever."""
        for name in PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        child = os.fork()
        if not child:
            self._test_and_exit(arguments, limit)
        deadline = time.monotonic() + _WAITING * limit
        ended, status = os.waitpid(child, os.WNOHANG)
        try:
            while not ended and time.monotonic() < deadline:
                time.sleep(0.02)
                ended, status = os.waitpid(child, os.WNOHANG)
        finally:
            # The child has a process group of its own, so that what the tests have started ends with them.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            if not ended:
                os.waitpid(child, 0)
        result = os.waitstatus_to_exitcode(status) if ended else None
        return None if result == -signal.SIGXCPU else result

    def _test_and_exit(self, arguments: list[str], limit: float) -> NoReturn:
        """Runs pytest in this process, without output; the system ends it after `limit` seconds of CPU time."""
        status = 1
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), resource.RLIM_INFINITY))
            os.chdir(self._checkout)
            os.environ.update(self._variables())
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(silent, stream)
            sys.dont_write_bytecode = True  # the compiled form of a mutant must not be taken for that of the next
            sys.path.insert(0, str(self._checkout))
            for name in [name for name in sys.modules if name.partition(".")[0] in ("tools", "tests", "kernelsearch")]:
                del sys.modules[name]
            status = int(pytest.main([*_QUIET, *arguments]))
        finally:
            os._exit(status)


def _run(folder: Path, count: int, seed: int, packages: list[str], limit: float, budget: float) -> dict[str, Counter[str]]:
    """Runs what is not in the journal yet; prints what was not killed, and returns the outcomes by package."""
    checkout, journal = folder / "checkout", folder / "outcomes.jsonl"
    if not checkout.exists():
        ignored = shutil.ignore_patterns(".git", ".venv*", "indexes", "runs", "__pycache__", "htmlcov", ".*_cache")
        shutil.copytree(ROOT, checkout, ignore=ignored)
    known: dict[str, str] = {}
    if journal.is_file():
        known = dict(json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines())
    mutants = sample(count, seed, packages, checkout)
    tests = Tests(checkout, packages, budget)
    for test in sorted(tests.broken):
        print(f"fails without a change, left out: {test}", flush=True)
    outcomes: dict[str, Counter[str]] = {}
    for mutant in mutants:
        key = f"{mutant.file}:{mutant.lines.start}:{mutant.column}: {mutant.change}"
        if (outcome := known.get(key)) is None:
            outcome = tests.outcome(mutant, limit)
            with journal.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps([key, outcome]) + "\n")
        outcomes.setdefault(mutant.package, Counter())[outcome] += 1
        if outcome != "killed":
            print(f"{outcome}: {key[:200]}", flush=True)
    return outcomes


def main() -> None:
    """Prints every survivor and the share of killed mutants."""
    parser = argparse.ArgumentParser(description="Runs the tests on a seeded sample of mutants of the code.")
    parser.add_argument("--count", type=int, default=300, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES), choices=list(PACKAGES), help="packages to mutate")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of CPU time per mutant")
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds of tests per mutant, as without a change; slower tests are left out"
    )
    parser.add_argument("--folder", type=Path, help="folder that keeps the copy and the outcomes, to continue a run later")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kernelsearch-mutants-")))
        outcomes = _run(
            folder.resolve(), arguments.count, arguments.seed, arguments.packages, arguments.limit, arguments.budget
        )
    for package, counts in outcomes.items():
        print(f"{package}: {counts['killed']} of {counts.total()} killed, {counts['too slow']} too slow")
    every = sum(outcomes.values(), Counter[str]())
    share = every["killed"] / max(every.total(), 1)
    print(f"killed: {every['killed']} of {every.total()} ({share:.0%}), {every['too slow']} too slow, seed {arguments.seed}")


if __name__ == "__main__":
    main()
