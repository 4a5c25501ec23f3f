"""Asymmetric kernels between queries and documents: inner product, VSM, BM25, language models.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), section 3.2. Factors that depend on the term alone (idf) may be on
either side of <φ_Q(q), φ_D(d)>; they are split evenly, √idf on both, because then φ_D is also the map of the document kernel of
Park & Ramamohanarao, "Kernel Latent Semantic Analysis using an Information Retrieval based Kernel" (CIKM 2009), Eq. 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from kernelsearch.core.caching import once_per_object
from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Query
from kernelsearch.kernels import ranking_models
from kernelsearch.kernels.algebra import Collection, Kernel, counts, weighted_terms

#: Postings read at a time for entropy weights.
POSTINGS_PER_BLOCK = 10_000_000


@dataclass(frozen=True)
class Linear(Kernel):
    """Inner product of term counts: classic latent semantic indexing without weights."""

    def __str__(self) -> str:
        return "linear"

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        return counts(collection, docs, dtype)

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        return weighted_terms(collection, query, np.array(query.weights))


@dataclass(frozen=True)
class VSM(Kernel):
    """tf·idf on both sides (section 3.2.1), with Lucene's idf: the vector space model, LSI with weights."""

    meaning = "tf·idf of the query's words"

    def __str__(self) -> str:
        return "vsm"

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        features = counts(collection, docs, dtype)
        df, documents = collection.df, collection.statistics.documents
        few = len(features.indices) < len(df)  # a few documents of a large vocabulary: only their terms are weighed
        features.data *= (
            ranking_models.idf(df[features.indices], documents) if few else ranking_models.idf(df, documents)[features.indices]
        )
        return features

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        return weighted_terms(collection, query, np.array(query.weights) * _idf(collection, query))


@dataclass(frozen=True)
class LogEntropy(Kernel):
    """log(1 + tf) times the entropy weight of the term on both sides: the weights with which LSI ranks best.

    Dumais, "Improving the retrieval of information from external sources" (1991): g_t = 1 + Σ_d p_dt log p_dt / log N with
    p_dt = tf / cf, over the N documents. It is 1 for a term of one document, 0 for one spread evenly over all.
    """

    def __str__(self) -> str:
        return "logentropy"

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        features = counts(collection, docs, dtype)
        features.data = (np.log1p(features.data) * _entropy_weights(collection)[features.indices]).astype(dtype)
        return features

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        numbers = collection.term_ids(query.terms)
        weights = np.where(numbers >= 0, _entropy_weights(collection)[np.maximum(numbers, 0)], 0.0)
        return weighted_terms(collection, query, np.log1p(np.array(query.weights)) * weights)


@dataclass(frozen=True)
class BM25(Kernel):
    """BM25 (section 3.2.2) with Lucene's idf and its one-byte lengths, without the constant factor (k1 + 1).

    k(q, d) = Σ_t qtf_t · idf_t · s(d, t), equal to Lucene's score to the bit; s(d, t) = tf / (tf + k1((1-b) + b·dl/avgdl)).
    k_d(m, n) = Σ_t idf_t · s(m, t) · s(n, t). `k3` saturates repeated query terms: (k3+1)·qtf/(k3+qtf);
    None keeps qtf, as Lucene does.
    """

    meaning = "match with the query's words (BM25)"

    k1: float = 0.9
    b: float = 0.4
    k3: float | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.k1 < math.inf and 0 <= self.b <= 1 and (self.k3 is None or 0 <= self.k3 < math.inf)):
            raise OptionError(
                f"kernel bm25: k1 {self.k1} and k3 {self.k3} must be finite and not negative, b {self.b} must lie in 0..1"
            )

    def __str__(self) -> str:
        return "bm25"

    def query_weights(self, query: Query) -> NDArray[np.float64]:
        """The weight of each query term."""
        weights = np.array(query.weights, dtype=np.float64)
        return weights if self.k3 is None else (self.k3 + 1) * weights / (self.k3 + weights)

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        features = counts(collection, docs, dtype)
        statistics = collection.statistics
        factor = ranking_models.length_factor(collection.norm_lengths[docs], float(statistics.average_length), self.k1, self.b)
        inverse = np.repeat((1 / factor).astype(dtype), np.diff(features.indptr))
        features.data /= features.data + inverse
        features.data *= np.sqrt(ranking_models.idf(collection.df, statistics.documents)).astype(dtype)[features.indices]
        return features

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        return weighted_terms(collection, query, self.query_weights(query) * np.sqrt(_idf(collection, query)))

    def scores(self, collection: Collection, query: Query, docs: NDArray[np.integer]) -> NDArray[np.floating]:
        terms = collection.term_ids(query.terms)
        return ranking_models.bm25_scores(collection, terms, self.query_weights(query), docs, k1=self.k1, b=self.b)


