"""`auto`: a fusion of methods with fixed weights, without training."""

from kernelsearch.rerankers.auto.settings import AutoSettings
from kernelsearch.rerankers.registry import Method

AUTO = Method(
    "auto",
    "a fusion of kernels and feedback that needs no training",
    AutoSettings,
    "kernelsearch.rerankers.auto.reranker:AutoReranker",
    retrieves=True,
    fuses=True,
)
METHODS = (AUTO,)
