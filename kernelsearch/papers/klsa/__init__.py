"""Kernel LSA as printed: top-z thresholding with a given z, query scores of the fitted kernel, and LSI's cosine."""

from kernelsearch.papers.klsa.settings import KernelLSAPaperSettings
from kernelsearch.rerankers.registry import Method

KERNEL_LSA_PAPER = Method(
    "klsa-paper",
    "kernel LSA as printed: the scores of the first z documents are propagated in the latent space",
    KernelLSAPaperSettings,
    "kernelsearch.papers.klsa.reranker:KernelLSAPaper",
    retrieves=True,
    meaning="likeness in meaning to the best documents",
    feedback=True,
)
METHODS = (KERNEL_LSA_PAPER,)
