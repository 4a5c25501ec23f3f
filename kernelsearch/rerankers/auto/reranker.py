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

from kernelsearch.core.types import Candidates, Query
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.lucene.models import Model
from kernelsearch.rerankers.auto import AUTO, bound
from kernelsearch.rerankers.auto.decision import may_decide, words_decide
from kernelsearch.rerankers.auto.settings import AutoSettings
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, Explanation, OpenedIndex, Part
from kernelsearch.rerankers.fusion.base import FusedReranker, apply_apart, extended
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.features.base import Feature
from kernelsearch.rerankers.fusion.recipes import PARTS, PLAIN, auto_weights, available, usable_vectors
from kernelsearch.vectors.nearness import NEIGHBOURS

#: A query's candidates and their features, shape (candidates, features).
Table = tuple[Candidates, NDArray[np.float64]]

#: Documents that are matched by the language model: twice as many change MAP by less than half a percent.
MATCHED = 100


class AutoReranker(FusedReranker[AutoSettings]):
    """A weighted sum of z-scores over a fixed recipe; features that the index can't offer are left out (`parts`)."""

    method = AUTO
    normalise = "z"
    sources: tuple[str, ...] = ("rm",)
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
        if self.vectors is not None:
            self.sources = (*self.sources, f"dense:{self.vectors}")
        elif PARTS in weights:
            self.sources = (*self.sources, PARTS)
            self.parts = (*self.parts, Part("words inside identifiers", None))
        self.recipe = tuple(weights)
        self.weights = np.array(list(weights.values()))
        self._matching = [column for column, name in enumerate(self.recipe) if column == 0 or name == PARTS]
        self.learner = CombSUM(weights=self.weights.tolist(), normalise="none")
        self._match: tuple[Model, Features] | None = None

    @property
    def table_recipe(self) -> tuple[str, ...]:
        """The recipe with the first stage's score in the place of the match."""
        return (PLAIN, *self.recipe[1:])

    def tables(self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context) -> list[Table]:
        """Each query's best MATCHED documents, in the first stage's order, and their features, z-scored among them."""
        pools = self.pool_tables(queries, lists, context)
        return self._matched(queries, pools, [self._order(pool, table) for pool, table in pools], context)

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

    def prepare(self, context: Context) -> None:
        """Makes what queries share, before threads need it at the same time."""
        super().prepare(context)
        if self.recipe[0] != PLAIN:
            self._match_features(context)

    def ranked(self, query: Query, listed: Candidates, context: Context) -> Candidates:
        """The best MATCHED documents by the whole sum, then the others of the pool, then the list's."""
        pools = self.pool_tables([query], [listed], context)
        ((pool, table),) = pools
        if not pool.depth:
            return listed
        order = self._order(pool, table)
        ((best, features),) = self._matched([query], pools, [order], context)
        ranked = self.ordered(best.docs, self.learner.predict(features) + self.lifts(best.docs, features))
        others = pool.docs[order[best.depth :]]
        if not np.array_equal(pool.docs[: listed.depth], listed.docs):  # the list is deeper than the pool
            others = np.concatenate([others, listed.docs[~np.isin(listed.docs, pool.docs)]])
        return extended(ranked, others, self.limit(listed, pool, context))

    def lifts(self, docs: NDArray[np.int32], table: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the bound on feedback adds to each document's sum, shape (documents,); parameters as in the base class.

        With vectors nothing is bounded, since a document may match by meaning alone.
        """
        if self.vectors is not None:
            return super().lifts(docs, table)
        by_match = self.best_first(docs, table[:, self._matching] @ self.weights[self._matching])
        sums = self.learner.predict(table)
        return bound.lifts(sums, self.best_first(docs, sums), by_match)

    def _order(self, pool: Candidates, table: NDArray[np.float64]) -> NDArray[np.int64]:
        """The places of a pool's documents by the sum with the first stage's score, best first."""
        return self.best_first(pool.docs, self.learner.predict(table))

    def _matched(
        self, queries: Sequence[Query], pools: Sequence[Table], orders: Sequence[NDArray[np.int64]], context: Context
    ) -> list[Table]:
        """Of each pool the best documents by `_order` with the match in the place of the first stage's score."""
        if self.recipe[0] == PLAIN:
            return list(pools)
        chosen = []
        for (pool, table), order in zip(pools, orders, strict=True):
            best = np.sort(order[:MATCHED])
            chosen.append((Candidates(pool.docs[best], pool.scores[best]), table[best, 1:]))
        matches = self._match_features(context).tables(queries, [best for best, _ in chosen])
        return [
            (best, zscores(np.column_stack([match, others]))) for (best, others), match in zip(chosen, matches, strict=True)
        ]

    def _match_features(self, context: Context) -> Features:
        """The match alone as a table, for a first stage; that of the last first stage is cached."""
        cached = self._match
        if cached is None or cached[0] != context.model:
            # The feature that orders feedback documents has the same language model, and scores of the same documents.
            shared = self.features(context).shared
            features = Features(self.index, self.recipe[:1], model=context.model, shared=shared)
            cached = self._match = context.model, features
        return cached[1]

    def feature(self, name: str, context: Context) -> Feature[Any]:
        """The feature `name` of the recipe, for a first stage; the first one is the match."""
        return (self._match_features(context) if name == self.recipe[0] else self.features(context)).shared[name]

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
