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
    moved={
        **dict.fromkeys(
            ("trees", "leaves", "learning-rate", "C", "signed"), "an option of the learners of python -m kernelsearch.ltr"
        ),
        "normalise": "features are z-scored per query; python -m kernelsearch.ltr has the other normalisations",
        **dict.fromkeys(("k1", "b"), "training retrieves with BM25's defaults; the feature bm25:k1=2,b=0.75 has parameters"),
    },
)
METHODS = (FUSION,)
