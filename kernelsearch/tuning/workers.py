"""Trying settings in several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import KernelSearchError
from kernelsearch.tuning.space import Setting
from kernelsearch.tuning.trials import Trials, start_worker, stop_workers, try_settings


def try_tasks(
    trials: Trials, tasks: list[list[Setting]], processes: int
) -> Iterator[tuple[list[Setting], NDArray[np.float64]]]:
    """Yields (task, values of shape (settings of the task, topics)) in the order of completion.

    `tasks` are lists of settings with the same first stage, which `trials` measures in at most so many `processes`. With one
    process, or one task, the work is done in this process. Raises KernelSearchError where a worker dies.
    """
    if processes == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, trials.values(task)
        return
    # Spawned, because a JVM doesn't work in a forked process.
    context = multiprocessing.get_context("spawn")
    arguments = (str(trials.folder), os.getpid(), trials.index)
    with ProcessPoolExecutor(min(processes, len(tasks)), context, start_worker, arguments) as pool:
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
