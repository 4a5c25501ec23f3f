"""How much the clicks of a logged query prove: what the form `auto` of Robust BM25 goes by.

Evidence is shrunk by n / (n + m), as the mean of a Beta posterior is towards its prior of m observations. n are examinations
for a document that was shown without a click, and clicks beyond noise for a clicked one. The constants were chosen on cacm and
cisi (`python -m tools.reproduce.rbm25_sparse`, docs/reproductions/rbm25.md, "Sparse and wrong clicks").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.store import Shown
from kernelsearch.rerankers.rbm25.similar_queries import Similar

#: Observations that the prior counts as (m): one examination, one click.
PRIOR_OBSERVATIONS = 1.0
#: Clicks per examination of a document that is not relevant (`clicks.models.attraction`): so many prove nothing.
NOISE = 0.05
#: Agreeing clicks that a clicked query counts as having at least.
FEWEST_CLICKS = 0.25
#: Weight of BM25 after one click on the document that BM25 ranks first, as a share of --rbm25.prior.
SINGLE_CLICK_SHARE = 0.4
#: How much larger that share is where the clicked document has a BM25 score of zero.
DOUBT = 5.0
#: Text similarity from which on another query counts as a wording of the same need, and at which it does so fully.
NO_EVIDENCE, FULL_EVIDENCE = 0.3, 0.6


@dataclass(frozen=True)
class ClickEvidence:
    """The documents that similar queries clicked: their rows in the index, ascending, and the clicks counted for each, (u,)."""

    docs: NDArray[np.int64]
    clicks: NDArray[np.float64]

    def agreeing(self) -> float:
        """The expected number of clicks on the document of a click, Σ n_d² / Σ n_d, at least FEWEST_CLICKS.

        Clicks on one document confirm each other, single clicks on several documents don't.
        """
        return max(float((self.clicks**2).sum() / max(self.clicks.sum(), 1e-12)), FEWEST_CLICKS)

    def weight_of_bm25(self, shares: NDArray[np.float64]) -> float:
        """The weight of BM25 as a share of --rbm25.prior; `shares` (u,) is BM25 of each document over the query's best score.

        (SINGLE_CLICK_SHARE + DOUBT · (1 - share) / c) / c² for c agreeing clicks, where share is the mean of `shares`, weighted
        by squared clicks. A click on a document that BM25 ranks low is more often a mistake than one on its first document:
        until others confirm it, BM25 weighs more.
        """
        agreeing, squares = self.agreeing(), self.clicks**2
        share = float(np.average(shares, weights=squares)) if squares.any() else 0.0
        return (SINGLE_CLICK_SHARE + DOUBT * (1.0 - share) / agreeing) / agreeing**2

    def bounded(self, docs: NDArray[np.integer], learned: NDArray[np.float64]) -> NDArray[np.float64]:
        """The learned part of the scores of `docs` (n,), ascending rows, with a bound on what a document's own clicks do.

        A click says that the document's content is wanted, which holds for documents like it too, and that this document is,
        which only further clicks confirm. What a clicked document has beyond the best unclicked one is therefore shrunk.
        """
        places = np.searchsorted(docs, self.docs)
        listed = places < len(docs)
        listed[listed] = docs[places[listed]] == self.docs[listed]
        clicked = places[listed]
        others = np.delete(learned, clicked)
        best = float(others.max()) if len(others) else 0.0
        excess = np.maximum(learned[clicked] - best, 0.0)
        out = learned.copy()
        out[clicked] -= excess * (1.0 - shrunk(self.clicks[listed]))
        return out


def shrunk(observations: NDArray[np.float64]) -> NDArray[np.float64]:
    """n / (n + m) of each number of observations, between 0 and 1."""
    return observations / (observations + PRIOR_OBSERVATIONS)


def click_evidence(similar: Similar, shown: Shown, rows: NDArray[np.integer]) -> ClickEvidence:
    """Counts the clicks on each document beyond those that NOISE explains; `rows` are the rows of the log's documents.

    The clicks of similar queries count by the correlation of their clicks with the query's own, or by the similarity of the
    texts where that is more.
    """
    order = np.argsort(similar.ids)
    owner = order[np.searchsorted(similar.ids[order], shown.queries)]
    by_text = np.clip((similar.by_text - NO_EVIDENCE) / (FULL_EVIDENCE - NO_EVIDENCE), 0.0, 1.0)
    same_need = np.maximum(similar.by_clicks, by_text)[owner]
    counted = same_need * np.maximum(shown.clicks - NOISE * shown.exposure, 0.0)
    known = (rows[shown.docs] >= 0) & (shown.clicks > 0)
    docs, places = np.unique(rows[shown.docs[known]], return_inverse=True)
    return ClickEvidence(docs.astype(np.int64), np.bincount(places, counted[known], len(docs)).astype(np.float64))


def examined(
    shown: Shown, queries: NDArray[np.integer], docs: NDArray[np.integer], rows: NDArray[np.integer]
) -> NDArray[np.float64]:
    """How far documents that a query didn't click are known to be not wanted, from 0 to 1: e / (e + m) of e examinations.

    `queries` (m,) are numbers of the log and `docs` (m,) rows of the index; `rows` are the rows of the log's documents. 1 for
    queries whose impressions the log doesn't count.
    """
    listed = rows[shown.docs].astype(np.int64)
    size = int(max(rows.max(initial=0), docs.max(initial=0))) + 1
    keys = np.where(listed >= 0, shown.queries * size + listed, -1)
    order = np.argsort(keys)
    wanted = np.asarray(queries, dtype=np.int64) * size + docs
    places = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    exposure = np.where(keys[order][places] == wanted, shown.exposure[order][places], 0.0)
    counted = np.isin(queries, shown.queries[shown.exposure > 0])
    return np.where(counted, shrunk(exposure), 1.0)
