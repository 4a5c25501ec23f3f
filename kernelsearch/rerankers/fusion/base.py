"""What `fusion` and `auto` share: a pool of candidates from several sources, a table of features, and a fuser."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag
from kernelsearch.core.execution import map_in_threads
from kernelsearch.core.types import Candidates, Query
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.lucene.models import Model
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, Explanation, OpenedIndex, Reranker
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.features.base import Feature
from kernelsearch.rerankers.fusion.settings import DepthSettings
from kernelsearch.rerankers.fusion.training_queries import TrainingVotes

Floats = NDArray[np.float64]
#: What a table depends on: the query, the bytes of the first stage's rows and scores, its model, and its number of hits.
TableKey = tuple[Query, bytes, bytes, Model, int | None]

#: Queries whose tables are cached, so that explaining what was just ranked computes nothing again.
CACHED_TABLES = 32

#: The settings of a fusion.
D = TypeVar("D", bound=DepthSettings)


class FusedReranker(Reranker[D]):
    """Ranks the union of several sources by a fuser over features that are normalised within the query.

    Subclasses set the fuser (`learner`), the features by name (`recipe`), those that bring candidates (`sources`), the
    normalisation ("z", "minmax" or "none") and, for the features `votes` and `run`, the votes of training queries and the run
    files by name.
    """

    learner: Learner
    recipe: tuple[str, ...]
    sources: tuple[str, ...]
    normalise: str
    training_votes: TrainingVotes | None = None
    runs: Mapping[str, str] | None = None
    #: How the documents of a list for which features aren't computed are ordered, for explanations.
    others: ClassVar[str] = "the others follow it as in the list that was reranked"

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self._tables: OrderedDict[TableKey, tuple[Candidates, Floats]] = OrderedDict()
        self._tables_lock = threading.Lock()
        self._features: tuple[Model, Features] | None = None

    @property
    def table_recipe(self) -> tuple[str, ...]:
        """The features that tables of whole pools hold."""
        return self.recipe

    def features(self, context: Context) -> Features:
        """The recipe's features for a first stage; those of the last first stage are cached."""
        cached = self._features
        if cached is None or cached[0] != context.model:
            features = Features(
                self.index,
                self.table_recipe,
                sources=self.sources,
                model=context.model,
                option=Flag("model", "fusion") if self.name == "fusion" else Flag("rerank", value=self.name),
                training_votes=self.training_votes,
                runs=self.runs,
            )
            cached = self._features = context.model, features
        return cached[1]

    def feature(self, name: str, context: Context) -> Feature[Any]:
        """The feature `name` of the recipe, for a first stage."""
        return self.features(context).shared[name]

    def tables(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context
    ) -> list[tuple[Candidates, Floats]]:
        """The candidates of each query that are fused, and their normalised features, shape (candidates, features)."""
        return self.pool_tables(queries, lists, context)

    def pool_tables(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context
    ) -> list[tuple[Candidates, Floats]]:
        """Each query's whole pool and its normalised features, those of `table_recipe`, shape (pool, features)."""
        keys = [
            (query, listed.docs.tobytes(), listed.scores.tobytes(), context.model, context.hits)
            for query, listed in zip(queries, lists, strict=True)
        ]
        cached = [self._tables.get(key) for key in keys]  # taken at once: another thread may drop them meanwhile
        missing = [number for number, entry in enumerate(cached) if entry is None]
        fresh: dict[int, tuple[Candidates, Floats]] = {}
        if missing:
            new_queries, new_lists = [queries[number] for number in missing], [lists[number] for number in missing]
            longest = max(listed.depth for listed in new_lists)
            depth = min(self.settings.depth, context.hits or longest or self.settings.depth)
            features = self.features(context)
            pools = features.pool(new_queries, new_lists, depth)
            tables = features.normalised_tables(new_queries, pools, self.normalise)
            fresh = {number: (pool, table) for number, pool, table in zip(missing, pools, tables, strict=True)}
        out = [fresh[number] if entry is None else entry for number, entry in enumerate(cached)]
        with self._tables_lock:
            for key, entry in zip(keys[-CACHED_TABLES:], out[-CACHED_TABLES:], strict=True):
                self._tables[key] = entry
                self._tables.move_to_end(key)
            while len(self._tables) > CACHED_TABLES:
                self._tables.popitem(last=False)
        return out

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

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The reranked lists, of at most as many documents as the first stage was asked for.

        Queries are ranked one by one, so that features share what they compute for one; the context's threads share the
        queries, since searches and compiled loops release the GIL.
        """
        pairs = list(zip(queries, lists, strict=True))
        self.prepare(context)
        return map_in_threads(lambda pair: self.ranked(*pair, context), pairs, context.threads)

    def prepare(self, context: Context) -> None:
        """Makes what queries share, before threads need it at the same time."""
        self.features(context)

    def ranked(self, query: Query, listed: Candidates, context: Context) -> Candidates:
        """The reranked list of one query, whose list of the first stage is `listed`."""
        ((pool, table),) = self.tables([query], [listed], context)
        if not pool.depth:
            return listed
        best = self.ordered(pool.docs, self.learner.predict(table))
        return followed_by(best, listed.docs, self.limit(listed, pool, context))

    def lifts(self, docs: NDArray[np.int32], table: Floats) -> Floats:
        """What is added to the fuser's sum of each document, shape (documents,); 0 unless a subclass bounds feedback.

        `docs` are rows of the forward index, `table` has their features, shape (documents, features).
        """
        return np.zeros(len(docs))

    @staticmethod
    def limit(listed: Candidates, pool: Candidates, context: Context) -> int:
        """The length of a reranked list: what the first stage was asked for, or that of `listed` if more; else the pool's."""
        return max(context.hits or 0, listed.depth) or pool.depth

    @abstractmethod
    def importance(self) -> Floats:
        """Share of each feature in the model, shape (features,), summing to 1."""

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


def followed_by(best: Candidates, docs: NDArray[np.int32], limit: int) -> Candidates:
    """The list `best`, then the documents of `docs` that it lacks, in their order, with falling scores; at most `limit`."""
    return extended(best, docs[~np.isin(docs, best.docs)], limit)


def extended(best: Candidates, others: NDArray[np.int32], limit: int) -> Candidates:
    """The list `best`, then the documents `others`, none of which it has, with falling scores; at most `limit`."""
    below = float(best.scores[-1]) - 1 - np.arange(len(others))
    return Candidates(np.concatenate([best.docs, others])[:limit], np.concatenate([best.scores, below])[:limit])
