"""`rbm25`, Robust BM25: a ranking function that is learned per query from the clicks of similar queries.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), section 5. Learning is online, as in the paper: similar
queries of the log are found, documents are retrieved for all of them and merged, a small dual is solved on the preference
pairs of those queries in the log, and the merged documents are ranked by

    k(q, d) = a·g(q, d) + g(q, d) · Σ_i θ_i k_Q(q, q_i) [ g(q_i, d_i⁺) k_D(d_i⁺, d) - g(q_i, d_i⁻) k_D(d_i⁻, d) ]

with g = BM25 scaled to a maximum of 1, plus ε. The printed form has a = 0. With a > 0 the norm of k - a·g is penalised
instead of that of k: without evidence in the log, BM25's order stays. `auto` chooses a by the evidence in the log.
"""

from __future__ import annotations

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
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Explanation, OpenedIndex
from kernelsearch.rerankers.rbm25 import ROBUST_BM25
from kernelsearch.rerankers.rbm25.base import ClickReranker
from kernelsearch.rerankers.rbm25.settings import RobustBM25Settings
from kernelsearch.rerankers.rbm25.similar_queries import Similar

# How `auto` weights BM25, chosen on training queries (docs/reproductions/rbm25.md, "How the defaults were chosen").
#: At this evidence and above, BM25 has its smallest weight.
FULL_EVIDENCE = 0.6
#: At this evidence and below, BM25 has all of its weight.
NO_EVIDENCE = 0.3
#: The smallest weight of BM25, as a share of --rbm25.prior: short queries can be alike in text and mean different things.
SMALLEST_SHARE = 0.2
#: From this correlation between the clicks of the nearest queries on, they count as wordings of one information need.
SAME_NEED_CORRELATION = 0.2
# How `auto` weights BM25 for a query with clicks of its own, chosen on cacm and cisi (`python -m tools.reproduce.rbm25_sparse`,
# the same page, "Sparse and wrong clicks").
#: Weight of BM25 after one click on the document that BM25 ranks first, as a share of --rbm25.prior.
SINGLE_CLICK_SHARE = 2 / 3
#: How much larger that weight is where the clicked document has a BM25 score of zero.
DOUBT = 20.0
#: Clicks per examination of a document that is not relevant (`clicks.models.attraction`): so many prove nothing.
NOISE = 0.05
#: Agreeing clicks that a clicked query counts as having at least.
FEWEST_CLICKS = 0.25
#: Weight of a pair whose worse document was retrieved but not shown according to the log: weaker evidence than a skipped one.
UNSHOWN_WEIGHT = 0.1

#: The duality gap that a query's dual is solved to, as a share of its objective.
DUALITY_GAP = 1e-9


@dataclass(frozen=True)
class Pairs:
    """The m preference pairs of the log, over u documents, that the dual is solved on.

    `owner` (m,) points into the similar queries, `better` and `worse` (m,) into `docs` (u,), the documents' rows; `bounds` (m,)
    are the upper bounds of the multipliers.
    """

    owner: NDArray[np.int64]
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    docs: NDArray[np.int32]
    bounds: NDArray[np.float64]


