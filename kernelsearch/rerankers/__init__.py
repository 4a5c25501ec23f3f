"""The methods by name. A module is imported when its method is asked for."""

from __future__ import annotations

from importlib import import_module

from kernelsearch.errors import OptionError
from kernelsearch.rerankers.base import Reranker

#: name on the command line -> module:class
METHODS: dict[str, str] = {
    "klsa": "kernelsearch.rerankers.kernel_lsa:KernelLSA",
    "mslm": "kernelsearch.rerankers.multiscale_lm:MultiScaleReranker",
    "pert": "kernelsearch.rerankers.perturbation:PerturbationReranker",
    "rbm25": "kernelsearch.rerankers.robust_bm25:RobustBM25",
    "pairwise": "kernelsearch.rerankers.click_baselines:PairwiseKernel",
    "substitution": "kernelsearch.rerankers.click_baselines:QuerySubstitution",
    "clickprior": "kernelsearch.rerankers.click_baselines:ClickPrior",
    "prcl": "kernelsearch.rerankers.relevance_classifier:RelevanceClassifier",
    "fusion": "kernelsearch.rerankers.fusion:FusionReranker",
    "auto": "kernelsearch.rerankers.auto:AutoReranker",
}


def names() -> list[str]:
    """The methods that exist."""
    return list(METHODS)


def method(name: str) -> type[Reranker]:
    """A reranker's class by its name."""
    if name not in METHODS:
        raise OptionError(f"--rerank: {name!r} is not one of {', '.join(METHODS) or 'none'}")
    module, _, cls = METHODS[name].partition(":")
    return getattr(import_module(module), cls)
