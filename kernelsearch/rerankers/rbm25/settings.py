"""Options of Robust BM25 and its baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class ClickSettings(Settings):
    """What methods on a click log share."""

    owner: ClassVar[str] = ""

    clicks: str | None = option(
        None, "the click log: a database of kernelsearch.clicks or a log file; default: the index's own"
    )
    similar: int = option(20, "similar queries", low=1, high=1000)
    hits: int = option(100, "documents retrieved for each similar query", low=0, high=10000)
    min_similarity: float = option(0.1, "queries less similar than this are left out", low=0)
    borrowed: int = option(10, "best documents a query without clicks borrows to find queries by clicks", low=0, high=100)
    click_weight: float = option(1.0, "weight of shared clicks in the query kernel", low=0)
    ngram_weight: float = option(0.5, "weight of character 3-grams in the query kernel", low=0)
    term_weight: float = option(0.5, "weight of terms in the query kernel", low=0)
    bm25_weight: float = option(0.0, "weight of BM25's kernel between queries in the query kernel", low=0)
    union_pearson: bool = option(False, "correlate clicks over the union of clicked documents, as printed (not a kernel)")
    k1: float = option(0.9, "k1 of BM25", low=0)
    b: float = option(0.4, "b of BM25", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class RobustBM25Settings(ClickSettings):
    """Options of `rbm25`."""

    owner: ClassVar[str] = "rbm25"

    form: str = option(
        "auto", "printed form, regularised towards BM25, or chosen by the click evidence", choices=("auto", "paper", "prior")
    )
    prior: float = option(1.5, "weight a of BM25 where the log has nothing but similar texts", low=0)
    pairs: str = option("shown", "which documents a click is preferred to", choices=("shown", "skipped", "rate"))
    pairs_per_query: int = option(20, "preference pairs of each similar query", low=1, high=10000)
    corrected: bool = option(False, "weigh pairs by the inverse propensity of the click's position")
    confident: bool = option(True, "weigh pairs by the difference of their documents' click rates")
    lambda_: float = option(10.0, "regularisation", low=1e-06)
    epsilon: float = option(0.5, "added to BM25 scaled to 1, so that no document is out of reach", low=0, high=1)
    documents: str = option("body", "text whose cosine is the document kernel", choices=("body", "title", "both"))


@dataclass(frozen=True, kw_only=True)
class PairwiseKernelSettings(RobustBM25Settings):
    """Options of `pairwise`."""

    owner: ClassVar[str] = "pairwise"

    form: str = option(
        "paper", "printed form, regularised towards BM25, or chosen by the click evidence", choices=("auto", "paper", "prior")
    )


@dataclass(frozen=True, kw_only=True)
class QuerySubstitutionSettings(ClickSettings):
    """Options of `substitution`."""

    owner: ClassVar[str] = "substitution"


@dataclass(frozen=True, kw_only=True)
class ClickPriorSettings(ClickSettings):
    """Options of `clickprior`."""

    owner: ClassVar[str] = "clickprior"

    weight: float = option(1.0, "weight of the clicks against BM25 scaled to 1", low=0)
