"""Preference pairs from a click log: for a query, one document is preferred to another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.store import ClickLog, Shown
from kernelsearch.core.errors import InputError, OptionError

#: Ways to derive pairs from a log, see `preferences`.
KINDS = ("shown", "skipped", "rate")


@dataclass(frozen=True)
class Preferences:
    """Pairs in parallel arrays: the query, the preferred document and the other one (numbers of the log), and a weight.

    Weights are 1 unless position bias is corrected (Joachims, Swaminathan & Schnabel, "Unbiased Learning-to-Rank with Biased
    Feedback", 2017: the loss of a clicked document weighs the inverse of its propensity; mean 1) or pairs are weighted by
    confidence.
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
    """At most `limit` pairs per query, in the order of `queries`, best supported first, of this `kind`:

    - `shown`: clicked documents over documents that were shown but never clicked for this query.
    - `skipped`: clicked documents over unclicked documents above them (Joachims, "Optimizing Search Engines using Clickthrough
      Data", 2002, section 2.2), where more lists support the pair than its opposite.
    - `rate`: a higher over a lower click rate; by clicks alone where the log doesn't count impressions.

    `corrected` divides clicks by the propensity of their position. `confident` weighs a pair by the difference of the two
    documents' click rates, so that a single click on a document that was often examined counts little. `shown` is
    `log.shown(queries)`, for callers that have it already. Raises OptionError for another kind.
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


def preferences_by_query(
    log: ClickLog, texts: Sequence[str] | None = None, *, kind: str = "shown", limit: int = 20, corrected: bool = False
) -> Iterator[tuple[str, str, str, float]]:
    """Yields (query, preferred docid, other docid, weight) for some queries, or for all clicked ones where `texts` is None.

    Other parameters are those of `preferences`. Raises InputError for a query that is not in the log.
    """
    if texts:
        numbers = log.query_ids(texts).tolist()
        for text, number in zip(texts, numbers, strict=True):
            if number < 0:
                raise InputError(f"query {text!r} isn't in the log", path=log.path)
        queries: Iterable[tuple[int, str]] = zip(numbers, texts, strict=True)
    else:
        queries = log.all_queries()
    for number, text in queries:
        pairs = preferences(log, [number], kind=kind, limit=limit, corrected=corrected)
        for better, worse, weight in zip(log.docids(pairs.better), log.docids(pairs.worse), pairs.weights, strict=True):
            yield text, better, worse, float(weight)


def round_robin(better: NDArray[np.int64], worse: NDArray[np.int64], limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first `limit` different pairs, taking the documents of `better` in turn, each time with the next one of `worse`."""
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
    ignored = ignored[np.argsort(-seen.exposure[ignored], kind="stable")]  # most examined first, the most certain negatives
    return round_robin(seen.docs[clicked], seen.docs[ignored], limit)


def _by_rate(seen: Shown, limit: int, corrected: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    clicks = seen.corrected if corrected else seen.clicks
    counted = bool(len(seen.docs)) and bool((seen.impressions > 0).all())
    rate = clicks / seen.impressions if counted else clicks
    order = np.argsort(-rate, kind="stable")
    better = order[rate[order] > 0]
    if not len(better):
        return seen.docs[:0], seen.docs[:0]
    # All clicked documents over the lowest one, then over the second lowest, and so on: large differences first. The `limit`
    # best ones over the `limit` lowest ones are enough.
    k = np.arange(min(len(better), limit) * min(len(order), limit))
    first, last = better[k % min(len(better), limit)], order[len(order) - 1 - k // min(len(better), limit)]
    ordered = np.flatnonzero(rate[first] > rate[last])[:limit]
    return seen.docs[first[ordered]], seen.docs[last[ordered]]


def _skipped(log: ClickLog, query: int, limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lists = log.impressions(query)
    if not lists:
        if log.totals().impressions == 0:
            raise InputError("pairs of kind 'skipped' need lists, but this log is aggregated; use shown or rate", path=log.path)
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
    # One number for each ordered pair of documents: the lists of a popular query have too many of them for a table.
    above, below = docs[row, click], docs[row, skip]
    base = int(docs.max()) + 1
    votes, support = np.unique(above * base + below, return_counts=True)
    opposite = votes % base * base + votes // base
    mirrored = np.minimum(np.searchsorted(votes, opposite), max(len(votes) - 1, 0))
    net = support - np.where(votes[mirrored] == opposite, support[mirrored], 0)
    supported = np.flatnonzero(net > 0)
    order = supported[np.argsort(-net[supported], kind="stable")[:limit]]
    return votes[order] // base, votes[order] % base


def _inverse_propensity(seen: Shown, better: NDArray[np.int64]) -> NDArray[np.float64]:
    """Inverse propensities of the clicks on the preferred documents, divided by their mean."""
    places = np.searchsorted(seen.docs, better)
    weights = seen.corrected[places] / np.maximum(seen.clicks[places], 1)
    relative: NDArray[np.float64] = weights / weights.mean()
    return relative


def _rate_difference(seen: Shown, better: NDArray[np.int64], worse: NDArray[np.int64]) -> NDArray[np.float64]:
    """The click rate of the preferred document minus that of the other, between 0 and 1.

    Rates are per examination and smoothed by one examination at the mean rate of the query. 1 where the log has no impressions.
    """
    if not seen.exposure.sum():
        return np.ones(len(better))
    rate = (seen.clicks + seen.clicks.sum() / seen.exposure.sum()) / (seen.exposure + 1.0)
    difference: NDArray[np.float64] = rate[np.searchsorted(seen.docs, better)] - rate[np.searchsorted(seen.docs, worse)]
    return np.clip(difference, 0.0, 1.0)
