"""`auto`: a fusion with a fixed recipe and fixed weights, for collections without training data.

Half of the sum is how well a document matches the query: the multi-scale language model, which also holds the first stage's
score, and the title. The other half is feedback: a relevance model, the cosine to the best documents, and the cosine to them in
the latent space. All three weight the best documents by the posterior p(d|q) of `kernels.relevance.posterior_weights`, which
decides per query how far to go: where one document scores far above the others, feedback is that document alone and changes
little; where many score alike, it is their common vocabulary.

On an index with vectors, the inner product with the query's vector and with the posterior mean of the documents nearest to it
weigh a little more than all that is made of words, and the nearest documents of the whole index join the candidates.

`python -m tools.reproduce.auto` shows, leaving one collection out at a time, how the weights were chosen and what was tried
besides (docs/reproductions/auto.md).
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import ArtefactError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.relevance import posterior_weights
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.rerankers.auto import AUTO
from kernelsearch.rerankers.auto.settings import AutoSettings
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, Explanation, OpenedIndex, feedback_note
from kernelsearch.rerankers.fusion.base import FusedReranker
from kernelsearch.rerankers.fusion.recipes import AUTO_WEIGHTS, VECTOR_WEIGHTS, available
from kernelsearch.vectors.store import names as vector_names

logger = logging.getLogger(__name__)


class AutoReranker(FusedReranker[AutoSettings]):
    """A weighted sum of z-scores over a fixed recipe; features that the index can't offer are left out, which is logged."""

    method = AUTO
    normalise = "z"
    sources: tuple[str, ...] = ("rm",)

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        offered = available(tuple(AUTO_WEIGHTS), index, self.name)
        weights = {feature: AUTO_WEIGHTS[name] for name, feature in offered.items()}
        if (vectors := self._vectors()) is not None:
            weights |= {f"{kind}:{vectors}": weight for kind, weight in VECTOR_WEIGHTS.items()}
            self.sources = (*self.sources, f"dense:{vectors}")
        self.recipe = tuple(weights)
        self.weights = np.array(list(weights.values()))
        self.learner = CombSUM(weights=self.weights.tolist(), normalise="none")

    def _vectors(self) -> str | None:
        """The name of the vectors to use, None for words alone. Vectors that the options name must be usable."""
        wanted = self.settings.vectors
        if wanted == "none" or (wanted is None and not vector_names(self.index.artefacts)):
            return None
        try:
            vectors = self.index.vectors(wanted)
            vectors.queries.require()
        except (ArtefactError, OptionError) as problem:
            if wanted is not None:
                raise
            logger.info("auto: words alone, without vectors: %s", problem)
            return None
        return vectors.name

    def importance(self) -> NDArray[np.float64]:
        """Share of each feature in the sum of weights, shape (features,), summing to 1."""
        return np.asarray(self.weights / self.weights.sum(), dtype=np.float64)

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """Each feature's part of a document's score; the note `feedback` says which documents the query was expanded from."""
        explanation = super().explain(query, candidates, doc, context)
        weights = posterior_weights(candidates.scores)
        explanation.notes["feedback"] = feedback_note(self.index, candidates.docs[: len(weights)], weights)
        return explanation
