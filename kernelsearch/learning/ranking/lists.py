"""Rows that belong to queries: which rows are a query's list, normalisation within it, and how good an order is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.measures import average_precision

Floats = NDArray[np.float64]

NORMALISATIONS = ("z", "minmax", "none")


@dataclass(frozen=True)
class Lists:
    """The lists of a table whose rows carry query ids.

    `order` brings the rows of a query together (stable); `starts` says where each query begins in that order; `names` are the
    query ids in the same order as `starts`.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    names: NDArray[np.generic]

    @classmethod
    def of(cls, qid: ArrayLike) -> Lists:
        """The lists of a table whose rows belong to the queries `qid` (rows,)."""
        ids = np.asarray(qid)
        order = np.argsort(ids, kind="stable")
        names, starts = np.unique(ids[order], return_index=True)
        return cls(order, starts.astype(np.int64), names)

    @classmethod
    def single(cls, rows: int) -> Lists:
        """One list of all rows, without sorting."""
        starts = np.zeros(min(rows, 1), dtype=np.int64)
        return cls(np.arange(rows), starts, starts)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows per query, shape (queries,)."""
        return np.diff(np.append(self.starts, len(self.order)))

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        """The rows of each query."""
        return iter(np.split(self.order, self.starts[1:])) if len(self.starts) else iter(())

    def spread(self, values: Floats) -> Floats:
        """`values` (queries, ...), one per query, repeated for each of its rows in the table's own order, shape (rows, ...)."""
        out = np.empty((len(self.order), *values.shape[1:]), dtype=values.dtype)
        out[self.order] = np.repeat(values, self.sizes, axis=0)
        return out


class TableError(InputError, ValueError):
    """Features, labels or query ids that make no table; a ValueError as well, as scikit-learn's tools expect."""


def check(X: ArrayLike, qid: ArrayLike | None, y: ArrayLike | None = None) -> tuple[Floats, NDArray[np.generic], Floats]:
    """The table (rows, features), its query ids (rows,) and its labels (rows,) as arrays.

    `X` is the table, `y` are the labels, zeros by default; without `qid` all rows are one list. Raises TableError for shapes
    that disagree and values that aren't finite.
    """
    if hasattr(X, "toarray"):
        raise TableError("features: sparse tables are not supported, dense ones were expected")
    if np.iscomplexobj(X):
        raise TableError("features: Complex data not supported")
    table = np.asarray(X, dtype=np.float64)
    if table.ndim != 2:
        raise TableError(
            f"features: a table of rows and columns was expected, shape {table.shape} was found. Reshape your data with "
            "X.reshape(-1, 1) if it is one feature, with X.reshape(1, -1) if it is one row"
        )
    ids = np.zeros(len(table), dtype=np.int64) if qid is None else np.asarray(qid)
    labels = np.zeros(len(table)) if y is None else np.asarray(y, dtype=np.float64)
    if ids.shape != (len(table),) or labels.shape != (len(table),):
        raise TableError(f"features: {len(table)} rows, but {len(ids)} query ids and {len(labels)} labels")
    if not np.isfinite(table).all():
        row, column = (int(place[0]) for place in np.nonzero(~np.isfinite(table)))
        raise TableError(f"features: row {row + 1}, column {column + 1} is NaN or infinite")
    if not np.isfinite(labels).all():
        raise TableError(f"labels: that of row {int(np.flatnonzero(~np.isfinite(labels))[0]) + 1} is NaN or infinite")
    return table, ids, labels


def check_training(X: ArrayLike, y: ArrayLike | None, qid: ArrayLike | None) -> tuple[Floats, NDArray[np.generic], Floats]:
    """As `check` of `X`, `y` and `qid`, for a table to learn from. Raises TableError without labels, rows or features, too."""
    if y is None:
        raise TableError("labels: a learner requires y to be passed, but the target y is None")
    table, ids, labels = check(X, qid, y)
    for number, unit in zip(table.shape, ("sample", "feature"), strict=True):
        if not number:
            raise TableError(f"features: 0 {unit}(s) (shape={table.shape}) while a minimum of 1 is required.")
    return table, ids, labels


