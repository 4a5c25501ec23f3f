"""The methods by name. A module is imported when its method is asked for."""

from __future__ import annotations

from importlib import import_module

from kernelsearch.core.errors import OptionError
from kernelsearch.rerankers.base import Reranker

#: name on the command line -> module:class
METHODS: dict[str, str] = {
    "klsa": "kernelsearch.rerankers.klsa.reranker:KernelLSA",
    "mslm": "kernelsearch.rerankers.mslm.reranker:MultiScaleReranker",
    "pert": "kernelsearch.rerankers.pert.reranker:PerturbationReranker",
    "rbm25": "kernelsearch.rerankers.rbm25.reranker:RobustBM25",
    "pairwise": "kernelsearch.rerankers.rbm25.baselines:PairwiseKernel",
    "substitution": "kernelsearch.rerankers.rbm25.baselines:QuerySubstitution",
    "clickprior": "kernelsearch.rerankers.rbm25.baselines:ClickPrior",
    "prcl": "kernelsearch.rerankers.prcl.reranker:RelevanceClassifier",
    "fusion": "kernelsearch.rerankers.fusion.reranker:FusionReranker",
    "auto": "kernelsearch.rerankers.auto.reranker:AutoReranker",
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
