"""Learners of rankings, and the solvers below them.

The estimators can be imported from here, `from kernelsearch.learning import SimListMKL`, and follow
scikit-learn's conventions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelsearch.learning.ranking.choose import Best
    from kernelsearch.learning.ranking.fusers import CombSUM
    from kernelsearch.learning.ranking.simlistmkl import SimListMKL
    from kernelsearch.learning.ranking.triplets import SimTripletNet

__all__ = [
    "Best",
    "CombSUM",
    "SimListMKL",
    "SimTripletNet",
]

_MODULES = {
    "ranking.choose": ("Best",),
    "ranking.fusers": ("CombSUM",),
    "ranking.simlistmkl": ("SimListMKL",),
    "ranking.triplets": ("SimTripletNet",),
}


def __getattr__(name: str) -> Any:
    # Imported on first use: scikit-learn takes seconds, and a search needs none of it.
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
