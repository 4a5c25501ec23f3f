"""Kernel LSA: a document rises if documents that are similar to it in a latent space of the collection have high scores."""

from kernelsearch.rerankers.klsa.settings import KernelLSAFitSettings, KernelLSASettings
from kernelsearch.rerankers.registry import Method

#: {option that the method had: a kernel with this parameter}
KERNELS_WITH_PARAMETERS = {
    **dict.fromkeys(("k1", "b", "k3"), "bm25(k1=2,b=.75,k3=8)"),
    "mu": "dirichlet(mu=1000)",
    "jm-lambda": "jm(lam=.1)",
    "gamma": "rbf(gamma=1)",
    **dict.fromkeys(("degree", "offset"), "polynomial(degree=2,offset=1)"),
    "vector-weight": "bm25+0.5*vectors:NAME",
}

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
    moved={
        **{name: f"say it in the kernel: --klsa.kernel '{kernel}'" for name, kernel in KERNELS_WITH_PARAMETERS.items()},
        **dict.fromkeys(("scores", "cosine"), "an option of klsa-paper"),
        **dict.fromkeys(("effort", "solver"), "chosen by size"),
        "tolerance": "fixed at 0.01",
        "landmarks": "fixed at 1000; kernelsearch.rerankers.klsa.basis.fit_basis takes another number",
        "memory": "chosen by --memory-limit",
        "parts": "chosen by --engine",
    },
)
METHODS = (KERNEL_LSA,)
