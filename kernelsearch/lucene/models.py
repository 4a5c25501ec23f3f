"""Ranking models and feedback methods of the first stage, as immutable values with Anserini's defaults, and their options.

A ranking model's fields are the arguments of its Lucene class, `java_class`, in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True)
class BM25Model:
    """BM25 as Lucene computes it."""

    k1: float = 0.9
    b: float = 0.4

    java_class: ClassVar[str] = "org.apache.lucene.search.similarities.BM25Similarity"


@dataclass(frozen=True)
class DirichletModel:
    """Query likelihood with Dirichlet smoothing (Anserini's QLD). Lucene clips a term's score at zero."""

    mu: float = 1000.0

    java_class: ClassVar[str] = "org.apache.lucene.search.similarities.LMDirichletSimilarity"


@dataclass(frozen=True)
class JelinekMercerModel:
    """Query likelihood with Jelinek-Mercer smoothing (Anserini's QLJM)."""

    lam: float = 0.1

    java_class: ClassVar[str] = "org.apache.lucene.search.similarities.LMJelinekMercerSimilarity"


@dataclass(frozen=True)
class BM25WithoutIdf:
    """BM25 for queries whose weights replace the inverse document frequency."""

    k1: float = 0.9
    b: float = 0.4

    java_class: ClassVar[str] = "kernelsearch.Bridge$BM25WithoutIdf"


@dataclass(frozen=True)
class RM3:
    """Anserini's RM3 pseudo-relevance feedback."""

    terms: int = 10  #: expansion terms
    docs: int = 10  #: feedback documents
    original_weight: float = 0.5  #: weight of the original query
    english: bool = True  #: drop expansion terms that aren't plain English words

    @property
    def depth(self) -> int:
        """The number of documents to retrieve for feedback."""
        return self.docs

    def reranker(self, analyzer: Any, field: str) -> Any:
        """Returns Anserini's reranker (Java) for `analyzer`, an analyser (Java), and the field that is searched."""
        from jnius import autoclass

        return autoclass("io.anserini.rerank.lib.Rm3Reranker")(
            analyzer, None, field, self.terms, self.docs, self.original_weight, False, self.english
        )


@dataclass(frozen=True)
class Rocchio:
    """Anserini's Rocchio feedback. Negative feedback uses the bottom of a list of `hits` documents."""

    top_terms: int = 10
    top_docs: int = 10
    bottom_terms: int = 10
    bottom_docs: int = 10
    alpha: float = 1.0
    beta: float = 0.75
    gamma: float = 0.15
    negative: bool = False
    hits: int = 1000

    @property
    def depth(self) -> int:
        """The number of documents to retrieve for feedback."""
        return self.hits if self.negative else self.top_docs

    def reranker(self, analyzer: Any, field: str) -> Any:
        """Returns Anserini's reranker (Java) for `analyzer`, an analyser (Java), and the field that is searched."""
        from jnius import autoclass

        return autoclass("io.anserini.rerank.lib.RocchioReranker")(
            analyzer,
            None,
            field,
            self.top_terms,
            self.top_docs,
            self.bottom_terms,
            self.bottom_docs,
            self.alpha,
            self.beta,
            self.gamma,
            False,
            self.negative,
        )


@dataclass(frozen=True)
class BM25PRF:
    """Anserini's BM25PRF feedback: the query's terms and new ones with their relevance weights in the best documents.

    The weights replace the inverse document frequency, so the expanded query is ranked by BM25 without it.
    """

    terms: int = 20  #: expansion terms
    docs: int = 10  #: feedback documents
    k1: float = 0.9  #: of the model that ranks the expanded query
    b: float = 0.4
    new_term_weight: float = 0.2  #: factor of the expansion terms' weights

    @property
    def depth(self) -> int:
        """The number of documents to retrieve for feedback."""
        return self.docs

    def reranker(self, analyzer: Any, field: str) -> Any:
        """Returns Anserini's reranker (Java) for `analyzer`, an analyser (Java), and the field that is searched."""
        from jnius import autoclass

        return autoclass("io.anserini.rerank.lib.BM25PrfReranker")(
            analyzer, None, field, self.terms, self.docs, self.k1, self.b, self.new_term_weight, False
        )


Model = BM25Model | DirichletModel | JelinekMercerModel
Feedback = RM3 | Rocchio | BM25PRF


def model_of_expanded(feedback: Feedback, model: Model) -> Model | BM25WithoutIdf:
    """Returns the model that ranks queries which `feedback` expanded from the lists of `model`."""
    return BM25WithoutIdf(feedback.k1, feedback.b) if isinstance(feedback, BM25PRF) else model


@dataclass(frozen=True, kw_only=True)
class FirstStageSettings(Settings):
    """Options of the first stage, with Pyserini's names."""

    # Requests to a service have `candidates` instead; their `hits` is the length of the answer.
    hits: int = option(1000, "documents to retrieve per query", low=1, requests=False)
    bm25: bool = option(True, "rank by BM25")
    k1: float = option(0.9, "BM25: saturation of term frequencies (k1)", low=0)
    b: float = option(0.4, "BM25: document length normalisation (b)", low=0, high=1)
    qld: bool = option(False, "rank by query likelihood with Dirichlet smoothing instead of BM25")
    mu: float = option(1000.0, "--qld: Dirichlet prior (mu)", low=0)
    qljm: bool = option(False, "rank by query likelihood with Jelinek-Mercer smoothing instead of BM25")
    lambda_: float = option(0.1, "--qljm: weight of the collection model (lambda)", low=1e-06, high=1)
    rm3: bool = option(False, "expand queries with Anserini's RM3")
    rm3_terms: int = option(10, "RM3: number of expansion terms", low=1, request_high=100)
    rm3_docs: int = option(10, "RM3: number of feedback documents", low=1, request_high=100)
    rm3_weight: float = option(0.5, "RM3: weight of the original query", low=0, high=1)
    rocchio: bool = option(False, "expand queries with Anserini's Rocchio")
    rocchio_terms: int = option(10, "Rocchio: number of expansion terms", low=1, request_high=100)
    rocchio_docs: int = option(10, "Rocchio: number of feedback documents", low=1, request_high=100)
    rocchio_alpha: float = option(1.0, "Rocchio: weight of the original query", low=0)
    rocchio_beta: float = option(0.75, "Rocchio: weight of the feedback documents", low=0)
    rocchio_gamma: float = option(0.15, "Rocchio: weight of the lowest-ranked documents, with --rocchio-use-negative", low=0)
    rocchio_use_negative: bool = option(False, "Rocchio: use the lowest-ranked documents as negative feedback")
