"""Robust BM25, which learns from a click log."""

from kernelsearch.rerankers.rbm25.settings import RobustBM25Settings
from kernelsearch.rerankers.registry import Method

#: Options of the printed forms, of their query kernel and of their pairs.
OF_THE_PAPER = (
    *("pairs-clicks", "pairs-per-query", "corrected", "confident", "relevance", "borrowed"),
    *("ngram-weight", "term-weight", "bm25-weight", "union-pearson"),
)
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
    moved={
        "vector-weight": "always 1",
        "mu": "say it in the kernel: --rbm25-paper.relevance 'dirichlet(mu=500)'",
        **dict.fromkeys(("k1", "b", "k3"), "say it in the kernel: --rbm25-paper.relevance 'bm25(k1=1.2,b=0.5,k3=2)'"),
        "form": "rbm25 is the form auto; paper and prior are forms of rbm25-paper",
        **dict.fromkeys(OF_THE_PAPER, "an option of rbm25-paper"),
    },
)
METHODS = (ROBUST_BM25,)
