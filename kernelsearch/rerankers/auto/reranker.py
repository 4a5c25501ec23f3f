"""`auto`: a fusion with a fixed recipe and fixed weights, for collections without training data.

The weights were chosen on training collections (docs/reproductions/fusion.md says how), with a penalty on hurting queries for
one known document, which feedback and latent methods displace.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.rerankers.auto import AUTO
from kernelsearch.rerankers.auto.settings import AutoSettings
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.fusion.base import FusedReranker
from kernelsearch.rerankers.klsa.reranker import has_basis

logger = logging.getLogger(__name__)

#: {feature: weight} of the sum of z-scores.
WEIGHTS = {
    "first": 3.0,
    "bm25:k1=2,b=0.75": 3.0,
    "cosine": 0.5,
    "bm25:field=title": 2.0,
    "rm3": 3.0,
    "rm3:terms=40": 3.0,
    "pert": 2.0,
    "top:docs=5": 3.0,
    "klsa:z=5,lambda=1": 1.0,
}


class AutoReranker(FusedReranker[AutoSettings]):
    """A weighted sum of z-scores over a fixed recipe; features that the index can't offer are left out, which is logged."""

    method = AUTO
    normalise = "z"

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        weights = dict(WEIGHTS)
        if not index.lucene.field_statistics().vectors:
            weights = {name: weight for name, weight in weights.items() if not name.startswith("rm3")}
            logger.info("auto: the index stores no document vectors, so RM3 is left out")
        if not has_basis(index):
            weights = {name: weight for name, weight in weights.items() if not name.startswith("klsa")}
            command = f"python -m kernelsearch.train {index.shards.flags} --rerank klsa"
            logger.info("auto: no latent basis has been fitted, so klsa is left out (%s fits one)", command)
        self.recipe = tuple(weights)
        self.sources = ("rm3",) if "rm3" in weights else ()
        self.weights = np.array(list(weights.values()))
        self.learner = CombSUM(weights=list(weights.values()), normalise="none")

    def importance(self) -> NDArray[np.float64]:
        """Share of each feature in the sum of weights, shape (features,), summing to 1."""
        return np.asarray(self.weights / self.weights.sum(), dtype=np.float64)
