"""Features of feedback whose documents are the best in another order: by words and vectors together, or by a match."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.options import Settings, option
from kernelsearch.kernels.ranking_models import BM25Query
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.rerankers.fusion.features.base import CERTAINTY, Feature, FeatureContext, P
from kernelsearch.rerankers.fusion.features.evidence import DenseFeature, DenseFeatureSettings
from kernelsearch.rerankers.fusion.pool import Pool

Floats = NDArray[np.float64]

#: The first stage's best documents that the feature `read` orders.
READ = 50

#: Weight of the vectors' z-scores beside the first stage's in the order of the feature `hybrid`; docs/reproductions/vectors.md
#: says how it was chosen.
HYBRID_VECTORS = 1.25


class ReorderedFeature(Feature[P]):
    """A feature, `feature`, of the candidates in another order: for those that take the best candidates for relevant ones."""

    feature: Feature[Any]

    @abstractmethod
    def ranked(self, pool: Pool) -> tuple[Pool, NDArray[np.int64]]:
        """The pool in the other order, and the places of its candidates in `pool`."""

    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        places = [self.ranked(pool) for pool in pools]
        out = []
        for values, (_, order) in zip(self.feature.values([pool for pool, _ in places]), places, strict=True):
            back = np.empty(len(order))
            back[order] = values
            out.append(back)
        return out

    def bm25_queries(self, pools: Sequence[Pool]) -> list[tuple[str, BM25Query]] | None:
        return self.feature.bm25_queries([self.ranked(pool)[0] for pool in pools])  # scores don't depend on the order


@dataclass(frozen=True, kw_only=True)
class HybridSettings(Settings):
    """Parameters of the feature `hybrid`."""

    owner: ClassVar[str] = "hybrid"

    vectors: str | None = option(None, "name of the vectors")


class HybridFeature(ReorderedFeature[HybridSettings]):
    """A feature for which words and vectors rank the candidates together: by the weighted sum of their z-scores.

    For features that take the best candidates for relevant ones (`rm`, `top`, `klsa`). The first stage's scores and the inner
    products of vectors are z-scored within the pool; vectors that have seen a part of the texts weigh less.
    """

    settings_type = HybridSettings
    evidence = "feedback by both"

    def __init__(self, settings: HybridSettings, context: FeatureContext, feature: Feature[Any]) -> None:
        super().__init__(settings, context)
        self.vectors, self.feature = settings.vectors or "", feature
        self.dense = DenseFeature(DenseFeatureSettings(vectors=self.vectors), context)
        self.weight = HYBRID_VECTORS * context.reliability(self.vectors)
        self.role = self.feature.role
        self.meaning = f"{self.feature.meaning}, by words and vectors" if self.feature.meaning else ""

    def ranked(self, pool: Pool) -> tuple[Pool, NDArray[np.int64]]:
        """The pool by words and vectors together, and the places of its candidates in `pool`."""

        def together() -> Floats:
            products = self.dense.values([pool])[0]
            return np.asarray(zscores(pool.candidates.scores) + self.weight * zscores(products), dtype=np.float64)

        return pool.reordered(self.vectors, together)


class ReadFeature(ReorderedFeature[Settings]):
    """A feature for which another one, the match, orders the first stage's best READ candidates; the others follow.

    For features that take the best candidates for relevant ones (`rm`, `top`, `klsa`), and a match that takes too long for the
    whole pool. Its scores get the mean and the deviation of the first stage's, so that the posterior over them is as sharp.
    """

    def __init__(
        self, settings: Settings, context: FeatureContext, feature: Feature[Any], match_name: str, match: Feature[Any]
    ) -> None:
        super().__init__(settings, context)
        self.feature, self.match_name, self.match = feature, match_name, match
        self.role, self.meaning = self.feature.role, self.feature.meaning
        if self.role == CERTAINTY:
            self.meaning = "how far the match puts it above the others"

    def ranked(self, pool: Pool) -> tuple[Pool, NDArray[np.int64]]:
        """The pool with its first READ candidates in the order of the match, and the places of its candidates in `pool`."""

        def matched() -> Floats:
            scores = np.array(pool.candidates.scores, dtype=np.float64)
            if len(scores):
                head = Pool(pool.index, pool.query, pool.candidates.top(READ))
                mean, deviation = scores[:READ].mean(), scores[:READ].std()
                scores[:READ] = mean + deviation * zscores(self.match.values([head])[0])
                scores[READ:] = np.minimum(scores[READ:], scores[:READ].min())
            return scores

        return pool.reordered(f"read:{self.match_name}", matched)
