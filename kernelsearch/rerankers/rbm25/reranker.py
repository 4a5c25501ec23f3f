"""`rbm25`, Robust BM25: a ranking function that is learned per query from the clicks of similar queries.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), section 5. Learning is online, as in the paper: similar
queries of the log are found, documents are retrieved for all of them and merged, a small dual is solved on the preference
pairs of those queries in the log, and the merged documents are ranked by

    k(q, d) = a·g(q, d) + g(q, d) · Σ_i θ_i k_Q(q, q_i) [ g(q_i, d_i⁺) k_D(d_i⁺, d) - g(q_i, d_i⁻) k_D(d_i⁻, d) ]

with g = BM25 scaled to a maximum of 1, plus ε. With a > 0 the norm of k - a·g is penalised instead of that of k: without
evidence in the log, BM25's order stays. a is chosen by the evidence in the log, and for a query with clicks the weight of
documents without a click that were hardly examined is reduced (`evidence`). The printed form, a = 0, is `rbm25-paper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.core.errors import Flag, KernelSearchError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.documents import Cosine
from kernelsearch.kernels.vectors import VectorKernel
from kernelsearch.learning.programs.box import minimise_in_box
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Explanation, OpenedIndex
from kernelsearch.rerankers.rbm25 import ROBUST_BM25
from kernelsearch.rerankers.rbm25.base import ClickReranker
from kernelsearch.rerankers.rbm25.evidence import FULL_EVIDENCE, NO_EVIDENCE, click_evidence, examined, support_in_list
from kernelsearch.rerankers.rbm25.preference_pairs import PreferencePairs, preference_pairs
from kernelsearch.rerankers.rbm25.settings import RobustBM25Settings
from kernelsearch.rerankers.rbm25.similar_queries import Similar

# How BM25 is weighted for a query without clicks, chosen on training queries (docs/reproductions/rbm25.md, "How the defaults
# were chosen"). At FULL_EVIDENCE and above, BM25 has its smallest weight, at NO_EVIDENCE and below all of it.
#: The smallest weight of BM25, as a share of --rbm25.prior: short queries can be alike in text and mean different things.
SMALLEST_SHARE = 0.2
#: From this correlation between the clicks of the nearest queries on, they count as wordings of one information need.
SAME_NEED_CORRELATION = 0.2
#: Largest number of preference pairs per similar query.
PAIRS_PER_QUERY = 20
#: The duality gap that a query's dual is solved to, as a share of its objective.
DUALITY_GAP = 1e-12
#: Decimals of the learned part. Documents of pairs at the margin tie in the exact solution; the solver's error, which depends
#: on BLAS and its threads, would order them.
DECIMALS = 8


@dataclass(frozen=True)
class Learned:
    """What was learned for one query: all that scores and explanations are computed from.

    `gains` (m, 2) holds g(q_i, d_i⁺) and g(q_i, d_i⁻), `theta` (m,) the multipliers, `features` (u, terms) the documents of the
    pairs in the space of k_D; `weight` is a. For a query with clicks the second column of `gains` is shrunk by the examinations
    of the documents without a click.
    """

    similar: Similar
    pairs: PreferencePairs
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

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self._document_kernels = [self._document_kernel(name) for name in self._field_names()]

    def _field_names(self) -> list[str]:
        if self.settings.documents == "both":
            return ["body", "title"]
        names = [name.strip() for name in self.settings.documents.split(",")]
        if not all(names) or len(set(names)) < len(names):
            raise OptionError(
                f"{self.settings.documents!r} is not a list of different fields", option=Flag("documents", self.name)
            )
        return names

    def _document_kernel(self, name: str) -> tuple[Kernel, ForwardIndex]:
        """A kernel between documents, and the field that it is computed on: `vectors:NAME`, or the cosine of a field."""
        kind, _, vectors = name.partition(":")
        try:
            if kind == "vectors":
                return VectorKernel(self.index.vectors(vectors or None)), self.index.forward
            return Cosine(), self.index.forward if name == "body" else self.index.field(name)
        except KernelSearchError as problem:
            raise OptionError(problem, option=Flag("documents", self.name)) from None

    def rank(
        self,
        query: Query,
        candidates: Candidates,
        similar: Similar,
        retrieved: list[Candidates],
        context: Context = DEFAULT_CONTEXT,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The merged documents and k(q, d) of each, in any order."""
        learned = self.learn(similar, retrieved, context)
        clicked = learned.pairs.docs[np.unique(learned.pairs.better)]
        docs = self.merged(candidates, retrieved, clicked)
        return docs, self.values(query, docs, learned, context)

    def values(
        self, query: Query, docs: NDArray[np.int32], learned: Learned, context: Context = DEFAULT_CONTEXT
    ) -> NDArray[np.float64]:
        """k(q, d) with the kernel `learned`, shape (documents,)."""
        part = np.round(self.features(docs) @ learned.direction(), DECIMALS)
        return np.asarray(self.base(query, docs, context) * (learned.weight + part))

    def base(self, query: Query, docs: NDArray[np.int32], context: Context = DEFAULT_CONTEXT) -> NDArray[np.float64]:
        """g(q, d), scaled by the best of `docs`."""
        scores = self.relevance([query], docs, context)[0]
        return _scaled(scores, np.array(scores.max(initial=0.0)), self.settings.epsilon)

    def relevance(
        self, queries: Sequence[Query], docs: NDArray[np.integer], context: Context = DEFAULT_CONTEXT
    ) -> NDArray[np.float64]:
        """g before scaling of every query with every document, shape (queries, documents)."""
        return self.bm25_of_all(queries, docs)

    def learn(self, similar: Similar, retrieved: list[Candidates], context: Context = DEFAULT_CONTEXT) -> Learned:
        """Solves the dual on the preference pairs of `similar`, whose lists are `retrieved`; CannotAct where there are none."""
        if not len(similar.ids):
            raise CannotAct("no similar query in the click log")
        pairs = self.preference_pairs(similar, retrieved)
        if not len(pairs.owner):
            raise CannotAct("similar queries without preference pairs")
        gains = self.gains(similar, retrieved, pairs, context)
        weight = self.weight_of_bm25(similar, retrieved)
        linear = 1.0 - weight * (gains[:, 0] - gains[:, 1])
        gains[:, 1] *= self.certainty(similar, pairs)
        features = self.features(pairs.docs)
        matrix = _differences(features, pairs, gains)
        matrix *= similar.gram[:, pairs.owner][pairs.owner]
        solution = minimise_in_box(matrix, linear, 0.0, pairs.bounds, tolerance=DUALITY_GAP)
        return Learned(similar, pairs, gains, solution.x, features, weight)

    def weight_of_bm25(self, similar: Similar, retrieved: Sequence[Candidates]) -> float:
        """The weight a of BM25 by the evidence in the log, at most --rbm25.prior for a query without clicks.

        For a query with clicks of its own the evidence is their number, the ranks of their documents and how near these are to
        the other documents, see `ClickEvidence`.
        For other queries it is the best similarity to a logged query: that of the texts, plus half of that between the
        retrieved documents and the logged query's clicked ones. It is halved where the clicks of the nearest queries don't
        correlate: wordings of one information need share their clicks, queries that merely share terms don't. `retrieved` are
        the similar queries' lists.
        """
        full = self.settings.prior
        if similar.own >= 0:
            evidence = click_evidence(similar, self.log.shown(similar.ids, clicked_only=True), self.similar.rows)
            listed = self._own_list(similar, retrieved)
            support = support_in_list(self.index.forward, evidence.docs, listed)
            return full * evidence.weight_of_bm25(_ranks(evidence.docs, listed), support)
        similarity = float((similar.by_text + 0.5 * np.maximum(similar.by_clicks, 0.0)).max())
        strength = similarity * (0.5 + 0.5 * min(max(similar.agreement, 0.0) / SAME_NEED_CORRELATION, 1.0))
        return full * min(max((FULL_EVIDENCE - strength) / (FULL_EVIDENCE - NO_EVIDENCE), SMALLEST_SHARE), 1.0)

    def certainty(self, similar: Similar, pairs: PreferencePairs) -> NDArray[np.float64]:
        """How far each pair's other document is known to be not wanted, from 0 to 1, for a query with clicks; shape (m,)."""
        if similar.own < 0:
            return np.ones(len(pairs.owner))
        shown = self.log.shown(similar.ids)
        return examined(shown, similar.ids[pairs.owner], pairs.docs[pairs.worse], self.similar.rows)

    def _own_list(self, similar: Similar, retrieved: Sequence[Candidates]) -> NDArray[np.int32]:
        """The documents that the query itself retrieves, best first; none where it is not among the similar queries."""
        places = np.flatnonzero(similar.ids == similar.own)
        return retrieved[int(places[0])].docs if len(places) else np.empty(0, dtype=np.int32)

    def features(self, docs: NDArray[np.integer]) -> sparse.csr_matrix:
        """Features whose inner product is k_D, shape (documents, terms or dimensions)."""
        parts = [kernel.document_features(field, docs) for kernel, field in self._document_kernels]
        return parts[0] if len(parts) == 1 else sparse.hstack(parts, format="csr") / np.sqrt(len(parts))

    def preference_pairs(self, similar: Similar, retrieved: list[Candidates]) -> PreferencePairs:
        """The preference pairs of the similar queries, whose lists are `retrieved`."""
        chosen = self.settings
        return preference_pairs(
            self.log,
            self.similar.rows,
            similar.ids,
            retrieved,
            kind=chosen.pairs,
            limit=PAIRS_PER_QUERY,
            regularisation=chosen.lambda_,
        )

    def gains(
        self, similar: Similar, retrieved: list[Candidates], pairs: PreferencePairs, context: Context
    ) -> NDArray[np.float64]:
        """g of both documents of each pair for the pair's query, shape (m, 2); `retrieved` are the similar queries' lists."""
        scores = self.relevance(similar.queries, pairs.docs, context)
        best = self.best_relevance(similar, retrieved)[:, None]
        scaled = _scaled(scores, best, self.settings.epsilon)
        return np.stack([scaled[pairs.owner, pairs.better], scaled[pairs.owner, pairs.worse]], axis=1)

    def best_relevance(self, similar: Similar, retrieved: list[Candidates]) -> NDArray[np.float64]:
        """The best g of each similar query among the documents `retrieved` for it, shape (queries,)."""
        return np.array([listed.scores[0] if listed.depth else 0.0 for listed in retrieved])

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """BM25's own part of the score, then the parts of the similar queries, each by document."""
        from kernelsearch.rerankers.rbm25.explanation import explain

        return explain(self, query, candidates, doc, context)


