"""Boosted trees on Dask workers, through xgboost's own interface to Dask."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.installed import install_command

#: How often trees are grown anew when a worker is lost over them.
ATTEMPTS = 4
#: Seconds in which the scheduler notices a lost worker, and in which a new one may take its place.
NOTICED, REPLACED = 5.0, 60.0


def train(
    client: Any,
    settings: dict[str, Any],
    trees: int,
    table: NDArray[np.float64],
    labels: NDArray[np.float32],
    start: NDArray[np.float64],
    sizes: NDArray[np.integer],
) -> Any:
    """A booster like `xgboost.train`'s. Rows come query after query, `sizes` rows each; `start` is their base margin.

    `client` is that of the Dask cluster, `settings` are xgboost's, `trees` is the number of rounds, `table` has shape (rows,
    features), `labels` and `start` (rows,), `sizes` (queries,). Raises OptionError without Dask, InputError where workers are
    lost repeatedly.

    The table is cut between queries, one part per worker: lambdas are computed within lists, so no list may be split. Sums of
    gradients are added up in the workers' order: scores agree with those of one process up to rounding, and the trees that it
    tips. xgboost can't go on without a worker; where one is lost, all trees are grown again.
    """
    try:
        boosting = import_module("xgboost.dask")
        tracker = import_module("kernelsearch.learning.ranking.dask_tracker")
    except ImportError as problem:
        raise OptionError(
            f"fusion needs {problem.name}; install it with: {install_command('dask')}",
            option=Flag("engine", value="dask"),
        ) from None
    columns = (table, labels, np.repeat(np.arange(len(sizes)), sizes), start)
    wanted = min(len(_workers(client)), len(sizes))
    ends = part_ends(sizes, wanted)
    for _ in range(ATTEMPTS):
        workers = _workers(client)
        try:
            with tracker.client_with_tracker_apart(client) as training:
                rows, label, qid, margin = training.persist([_spread(training, column, ends, workers) for column in columns])
                matrix = boosting.DaskDMatrix(training, rows, label, qid=qid, base_margin=margin)
                return boosting.train(training, settings, matrix, num_boost_round=trees)["booster"]
        except (CancelledError, RuntimeError, OSError, ValueError):
            if not _lost(client, workers):
                raise
            _wait_for(client, wanted)
    raise InputError(
        f"workers were lost {ATTEMPTS} times while trees were grown (out of memory?)", option=Flag("engine", value="dask")
    )


def part_ends(sizes: NDArray[np.integer], parts: int) -> list[int]:
    """Where each of `parts` parts of the rows ends, at most as many as queries, whose rows are `sizes` (queries,).

    A part has whole queries, and parts differ by at most one of them.
    """
    queries = np.linspace(0, len(sizes), parts + 1).astype(int)[1:]
    ends: list[int] = np.cumsum(sizes)[queries - 1].tolist()
    return ends


def _workers(client: Any) -> list[str]:
    """The workers' addresses in the order of their names, as xgboost has them too; a lost worker's successor has its name."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return sorted(workers, key=lambda address: str(workers[address]["name"]))


def _spread(client: Any, column: NDArray[Any], ends: list[int], workers: list[str]) -> Any:
    """A Dask array whose parts end at these rows, the first one held by the first worker, and so on."""
    array: Any = import_module("dask.array")
    delayed: Any = import_module("dask.delayed").delayed
    pieces = np.split(column, ends[:-1])
    held = [client.scatter(piece, workers=[workers[n % len(workers)]], hash=False) for n, piece in enumerate(pieces)]
    blocks = [array.from_delayed(delayed(future), part.shape, part.dtype) for future, part in zip(held, pieces, strict=True)]
    return array.concatenate(blocks)


def _lost(client: Any, before: list[str]) -> bool:
    """Whether one of these workers is gone: what went wrong is then no fault of the data or the settings."""
    end = time.monotonic() + NOTICED
    while set(before) <= set(_workers(client)):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def _wait_for(client: Any, workers: int) -> None:
    """Waits for the replacement of a lost worker; continues without one where none appears."""
    try:
        client.wait_for_workers(workers, timeout=REPLACED)
    except TimeoutError:
        client.wait_for_workers(1)
