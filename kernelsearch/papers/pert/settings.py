"""Options of `pert-paper`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import option
from kernelsearch.rerankers.pert.settings import PerturbationSettings


@dataclass(frozen=True, kw_only=True)
class PaperPerturbationSettings(PerturbationSettings):
    """Options of `pert-paper`: those of `pert`, and what `pert` has fixed."""

    owner: ClassVar[str] = "pert-paper"

    method: str = option(
        "program",
        "how terms are weighted: the risk-aware program, a relevance model that keeps all query terms (rm3-all), "
        "Anserini's rm3 and rm1, or local context analysis (lca)",
        choices=("program", "rm3-all", "rm3", "rm1", "lca"),
    )
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
    draws: int = option(8, "number of random variants with --pert-paper.strategy dirichlet", low=1, request_high=64)
    seed: int = option(0, "seed for --pert-paper.strategy dirichlet and --pert-paper.kernel random", low=0)
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
    temperature: float = option(5.0, "temperature of --pert-paper.weighting softmax", low=1e-06, high=1e6)
    smoothing: float = option(0.01, "share of the collection model in the relevance models", low=1e-06, high=1)
    pool: int = option(200, "number of candidates that feedback documents of the perturbed queries are taken from", low=1)
    rescore: bool = option(False, "rescore the candidates instead of searching again")
    perturbations: str | None = option(
        None, "file of perturbations to use instead of a strategy: lines of qid, tab, a weight per query term", names="file"
    )
    save_queries: str | None = option(
        None, "file to write the expanded queries to, as JSON lines; - prints them to standard output", names="file"
    )
    queries: str | None = option(None, "file of expanded queries to use instead of computing them", names="file")
    groups: int = option(4, "largest number of groups of terms in explanations and plots", low=1, request_high=12)
