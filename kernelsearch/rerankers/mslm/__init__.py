"""Multi-scale language models: where in a document the query's words, or related ones, occur together."""

from kernelsearch.rerankers.mslm.settings import MultiScaleFitSettings, MultiScaleSettings
from kernelsearch.rerankers.registry import Method

MULTISCALE_LM = Method(
    "mslm",
    "multi-scale language models: positions and related words, smoothed at several scales",
    MultiScaleSettings,
    "kernelsearch.rerankers.mslm.reranker:MultiScaleLM",
    fit_settings=MultiScaleFitSettings,
    fitted_option="model",
    learns_from=("topics", "qrels"),
    artefacts=("kernelsearch.rerankers.mslm.artefact:GRAPH",),
    meaning="query's words close together, or related ones",
    moved={
        **dict.fromkeys(
            ("mode", "divergence", "width", "columns", "normalise", "weighting", "rows", "weights", "graph", "source", "hits"),
            "an option of mslm-paper",
        ),
        "one-scale": "the default of mslm-paper, whose scales along words are those along positions",
        "memory": "set by --memory-limit",
    },
)
METHODS = (MULTISCALE_LM,)
