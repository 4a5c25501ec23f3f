"""Rows of dense matrices, divided by their lengths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the rows of `vectors` (n, dims) at unit length; rows of zeros stay.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    return divide_rows(vectors, np.linalg.norm(vectors, axis=1))


def divide_rows(vectors: NDArray[np.float32], lengths: NDArray[np.floating]) -> NDArray[np.float32]:
    """Returns the rows of `vectors` (n, dims) divided by `lengths` (n,); zeros where a length is 0."""
    column = lengths[:, None]
    return np.asarray(np.divide(vectors, column, out=np.zeros_like(vectors), where=column > 0))
