"""Options of the printed forms of Robust BM25 and of its baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import option
from kernelsearch.rerankers.rbm25.settings import ClickSettings, RobustBM25Settings


@dataclass(frozen=True, kw_only=True)
class PrintedSettings(RobustBM25Settings):
    """Options of `rbm25-paper`."""

    owner: ClassVar[str] = "rbm25-paper"

    form: str = option(
        "paper",
        "learned function: as printed (paper), or regularised towards BM25 with a fixed weight (prior)",
        choices=("paper", "prior"),
    )
    prior: float = option(1.5, "weight a of BM25 in the form prior", low=0)
    pairs_clicks: str | None = option(
        None, "click log of the preference pairs, if it differs from the log of similar queries (clicks)", names="file"
    )
    pairs_per_query: int = option(
        20, "largest number of preference pairs per similar query", low=1, high=10000, request_high=50
    )
    corrected: bool = option(False, "weight pairs by the inverse propensity of the click's position")
    confident: bool = option(True, "weight pairs by the difference between the click rates of their documents")
    borrowed: int = option(
        10,
        "number of retrieved documents used like clicks to find similar queries, for queries without clicks",
        low=0,
        high=100,
    )
    ngram_weight: float = option(0.5, "weight of character 3-grams in the query kernel", low=0)
    term_weight: float = option(0.5, "weight of terms in the query kernel", low=0)
    bm25_weight: float = option(0.0, "weight of BM25's kernel between queries in the query kernel", low=0)
    union_pearson: bool = option(
        False, "correlate clicks over the union of both queries' clicked documents, as in the paper (not a kernel)"
    )
    relevance: str = option(
        "bm25",
        "asymmetric kernel g of query and document: bm25(k1=1.2,k3=2), vsm, dirichlet(mu=500), sums and products, "
        "first: the first stage's ranking model, or none: 1 for all pairs",
    )


@dataclass(frozen=True, kw_only=True)
class PairwiseKernelSettings(PrintedSettings):
    """Options of `pairwise`."""

    owner: ClassVar[str] = "pairwise"

    relevance: str = option("none", "asymmetric kernel g of query and document, as of rbm25-paper; none: 1 for all pairs")


@dataclass(frozen=True, kw_only=True)
class QuerySubstitutionSettings(ClickSettings):
    """Options of `substitution`."""

    owner: ClassVar[str] = "substitution"


@dataclass(frozen=True, kw_only=True)
class ClickPriorSettings(ClickSettings):
    """Options of `clickprior`."""

    owner: ClassVar[str] = "clickprior"

    weight: float = option(1.0, "weight of the clicks against BM25 scaled to 1", low=0)
