"""Multi-scale language models as the paper prints them: its ways of matching, its divergence, graphs from other sources."""

from kernelsearch.papers.mslm.settings import PaperFitSettings, PaperSettings
from kernelsearch.rerankers.registry import Method

MULTISCALE_PAPER = Method(
    "mslm-paper",
    "multi-scale language models as printed: every way of matching windows, scales and words of Yang & Zha (2010)",
    PaperSettings,
    "kernelsearch.papers.mslm.reranker:PaperMultiScaleLM",
    fit_settings=PaperFitSettings,
    fitted_option="model",
    learns_from=("topics", "qrels"),
    artefacts=("kernelsearch.rerankers.mslm.artefact:GRAPH",),
    meaning="query's words close together, or related ones",
)
METHODS = (MULTISCALE_PAPER,)
