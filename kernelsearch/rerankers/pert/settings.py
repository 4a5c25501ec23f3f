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
        "how terms are weighted: the risk-aware program, a relevance model that keeps all query terms (rm3-all), "
        "Anserini's rm3 and rm1, or local context analysis (lca)",
        choices=("program", "rm3-all", "rm3", "rm1", "lca"),
    )
    alpha: float = option(0.5, "weight of the expansion against the query; 0 gives the first stage's list", low=0, high=1)
    docs: int = option(10, "number of feedback documents", low=1, request_high=100)
    terms: int = option(20, "largest number of terms to add", low=1, request_high=100)
    kernel: str = option(
        "perturbation", "similarity of terms in the program", choices=("perturbation", "gram", "jaccard", "random")
    )
    strategy: str = option(
        "loo",
        "how the query is perturbed: one term left out (loo), one term at a time (tat), or random weights (dirichlet)",
        choices=("loo", "tat", "dirichlet"),
    )
    denominator: str = option(
        "sqrt", "denominator of the perturbation kernel (Eq. 4): p as in the paper, or its square root", choices=("sqrt", "p")
    )
    draws: int = option(8, "number of random variants with --pert.strategy dirichlet", low=1, request_high=64)
    seed: int = option(0, "seed for --pert.strategy dirichlet and --pert.kernel random", low=0)
    kappa: float = option(0.01, "weight of the risk in the program", low=0, high=1e6)
    gamma: float = option(0.75, "additional risk of terms that are far from the query's terms", low=0, high=1e6)
    support: float = option(0.95, "lower bound of a query term's value in the program", low=0, high=1)
    balance: float | None = option(
        None, "largest difference between a query term's share of similar terms and the average, in terms", low=0, high=1e6
    )
    coverage: float | None = option(
        None, "lower bound of the summed similarity of added terms to each query term", low=0, high=1e6
    )
    budget: float | None = option(None, "upper bound of the summed values of added terms", low=0, high=1e6)
    weighting: str = option("softmax", "weights of the feedback documents", choices=("softmax", "score", "uniform"))
    temperature: float = option(5.0, "temperature of --pert.weighting softmax", low=1e-06, high=1e6)
    smoothing: float = option(0.01, "share of the collection model in the relevance models", low=1e-06, high=1)
    max_df: float = option(0.1, "largest share of the documents that an added term may occur in", low=0, high=1)
    pool: int = option(200, "number of candidates that feedback documents of the perturbed queries are taken from", low=1)
    rescore: bool = option(False, "rescore the candidates instead of searching again")
    hits: int | None = option(
        None, "number of documents to retrieve per query in the second search; default: as in the first stage", low=1
    )
    perturbations: str | None = option(
        None, "file of perturbations to use instead of a strategy: lines of qid, tab, a weight per query term", names="file"
    )
    save_queries: str | None = option(
        None, "file to write the expanded queries to, as JSON lines; - prints them to standard output", names="file"
    )
    queries: str | None = option(None, "file of expanded queries to use instead of computing them", names="file")
    groups: int = option(4, "largest number of groups of terms in explanations and plots", low=1, request_high=12)
