"""Items shared by threads: order, errors, and one thread where one is enough."""

from __future__ import annotations

import threading
import time

import pytest

from kernelsearch.core.execution import map_in_threads


def test_results_are_in_the_order_of_the_items():
    def slowest_first(item):
        time.sleep(0.02 if item == 0 else 0)
        return item * item

    assert map_in_threads(slowest_first, list(range(9)), 3) == [item * item for item in range(9)]
    assert map_in_threads(slowest_first, [], 3) == []


def test_threads_run_at_the_same_time_and_one_thread_is_the_callers():
    both = threading.Barrier(2, timeout=60)
    map_in_threads(lambda item: both.wait(), [0, 1], 2)  # each waits for the other
    assert map_in_threads(lambda item: threading.current_thread(), [0, 1], 1) == [threading.current_thread()] * 2


def test_the_first_error_is_raised():
    with pytest.raises(ZeroDivisionError):
        map_in_threads(lambda item: 1 / item, [1, 0, 2], 2)
