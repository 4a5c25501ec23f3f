"""Robust BM25: a ranking function learned for each query from the clicks of similar queries.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), section 5. Online, as the paper has it: similar queries of the log are
found, documents are retrieved for all of them and merged, a small dual is solved on the log's preference pairs of those
queries, and the merged documents are ranked by

    k(q, d) = a·g(q, d) + g(q, d) · Σ_i θ_i k_Q(q, q_i) [ g(q_i, d_i⁺) k_D(d_i⁺, d) - g(q_i, d_i⁻) k_D(d_i⁻, d) ]

with g = BM25 scaled to a maximum of 1, plus ε. The printed form has a = 0. With a > 0 it is the norm of k - a·g that
is kept small: where the log is silent, BM25's order stays. `auto` chooses a by how much the log knows of the query.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.clicks.pairs import preferences, round_robin
from kernelsearch.clicks.store import Shown
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.documents import Cosine
from kernelsearch.learning.ranking.dual import maximise_dual
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Contribution, Explanation, OpenedIndex
from kernelsearch.rerankers.rbm25 import ROBUST_BM25
from kernelsearch.rerankers.rbm25.base import ClickReranker
from kernelsearch.rerankers.rbm25.settings import RobustBM25Settings
from kernelsearch.rerankers.rbm25.similar_queries import Similar

#: Chosen on training queries: evidence above which BM25 keeps least weight, and below which it keeps all of it; that least
#: share (short queries for one thing look alike and mean another); and the correlation of the nearest queries' clicks from
#: which on they count as wordings of one need.
SURE, UNSURE, LEAST, AGREEMENT = 0.6, 0.3, 0.2, 0.2
#: Weight of a pair whose other document was retrieved but, as far as the log knows, never shown: nobody left it.
UNSHOWN = 0.1


@dataclass(frozen=True)
class Pairs:
    """The log's preferences that the dual is solved on, m of them over u documents.

    `owner` (m,) points into the similar queries, `better` and `worse` (m,) into `docs` (u,), the documents' rows; `bounds` (m,)
    are the upper bounds of the multipliers; `key` (m,) identifies a pair across queries.
    """

    owner: NDArray[np.int64]
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    docs: NDArray[np.int32]
    bounds: NDArray[np.float64]
    key: NDArray[np.int64]


@dataclass(frozen=True)
class Learned:
    """What was learned for one query: all that a score and its reasons are made of.

    `gains` (m, 2) holds g(q_i, d_i⁺) and g(q_i, d_i⁻), `theta` (m,) the multipliers, `features` (u, terms) the documents of the
    pairs in the space of k_D; `weight` is a.
    """

    similar: Similar
    pairs: Pairs
    gains: NDArray[np.float64]
    theta: NDArray[np.float64]
    features: sparse.csr_matrix
    weight: float

    def strengths(self) -> NDArray[np.float64]:
        """θ_i k_Q(q, q_i) times the gains of both documents, shape (m, 2); the second column is negative."""
        strength = (self.theta * self.similar.kernel[self.pairs.owner])[:, None] * self.gains
        strength[:, 1] *= -1
        return strength

    def direction(self) -> NDArray[np.float64]:
        """Where the pairs pull in the space of k_D: the sum in the formula is the inner product with it, shape (terms,)."""
        strength, size = self.strengths(), len(self.pairs.docs)
        pull = np.bincount(self.pairs.better, strength[:, 0], size) + np.bincount(self.pairs.worse, strength[:, 1], size)
        return self.features.T @ pull


class RobustBM25(ClickReranker[RobustBM25Settings]):
    """Robust BM25."""

    method = ROBUST_BM25
    #: Whether BM25 stands in the kernel; without it, it is the pairwise kernel of collaborative filtering.
    uses_bm25 = True

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        fields = {"body": [index.forward], "title": [index.field("title")] if self.settings.documents != "body" else []}
        self._fields = [*fields["body"], *fields["title"]] if self.settings.documents != "title" else fields["title"]
        self._cosine = Cosine()
        self._solved = threading.local()  # pairs and multipliers of the query before, in this thread's batch

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        # Warm starts stay within a batch: what was asked before must not show in a list, not even in the last digit.
        self._solved.last = None
        return super().apply_batch(queries, lists, context)

    def rank(
        self, query: Query, candidates: Candidates, similar: Similar, retrieved: list[Candidates]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        learned = self.learn(similar, retrieved)
        clicked = learned.pairs.docs[np.unique(learned.pairs.better)]
        docs = self.merged(candidates, retrieved, clicked)
        return docs, self.values(query, docs, learned)

    def values(self, query: Query, docs: NDArray[np.int32], learned: Learned) -> NDArray[np.float64]:
        """k(q, d), shape (documents,)."""
        return self.base(query, docs) * (learned.weight + self.features(docs) @ learned.direction())

    def base(self, query: Query, docs: NDArray[np.int32]) -> NDArray[np.float64]:
        """g(q, d), scaled by the best of `docs`."""
        if not self.uses_bm25:
            return np.ones(len(docs))
        scores = self.bm25(query, docs)
        return _scaled(scores, np.array(scores.max(initial=0.0)), self.settings.epsilon)

    def learn(self, similar: Similar, retrieved: list[Candidates]) -> Learned:
        """Solves the dual on the preferences of the similar queries."""
        if not len(similar.ids):
            raise CannotAct("no similar query in the click log")
        pairs = self._pairs(similar, retrieved)
        if not len(pairs.owner):
            raise CannotAct("similar queries without preference pairs")
        gains = self._gains(similar, retrieved, pairs)
        features = self.features(pairs.docs)
        matrix = _differences(features, pairs, gains)
        matrix *= similar.gram[:, pairs.owner][pairs.owner]
        weight = self.weight_of_bm25(similar)
        linear = 1.0 - weight * (gains[:, 0] - gains[:, 1])
        solution = maximise_dual(matrix, linear, pairs.bounds, start=self._warm(pairs.key), tolerance=1e-4, sweeps=50)
        order = np.argsort(pairs.key)
        self._solved.last = pairs.key[order], solution.theta[order]
        return Learned(similar, pairs, gains, solution.theta, features, weight)

    def weight_of_bm25(self, similar: Similar) -> float:
        """a: 0 in the printed form, `prior` in the other; `auto` moves between them with the best evidence in the log.

        A query with clicks of its own gets the printed form. For another one the evidence is its likeness to a logged query:
        of their texts, and half as much of the documents that it retrieves to those that were clicked there. It counts fully
        where the nearest queries agree with each other: wordings of one need share their clicks, queries that merely share
        words don't.
        """
        form, full = self.settings.form, self.settings.prior
        if form == "paper" or (form == "auto" and similar.own_clicks):
            return 0.0
        if form == "prior":
            return full
        likeness = float((similar.by_text + 0.5 * np.maximum(similar.by_clicks, 0.0)).max())
        evidence = likeness * (0.5 + 0.5 * min(max(similar.agreement, 0.0) / AGREEMENT, 1.0))
        return full * min(max((SURE - evidence) / (SURE - UNSURE), LEAST), 1.0)

    def features(self, docs: NDArray[np.integer]) -> sparse.csr_matrix:
        """Features whose inner product is k_D, shape (documents, terms)."""
        parts = [self._cosine.document_features(field, docs) for field in self._fields]
        return parts[0] if len(parts) == 1 else sparse.hstack(parts, format="csr") / np.sqrt(len(parts))

    def _pairs(self, similar: Similar, retrieved: list[Candidates]) -> Pairs:
        chosen, rows = self.settings, self.similar.rows
        limit = chosen.pairs_per_query
        shown = self.log.shown(similar.ids)
        found = preferences(
            self.log,
            similar.ids,
            shown,
            kind=chosen.pairs,
            limit=limit,
            corrected=chosen.corrected,
            confident=chosen.confident,
        )
        order = np.argsort(similar.ids)
        owner = order[np.searchsorted(similar.ids[order], found.queries)]
        better, worse = rows[found.better], rows[found.worse]
        known = (better >= 0) & (worse >= 0)  # the index may lack documents of the log
        parts = [(owner[known], better[known], worse[known], found.weights[known])]
        counts = np.bincount(owner[known], minlength=len(similar.ids))
        for place in np.flatnonzero(counts < limit).tolist():
            seen = shown.of(int(similar.ids[place]))
            extra = self._over_retrieved(seen, retrieved[place], limit - int(counts[place]))
            parts.append((np.full(len(extra[0]), place), *extra, np.full(len(extra[0]), UNSHOWN)))
        owner, better, worse, bounds = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        docs, numbers = np.unique(np.concatenate([better, worse]), return_inverse=True)
        key = (similar.ids[owner] << 44) ^ (better.astype(np.int64) << 22) ^ worse
        first, second = numbers.reshape(2, -1)
        return Pairs(owner, first, second, docs.astype(np.int32), bounds / chosen.lambda_, key)

    def _over_retrieved(self, seen: Shown, found: Candidates, limit: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Clicked over retrieved but never shown: what a log of clicks alone leaves to compare with."""
        clicked = self.similar.rows[seen.docs[np.argsort(-seen.clicks, kind="stable")][: int((seen.clicks > 0).sum())]]
        others = found.docs[: 2 * limit]
        others = others[~np.isin(others, self.similar.rows[seen.docs])]
        better, worse = round_robin(clicked[clicked >= 0].astype(np.int64), others.astype(np.int64), limit)
        return better.astype(np.int32), worse.astype(np.int32)

    def _gains(self, similar: Similar, retrieved: list[Candidates], pairs: Pairs) -> NDArray[np.float64]:
        if not self.uses_bm25:
            return np.ones((len(pairs.owner), 2))
        scores = self.bm25_of_all(similar.queries, pairs.docs)
        best = np.array([found.scores[0] if found.depth else 0.0 for found in retrieved])[:, None]
        scaled = _scaled(scores, best, self.settings.epsilon)
        return np.stack([scaled[pairs.owner, pairs.better], scaled[pairs.owner, pairs.worse]], axis=1)

    def _warm(self, key: NDArray[np.int64]) -> NDArray[np.float64]:
        """The last query's multipliers of the same pairs: neighbours in a batch often share similar queries."""
        last = getattr(self._solved, "last", None)
        if last is None or not len(last[0]):
            return np.zeros(len(key))
        known, theta = last
        place = np.minimum(np.searchsorted(known, key), len(known) - 1)
        return np.where(known[place] == key, theta[place], 0.0)

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """BM25's own part, then the similar queries' parts, each split by the documents that their users clicked or left."""
        similar = self.similar.find([query], self.settings.similar, [candidates])[0]
        retrieved = self.retrieve([similar], context)
        lists = [retrieved[number] for number in similar.ids.tolist()]
        learned = self.learn(similar, lists)
        docs = self.merged(candidates, lists, np.append(learned.pairs.docs[np.unique(learned.pairs.better)], doc))
        base = float(self.base(query, docs)[np.searchsorted(docs, doc)])
        likeness = np.asarray((learned.features @ self.features(np.array([doc])).T).todense()).ravel()
        parts = base * learned.strengths() * likeness[np.stack([learned.pairs.better, learned.pairs.worse], axis=1)]
        contributions = [
            Contribution(f"BM25, weight {learned.weight:.3g}", learned.weight * base, f"{base:.3f} of this query's best")
        ]
        for place in np.argsort(-np.abs(np.bincount(learned.pairs.owner, parts.sum(axis=1), len(similar.ids)))).tolist():
            contributions.append(self._because_of(place, learned, parts, likeness))
        total = sum(part.value for part in contributions)
        columns = (similar.kernel.tolist(), similar.by_clicks.tolist(), similar.by_text.tolist())
        near = [
            {"query": other.text, "kernel": kernel, "by clicks": clicks, "by text": text}
            for other, kernel, clicks, text in zip(similar.queries, *columns, strict=True)
        ]
        notes = {"similar queries": near, "pairs": len(learned.pairs.owner), "weight of BM25": learned.weight}
        return Explanation(self.name, self.index.forward.docids[doc], total, tuple(contributions), notes)

    def _because_of(
        self, place: int, learned: Learned, parts: NDArray[np.float64], likeness: NDArray[np.float64]
    ) -> Contribution:
        """What one similar query adds: a part for each of its documents."""
        mine = np.flatnonzero(learned.pairs.owner == place)
        size = len(learned.pairs.docs)
        values = np.bincount(learned.pairs.better[mine], parts[mine, 0], size)
        values += np.bincount(learned.pairs.worse[mine], parts[mine, 1], size)
        clicked = np.isin(np.arange(size), learned.pairs.better[mine])
        shown = np.flatnonzero(values)
        shown = shown[np.argsort(-np.abs(values[shown]))]
        names = self.index.forward.docids.take(learned.pairs.docs[shown])
        reasons = tuple(
            Contribution(name, float(values[n]), f"{'clicked' if clicked[n] else 'left'}, likeness {likeness[n]:.3f}")
            for name, n in zip(names, shown.tolist(), strict=True)
        )
        similar = learned.similar
        detail = f"k_Q {similar.kernel[place]:.3f}, clicks {similar.by_clicks[place]:.3f}, text {similar.by_text[place]:.3f}"
        return Contribution(f"'{similar.queries[place].text}'", float(parts[mine].sum()), detail, reasons)


