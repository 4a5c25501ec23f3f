"""Choosing settings by cross-validation: what is reported for a topic comes from a setting that was chosen without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fold:
    """One fold: its topics, the setting that is best on all other topics, and its mean on those (training) and on the fold."""

    topics: NDArray[np.int64]
    chosen: int
    training_mean: float
    held_out_mean: float


@dataclass(frozen=True)
class Choice:
    """The result over all folds."""

    folds: list[Fold]
    held_out: Floats  #: each topic's value under the setting chosen without its fold, shape (topics,)
    best: int  #: the setting with the best mean over all topics
    best_mean: float  #: its mean, which is optimistic: the setting was chosen on the same topics


def choose(values: Floats, assigned: Sequence[int] | NDArray[np.int64]) -> Choice:
    """Chooses a setting per fold by the mean of the other folds; of equal settings the first.

    `values` is (settings, topics), `assigned` (topics,) the fold of each topic.
    """
    numbers = np.asarray(assigned)
    held_out = np.empty(values.shape[1])
    folds = []
    for fold in range(int(numbers.max()) + 1):
        test = numbers == fold
        means = values[:, ~test].mean(axis=1)
        chosen = int(np.argmax(means))
        held_out[test] = values[chosen, test]
        folds.append(Fold(np.flatnonzero(test), chosen, float(means[chosen]), float(held_out[test].mean())))
    means = values.mean(axis=1)
    best = int(np.argmax(means))
    return Choice(folds, held_out, best, float(means[best]))
