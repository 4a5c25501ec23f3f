"""What `fusion` and `auto` share: a pool of candidates, a table of features, a fuser, and reasons for a score."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.lists import Lists, normalise_features
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, Contribution, Explanation, OpenedIndex, Reranker
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.settings import DepthSettings
from kernelsearch.rerankers.fusion.training_memory import Recollection

Floats = NDArray[np.float64]

#: Queries whose tables are kept, so that explaining what was just ranked computes nothing again.
KEPT_TABLES = 32


#: The settings of a fusion.
D = TypeVar("D", bound=DepthSettings)


class FusedReranker(Reranker[D]):
    """Ranks the union of several first stages by a fuser over features that are normalised within the query.

    Subclasses say what the fuser, the recipe and the sources are.
    """

    learner: Learner
    recipe: tuple[str, ...]
    sources: tuple[str, ...]
    normalise: str
    recollection: Recollection | None = None

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self._tables: OrderedDict[tuple[Any, ...], tuple[Candidates, Floats]] = OrderedDict()
        self._features: tuple[Any, Features] | None = None

    def features(self, context: Context) -> Features:
        """The recipe at work, made once for a first stage."""
        key = (context.model, context.threads)
        if self._features is None or self._features[0] != key:
            made = Features(
                self.index,
                self.recipe,
                sources=self.sources,
                model=context.model,
                threads=context.threads,
                owner=f"--{self.name}.model" if self.name == "fusion" else f"--rerank {self.name}",
                recollection=self.recollection,
            )
            self._features = key, made
        return self._features[1]

    def tables(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context
    ) -> list[tuple[Candidates, Floats]]:
        """Each query's pool and its normalised features, shape (pool, features)."""
        keys = [(query.terms, query.weights, found.docs.tobytes()) for query, found in zip(queries, lists, strict=True)]
        wanted = [place for place, key in enumerate(keys) if key not in self._tables]
        fresh: dict[int, tuple[Candidates, Floats]] = {}
        if wanted:
            asked, given = [queries[place] for place in wanted], [lists[place] for place in wanted]
            depth = min(self.settings.depth, context.hits or max(found.depth for found in given))
            features = self.features(context)
            pools = features.pool(asked, given, depth)
            for place, pool, table in zip(wanted, pools, features.tables(asked, pools), strict=True):
                one_list = Lists.of(np.zeros(pool.depth, dtype=np.int64))
                fresh[place] = pool, normalise_features(table, one_list, self.normalise)
        out = [fresh[place] if place in fresh else self._tables[key] for place, key in enumerate(keys)]
        for key, made in zip(keys[-KEPT_TABLES:], out[-KEPT_TABLES:], strict=True):
            self._tables[key] = made
            self._tables.move_to_end(key)
        while len(self._tables) > KEPT_TABLES:
            self._tables.popitem(last=False)
        return out

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> NDArray[np.floating]:
        """The fused scores of the candidates, in their order; those beneath the pool's depth stand below, as they were."""
        ranked = self.apply(query, candidates, context)
        place = np.argsort(ranked.docs)
        found = np.searchsorted(ranked.docs[place], candidates.docs)
        found[found == len(place)] = 0
        rows = place[found]
        missing = ranked.docs[rows] != candidates.docs
        scores = ranked.scores[rows].astype(np.float64)
        scores[missing] = ranked.scores.min() - 1 - np.arange(int(missing.sum()))
        return scores

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """Reranked lists, of at most as many documents as the first stage was asked for."""
        out = list(lists)
        places = [place for place, found in enumerate(lists) if found.depth]
        for start in range(0, len(places), KEPT_TABLES):
            part = places[start : start + KEPT_TABLES]
            made = self.tables([queries[place] for place in part], [lists[place] for place in part], context)
            for place, (pool, table) in zip(part, made, strict=True):
                out[place] = self._ranked(pool, table, lists[place], context)
        return out

    def _ranked(self, pool: Candidates, table: Floats, candidates: Candidates, context: Context) -> Candidates:
        best = self.ordered(pool.docs, self.learner.predict(table))
        rest = candidates.docs[~np.isin(candidates.docs, pool.docs)]
        below = float(best.scores[-1]) - 1 - np.arange(len(rest))
        limit = max(context.hits or 0, candidates.depth)
        return Candidates(np.concatenate([best.docs, rest])[:limit], np.concatenate([best.scores, below])[:limit])

    @abstractmethod
    def importance(self) -> Floats:
        """How much each feature counts overall, shape (features,), summing to 1."""

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """Each feature's part of a document's score; the parts sum to it."""
        pool, table = self.tables([query], [candidates], context)[0]
        row = np.flatnonzero(pool.docs == doc)
        docid = self.index.forward.docids.take(np.array([doc]))[0]
        if not len(row):
            raise OptionError(f"--docid: {docid} stands beneath the first {self.settings.depth}; only those are fused")
        parts = self.learner.contributions(table)[row[0]]
        order = np.argsort(-np.abs(parts), kind="stable")
        above = (table > table[row[0]]).sum(axis=0) + 1
        contributions = tuple(
            Contribution(self.recipe[place], float(parts[place]), f"rank {above[place]} of {pool.depth} by this feature")
            for place in order
        )
        overall = {name: round(float(share), 4) for name, share in zip(self.recipe, self.importance(), strict=True)}
        return Explanation(self.name, docid, float(parts.sum()), contributions, {"importance": overall})

    def plot(
        self, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context = DEFAULT_CONTEXT
    ) -> None:
        """Bars: each feature's part of a document's score, beside how much it counts overall."""
        from kernelsearch.rerankers.fusion.plot import draw

        pool, table = self.tables([query], [candidates], context)[0]
        chosen = int(self._ranked(pool, table, candidates, context).docs[0]) if doc is None else doc
        draw(self.explain(query, candidates, chosen, context), query.text, path)