@dataclass(frozen=True)
class Dirichlet(Kernel):
    """Query likelihood with Dirichlet smoothing (section 3.2.3): terms + 1 features.

    φ_D(d)_t = log(1 + tf/(μ·P(t))) and φ_D(d)_{n+1} = log(μ/(len(d) + μ)); φ_Q(q) = qtf, then len(q). P(t) is Lucene's
    (cf + 1)/(tokens + 1) and len(d) its one-byte length. Lucene besides cuts each term's part at zero, which no kernel can.
    """

    meaning = "query likelihood, Dirichlet smoothing"

    mu: float = 1000.0

    def __post_init__(self) -> None:
        if not 0 < self.mu < math.inf:
            raise OptionError(f"kernel dirichlet: mu {self.mu} must be positive and finite")

    def __str__(self) -> str:
        return "dirichlet"

    def feature_terms(self, collection: Collection) -> NDArray[np.int64]:
        return np.append(super().feature_terms(collection), -1)

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        features = counts(collection, docs, dtype)
        features.data = np.log1p(features.data / (self.mu * _probability(collection)[features.indices])).astype(dtype)
        lengths = collection.norm_lengths[docs].astype(np.float64)
        last = sparse.csr_matrix(np.log(self.mu / (lengths + self.mu)).astype(dtype)[:, None])
        return sparse.csr_matrix(sparse.hstack([features, last], format="csr"))

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        row = weighted_terms(collection, query, np.array(query.weights), self.width(collection)).tolil()
        # len(q) counts known terms only: an unknown one has no probability, and Lucene leaves it out too.
        row[0, -1] = row.sum()
        return row.tocsr()


@dataclass(frozen=True)
class JelinekMercer(Kernel):
    """Query likelihood with Jelinek-Mercer smoothing: φ_D(d)_t = log(1 + (1-λ)·tf/len(d) / (λ·P(t))), φ_Q(q) = qtf."""

    meaning = "query likelihood, Jelinek-Mercer smoothing"

    lam: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.lam <= 1:
            raise OptionError(f"kernel jm: lambda {self.lam} must lie above 0 and not above 1")

    def __str__(self) -> str:
        return "jm"

    def document_features(
        self, collection: Collection, docs: NDArray[np.integer], dtype: DTypeLike = np.float64
    ) -> sparse.csr_matrix:
        features = counts(collection, docs, dtype)
        lengths = np.repeat(collection.norm_lengths[docs].astype(np.float64), np.diff(features.indptr))
        odds = (1 - self.lam) * features.data / (self.lam * lengths * _probability(collection)[features.indices])
        features.data = np.log1p(odds).astype(dtype)
        return features

    def query_features(self, collection: Collection, query: Query) -> sparse.csr_matrix:
        return weighted_terms(collection, query, np.array(query.weights))


def _idf(collection: Collection, query: Query) -> NDArray[np.float32]:
    """Lucene's idf of each query term; 0 for terms that the collection doesn't have."""
    numbers = collection.term_ids(query.terms)
    df = np.asarray(collection.df[np.maximum(numbers, 0)]) if len(collection.df) else np.zeros(len(numbers))
    return np.where(numbers >= 0, ranking_models.idf(df, collection.statistics.documents), np.float32(0))


@once_per_object
def _entropy_weights(collection: Collection) -> NDArray[np.float64]:
    """The entropy weight of each term, shape (terms,), from one pass over all postings."""
    total = np.zeros(len(collection.terms))
    cf = np.asarray(collection.cf, dtype=np.float64)
    for start in range(0, len(collection.indices), POSTINGS_PER_BLOCK):
        terms = np.asarray(collection.indices[start : start + POSTINGS_PER_BLOCK])
        share = collection.frequencies[start : start + POSTINGS_PER_BLOCK] / cf[terms]
        total += np.bincount(terms, share * np.log(share), len(total))
    return np.asarray(1.0 + total / np.log(max(len(collection), 2)))


def _probability(collection: Collection) -> NDArray[np.float64]:
    """A term's share of the collection's tokens, as Lucene's language models have it."""
    result: NDArray[np.float64] = (np.asarray(collection.cf, dtype=np.float64) + 1) / (collection.statistics.tokens + 1)
    return result
