"""First-stage ranking models and feedback methods, as immutable values with Anserini's defaults.

A ranking model's fields are the arguments of its Lucene class, `java_class`, in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


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
        """Returns Anserini's reranker (Java) for an analyser (Java) and the field that is searched."""
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
        """Returns Anserini's reranker (Java) for an analyser (Java) and the field that is searched."""
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


Model = BM25Model | DirichletModel | JelinekMercerModel
Feedback = RM3 | Rocchio
