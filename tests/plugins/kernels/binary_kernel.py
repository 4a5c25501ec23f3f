"""A kernel of somebody else's: the number of distinct terms in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelsearch.kernels.algebra import Kernel, counts, weighted_terms


@dataclass(frozen=True)
class Binary(Kernel):
    """Inner product of 0/1 vectors of terms."""

    def __str__(self):
        return "binary"

    def document_features(self, collection, docs, dtype=np.float64):
        features = counts(collection, docs, dtype)
        features.data[:] = 1
        return features

    def query_features(self, collection, query):
        return weighted_terms(collection, query, np.ones(len(query.terms)))
