"""What a fusion is computed from: each query's pool of candidates, and their normalised features."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene.models import Model
from kernelsearch.rerankers.base import Context, OpenedIndex
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.training_queries import TrainingVotes

#: Candidates and their features, shape (candidates, features).
Table = tuple[Candidates, NDArray[np.float64]]
#: What a table depends on: the query, the bytes of the first stage's rows and scores, its model, and its number of hits.
TableKey = tuple[Query, bytes, bytes, Model, int | None]

#: Queries whose tables are cached, so that explaining what was just ranked computes nothing again.
CACHED_TABLES = 32


class Inputs:
    """Pools of candidates of several sources, and their features, normalised within the query.

    Parameters
    ----------
    index : the opened index
    recipe : the features by name, in the order of the table's columns
    sources : features by name that bring candidates besides the first stage
    depth : the number of candidates per source
    option : the option that messages about the recipe name
    normalise : "z", "minmax" or "none"
    training_votes, runs : what the features `votes` and `run` need, see `Features`
    """

    def __init__(
        self,
        index: OpenedIndex,
        recipe: Sequence[str],
        *,
        sources: Sequence[str],
        depth: int,
        option: Flag,
        normalise: str = "z",
        training_votes: TrainingVotes | None = None,
        runs: Mapping[str, str] | None = None,
    ) -> None:
        self.index, self.recipe, self.sources, self.depth = index, tuple(recipe), tuple(sources), depth
        self.option, self.normalise, self.training_votes, self.runs = option, normalise, training_votes, runs
        self._tables: OrderedDict[TableKey, Table] = OrderedDict()
        self._tables_lock = threading.Lock()
        self._features: tuple[Model, Features] | None = None

    def of_recipe(self, recipe: Sequence[str]) -> Inputs:
        """The same pools with the features of another `recipe`."""
        return Inputs(
            self.index,
            recipe,
            sources=self.sources,
            depth=self.depth,
            option=self.option,
            normalise=self.normalise,
            training_votes=self.training_votes,
            runs=self.runs,
        )

    def features(self, context: Context) -> Features:
        """The recipe's features for the first stage of `context`; those of the last first stage are cached."""
        cached = self._features
        if cached is None or cached[0] != context.model:
            features = Features(
                self.index,
                self.recipe,
                sources=self.sources,
                model=context.model,
                option=self.option,
                training_votes=self.training_votes,
                runs=self.runs,
            )
            cached = self._features = context.model, features
        return cached[1]

    def table(self, query: Query, listed: Candidates, context: Context) -> Table:
        """The pool of `query`, whose list of the first stage (`context`) is `listed`, and its normalised features."""
        key = (query, listed.docs.tobytes(), listed.scores.tobytes(), context.model, context.hits)
        entry = self._tables.get(key)  # taken at once: another thread may drop it meanwhile
        if entry is None:
            features = self.features(context)
            depth = min(self.depth, context.hits or listed.depth or self.depth)
            pools = features.pool([query], [listed], depth)
            entry = pools[0], features.normalised_tables([query], pools, self.normalise)[0]
        with self._tables_lock:
            self._tables[key] = entry
            self._tables.move_to_end(key)
            while len(self._tables) > CACHED_TABLES:
                self._tables.popitem(last=False)
        return entry