def _ranks(docs: NDArray[np.integer], listed: NDArray[np.integer]) -> NDArray[np.int64]:
    """Ranks of documents in a list, from 1; 0 for documents that it doesn't have."""
    matches = docs[:, None] == listed[None, :]
    return np.where(matches.any(axis=1), np.argmax(matches, axis=1) + 1 if len(listed) else 0, 0)


def _scaled(scores: NDArray[np.float64], best: NDArray[np.floating], epsilon: float) -> NDArray[np.float64]:
    """Scores over their maximum, plus ε, over 1 + ε.

    A document without the query's terms must be able to rise. ε is added instead of being a lower bound, so that BM25's order
    stays among documents with few of the terms.
    """
    share = np.divide(scores, best, out=np.zeros_like(scores), where=np.broadcast_to(best > 0, scores.shape))
    return np.asarray((np.minimum(share, 1.0) + epsilon) / (1.0 + epsilon))


def _differences(features: sparse.csr_matrix, pairs: PreferencePairs, gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """The bracket of W(i, j) in section 5.3: inner products of g⁺φ(d⁺) - g⁻φ(d⁻), shape (m, m)."""
    gram = (features @ features.T).toarray()
    m = len(gains)
    entries = np.stack([gains[:, 0], -gains[:, 1]], axis=1).ravel()
    columns = np.stack([pairs.better, pairs.worse], axis=1).ravel()
    # One row per pair with its two documents: products with it are cheaper than gathering rows of the Gram matrix.
    differences = sparse.csr_matrix((entries, columns, np.arange(0, 2 * m + 1, 2)), shape=(m, len(gram)))
    return np.asarray(differences @ np.ascontiguousarray((differences @ gram).T))
