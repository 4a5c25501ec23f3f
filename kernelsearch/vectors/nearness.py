"""How near a query lies to the documents of a collection, compared with how near documents lie to each other.

The vector of a query that an encoder does not represent well lies away from all documents: the nearest ones are hardly nearer
than the others, and their order says little. How large cosines are depends on the encoder and on the collection, so the
difference between the nearest documents and all of them is divided by the difference that is usual for a document.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.rows import unit_rows
from kernelsearch.vectors.store import DocumentVectors

#: Nearest documents that are looked at.
NEIGHBOURS = 10
#: Documents whose neighbours are looked at, documents whose mean stands for all, and the fewest documents with vectors that a
#: collection must have.
SAMPLE, MEAN_OF, FEWEST_DOCUMENTS = 300, 10_000, 100


@dataclass(frozen=True)
class Nearness:
    """The mean of the documents' unit vectors, and how much nearer the nearest documents of a document are than all others."""

    mean: NDArray[np.float32]
    usual: float

    @classmethod
    def measure(cls, documents: DocumentVectors) -> Nearness | None:
        """Measured on documents spread evenly over `documents`; None for too few documents, and where all are the same."""
        rows = np.flatnonzero(documents.present)
        if len(rows) < FEWEST_DOCUMENTS:
            return None
        mean = documents.unit(_spread(rows, MEAN_OF)).mean(axis=0)
        sample = _spread(rows, SAMPLE)
        nearest = documents.nearest(documents.take(sample), NEIGHBOURS + 1)
        excess = [
            _excess(vector, documents.unit(near[near != row][:NEIGHBOURS]), mean)
            for row, vector, (near, _) in zip(sample.tolist(), documents.unit(sample), nearest, strict=True)
        ]
        usual = float(np.median(excess))
        return cls(mean, usual) if usual > 0 else None

    def of(self, vector: NDArray[np.floating], nearest: NDArray[np.float32]) -> float:
        """How near the unit vectors `nearest` (documents, dims) are to a query's `vector` (dims,); 1 is usual for documents."""
        return _excess(unit_rows(np.asarray(vector, dtype=np.float32)[None])[0], nearest[:NEIGHBOURS], self.mean) / self.usual


def _excess(vector: NDArray[np.float32], nearest: NDArray[np.float32], mean: NDArray[np.float32]) -> float:
    """By how much the mean cosine of `vector` with the unit vectors `nearest` is above that with all documents."""
    return float((nearest @ vector).mean() - mean @ vector)


def _spread(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """At most `count` of `rows`, evenly spread over them."""
    return np.asarray(rows[np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(np.int64)])
