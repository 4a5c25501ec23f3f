"""How reliable the clicks of a logged query are, by which the form `auto` of Robust BM25 chooses its weights.

Clicks are weighted by the odds that they are mistakes, which depend on BM25's rank of the document and its nearness to BM25's
other documents. A document that was shown without a click is a negative example with weight e / (e + m) after e examinations,
as the mean of a Beta posterior is shrunk towards its prior of m observations. The constants were chosen on cacm, cisi, cran and
npl (`python -m tools.papers.rbm25_sparse`, docs/reproductions/rbm25.md, "Sparse and wrong clicks").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.store import Shown
from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels.documents import Cosine
from kernelsearch.rerankers.rbm25.similar_queries import Similar

#: Examinations that the prior counts as (m).
PRIOR_EXAMINATIONS = 1.0
#: Clicks per examination of a document that is not relevant (`clicks.models.attraction`): up to this rate clicks prove nothing,
#: and at this rate a mistaken click is repeated.
NOISE = 0.05
#: Length of the lists that users look through.
LIST_LENGTH = 10
#: Weight of BM25 after a click on its last document of a list, as a multiple of --rbm25.prior, where its support is typical.
WEIGHT_OF_LAST = 140.0
#: The odds that a click at BM25's rank r is intended fall as r to the power of -STEEPNESS, from rank FIRST on.
STEEPNESS, FIRST = 3.5, 2
#: Documents that a document's support is the mean cosine with, the support that changes nothing, and how much it counts.
NEAREST, TYPICAL_SUPPORT, SUPPORT_WEIGHT = 3, 0.25, 5.0
#: Text similarity from which on another query counts as a wording of the same need, and at which it does so fully.
NO_EVIDENCE, FULL_EVIDENCE = 0.3, 0.6


@dataclass(frozen=True)
class ClickEvidence:
    """The documents that similar queries clicked: their rows in the index, ascending, and the clicks counted for each, (u,)."""

    docs: NDArray[np.int64]
    clicks: NDArray[np.float64]

    def weight_of_bm25(self, ranks: NDArray[np.integer], support: NDArray[np.floating]) -> float:
        """The weight of BM25 as a multiple of --rbm25.prior: the odds that the clicks are mistakes.

        `ranks` (u,) are BM25's ranks of the documents, 0: not retrieved; `support` (u,) is what `support_in_list` gives.

        The first click on a document at rank r with support c has the odds x = (max(r, 2) / 10)^3.5 e^(-5(c - .25)), of n < 1
        clicks x^n, and each further one .05: a mistake is seldom repeated. A mistaken click is equally likely on each of the 10
        documents of a list. An intended click is on a document that the user examined, the probability of which falls as 1/r,
        and that is relevant, the probability of which falls with the rank, too; ranks 1 and 2 don't differ. Relevant documents
        are near each other (the cluster hypothesis), so a click on a document that is far from the others is more likely to be
        a mistake. A retrieved document beyond the first 10 was shown for another reason than its rank by BM25: neither rank nor
        support say anything about the click, which counts (1/10)^3.5. For a document that BM25 doesn't retrieve, the first
        click counts nothing, and the others as above. Of several documents the geometric mean is taken, weighted by n², and
        multiplied by 140.

        Intended clicks say something about the clicked documents, and little about the others that were shown with them. So
        further clicks leave BM25 the share 1 / (N D), where that is less than what the first clicks left it: a prior that
        counts as one click, against N = Σn clicks on an effective number D = (Σn)² / Σn² of documents.
        """
        counted = np.where(ranks > 0, self.clicks, np.maximum(self.clicks - 1.0, 0.0))
        if not counted.any():
            return WEIGHT_OF_LAST
        listed = (ranks > 0) & (ranks <= LIST_LENGTH)
        odds = STEEPNESS * np.log(np.where(listed, np.maximum(ranks, FIRST), 1) / LIST_LENGTH)
        odds -= np.where(listed, SUPPORT_WEIGHT * (support - TYPICAL_SUPPORT), 0.0)
        weights = counted**2
        first = WEIGHT_OF_LAST * math.exp(float(np.average(np.minimum(counted, 1.0) * odds, weights=weights)))
        repeated = math.pow(NOISE, float(np.average(np.maximum(counted - 1.0, 0.0), weights=weights)))
        share = float(weights.sum() / counted.sum() ** 3)
        return max(first * repeated, min(first, share))


def support_in_list(collection: ForwardIndex, docs: NDArray[np.integer], listed: NDArray[np.integer]) -> NDArray[np.float64]:
    """The mean cosine of each document with its three nearest others of BM25's first 10, shape (documents,).

    `docs` are rows of `collection`, `listed` the documents that BM25 retrieves, best first; others that it lacks count 0.
    """
    first = listed[:LIST_LENGTH]
    cosines = np.where(docs[:, None] == first[None, :], 0.0, Cosine().documents(collection, docs, first))
    return np.asarray(np.sort(cosines, axis=1)[:, -NEAREST:].sum(axis=1) / NEAREST)


def shrunk(examinations: NDArray[np.float64]) -> NDArray[np.float64]:
    """e / (e + m) of each number of examinations, between 0 and 1."""
    return examinations / (examinations + PRIOR_EXAMINATIONS)


def click_evidence(similar: Similar, shown: Shown, rows: NDArray[np.integer]) -> ClickEvidence:
    """Counts the clicks on each document beyond those that NOISE explains; `rows` are the rows of the log's documents.

    `shown` are the documents that the log shows for the queries `similar`. The clicks of these count by the correlation with
    the query's own, or by the similarity of the texts where that is more.
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

    `shown` are the log's documents of these queries, `queries` (m,) are numbers of the log and `docs` (m,) rows of the index;
    `rows` are the rows of the log's documents. 1 for queries whose impressions the log doesn't count.
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