def require_contrast(labels: Floats, lists: Lists) -> None:
    """Raises TableError, with the reason, where none of `lists` has two different `labels` (rows,): nothing can be learned."""
    if any(np.ptp(labels[rows]) > 0 for rows in lists):
        return
    if len(labels) == 1:
        reason = "there is one sample only"
    elif (labels > 0).all():
        reason = "all documents are relevant"
    elif not (labels > 0).any():
        reason = "no document is relevant"
    else:
        reason = "no query has both relevant and other documents"
    raise TableError(f"training: {reason}, so there is nothing to learn")


def normalise_features(X: Floats, lists: Lists, kind: str = "z") -> Floats:
    """The table `X` with each column brought to one scale within each of `lists`, a list per query, shape (rows, features).

    `kind` is `z` (mean 0, deviation 1), `minmax` (0..1) or `none`; raises OptionError for another. A column that is constant in
    a query becomes 0 there: it can't order anything.
    """
    if kind not in NORMALISATIONS:
        raise OptionError(f"normalisation {kind!r} is not one of {', '.join(NORMALISATIONS)}")
    if kind == "none" or not len(X):
        return X
    if kind == "z" and len(lists) == 1:
        return zscores(X)
    sorted_rows = X[lists.order]
    low = np.minimum.reduceat(sorted_rows, lists.starts)
    high = np.maximum.reduceat(sorted_rows, lists.starts)
    if kind == "minmax":
        shift, scale = low, high - low
    else:
        sizes = lists.sizes[:, None]
        shift = np.add.reduceat(sorted_rows, lists.starts) / sizes
        centred = sorted_rows - np.repeat(shift, lists.sizes, axis=0)
        scale = np.sqrt(np.add.reduceat(centred**2, lists.starts) / sizes)
    # Sums of equal numbers leave rounding errors behind; a scale made of those is no scale.
    constant = high - low <= 1e-12 * np.maximum(np.abs(high), np.abs(low))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=~constant & (scale > 0))
    return (X - lists.spread(shift)) * lists.spread(inverse)


def zscores(values: ArrayLike, error: float = 0.0) -> Floats:
    """`values` (rows,) or (rows, columns) of one list, each column with mean 0 and deviation 1; a constant column becomes 0.

    `error` is how far values may be from each other that should be equal, besides the rounding errors of double precision.
    """
    table = np.asarray(values, dtype=np.float64)
    if not len(table):
        return table
    if table.ndim == 2 and table.shape[1] == 1:
        return zscores(table[:, 0], error)[:, None]
    # As `normalise_features` does for many lists; for one, without its bookkeeping, and for one column with plain numbers.
    centred: Floats = table - table.mean(axis=0)
    if table.ndim == 1:
        lowest, highest = float(table.min()), float(table.max())
        deviation = math.sqrt(float(centred @ centred) / len(table))
        alike = highest - lowest <= max(error, 1e-12 * max(abs(highest), abs(lowest)))
        centred *= 0.0 if alike or not deviation > 0 else 1.0 / deviation
        return centred
    low, high = table.min(axis=0), table.max(axis=0)
    scale = np.sqrt(np.mean(centred * centred, axis=0))
    constant = high - low <= np.maximum(error, 1e-12 * np.maximum(np.abs(high), np.abs(low)))
    centred *= np.divide(1.0, scale, out=np.zeros_like(scale), where=~constant & (scale > 0))
    return centred


def cautious_order(scores: Floats, relevant: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The rows of one list by score, best first; of equal scores the rows that aren't relevant come first.

    Learning files often list relevant documents first, so an order of equal scores by row would give the judgements away:
    scores that are all equal would have an AP of 1.
    """
    return np.lexsort((relevant, -scores))


def list_average_precision(scores: Floats, relevant: NDArray[np.bool_], total: int | None = None) -> float:
    """AP of the order that `scores` (documents,) give to one list, by `cautious_order`: ties count against the scores.

    `total` is the number of relevant documents where the list lacks some; None takes those of the list.
    """
    places = np.flatnonzero(relevant[cautious_order(scores, relevant)])
    return average_precision(places, len(places) if total is None else total)


def mean_average_precision(scores: Floats, y: Floats, lists: Lists) -> float:
    """The mean of AP over those of `lists` that have something relevant; `scores` and labels `y` have one value per row."""
    values = [list_average_precision(scores[rows], y[rows] > 0) for rows in lists if (y[rows] > 0).any()]
    return float(np.mean(values)) if values else 0.0
