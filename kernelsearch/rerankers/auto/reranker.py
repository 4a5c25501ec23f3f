"""`auto`: a fusion with a fixed recipe and fixed weights, for collections without training data.

One part of the sum is how well a document matches the query: the multi-scale language model, which includes the first stage's
score, and the title. The other part is feedback: a relevance model, the cosine to the first documents, and the cosine to them
in the latent space. Three mechanisms limit feedback per query, the first two by the posterior p(d|q) of
`ranking_models.posterior_weights`:

- Feedback documents are weighted by the posterior. If one document scores far above the others, feedback uses nearly this
  document alone and changes little; if many have similar scores, it uses their common vocabulary. The scores are those of the
  language model for the first stage's first documents (feature `read`): for noisy queries it ranks the relevant document
  first more often than BM25.
- The posteriors by the scores of the first stage and of the language model are features: a document that scores far above all
  others stays first unless the other features agree on another one. If many documents have similar scores, these features are
  close to 0 for all.
- A document that matches the query well stays near its place by the match, whatever feedback says (`bound`).

The language model takes longer than all other features together. It is therefore computed only for the first MATCHED
documents by a sum with the first stage's score instead; these are ranked by the complete sum, the others follow.

On an index of source code, BM25 that finds words inside identifiers is added (feature `parts`), with candidates of its own.

On an index with vectors, the inner product with the query's vector is added to the match, and the nearest documents of the
whole index are added to the candidates. Feedback documents are then those with the largest weighted sum of the z-scores of
first stage and vectors: documents on which both agree are relevant more often than the first ones by words alone. Both weights
of the vectors are multiplied by their reliability, which falls with the share of the texts that the encoder has not read, and
with that of the documents without a vector (`kernelsearch.vectors.truncation`). Queries for known documents are ranked by words
alone (`decision`).

`python -m tools.reproduce.auto` shows, leaving one collection out at a time, how the weights were chosen and which
alternatives were tried (docs/reproductions/auto.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag
from kernelsearch.core.types import Candidates, Query
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.lucene.models import Model
from kernelsearch.rerankers.auto import AUTO, bound
from kernelsearch.rerankers.auto.decision import may_decide, words_decide
from kernelsearch.rerankers.auto.settings import AutoSettings
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, Explanation, OpenedIndex, Part
from kernelsearch.rerankers.fusion.base import Fused, FusedReranker, apply_apart
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.features.base import Feature
from kernelsearch.rerankers.fusion.inputs import Inputs, Table
from kernelsearch.rerankers.fusion.recipes import PARTS, PLAIN, auto_weights, available, usable_vectors
from kernelsearch.vectors.nearness import NEIGHBOURS

#: Documents that are matched by the language model: twice as many change MAP by less than half a percent.
MATCHED = 100


class AutoReranker(FusedReranker[AutoSettings]):
    """A weighted sum of z-scores over a fixed recipe; features that the index can't offer are left out (`parts`)."""

    method = AUTO
    others = "the others follow it by their sums with the first stage's score as the match"

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self.vectors, part = usable_vectors(index, self.settings.vectors, self.name)
        wanted = auto_weights(index, self.vectors)
        weights: dict[str, float] = {}
        offered, parts = available(tuple(wanted), index)
        self.parts = (*parts, part)
        for name, feature in offered.items():
            weights[feature] = weights.get(feature, 0.0) + wanted[name]
        sources: tuple[str, ...] = ("rm",)
        if self.vectors is not None:
            sources = (*sources, f"dense:{self.vectors}")
        elif PARTS in weights:
            sources = (*sources, PARTS)
            self.parts = (*self.parts, Part("words inside identifiers", None))
        self.recipe = tuple(weights)
        self.weights = np.array(list(weights.values()))
        self.learner = CombSUM(weights=self.weights.tolist(), normalise="none")
        self.inputs = Inputs(
            index,
            (PLAIN, *self.recipe[1:]),  # the first stage's score in the place of the match
            sources=sources,
            depth=self.settings.depth,
            option=Flag("rerank", value=self.name),
        )
        self._matching = [column for column, name in enumerate(self.recipe) if column == 0 or name == PARTS]
        self._match: tuple[Model, Features] | None = None

    def fused(self, query: Query, listed: Candidates, context: Context) -> Fused:
        """The best MATCHED documents by a sum with the first stage's score, with the match in its place; the others follow."""
        pool, table = self.inputs.table(query, listed, context)
        if not pool.depth:
            return Fused(pool, table, None, listed.docs)
        order = self.best_first(pool.docs, self.learner.predict(table))
        best, others = (pool, table), pool.docs[:0]
        if self.recipe[0] != PLAIN:
            best, others = self._matched(query, pool, table, order[:MATCHED], context), pool.docs[order[MATCHED:]]
        if not np.array_equal(pool.docs[: listed.depth], listed.docs):  # the list is deeper than the pool
            others = np.concatenate([others, listed.docs[~np.isin(listed.docs, pool.docs)]])
        return Fused(*best, self._lifts(*best), others)

    def _matched(
        self, query: Query, pool: Candidates, table: NDArray[np.float64], places: NDArray[np.int64], context: Context
    ) -> Table:
        """The documents at `places` of a pool, in the first stage's order, and their features, z-scored among them."""
        places = np.sort(places)
        best = Candidates(pool.docs[places], pool.scores[places])
        (match,) = self._match_features(context).tables([query], [best])
        return best, zscores(np.column_stack([match, table[places, 1:]]))

    def _lifts(self, best: Candidates, table: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """What the bound on feedback adds to each document's sum, shape (documents,).

        With vectors nothing is bounded, since a document may match by meaning alone.
        """
        if self.vectors is not None:
            return None
        by_match = self.best_first(best.docs, table[:, self._matching] @ self.weights[self._matching])
        sums = self.learner.predict(table)
        return bound.lifts(sums, self.best_first(best.docs, sums), by_match)

    def features(self, context: Context) -> list[Feature[Any]]:
        """The features of the recipe, the match first."""
        others = self.inputs.features(context).features
        return others if self.recipe[0] == PLAIN else [*self._match_features(context).features, *others[1:]]

    def _match_features(self, context: Context) -> Features:
        """The match alone as a table, for a first stage; that of the last first stage is cached."""
        cached = self._match
        if cached is None or cached[0] != context.model:
            # The feature that orders feedback documents has the same language model, and scores of the same documents.
            shared = self.inputs.features(context).shared
            features = Features(self.index, self.recipe[:1], model=context.model, shared=shared)
            cached = self._match = context.model, features
        return cached[1]

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The reranked lists; where vectors are used, some queries are ranked by words alone (`ranked_by_words`)."""
        return apply_apart(
            queries,
            lists,
            self.ranked_by_words(queries, lists),
            lambda queries, lists: FusedReranker.apply_batch(self._words, queries, lists, context),
            lambda queries, lists: FusedReranker.apply_batch(self, queries, lists, context),
        )

    def ranked_by_words(self, queries: Sequence[Query], lists: Sequence[Candidates]) -> list[bool]:
        """Which queries are ranked by words alone: those without a vector, and those whose words decide (`decision`)."""
        return [by_words for by_words, _ in self._decisions(queries, lists)]

    def _decisions(self, queries: Sequence[Query], lists: Sequence[Candidates]) -> list[tuple[bool, str | None]]:
        """Per query: whether words alone rank, and the reason if it is not a missing vector (`decision.words_decide`)."""
        if self.vectors is None:
            return [(False, None)] * len(queries)
        forward, vectors = self.index.forward, self.index.vectors(self.vectors)
        known = vectors.queries.find(queries)  # in one call, which may encode the queries
        reasons: list[str | None] = [None] * len(queries)
        undecided = [number for number, query in enumerate(queries) if may_decide(forward, query, lists[number].docs)]
        # As many as the pool takes, which are then cached: searching for them takes as long as for the first ones.
        nearest = vectors.nearest([queries[number] for number in undecided], max(NEIGHBOURS, self.settings.depth))
        for number, (near, _) in zip(undecided, nearest, strict=True):
            vector, near = known[number], near[:NEIGHBOURS]
            near = near[forward.live[near]]
            documents = vectors.documents
            nearness = None if vector is None else documents.nearness.of(vector, documents.unit(near))
            reasons[number] = words_decide(forward, queries[number], lists[number].docs, near, nearness)
        return [(vector is None or reason is not None, reason) for vector, reason in zip(known, reasons, strict=True)]

    @cached_property
    def _words(self) -> AutoReranker:
        """The same fusion without vectors, for queries that have none."""
        return AutoReranker(self.index, **{**self.settings.to_dict(), "vectors": "none"})

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """Each feature's part of a document's score; the parts sum to it."""
        from kernelsearch.rerankers.fusion.explanation import add_reason

        ((by_words, reason),) = self._decisions([query], [candidates])
        if not by_words:
            return super().explain(query, candidates, doc, context)
        explanation = self._words.explain(query, candidates, doc, context)
        add_reason(explanation, f"words alone: {reason or f'the query has no vector for {self.vectors}'}")
        return explanation

    def importance(self) -> NDArray[np.float64]:
        """Share of each feature in the sum of weights, shape (features,), summing to 1."""
        return np.asarray(self.weights / self.weights.sum(), dtype=np.float64)
