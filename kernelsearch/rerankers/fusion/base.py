"""What `fusion` and `auto` share: documents with features are ranked by a learner, the others follow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.execution import map_in_threads
from kernelsearch.core.types import Candidates, Query
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, Explanation, Reranker
from kernelsearch.rerankers.fusion.features.base import Feature
from kernelsearch.rerankers.fusion.inputs import Inputs
from kernelsearch.rerankers.fusion.settings import DepthSettings

Floats = NDArray[np.float64]

#: The settings of a fusion.
D = TypeVar("D", bound=DepthSettings)


class Fused(NamedTuple):
    """What is known of a query's documents before they are ranked."""

    candidates: Candidates  #: the documents that have features
    table: Floats  #: their features, shape (candidates, features)
    lifts: Floats | None  #: what is added to the learner's score of each, shape (candidates,); None: nothing
    rest: NDArray[np.int32]  #: the documents that follow them, in their order


class FusedReranker(Reranker[D]):
    """Ranks documents of several sources by the `learner` over the features `recipe`, which are made from `inputs`."""

    inputs: Inputs
    learner: Learner
    recipe: tuple[str, ...]
    #: How the documents of a list for which features aren't computed are ordered, for explanations.
    others: ClassVar[str] = "the others follow it as in the list that was reranked"

    @abstractmethod
    def fused(self, query: Query, listed: Candidates, context: Context) -> Fused:
        """The documents and features of one query, whose list of the first stage is `listed`."""

    @abstractmethod
    def features(self, context: Context) -> list[Feature[Any]]:
        """The features of the recipe, for a first stage; made here before threads need them at the same time."""

    @abstractmethod
    def importance(self) -> Floats:
        """Share of each feature in the model, shape (features,), summing to 1."""

    def ranked(self, query: Query, listed: Candidates, context: Context) -> Candidates:
        """The reranked list of one query, whose list of the first stage is `listed`.

        It has at most as many documents as the first stage was asked for.
        """
        candidates, table, lifts, rest = self.fused(query, listed, context)
        if not candidates.depth:
            return listed
        scores = self.learner.predict(table)
        limit = max(context.hits or 0, listed.depth) or candidates.depth + len(rest)
        return extended(self.ordered(candidates.docs, scores if lifts is None else scores + lifts), rest, limit)

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The reranked lists.

        Queries are ranked one by one, so that features share what they compute for one; the context's threads share the
        queries, since searches and compiled loops release the GIL.
        """
        self.features(context)
        pairs = list(zip(queries, lists, strict=True))
        return map_in_threads(lambda pair: self.ranked(*pair, context), pairs, context.threads)

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> NDArray[np.floating]:
        """The fused scores of the candidates, in their order; candidates outside the pool follow in the first stage's order."""
        ranked = self.apply(query, candidates, context)
        by_row = np.argsort(ranked.docs)
        places = np.searchsorted(ranked.docs[by_row], candidates.docs)
        places[places == len(by_row)] = 0
        ranks = by_row[places]
        missing = ranked.docs[ranks] != candidates.docs
        scores = ranked.scores[ranks].astype(np.float64)
        scores[missing] = ranked.scores.min() - 1 - np.arange(int(missing.sum()))
        return scores

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """Each feature's part of a document's score; the parts sum to it."""
        from kernelsearch.rerankers.fusion.explanation import explain

        return explain(self, query, candidates, doc, context)

    def plot(
        self, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context = DEFAULT_CONTEXT
    ) -> None:
        """Bars: each feature's part of a document's score, and its importance in the model; without `doc`, of the best one."""
        from kernelsearch.rerankers.fusion.plot import plot

        shown = int(self.apply(query, candidates, context).docs[0]) if doc is None else doc
        plot(self.explain(query, candidates, shown, context), query.text, path)


class PooledReranker(FusedReranker[D]):
    """Ranks whole pools; documents of the first stage's list that are not in the pool follow."""

    def fused(self, query: Query, listed: Candidates, context: Context) -> Fused:
        """The whole pool of `inputs`."""
        pool, table = self.inputs.table(query, listed, context)
        return Fused(pool, table, None, listed.docs[~np.isin(listed.docs, pool.docs)])

    def features(self, context: Context) -> list[Feature[Any]]:
        """The features of `inputs`, whose recipe is that of the method."""
        return self.inputs.features(context).features


def apply_apart(
    queries: Sequence[Query],
    lists: Sequence[Candidates],
    apart: Sequence[bool],
    rank_apart: Callable[[Sequence[Query], Sequence[Candidates]], list[Candidates]],
    rank_others: Callable[[Sequence[Query], Sequence[Candidates]], list[Candidates]],
) -> list[Candidates]:
    """The reranked lists of `queries`, of which those marked in `apart` are ranked by a function of their own.

    `lists` has the list per query; `rank_apart` and `rank_others` take queries and their lists, and return reranked lists.
    """
    out = list(lists)
    for marked, rank in ((True, rank_apart), (False, rank_others)):
        numbers = [number for number, is_apart in enumerate(apart) if is_apart == marked]
        if numbers:
            ranked = rank([queries[number] for number in numbers], [lists[number] for number in numbers])
            for number, candidates in zip(numbers, ranked, strict=True):
                out[number] = candidates
    return out


def extended(best: Candidates, others: NDArray[np.int32], limit: int) -> Candidates:
    """The list `best`, then the documents `others`, none of which it has, with falling scores; at most `limit`."""
    below = float(best.scores[-1]) - 1 - np.arange(len(others))
    return Candidates(np.concatenate([best.docs, others])[:limit], np.concatenate([best.scores, below])[:limit])
