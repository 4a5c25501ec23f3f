"""The controls of `pert`: other kernels, perturbations, programs and relevance models in its place."""

from kernelsearch.papers.pert.settings import PaperPerturbationSettings
from kernelsearch.rerankers.registry import Method

PAPER_PERTURBATION = Method(
    "pert-paper",
    "query expansion as pert does it, with the kernels, perturbations, constraints and relevance models it is compared with",
    PaperPerturbationSettings,
    "kernelsearch.papers.pert.reranker:PaperPerturbationReranker",
    retrieves=True,
    meaning="expanded query",
    feedback=True,
)
METHODS = (PAPER_PERTURBATION,)
