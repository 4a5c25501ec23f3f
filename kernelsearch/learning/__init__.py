"""Learners of rankings, and the solvers below them.

The estimators can be imported from here, `from kernelsearch.learning import SimTripletSVM`, and follow
scikit-learn's conventions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelsearch.learning.ranking.choose import Best
    from kernelsearch.learning.ranking.fusers import CombNonzero, CombSUM, TiedRRF
    from kernelsearch.learning.ranking.letor import read_letor
    from kernelsearch.learning.ranking.online import OASIS, OKWL, OnlineSimListMKL
    from kernelsearch.learning.ranking.simlistmkl import ExactSimListMKL, SimListMKL
    from kernelsearch.learning.ranking.triplets import SimTripletBoost, SimTripletNet, SimTripletSVM

__all__ = [
    "OASIS",
    "OKWL",
    "Best",
    "CombNonzero",
    "CombSUM",
    "ExactSimListMKL",
    "OnlineSimListMKL",
    "SimListMKL",
    "SimTripletBoost",
    "SimTripletNet",
    "SimTripletSVM",
    "TiedRRF",
    "read_letor",
]

_MODULES = {
    "ranking.choose": ("Best",),
    "ranking.fusers": ("TiedRRF", "CombNonzero", "CombSUM"),
    "ranking.letor": ("read_letor",),
    "ranking.online": ("OASIS", "OKWL", "OnlineSimListMKL"),
    "ranking.simlistmkl": ("ExactSimListMKL", "SimListMKL"),
    "ranking.triplets": ("SimTripletBoost", "SimTripletNet", "SimTripletSVM"),
}


def __getattr__(name: str) -> Any:
    # Imported on first use: scikit-learn takes seconds, and a search needs none of it.
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
