"""Dense reranking and retrieval: documents are ranked by the inner product of their vectors with the query's."""

from kernelsearch.rerankers.dense.settings import DenseSettings
from kernelsearch.rerankers.registry import Method

DENSE = Method(
    "dense",
    "inner product of vectors that an encoder made; needs vectors (python -m kernelsearch.vectors)",
    DenseSettings,
    "kernelsearch.rerankers.dense.reranker:KernelDense",
    retrieves=True,
    moved={"effort": "chosen by size"},
)
METHODS = (DENSE,)
