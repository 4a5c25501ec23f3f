"""Helpers for sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Integer = TypeVar("Integer", bound=np.integer)


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yields consecutive slices of at most `size` items.

    >>> list(chunks([1, 2, 3, 4, 5], 2))
    [[1, 2], [3, 4], [5]]
    """
    return (items[start : start + size] for start in range(0, len(items), size))


def difference(numbers: NDArray[Integer], others: NDArray[np.integer]) -> NDArray[Integer]:
    """Returns the distinct `numbers` (n,) that are not among `others` (m,), ascending.

    As numpy.setdiff1d, which takes several times as long for the documents of a query.

    >>> difference(np.array([5, 2, 9, 5]), np.array([9, 1])).tolist()
    [2, 5]
    """
    ordered = np.sort(numbers)
    if len(others):
        excluded = np.sort(others)
        ordered = ordered[excluded.take(excluded.searchsorted(ordered), mode="clip") != ordered]
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]
