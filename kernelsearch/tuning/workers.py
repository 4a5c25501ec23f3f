"""Trying settings in several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import KernelSearchError
from kernelsearch.tuning.space import Setting
from kernelsearch.tuning.trials import Trials, start_worker, stop_workers, try_settings


def try_tasks(
    trials: Trials, tasks: list[list[Setting]], processes: int
) -> Iterator[tuple[list[Setting], NDArray[np.float64]]]:
    """(task, values) as they come, from this process or from several."""
    if processes == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, trials.values(task)
        return
    with _workers(trials, min(processes, len(tasks))) as pool:
        waiting = {pool.submit(try_settings, task): task for task in tasks}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        except BrokenProcessPool:
            raise KernelSearchError(
                "a process of --processes died (out of memory?); the same command goes on from here"
            ) from None
        except BaseException:
            stop_workers(trials.folder)
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _workers(trials: Trials, count: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes (a forked JVM can't work), one BLAS thread each: they share the cores already."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, context, start_worker, (str(trials.folder), os.getpid(), trials.index)) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
