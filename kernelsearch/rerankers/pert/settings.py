"""Options of `pert`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class PerturbationSettings(Settings):
    """Options of `pert`."""

    owner: ClassVar[str] = "pert"

    method: str = option(
        "program",
        "program: the risk-aware program; rm3-all: a relevance model that keeps all query terms; rm3, rm1: Anserini's",
        choices=("program", "rm3-all", "rm3", "rm1"),
    )
    alpha: float = option(0.5, "weight of the expansion against the query; 0 keeps the first stage", low=0, high=1)
    docs: int = option(10, "feedback documents", low=1)
    terms: int = option(20, "words to add at most", low=1)
    kernel: str = option("perturbation", "the words' similarity", choices=("perturbation", "gram", "jaccard", "random"))
    strategy: str = option("loo", "how the query is perturbed", choices=("loo", "tat", "dirichlet"))
    denominator: str = option("sqrt", "below the line of Eq. 4: p as printed, or its square root", choices=("sqrt", "p"))
    draws: int = option(8, "random variants of strategy dirichlet", low=1)
    seed: int = option(0, "of strategy dirichlet and kernel random", low=0)
    kappa: float = option(0.01, "weight of the risk in the program", low=0)
    gamma: float = option(0.75, "extra risk of words far from the query's terms", low=0)
    support: float = option(0.95, "least value of a query term in the program", low=0, high=1)
    balance: float | None = option(None, "most that an aspect of the query may differ from the average, in words", low=0)
    coverage: float | None = option(None, "least new words, by likeness, for each query term", low=0)
    budget: float | None = option(None, "most new words in sum", low=0)
    weighting: str = option("softmax", "weights of the feedback documents", choices=("softmax", "score", "uniform"))
    temperature: float = option(5.0, "of softmax", low=1e-06)
    smoothing: float = option(0.01, "share of the collection's model in relevance models", low=1e-06, high=1)
    max_df: float = option(0.1, "largest share of the documents that a new word may be in", low=0, high=1)
    pool: int = option(200, "candidates that the query's variants choose their documents from", low=1)
    rescore: bool = option(False, "rescore the candidates instead of searching again")
    hits: int | None = option(None, "documents of the second search; default: as many as the first stage was asked for", low=1)
    vectors: str | None = option(
        None, "a file of perturbations of your own instead of a strategy: qid, tab, a weight for each term"
    )
    save_queries: str | None = option(None, "write the expanded queries to this file, as JSON lines; - prints them")
    queries: str | None = option(None, "read expanded queries from this file instead of making them")
    groups: int = option(4, "groups of words in explanations and pictures, at most", low=1)
