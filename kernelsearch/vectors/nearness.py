"""How near a query lies to the documents of a collection, compared with how near documents lie to each other.

The vector of a query that an encoder does not represent well lies away from all documents: the nearest ones are hardly nearer
than the others, and their order says little. How large cosines are depends on the encoder and on the collection, so the
difference between the nearest documents and all of them is divided by the difference that is usual for a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import invariants
from kernelsearch.core.rows import unit_rows

#: Nearest documents that are looked at.
NEIGHBOURS = 10
#: Documents whose neighbours are looked at, documents whose mean approximates that of all, and the fewest documents with
#: vectors that a collection must have.
SAMPLE, MEAN_OF, FEWEST_DOCUMENTS = 300, 10_000, 100
#: Rows that are read at a time, so that memory does not grow with the number of documents.
ROWS = 4096
#: How far rounding may bring the length of a mean of unit vectors above 1.
ROUNDING = 1e-3


@dataclass(frozen=True)
class Nearness:
    """The `mean` (dims,) of the documents' unit vectors, and how much nearer a document's nearest ones are than all others.

    `usual` is 0 where that is not known: for too few documents, and where all are the same.
    """

    mean: NDArray[np.float32]
    usual: float

    @classmethod
    def measure(cls, matrix: NDArray[np.floating], present: NDArray[np.bool_]) -> Nearness:
        """Measured on documents spread evenly over those with a vector.

        `matrix` (rows, dims) has the vectors of documents, `present` (rows,) says which rows have one. The nearest documents
        are those with the largest inner products, as in a search, among all: the result does not depend on a FAISS index.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # products of very large float32 values
            return cls._measure(matrix, present)

    @classmethod
    def _measure(cls, matrix: NDArray[np.floating], present: NDArray[np.bool_]) -> Nearness:
        rows = np.flatnonzero(present)
        averaged = _spread(rows, MEAN_OF)
        total = np.zeros(matrix.shape[1])
        for start in range(0, len(averaged), ROWS):
            total += unit_rows(_vectors(matrix, averaged[start : start + ROWS])).sum(axis=0, dtype=np.float64)
        mean = (total / max(1, len(averaged))).astype(np.float32)
        if len(rows) < FEWEST_DOCUMENTS:
            return cls(mean, 0.0)
        sample = _spread(rows, SAMPLE)
        nearest = _nearest(matrix, rows, sample)
        excess = [
            _excess(vector, unit_rows(_vectors(matrix, near)), mean)
            for vector, near in zip(unit_rows(_vectors(matrix, sample)), nearest, strict=True)
        ]
        return cls(mean, max(0.0, float(np.median(excess))))

    @classmethod
    def load(cls, arrays: Mapping[str, NDArray[Any]]) -> Nearness:
        """What `arrays` saved."""
        return cls(np.asarray(arrays["mean"]), float(arrays["usual"][0]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to save, by name."""
        return {"mean": self.mean, "usual": np.array([self.usual])}

    def of(self, vector: NDArray[np.floating], nearest: NDArray[np.float32]) -> float | None:
        """How near the unit vectors `nearest` (documents, dims) are to a query's `vector` (dims,); 1 is usual for documents.

        None where it is not known what is usual, or `nearest` has no rows.
        """
        if not self.usual or not len(nearest):
            return None
        return _excess(unit_rows(np.asarray(vector, dtype=np.float32)[None])[0], nearest[:NEIGHBOURS], self.mean) / self.usual


def validate(arrays: Mapping[str, NDArray[Any]], dims: int) -> None:
    """Raises KeyError or ValueError for saved `arrays` that no measurement of vectors with `dims` dimensions gives."""
    mean, usual = arrays["mean"], arrays["usual"]
    invariants.require_length("mean", mean, dims)
    invariants.require_finite("mean", mean)
    invariants.require_length("usual", usual, 1)
    invariants.require_finite("usual", usual)
    if float(np.linalg.norm(mean)) > 1 + ROUNDING or not 0 <= float(usual[0]) <= 2 + ROUNDING:
        raise ValueError("mean or usual is not that of cosines")


def _nearest(matrix: NDArray[np.floating], rows: NDArray[np.int64], sample: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row of `sample`, the NEIGHBOURS other ones of `rows` with the largest inner products, in any order."""
    queries = _vectors(matrix, sample)
    best = np.full((len(sample), NEIGHBOURS), -np.inf, dtype=np.float32)
    nearest = np.zeros(best.shape, dtype=np.int64)
    for start in range(0, len(rows), ROWS):
        block = rows[start : start + ROWS]
        products = np.hstack([best, queries @ _vectors(matrix, block).T])
        products[:, NEIGHBOURS:][sample[:, None] == block] = -np.inf
        places = np.argpartition(-products, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
        best = np.take_along_axis(products, places, axis=1)
        numbers = np.hstack([nearest, np.broadcast_to(block, (len(sample), len(block)))])
        nearest = np.take_along_axis(numbers, places, axis=1)
    return nearest


def _vectors(matrix: NDArray[np.floating], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    return np.asarray(matrix[rows], dtype=np.float32)


def _excess(vector: NDArray[np.float32], nearest: NDArray[np.float32], mean: NDArray[np.float32]) -> float:
    """By how much the mean cosine of `vector` with the unit vectors `nearest` is above that with all documents."""
    return float((nearest @ vector).mean() - mean @ vector)


def _spread(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """At most `count` of `rows`, evenly spread over them."""
    return np.asarray(rows[np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(np.int64)])
