"""Choosing settings without fooling oneself: what is reported for a topic comes from settings chosen without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fold:
    """One fold: its topics, the setting that was best on all others, and what it is worth on both."""

    topics: NDArray[np.int64]
    chosen: int
    training_mean: float
    held_out_mean: float


@dataclass(frozen=True)
class Choice:
    """The outcome over all folds."""

    folds: list[Fold]
    held_out: Floats  #: a topic's value under the setting that was chosen without its fold (topics,)
    best: int  #: the setting with the best mean over all topics
    best_mean: float  #: that mean: seen while choosing, hence too good


def assign_folds(topics: int, folds: int, seed: int) -> NDArray[np.int64]:
    """A random fold for each topic, sizes equal up to one, shape (topics,)."""
    if folds > topics:
        raise OptionError(f"--folds: {folds}, but there are only {topics} judged topics")
    assigned = np.empty(topics, dtype=np.int64)
    assigned[np.random.default_rng(seed).permutation(topics)] = np.arange(topics) % folds
    return assigned


def choose(values: Floats, assigned: Sequence[int] | NDArray[np.int64]) -> Choice:
    """k-fold choice among settings; `values` is (settings, topics). Among equals the first setting wins."""
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
