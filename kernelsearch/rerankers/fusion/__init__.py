"""Learned fusion of kernels, feedback and other methods."""

from kernelsearch.rerankers.fusion.settings import FusionFitSettings, FusionSettings
from kernelsearch.rerankers.registry import Method

FUSION = Method(
    "fusion",
    "a learned fusion of kernels, feedback and other methods",
    FusionSettings,
    "kernelsearch.rerankers.fusion.reranker:FusionReranker",
    fit_settings=FusionFitSettings,
    retrieves=True,
    fuses=True,
    artefacts=("kernelsearch.rerankers.fusion.artefact:MODEL",),
)
METHODS = (FUSION,)
