"""Preference pairs from a click log: for this query, this document rather than that one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.store import ClickLog, Shown
from kernelsearch.core.errors import InputError, OptionError

#: How pairs are read from a log.
KINDS = ("shown", "skipped", "rate")


@dataclass(frozen=True)
class Preferences:
    """Pairs in parallel arrays: the query, the document preferred, the other one (the log's numbers), and a weight.

    Weights are 1 unless position bias is corrected (Joachims, Swaminathan & Schnabel, "Unbiased Learning-to-Rank with Biased
    Feedback", 2017: the loss of a clicked document weighs the inverse of its propensity; mean 1) or confidence is asked for.
    """

    queries: NDArray[np.int64]
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.queries)


def preferences(
    log: ClickLog,
    queries: NDArray[np.integer] | Sequence[int],
    shown: Shown | None = None,
    *,
    kind: str = "shown",
    limit: int = 20,
    corrected: bool = False,
    confident: bool = False,
) -> Preferences:
    """At most `limit` pairs for each query, ordered as `queries`, best supported first.

    - `shown`: clicked over shown but never clicked for this query.
    - `skipped`: clicked over unclicked above it (Joachims, "Optimizing Search Engines using Clickthrough Data", 2002, section
      2.2), kept where more lists say so than say the opposite.
    - `rate`: higher over lower click rate; by clicks alone where the log doesn't count impressions.

    `corrected` divides clicks by the propensity of their position. `confident` weighs a pair by the difference of the two
    documents' click rates, so that one stray click on a document that was often looked at counts little. `shown` is
    `log.shown(queries)`, where the caller has it.
    """
    if kind not in KINDS:
        raise OptionError(f"pairs: {kind!r} is not one of {', '.join(KINDS)}")
    numbers = np.asarray(queries, dtype=np.int64)
    table = log.shown(numbers) if shown is None else shown
    parts = []
    for query in numbers.tolist():
        seen = table.of(query)
        if kind == "skipped":
            better, worse = _skipped(log, query, limit)
        else:
            better, worse = (
                _clicked_over_unclicked(seen, limit, corrected) if kind == "shown" else _by_rate(seen, limit, corrected)
            )
        weights = _inverse_propensity(seen, better) if corrected and len(better) else np.ones(len(better))
        if confident:
            weights = weights * _rate_difference(seen, better, worse)
        parts.append((np.full(len(better), query), better, worse, weights))
    if not any(len(part[0]) for part in parts):
        empty = np.empty(0, dtype=np.int64)
        return Preferences(empty, empty, empty, np.empty(0))
    owners, better, worse, weights = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Preferences(owners, better, worse, weights)


def round_robin(better: NDArray[np.int64], worse: NDArray[np.int64], limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first `limit` different pairs, every document of `better` in turn, each time over another one of `worse`."""
    k = np.arange(min(limit, len(better) * len(worse)))
    if not len(k):
        return better[:0], worse[:0]
    first = k % len(better)
    return better[first], worse[(first + k // len(better)) % len(worse)]


def _clicked_over_unclicked(seen: Shown, limit: int, corrected: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    clicked = np.flatnonzero(seen.clicks > 0)
    strength = seen.corrected if corrected else seen.clicks
    clicked = clicked[np.argsort(-strength[clicked], kind="stable")]
    ignored = np.flatnonzero(seen.clicks == 0)
    ignored = ignored[np.argsort(-seen.exposure[ignored], kind="stable")]  # what was looked at and left says most
    return round_robin(seen.docs[clicked], seen.docs[ignored], limit)


def _by_rate(seen: Shown, limit: int, corrected: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    clicks = seen.corrected if corrected else seen.clicks
    counted = bool(len(seen.docs)) and bool((seen.impressions > 0).all())
    rate = clicks / seen.impressions if counted else clicks
    order = np.argsort(-rate, kind="stable")
    better = order[rate[order] > 0]
    if not len(better):
        return seen.docs[:0], seen.docs[:0]
    # Every clicked document in turn over the lowest, then over the second lowest, and so on: wide gaps first.
    k = np.arange(len(better) * len(order))
    first, last = better[k % len(better)], order[len(order) - 1 - k // len(better)]
    kept = np.flatnonzero(rate[first] > rate[last])[:limit]
    return seen.docs[first[kept]], seen.docs[last[kept]]


def _skipped(log: ClickLog, query: int, limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lists = log.impressions(query)
    if not lists:
        if log.totals().impressions == 0:
            raise InputError(f"{log.path}: pairs of kind 'skipped' need lists, this log is aggregated; use shown or rate")
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    width = max(len(docs) for docs, _, _ in lists)
    docs = np.full((len(lists), width), -1, dtype=np.int64)
    places = np.zeros((len(lists), width), dtype=np.int64)
    clicked = np.zeros((len(lists), width), dtype=np.bool_)
    for number, (names, ranks, clicks) in enumerate(lists):
        size = len(names)
        docs[number, :size], places[number, :size], clicked[number, :size] = names, ranks, clicks
    # [list, clicked place, skipped place]
    skips = clicked[:, :, None] & ~clicked[:, None, :] & (docs[:, None, :] >= 0) & (places[:, None, :] < places[:, :, None])
    row, click, skip = np.nonzero(skips)
    known, numbers = np.unique(docs, return_inverse=True)
    numbers = numbers.reshape(docs.shape)
    votes = np.zeros((len(known), len(known)))
    np.add.at(votes, (numbers[row, click], numbers[row, skip]), 1)
    net = votes - votes.T
    better, worse = np.nonzero(net > 0)
    order = np.argsort(-net[better, worse], kind="stable")[:limit]
    return known[better[order]], known[worse[order]]


def _inverse_propensity(seen: Shown, better: NDArray[np.int64]) -> NDArray[np.float64]:
    """Inverse propensities of the clicks on the preferred documents, over their mean."""
    places = np.searchsorted(seen.docs, better)
    weights = seen.corrected[places] / np.maximum(seen.clicks[places], 1)
    return weights / weights.mean()


def _rate_difference(seen: Shown, better: NDArray[np.int64], worse: NDArray[np.int64]) -> NDArray[np.float64]:
    """Clicks a look, each drawn towards the query's mean by one look, preferred minus other, between 0 and 1.

    1 where the log counts no impressions and nothing can be said.
    """
    if not seen.exposure.sum():
        return np.ones(len(better))
    rate = (seen.clicks + seen.clicks.sum() / seen.exposure.sum()) / (seen.exposure + 1.0)
    return np.clip(rate[np.searchsorted(seen.docs, better)] - rate[np.searchsorted(seen.docs, worse)], 0.0, 1.0)
