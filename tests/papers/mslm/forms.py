"""`mslm-paper` with the form of `mslm`, from which the tests vary single options."""

from __future__ import annotations

from kernelsearch.papers.mslm.reranker import PaperMultiScaleLM

FORM = {"mode": "max", "divergence": "js", "width": 0, "step": 0, "normalise": "z", "weighting": "idf"}
LEVEL = {"scales": (8,), "semantic": (0.7,)}


def paper(index, **options):
    """The reranker with the options of `mslm` where `options` doesn't name others."""
    return PaperMultiScaleLM(index, **{**FORM, **LEVEL, "mix": 0.5, **options})


def fit(index, data, **options):
    """`train` with the same options."""
    return PaperMultiScaleLM.method.fit(index, data, **{**FORM, **LEVEL, **options})
