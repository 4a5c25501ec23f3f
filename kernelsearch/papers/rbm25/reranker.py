"""`rbm25-paper`: Robust BM25 as printed, and regularised towards BM25 with a fixed weight.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), section 5. The query kernel, the asymmetric kernel g and the
preference pairs have options here. The weight of BM25 doesn't depend on the evidence in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import registry
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.kernels.queries import Queries, click_correlation, moments, weighted
from kernelsearch.kernels.ranking_models import first_stage_scores
from kernelsearch.lucene.models import BM25Model, Model
from kernelsearch.papers.rbm25 import PAIRWISE_KERNEL, PRINTED
from kernelsearch.papers.rbm25.settings import PrintedSettings
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, Contribution, Explanation, OpenedIndex
from kernelsearch.rerankers.rbm25.explanation import bm25_part, explain
from kernelsearch.rerankers.rbm25.preference_pairs import PreferencePairs, preference_pairs
from kernelsearch.rerankers.rbm25.reranker import RobustBM25
from kernelsearch.rerankers.rbm25.similar_queries import QueryKernel, Similar, check_log, open_log

#: The values of --rbm25-paper.relevance that make the first stage's model g, and 1.
FIRST_STAGE, NONE = "first", "none"


class PrintedRobustBM25(RobustBM25):
    """Robust BM25 with the weight 0 (`paper`) or a fixed weight (`prior`) of BM25's own part."""

    method = PRINTED
    settings: PrintedSettings

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self._pair_log, self._pair_rows = self._open_pair_log()
        self._relevance = self._parse_relevance()

    def query_kernel(self) -> QueryKernel:
        """k_Q with the weights of its kernels; raises OptionError where all are 0."""
        chosen, kernel = self.settings, super().query_kernel()
        if not (chosen.click_weight or chosen.ngram_weight or chosen.term_weight or chosen.bm25_weight or kernel.vectors):
            raise OptionError(
                Flag("click-weight", self.name), ", ngram-weight, term-weight and bm25-weight: at least one must be above 0"
            )
        return replace(
            kernel,
            ngrams=chosen.ngram_weight,
            terms=chosen.term_weight,
            correlation=union_correlation if chosen.union_pearson else click_correlation,
            borrowed=chosen.borrowed,
            further=((chosen.bm25_weight, BM25Cosine()),) if chosen.bm25_weight else (),
        )

    def _open_pair_log(self) -> tuple[ClickLog, NDArray[np.integer]]:
        """The log of preference pairs, and the row in the index of each of its documents (number 0 is none)."""
        if self.settings.pairs_clicks is None:
            return self.log, self.similar.rows if self.has_clicks else np.array([-1])
        log = open_log(self.index, self.settings.pairs_clicks, self.name, "pairs-clicks")
        return log, np.concatenate([[-1], check_log(self.index, log, str(log.path))])

    def _parse_relevance(self) -> Kernel | None:
        """g where it is neither Lucene's BM25, which is computed for all queries at once, nor the first stage's model or 1."""
        text = self.settings.relevance
        if text in (FIRST_STAGE, NONE):
            return None
        try:
            kernel = registry.kernel(text)
        except OptionError as problem:
            raise OptionError(problem, option=Flag("relevance", self.name)) from None
        if isinstance(kernel, BM25):
            self.model = BM25Model(kernel.k1, kernel.b)
            return None if kernel.k3 is None else kernel
        if not kernel.has_query:
            raise OptionError(
                f"{text} compares documents only, not queries with documents", option=Flag("relevance", self.name)
            )
        return kernel

    def retrieval_model(self, context: Context) -> Model:
        """The first stage's model where it is g, else BM25."""
        return context.model if self.settings.relevance == FIRST_STAGE else self.model

    def relevance(
        self, queries: Sequence[Query], docs: NDArray[np.integer], context: Context = DEFAULT_CONTEXT
    ) -> NDArray[np.float64]:
        """g before scaling of every query with every document, shape (queries, documents); negative values count as 0."""
        forward = self.index.forward
        if self.settings.relevance == NONE:
            return np.ones((len(queries), len(docs)))
        if self.settings.relevance == FIRST_STAGE:
            values = [first_stage_scores(forward, context.model, query, docs) for query in queries]
        elif self._relevance is None:
            return super().relevance(queries, docs, context)
        else:
            values = [self._relevance.scores(forward, query, docs) for query in queries]
        return np.maximum(np.array(values, dtype=np.float64).reshape(len(queries), len(docs)), 0.0)

    def best_relevance(self, similar: Similar, retrieved: list[Candidates]) -> NDArray[np.float64]:
        """The best g of each similar query among the documents `retrieved` for it, shape (queries,)."""
        if self.settings.relevance == NONE:
            return np.ones(len(retrieved))
        if self._relevance is None:
            return super().best_relevance(similar, retrieved)
        pairs = zip(similar.queries, retrieved, strict=True)
        return np.array([self.relevance([query], listed.docs).max(initial=0.0) for query, listed in pairs])

    def weight_of_bm25(self, similar: Similar, retrieved: Sequence[Candidates]) -> float:
        """The weight a of BM25: 0 in the printed form."""
        return 0.0 if self.settings.form == "paper" else self.settings.prior

    def certainty(self, similar: Similar, pairs: PreferencePairs) -> NDArray[np.float64]:
        """Ones: examinations don't count."""
        return np.ones(len(pairs.owner))

    def preference_pairs(self, similar: Similar, retrieved: list[Candidates]) -> PreferencePairs:
        """The preference pairs of the similar queries, of the log `pairs_clicks` where that is given."""
        chosen = self.settings
        own = self._pair_log is self.log
        return preference_pairs(
            self._pair_log,
            self._pair_rows,
            similar.ids if own else self._pair_log.query_ids([query.text for query in similar.queries]),
            retrieved,
            kind=chosen.pairs,
            limit=chosen.pairs_per_query,
            regularisation=chosen.lambda_,
            corrected=chosen.corrected,
            confident=chosen.confident,
        )

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """The part of g, then the parts of the similar queries, each by document."""
        own = _constant_part if self.settings.relevance == NONE else bm25_part
        return explain(self, query, candidates, doc, context, own)


