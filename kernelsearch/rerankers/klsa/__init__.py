"""Kernel LSA: a document rises if documents that are similar to it in a latent space of the collection have high scores."""

from kernelsearch.rerankers.klsa.settings import KernelLSAFitSettings, KernelLSASettings
from kernelsearch.rerankers.registry import Method

KERNEL_LSA = Method(
    "klsa",
    "kernel latent semantic analysis: documents rise with those that resemble the best ones",
    KernelLSASettings,
    "kernelsearch.rerankers.klsa.reranker:KernelLSA",
    fit_settings=KernelLSAFitSettings,
    fitted_option="basis",
    learns_from=(),
    retrieves=True,
    artefacts=("kernelsearch.rerankers.klsa.basis:BASIS",),
    meaning="likeness in meaning to the best documents",
    feedback=True,
)
METHODS = (KERNEL_LSA,)
