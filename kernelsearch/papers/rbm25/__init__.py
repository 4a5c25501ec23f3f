"""Robust BM25 as printed, the baselines that it is compared with, and asymmetric kernel learning with any hyper kernel."""

from kernelsearch.papers.rbm25.settings import (
    ClickPriorSettings,
    PairwiseKernelSettings,
    PrintedSettings,
    QuerySubstitutionSettings,
)
from kernelsearch.rerankers.registry import Method

PRINTED = Method(
    "rbm25-paper",
    "Robust BM25 as printed: without BM25's own part, or with a fixed weight of it",
    PrintedSettings,
    "kernelsearch.papers.rbm25.reranker:PrintedRobustBM25",
    retrieves=True,
    learns_from=("clicks",),
)
PAIRWISE_KERNEL = Method(
    "pairwise",
    "pairwise kernel: Robust BM25 without BM25 in the kernel",
    PairwiseKernelSettings,
    "kernelsearch.papers.rbm25.reranker:PairwiseKernel",
    retrieves=True,
    learns_from=("clicks",),
)
QUERY_SUBSTITUTION = Method(
    "substitution",
    "query substitution: BM25's list of the most similar logged query",
    QuerySubstitutionSettings,
    "kernelsearch.papers.rbm25.baselines:QuerySubstitution",
    retrieves=True,
    learns_from=("clicks",),
)
CLICK_PRIOR = Method(
    "clickprior",
    "click prior: BM25 plus the clicks of similar queries on a document",
    ClickPriorSettings,
    "kernelsearch.papers.rbm25.baselines:ClickPrior",
    retrieves=True,
    learns_from=("clicks",),
)
METHODS = (PRINTED, PAIRWISE_KERNEL, QUERY_SUBSTITUTION, CLICK_PRIOR)
