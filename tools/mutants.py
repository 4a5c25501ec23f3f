"""Mutation testing by a seeded sample: `python -m tools.mutants` changes one operator or constant at a time and runs the tests.

A mutant is killed where a test fails. Each mutant runs the tests of its package, in a copy of the checkout, with a time limit;
a mutant that hangs counts as killed. The survivors are listed with their line: each is a missing test, or a change without
effect.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools import ROOT, environment

#: The packages that are mutated, and the tests that have to notice.
PACKAGES = {
    "kernels": ("tests/kernels",),
    "learning": ("tests/learning",),
    "rerankers": ("tests/rerankers",),
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


def mutations(tree: ast.Module) -> Iterator[tuple[int, str, ast.Module]]:
    """Yields (line, what was changed, changed module) for every operator and number of a module's functions."""
    nodes = [node for top in tree.body for node in ast.walk(top) if _changed(node) is not None]
    for number, node in enumerate(nodes):
        mutant = copy.deepcopy(tree)
        twin = [node for top in mutant.body for node in ast.walk(top) if _changed(node) is not None][number]
        field, value = _changed(twin) or ("", None)
        before = ast.unparse(twin)
        setattr(twin, field, value)
        yield getattr(node, "lineno", 0), f"{before} -> {ast.unparse(twin)}", mutant


def _changed(node: ast.AST) -> tuple[str, object] | None:
    """(field, new value) of the change of a node; None for nodes that aren't changed."""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp) and type(node.op) in _SWAPS:
        return "op", _SWAPS[type(node.op)]()
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        return "ops", [_SWAPS[type(node.ops[0])](), *node.ops[1:]]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return "value", node.value + 1
    return None


def sample(count: int, seed: int, packages: list[str]) -> list[tuple[str, Path, int, str, str]]:
    """A random sample of mutants: (package, file, line, change, source of the changed module)."""
    generator = random.Random(seed)
    places = [
        (package, file)
        for package in packages
        for file in sorted((ROOT / "kernelsearch" / package).rglob("*.py"))
        if file.name not in ("__init__.py", "__main__.py", "settings.py", "plot.py")
    ]
    sizes = {
        file: sum(1 for top in ast.parse(file.read_text()).body for node in ast.walk(top) if _changed(node))
        for _, file in places
    }
    # Files in proportion to their number of possible changes.
    drawn = Counter(generator.choices(places, weights=[sizes[file] for _, file in places], k=count))
    found = []
    for (package, file), times in drawn.items():
        every = list(mutations(ast.parse(file.read_text(encoding="utf-8"))))
        for line, change, tree in generator.sample(every, min(times, len(every))):
            found.append((package, file.relative_to(ROOT), line, change, ast.unparse(tree)))
    return sorted(found, key=lambda mutant: (mutant[1], mutant[2], mutant[3]))


def is_killed(copy_of_checkout: Path, package: str, file: Path, source: str, limit: float) -> bool:
    """Whether the package's tests fail, or take more than `limit` seconds, with this source of the file."""
    target = copy_of_checkout / file
    before = target.read_bytes()
    target.write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *PACKAGES[package]]
    try:
        variables = environment(PYTHONPATH=str(copy_of_checkout), PYTHONDONTWRITEBYTECODE="1", HYPOTHESIS_MAX_EXAMPLES="20")
        done = subprocess.run(command, cwd=copy_of_checkout, env=variables, capture_output=True, timeout=limit)
        return done.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_bytes(before)


def main() -> int:
    """Prints every survivor and the share of killed mutants; returns 1 where it is below `--least`."""
    parser = argparse.ArgumentParser(description="Runs the tests on a seeded sample of mutants of the code.")
    parser.add_argument("--count", type=int, default=300, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES), choices=list(PACKAGES), help="packages to mutate")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds per mutant")
    parser.add_argument("--least", type=float, default=0.0, help="share of killed mutants below which the command fails")
    arguments = parser.parse_args()
    killed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="kernelsearch-mutants-") as folder:
        checkout = Path(folder) / "checkout"
        ignored = shutil.ignore_patterns(".git", ".venv*", "indexes", "runs", "__pycache__", "htmlcov", ".*_cache")
        shutil.copytree(ROOT, checkout, ignore=ignored)
        for package, file, line, change, source in sample(arguments.count, arguments.seed, arguments.packages):
            total[package] += 1
            if is_killed(checkout, package, file, source, arguments.limit):
                killed[package] += 1
            else:
                print(f"survived: {file}:{line}: {' '.join(change.split())[:160]}", flush=True)
    for package in total:
        print(f"{package}: {killed[package]} of {total[package]} killed")
    share = killed.total() / max(total.total(), 1)
    print(f"killed: {killed.total()} of {total.total()} ({share:.0%}), seed {arguments.seed}")
    return 1 if share < arguments.least else 0


if __name__ == "__main__":
    sys.exit(main())
