"""Mutation testing by a seeded sample: `python -m tools.mutants` changes one operator or constant at a time and runs the tests.

A mutant is killed where a test fails. The tests run once unchanged, with coverage; a mutant then runs only the tests that
execute its line, in a copy of the checkout, with a time limit. A mutant beyond the limit is listed and not counted as killed:
on a busy machine the tests alone may take that long. Survivors are listed with their line: each is a missing test, or a change
without effect.

Mutants run in the random order of the sample, so that a run that was stopped has a sample too. With `--folder`, the copy, its
coverage and every outcome are kept, and the same command continues where it was stopped.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import coverage

from tools import ROOT, environment

#: The packages that are mutated, and the tests that have to notice.
PACKAGES = {
    "kernels": ("tests/kernels", "tests/papers"),
    "learning": ("tests/learning", "tests/papers", "tests/verbs/test_classify.py"),
    "rerankers": ("tests/rerankers", "tests/papers"),
    "forward": ("tests/forward",),
    "clicks": ("tests/clicks",),
}
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
    """The operators and numbers of a module."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.expr) and _changed(node) is not None]


def mutation(tree: ast.Module, number: int) -> tuple[range, int, str, ast.Module]:
    """(lines, column, what was changed, changed module) for one of the `places` of a module."""
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
    """A random sample of mutants of a checkout, in random order."""
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
    """The tests of some packages in a copy of the checkout, and which of them execute a line.

    Tests that fail without any change are left out and listed in `broken`. The run without a change is not repeated where its
    results are in the copy.
    """

    def __init__(self, checkout: Path, packages: list[str]) -> None:
        self._checkout = checkout
        results = checkout / "mutant-baseline.json"
        if results.is_file():
            self.broken = set(json.loads(results.read_text(encoding="utf-8")))
        else:
            self.broken = self._run_unchanged(packages)
            results.write_text(json.dumps(sorted(self.broken)), encoding="utf-8")
        self._data = coverage.CoverageData(str(checkout / ".coverage"))
        self._data.read()

    def _run_unchanged(self, packages: list[str]) -> set[str]:
        """Runs all tests with coverage; returns those that fail."""
        folders = sorted({folder for package in packages for folder in PACKAGES[package]})
        done = self._run(
            ["-p", "pytest_cov", "--cov=kernelsearch", "--cov-context=test", "--cov-report=", "-rfE", *folders], None
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"the tests cannot be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        outcomes = [line.split() for line in done.stdout.splitlines()]
        return {words[1] for words in outcomes if len(words) > 1 and words[0] in ("FAILED", "ERROR") and "::" in words[1]}

    def covering(self, mutant: Mutant) -> list[str]:
        """The tests that execute the mutant's lines, or for code that runs on import the tests that execute any of the file.

        A fixture may be shared by all tests of a file; where the setup of a test executes the lines, the whole file is run.
        """
        by_line = self._data.contexts_by_lineno(str(self._checkout / mutant.file))
        contexts = {context for line in mutant.lines for context in by_line.get(line, [])}
        if contexts == {""}:
            contexts = {context for line in by_line.values() for context in line}
        result = set()
        for context in contexts - {""}:
            test, _, phase = context.rpartition("|")
            result.add(test if phase == "run" else test.partition("::")[0])
        return sorted(
            test for test in result - self.broken if test.partition("::")[0] == test or test.partition("::")[0] not in result
        )

    def outcome(self, mutant: Mutant, limit: float) -> str:
        """ "killed", "survived", "not covered", or "too slow" after `limit` seconds."""
        if not (tests := self.covering(mutant)):
            return "not covered"
        target = self._checkout / mutant.file
        before = target.read_bytes()
        target.write_text(mutant.source, encoding="utf-8")
        try:
            chosen = self._checkout / "mutant-tests.txt"
            chosen.write_text(
                "\n".join([*(f"--deselect={test}" for test in sorted(self.broken)), *tests]) + "\n", encoding="utf-8"
            )
            return "survived" if self._run(["-x", f"@{chosen.name}"], limit).returncode == 0 else "killed"
        except subprocess.TimeoutExpired:
            return "too slow"
        finally:
            target.write_bytes(before)

    def _run(self, arguments: list[str], limit: float | None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", *arguments]
        # The tests need none of the installed plugins, and some take seconds to import.
        variables = environment(PYTHONPATH=str(self._checkout), PYTHONDONTWRITEBYTECODE="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
        # A process group of its own, so that what the tests have started ends with them.
        with subprocess.Popen(
            command,
            cwd=self._checkout,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        ) as process:
            try:
                output, errors = process.communicate(timeout=limit)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _run(folder: Path, count: int, seed: int, packages: list[str], limit: float) -> dict[str, Counter[str]]:
    """Runs what is not in the journal yet; prints what was not killed, and returns the outcomes by package."""
    checkout, journal = folder / "checkout", folder / "outcomes.jsonl"
    if not checkout.exists():
        ignored = shutil.ignore_patterns(".git", ".venv*", "indexes", "runs", "__pycache__", "htmlcov", ".*_cache")
        shutil.copytree(ROOT, checkout, ignore=ignored)
    known: dict[str, str] = {}
    if journal.is_file():
        known = dict(json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines())
    mutants = sample(count, seed, packages, checkout)
    tests = Tests(checkout, packages)
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


def main() -> int:
    """Prints every survivor and the share of killed mutants; returns 1 where it is below `--least`."""
    parser = argparse.ArgumentParser(description="Runs the tests on a seeded sample of mutants of the code.")
    parser.add_argument("--count", type=int, default=300, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES), choices=list(PACKAGES), help="packages to mutate")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds per mutant")
    parser.add_argument("--folder", type=Path, help="folder that keeps the copy and the outcomes, to continue a run later")
    parser.add_argument("--least", type=float, default=0.0, help="share of killed mutants below which the command fails")
    arguments = parser.parse_args()
    os.nice(10)
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kernelsearch-mutants-")))
        outcomes = _run(folder.resolve(), arguments.count, arguments.seed, arguments.packages, arguments.limit)
    for package, counts in outcomes.items():
        print(f"{package}: {counts['killed']} of {counts.total()} killed, {counts['too slow']} too slow")
    every = sum(outcomes.values(), Counter[str]())
    share = every["killed"] / max(every.total(), 1)
    print(f"killed: {every['killed']} of {every.total()} ({share:.0%}), {every['too slow']} too slow, seed {arguments.seed}")
    return 1 if share < arguments.least else 0


if __name__ == "__main__":
    sys.exit(main())
