"""Kernel LSA: documents rise with the documents they resemble in a latent space of the collection."""

from kernelsearch.rerankers.klsa.settings import KernelLSAFitSettings, KernelLSASettings
from kernelsearch.rerankers.registry import Method

KERNEL_LSA = Method(
    "klsa",
    "kernel latent semantic analysis: documents rise with those that resemble the best ones",
    KernelLSASettings,
    "kernelsearch.rerankers.klsa.reranker:KernelLSA",
    fit_settings=KernelLSAFitSettings,
    fitted_option="basis",
    retrieves=True,
)
METHODS = (KERNEL_LSA,)