class PairwiseKernel(PrintedRobustBM25):
    """k_Q · k_D alone: Basilico & Hofmann, "Unifying Collaborative and Content-Based Filtering" (ICML 2004)."""

    method = PAIRWISE_KERNEL


def _constant_part(weight: float, base: float) -> Contribution:
    return Contribution("the same for all documents", weight * base)


class BM25Cosine:
    """Cosine of BM25's weights √idf · c/(c + .9): BM25's document kernel, with both queries as documents of equal length."""

    def features(self, queries: Queries) -> sparse.csr_matrix:
        """Unit-length rows of BM25's weights of `queries`, shape (queries, COLUMNS)."""
        counts = queries.terms.data
        return weighted(queries.terms, np.sqrt(queries.idf.data) * counts / (counts + 0.9))


def union_correlation(u: sparse.csr_matrix, v: sparse.csr_matrix) -> NDArray[np.float64]:
    """Correlation of two queries' clicks over the documents that either query's users clicked (section 5.3 as printed).

    It is not positive semi-definite, because its mean changes from pair to pair. `u` and `v` have shape (queries, documents of
    the log), the result (len(u), len(v)). A query without clicks correlates with none.
    """
    (sum_u, square_u), (sum_v, square_v) = moments(u), moments(v)
    clicked_u, clicked_v = (u > 0).astype(np.float64), (v > 0).astype(np.float64)
    size = u.getnnz(axis=1)[:, None] + v.getnnz(axis=1) - (clicked_u @ clicked_v.T).toarray()
    size = np.maximum(size, 1)
    covariance = (u @ v.T).toarray() - sum_u[:, None] * sum_v / size
    variance = (square_u[:, None] - sum_u[:, None] ** 2 / size) * (square_v - sum_v**2 / size)
    defined = variance > 1e-12
    return np.where(defined, np.clip(covariance / np.sqrt(np.where(defined, variance, 1.0)), -1.0, 1.0), 0.0)
