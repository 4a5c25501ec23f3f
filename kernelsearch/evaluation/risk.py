"""How often and how badly a method hurts queries, against a baseline.

All functions take one value of a measure per query (usually average precision), `baseline` and `treatment` in the same order of
queries. A mean shows what a method gains on average; these figures show what it loses on single queries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import InputError

#: Differences below this are rounding, not effects.
TOLERANCE = 1e-9

Floats = NDArray[np.float64]


def changes(baseline: ArrayLike, treatment: ArrayLike) -> Floats:
    """treatment - baseline per query, with rounding errors set to zero, shape (queries,).

    Raises InputError where the two don't have one value per query each.
    """
    before, after = np.asarray(baseline, dtype=np.float64), np.asarray(treatment, dtype=np.float64)
    if before.shape != after.shape or before.ndim != 1:
        raise InputError(
            f"risk: {before.shape} values of the baseline and {after.shape} of the treatment are not one per query each"
        )
    difference = after - before
    return np.where(np.abs(difference) <= TOLERANCE, 0.0, difference)


def helped(baseline: ArrayLike, treatment: ArrayLike) -> int:
    """The number of queries that improve; `baseline` and `treatment` are those of `changes`."""
    return int((changes(baseline, treatment) > 0).sum())


def hurt(baseline: ArrayLike, treatment: ArrayLike) -> int:
    """The number of queries that get worse; `baseline` and `treatment` are those of `changes`."""
    return int((changes(baseline, treatment) < 0).sum())


def lost(baseline: ArrayLike, treatment: ArrayLike) -> float:
    """The sum of the losses over the queries that get worse (total AP lost, where the measure is AP).

    `baseline` and `treatment` are those of `changes`.
    """
    return float(np.maximum(-changes(baseline, treatment), 0.0).sum())


def r_loss(baseline: ArrayLike, treatment: ArrayLike, relevant_before: ArrayLike, relevant_after: ArrayLike) -> Floats:
    """R-Loss: the net number of relevant documents lost by each query that gets worse, 0 for the others, shape (queries,).

    Collins-Thompson, "Robust Word Similarity Estimation Using Perturbation Kernels" (ICTIR 2009), section 3, has their sum.
    `relevant_before` and `relevant_after` count the relevant documents among the first k of each list, for the depth k of
    interest. A query whose measure gets worse can still gain recall, so at depths near the size of the collection the sum may
    be negative. `baseline` and `treatment` are those of `changes`.
    """
    net = np.asarray(relevant_before, dtype=np.float64) - np.asarray(relevant_after, dtype=np.float64)
    return np.where(changes(baseline, treatment) < 0, net, 0.0)


def weighted_changes(baseline: ArrayLike, treatment: ArrayLike, alpha: float) -> Floats:
    """`changes` from `baseline` to `treatment` with every loss counted (1 + alpha) times, shape (queries,)."""
    difference = changes(baseline, treatment)
    return np.where(difference < 0, (1.0 + alpha) * difference, difference)


def urisk(baseline: ArrayLike, treatment: ArrayLike, alpha: float = 1.0) -> float:
    """URisk: the mean change with losses counted (1 + alpha) times; alpha = 0 gives the difference of means.

    Wang, Bennett & Collins-Thompson, "Robust ranking models via risk-sensitive optimization" (SIGIR 2012). `baseline` and
    `treatment` are those of `changes`.
    """
    values = weighted_changes(baseline, treatment, alpha)
    return float(values.mean()) if len(values) else 0.0


def trisk(baseline: ArrayLike, treatment: ArrayLike, alpha: float = 1.0) -> float:
    """TRisk: URisk in units of its standard error, so that below -2 or above 2 is unlikely to be chance.

    Dinçer, Macdonald & Ounis, "Hypothesis testing for the risk-sensitive evaluation of retrieval systems" (SIGIR 2014).
    Zero where no query changes, infinite where all change by the same amount. The parameters are those of `urisk`.
    """
    values = weighted_changes(baseline, treatment, alpha)
    if len(values) < 2 or not values.any():
        return 0.0
    error = float(values.std(ddof=1)) / np.sqrt(len(values))
    mean = float(values.mean())
    return mean / error if error > TOLERANCE else float(np.copysign(np.inf, mean))


def georisk(systems: ArrayLike, alpha: float = 1.0) -> Floats:
    """GeoRisk of several systems, shape (systems,), from their values, shape (systems, queries). Higher is better.

    Dinçer, Macdonald & Ounis, "Risk-sensitive evaluation and learning to rank using multiple baselines" (SIGIR 2016):
    the value of a system for a query is compared with the value expected from the system's mean and the query's difficulty;
    shortfalls count 1 + alpha times, and the result is combined with the mean of the system by a geometric mean.
    """
    from scipy.stats import norm

    values = np.asarray(systems, dtype=np.float64)
    if values.ndim != 2 or not values.size or (values < 0).any():
        raise InputError("GeoRisk: a table of non-negative values, systems by queries, was expected")
    total = values.sum()
    expected = np.outer(values.sum(axis=1), values.sum(axis=0)) / total if total > 0 else np.zeros_like(values)
    z = np.divide(values - expected, np.sqrt(expected), out=np.zeros_like(values), where=expected > 0)
    zrisk = np.where(z < 0, (1.0 + alpha) * z, z).sum(axis=1)
    queries = values.shape[1]
    scores: Floats = np.sqrt(values.mean(axis=1) * norm.cdf(zrisk / queries))
    return scores
