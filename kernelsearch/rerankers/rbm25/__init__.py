"""Robust BM25, which learns from a click log, and the methods it is compared with."""

from kernelsearch.rerankers.rbm25.settings import (
    ClickPriorSettings,
    PairwiseKernelSettings,
    QuerySubstitutionSettings,
    RobustBM25Settings,
)
from kernelsearch.rerankers.registry import Method

ROBUST_BM25 = Method(
    "rbm25",
    "Robust BM25: learns from the clicks of similar queries",
    RobustBM25Settings,
    "kernelsearch.rerankers.rbm25.reranker:RobustBM25",
    learns_from=("clicks",),
    retrieves=True,
    artefacts=(
        "kernelsearch.rerankers.rbm25.artefact:SIMILAR_QUERIES",
        "kernelsearch.rerankers.rbm25.artefact:QUERY_VECTORS",
    ),
    meaning="clicks of similar queries",
)
PAIRWISE_KERNEL = Method(
    "pairwise",
    "pairwise kernel: Robust BM25 without BM25 in the kernel",
    PairwiseKernelSettings,
    "kernelsearch.rerankers.rbm25.baselines:PairwiseKernel",
    retrieves=True,
    learns_from=("clicks",),
)
QUERY_SUBSTITUTION = Method(
    "substitution",
    "query substitution: BM25's list of the most similar logged query",
    QuerySubstitutionSettings,
    "kernelsearch.rerankers.rbm25.baselines:QuerySubstitution",
    retrieves=True,
    learns_from=("clicks",),
)
CLICK_PRIOR = Method(
    "clickprior",
    "click prior: BM25 plus the clicks of similar queries on a document",
    ClickPriorSettings,
    "kernelsearch.rerankers.rbm25.baselines:ClickPrior",
    retrieves=True,
    learns_from=("clicks",),
)
METHODS = (ROBUST_BM25, PAIRWISE_KERNEL, QUERY_SUBSTITUTION, CLICK_PRIOR)