def _scaled(scores: NDArray[np.float64], best: NDArray[np.floating], epsilon: float) -> NDArray[np.float64]:
    """Scores over their maximum, plus ε, over 1 + ε.

    A document without the query's terms must not be out of reach. ε is added instead of being a floor, because BM25's order
    must stay among documents with few of the terms.
    """
    share = np.divide(scores, best, out=np.zeros_like(scores), where=np.broadcast_to(best > 0, scores.shape))
    return (np.minimum(share, 1.0) + epsilon) / (1.0 + epsilon)


def _differences(features: sparse.csr_matrix, pairs: Pairs, gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """The bracket of W(i, j) in section 5.3: inner products of g⁺φ(d⁺) - g⁻φ(d⁻), shape (m, m)."""
    gram = (features @ features.T).toarray()
    m = len(gains)
    entries = np.stack([gains[:, 0], -gains[:, 1]], axis=1).ravel()
    columns = np.stack([pairs.better, pairs.worse], axis=1).ravel()
    # A row a pair, with its two documents: products with it are cheaper than gathering rows of the Gram matrix.
    differences = sparse.csr_matrix((entries, columns, np.arange(0, 2 * m + 1, 2)), shape=(m, len(gram)))
    return differences @ np.ascontiguousarray((differences @ gram).T)
