"""Query expansion by a relevance model that weighs its words against their risk (perturbation kernels)."""

from kernelsearch.rerankers.pert.settings import PerturbationSettings
from kernelsearch.rerankers.registry import Method

PERTURBATION = Method(
    "pert",
    "expand the query by a relevance model, weighing words against their risk, and search again",
    PerturbationSettings,
    "kernelsearch.rerankers.pert.reranker:PerturbationReranker",
    retrieves=True,
    meaning="query expanded at low risk",
    feedback=True,
)
METHODS = (PERTURBATION,)
