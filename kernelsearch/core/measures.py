"""Average precision, which both learning and evaluation need."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def average_precision(places: NDArray[np.integer], relevant: int) -> float:
    """AP of one list, as trec_eval's map.

    `places` (found,): positions from 0, ascending, of the relevant documents that the list has; `relevant`: how many there
    are, in the list or not. 0 where there is none.

    >>> average_precision(np.array([0, 2]), 2)  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    return float((np.arange(1, len(places) + 1) / (places + 1)).sum() / max(relevant, 1))