@dataclass(frozen=True)
class Learned:
    """What was learned for one query: all that scores and explanations are computed from.

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
        """The weight vector in the space of k_D, shape (terms,): the sum of the formula is the inner product with it."""
        strength, size = self.strengths(), len(self.pairs.docs)
        weights = np.bincount(self.pairs.better, strength[:, 0], size) + np.bincount(self.pairs.worse, strength[:, 1], size)
        return np.asarray(self.features.T @ weights)


class RobustBM25(ClickReranker[RobustBM25Settings]):
    """Robust BM25: BM25 times a kernel machine that is trained per query on the pairs of similar queries."""

    method = ROBUST_BM25
    #: Whether BM25 stands in the kernel; without it, it is the pairwise kernel of collaborative filtering.
    uses_bm25 = True

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        fields = {"body": [index.forward], "title": [index.field("title")] if self.settings.documents != "body" else []}
        self._fields = [*fields["body"], *fields["title"]] if self.settings.documents != "title" else fields["title"]
        self._cosine = Cosine()

    def rank(
        self, query: Query, candidates: Candidates, similar: Similar, retrieved: list[Candidates]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The merged documents and k(q, d) of each, in any order."""
        learned = self.learn(similar, retrieved)
        clicked = learned.pairs.docs[np.unique(learned.pairs.better)]
        docs = self.merged(candidates, retrieved, clicked)
        return docs, self.values(query, docs, learned)

    def values(self, query: Query, docs: NDArray[np.int32], learned: Learned) -> NDArray[np.float64]:
        """k(q, d), shape (documents,)."""
        return np.asarray(self.base(query, docs) * (learned.weight + self.features(docs) @ learned.direction()))

    def base(self, query: Query, docs: NDArray[np.int32]) -> NDArray[np.float64]:
        """g(q, d), scaled by the best of `docs`."""
        if not self.uses_bm25:
            return np.ones(len(docs))
        scores = self.bm25(query, docs)
        return _scaled(scores, np.array(scores.max(initial=0.0)), self.settings.epsilon)

    def learn(self, similar: Similar, retrieved: list[Candidates]) -> Learned:
        """Solves the dual on the preference pairs of the similar queries; raises CannotAct where there are none."""
        if not len(similar.ids):
            raise CannotAct("no similar query in the click log")
        pairs = self._pairs(similar, retrieved)
        if not len(pairs.owner):
            raise CannotAct("similar queries without preference pairs")
        gains = self._gains(similar, retrieved, pairs)
        features = self.features(pairs.docs)
        matrix = _differences(features, pairs, gains)
        matrix *= similar.gram[:, pairs.owner][pairs.owner]
        weight = self.weight_of_bm25(similar, retrieved)
        linear = 1.0 - weight * (gains[:, 0] - gains[:, 1])
        solution = maximise_dual(matrix, linear, pairs.bounds, tolerance=DUALITY_GAP)
        return Learned(similar, pairs, gains, solution.theta, features, weight)

    def weight_of_bm25(self, similar: Similar, retrieved: Sequence[Candidates]) -> float:
        """The weight a of BM25: 0 in the printed form, --rbm25.prior in the regularised one; `auto` goes by the evidence.

        For a query with clicks of its own the evidence is how many of them agree, see `_weight_with_clicks`. For other queries
        it is the best similarity to a logged query: that of the texts, plus half of that between the retrieved documents and
        the logged query's clicked ones. It is halved where the clicks of the nearest queries don't correlate: wordings of one
        information need share their clicks, queries that merely share terms don't. `retrieved` are the similar queries' lists.
        """
        form, full = self.settings.form, self.settings.prior
        if form == "paper":
            return 0.0
        if form == "prior":
            return full
        if similar.own >= 0:
            return full * self._weight_with_clicks(similar, retrieved)
        similarity = float((similar.by_text + 0.5 * np.maximum(similar.by_clicks, 0.0)).max())
        evidence = similarity * (0.5 + 0.5 * min(max(similar.agreement, 0.0) / SAME_NEED_CORRELATION, 1.0))
        return full * min(max((FULL_EVIDENCE - evidence) / (FULL_EVIDENCE - NO_EVIDENCE), SMALLEST_SHARE), 1.0)

    def _weight_with_clicks(self, similar: Similar, retrieved: Sequence[Candidates]) -> float:
        """The weight of BM25, as a share of --rbm25.prior, for a query with clicks of its own.

        The weight falls as 1/c, the squared relative standard error of a Poisson rate that c clicks were counted of. c is the
        expected number of clicks on the document of a click, Σ n_d² / Σ n_d, where n_d are a document's clicks beyond those
        that NOISE explains, those of similar queries included by the correlation of their clicks: clicks on one document
        confirm each other, single clicks on several documents don't. A click on a document that BM25 ranks low is more often a
        mistake than one on its first document; until others confirm it, it weighs less. Where other wordings of the need are
        logged, whose clicks correlate with these, BM25 has at most its smallest weight, as for a wording that isn't logged.
        """
        shown = self.log.shown(similar.ids, clicked_only=True)
        order = np.argsort(similar.ids)
        owner = order[np.searchsorted(similar.ids[order], shown.queries)]
        confirmed = np.maximum(similar.by_clicks[owner], 0.0) * np.maximum(shown.clicks - NOISE * shown.exposure, 0.0)
        docs, places = np.unique(shown.docs, return_inverse=True)
        clicks = np.bincount(places, confirmed, len(docs)).astype(np.float64)
        agreeing = max(float((clicks**2).sum() / max(clicks.sum(), 1e-12)), FEWEST_CLICKS)
        doubt = DOUBT * (1.0 - self._share_of_clicked(similar, retrieved, docs, clicks)) / agreeing**2
        weight = SINGLE_CLICK_SHARE * (1.0 + doubt) / agreeing
        return min(weight, SMALLEST_SHARE) if similar.agreement >= SAME_NEED_CORRELATION else weight

    def _share_of_clicked(
        self, similar: Similar, retrieved: Sequence[Candidates], docs: NDArray[np.int64], clicks: NDArray[np.float64]
    ) -> float:
        """BM25 of clicked documents of the log as a share of the query's best score, weighted by their squared clicks."""
        rows = self.similar.rows[docs]
        counted = (rows >= 0) & (clicks > 0)
        places = np.flatnonzero(similar.ids == similar.own)
        if not counted.any() or not len(places) or not retrieved[places[0]].depth:
            return 0.0
        query, best = similar.queries[places[0]], float(retrieved[places[0]].scores[0])
        shares = np.minimum(self.bm25(query, rows[counted]) / best, 1.0)
        return float(np.average(shares, weights=clicks[counted] ** 2))

    def features(self, docs: NDArray[np.integer]) -> sparse.csr_matrix:
        """Features whose inner product is k_D, shape (documents, terms)."""
        parts = [self._cosine.document_features(field, docs) for field in self._fields]
        return parts[0] if len(parts) == 1 else sparse.hstack(parts, format="csr") / np.sqrt(len(parts))

    def _pairs(self, similar: Similar, retrieved: list[Candidates]) -> Pairs:
        chosen, rows = self.settings, self.similar.rows
        limit = chosen.pairs_per_query
        shown = self.log.shown(similar.ids)
        preferred = preferences(
            self.log,
            similar.ids,
            shown,
            kind=chosen.pairs,
            limit=limit,
            corrected=chosen.corrected,
            confident=chosen.confident,
        )
        order = np.argsort(similar.ids)
        owner = order[np.searchsorted(similar.ids[order], preferred.queries)]
        better, worse = rows[preferred.better], rows[preferred.worse]
        known = (better >= 0) & (worse >= 0)  # the index may lack documents of the log
        parts = [(owner[known], better[known], worse[known], preferred.weights[known])]
        counts = np.bincount(owner[known], minlength=len(similar.ids))
        for number in np.flatnonzero(counts < limit).tolist():
            seen = shown.of(int(similar.ids[number]))
            extra = self._over_retrieved(seen, retrieved[number], limit - int(counts[number]))
            parts.append((np.full(len(extra[0]), number), *extra, np.full(len(extra[0]), UNSHOWN_WEIGHT)))
        owner, better, worse, bounds = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        docs, numbers = np.unique(np.concatenate([better, worse]), return_inverse=True)
        first, second = numbers.reshape(2, -1)
        return Pairs(owner, first, second, docs.astype(np.int32), bounds / chosen.lambda_)

    def _over_retrieved(self, seen: Shown, retrieved: Candidates, limit: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Pairs of clicked documents over retrieved ones that weren't shown, for logs that record clicks only."""
        clicked = self.similar.rows[seen.docs[np.argsort(-seen.clicks, kind="stable")][: int((seen.clicks > 0).sum())]]
        others = retrieved.docs[: 2 * limit]
        others = others[~np.isin(others, self.similar.rows[seen.docs])]
        better, worse = round_robin(clicked[clicked >= 0].astype(np.int64), others.astype(np.int64), limit)
        return better.astype(np.int32), worse.astype(np.int32)

    def _gains(self, similar: Similar, retrieved: list[Candidates], pairs: Pairs) -> NDArray[np.float64]:
        """g of both documents of each pair for the pair's query, shape (m, 2)."""
        if not self.uses_bm25:
            return np.ones((len(pairs.owner), 2))
        scores = self.bm25_of_all(similar.queries, pairs.docs)
        best = np.array([listed.scores[0] if listed.depth else 0.0 for listed in retrieved])[:, None]
        scaled = _scaled(scores, best, self.settings.epsilon)
        return np.stack([scaled[pairs.owner, pairs.better], scaled[pairs.owner, pairs.worse]], axis=1)

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """BM25's own part of the score, then the parts of the similar queries, each by document."""
        from kernelsearch.rerankers.rbm25.explanation import explain

        return explain(self, query, candidates, doc, context)


def _scaled(scores: NDArray[np.float64], best: NDArray[np.floating], epsilon: float) -> NDArray[np.float64]:
    """Scores over their maximum, plus ε, over 1 + ε.

    A document without the query's terms must be able to rise. ε is added instead of being a lower bound, so that BM25's order
    stays among documents with few of the terms.
    """
    share = np.divide(scores, best, out=np.zeros_like(scores), where=np.broadcast_to(best > 0, scores.shape))
    return np.asarray((np.minimum(share, 1.0) + epsilon) / (1.0 + epsilon))


def _differences(features: sparse.csr_matrix, pairs: Pairs, gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """The bracket of W(i, j) in section 5.3: inner products of g⁺φ(d⁺) - g⁻φ(d⁻), shape (m, m)."""
    gram = (features @ features.T).toarray()
    m = len(gains)
    entries = np.stack([gains[:, 0], -gains[:, 1]], axis=1).ravel()
    columns = np.stack([pairs.better, pairs.worse], axis=1).ravel()
    # One row per pair with its two documents: products with it are cheaper than gathering rows of the Gram matrix.
    differences = sparse.csr_matrix((entries, columns, np.arange(0, 2 * m + 1, 2)), shape=(m, len(gram)))
    return np.asarray(differences @ np.ascontiguousarray((differences @ gram).T))
