"""Speed and accuracy of the solver of small quadratic programs, against other packages that are installed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from kernelsearch.core.tables import text_table
from kernelsearch.learning.programs.active_set import solve_program

Floats = NDArray[np.float64]
Solver = Callable[[Floats, Floats, Floats, Floats], Floats]


def _slsqp(quadratic: Floats, linear: Floats, rows: Floats, least: Floats) -> Floats:
    constraint = {"type": "ineq", "fun": lambda x: rows @ x - least, "jac": lambda x: rows}
    result = minimize(
        lambda x: x @ quadratic @ x / 2 - linear @ x,
        x0=np.full(len(linear), 0.5),
        jac=lambda x: quadratic @ x - linear,
        constraints=constraint,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return np.asarray(result.x)


def solvers() -> dict[str, Solver]:
    """The solvers that can be compared here, by name."""
    result: dict[str, Solver] = {"active set (ours)": solve_program, "SLSQP (SciPy)": _slsqp}
    for name in ("quadprog", "daqp"):
        try:
            package: Any = import_module(name)
        except ImportError:
            continue
        if name == "quadprog":
            result[name] = lambda H, c, R, b, package=package: package.solve_qp(H, c, R.T.copy(), b)[0]  # type: ignore[misc]
        else:
            result[name] = lambda H, c, R, b, package=package: package.solve(  # type: ignore[misc]
                H, -c, R, np.full(len(b), 1e30), b, np.zeros(len(b), dtype=np.intc)
            )[0]
    return result


def main() -> None:
    """Prints milliseconds per program and the largest difference from our solution."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100, help="number of programs per size")
    arguments = parser.parse_args()
    rows = []
    for size in (5, 20, 40):
        generator = np.random.default_rng(0)
        programs = []
        for _ in range(arguments.programs):
            root = generator.normal(size=(size, size))
            inside = generator.random(size)
            extra = generator.normal(size=(5, size))
            conditions = np.vstack([np.eye(size), -np.eye(size), extra])
            least = np.concatenate([np.zeros(size), -np.ones(size), extra @ inside - 0.01])
            programs.append((root @ root.T / size + 1e-3 * np.eye(size), generator.normal(size=size), conditions, least))
        ours = [solve_program(*program) for program in programs]
        for name, solve in solvers().items():
            start = time.perf_counter()
            results = [solve(*program) for program in programs]
            spent = (time.perf_counter() - start) / len(programs)
            apart = max(float(np.abs(result - own).max()) for result, own in zip(results, ours, strict=True))
            rows.append((size, name, f"{1000 * spent:.2f}", f"{apart:.1e}"))
    print(text_table(("variables", "solver", "ms", "largest difference"), rows, align="><>>"))


if __name__ == "__main__":
    main()
