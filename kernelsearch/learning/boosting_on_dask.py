"""Boosted trees on Dask workers, through xgboost's own interface to Dask."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.errors import InputError, OptionError


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

    The table is cut between queries, one part a worker: lambdas are made within lists, so no list may be torn. Sums of
    gradients are added up in the workers' order: scores agree with those of one process up to rounding, and the trees that it
    tips.
    """
    try:
        boosting = import_module("xgboost.dask")
        array = import_module("dask.array")
    except ImportError as problem:
        raise OptionError(
            f"--engine dask: fusion needs {problem.name}; install it with: pip install 'kernelsearch[dask]'"
        ) from None
    workers = max(1, min(len(client.scheduler_info()["workers"]), len(sizes)))
    ends = np.cumsum(sizes)
    cuts = np.unique([int(ends[place - 1]) for place in np.linspace(0, len(sizes), workers + 1).astype(int)[1:]])
    chunks = tuple(np.diff(np.concatenate([[0], cuts])).tolist())
    parts = [
        array.from_array(np.ascontiguousarray(one), chunks=(chunks, *((one.shape[1],) if one.ndim == 2 else ())))
        for one in (table, labels, np.repeat(np.arange(len(sizes)), sizes), start)
    ]
    rows, label, qid, margin = client.persist(parts)
    with client.as_current():  # xgboost asks Dask for it here and there, though it was told
        matrix = boosting.DaskDMatrix(client, rows, label, qid=qid, base_margin=margin)
        try:
            return boosting.train(client, settings, matrix, num_boost_round=trees)["booster"]
        except (RuntimeError, OSError) as problem:
            raise InputError(f"--engine dask: a worker was lost while trees were grown, start again ({problem})") from None
