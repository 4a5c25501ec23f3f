"""Query expansion by a relevance model that weighs its words against their risk (perturbation kernels)."""

from kernelsearch.rerankers.pert.settings import PerturbationSettings
from kernelsearch.rerankers.registry import Method

#: Options of the paper's form alone.
PAPER = (
    "method kernel strategy denominator draws seed gamma support balance coverage budget weighting temperature smoothing pool "
    "rescore perturbations save-queries queries groups"
)
PERTURBATION = Method(
    "pert",
    "expand the query by a relevance model, weighing words against their risk, and search again",
    PerturbationSettings,
    "kernelsearch.rerankers.pert.reranker:PerturbationReranker",
    retrieves=True,
    meaning="query expanded at low risk",
    feedback=True,
    moved=dict.fromkeys(PAPER.split(), "an option of pert-paper"),
)
METHODS = (PERTURBATION,)
