"""The table of features of queries' candidates, and the candidates themselves, from a recipe on one index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.sequences import difference
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.ranking_models import first_stage_scores
from kernelsearch.learning.ranking.lists import Lists, normalise_features
from kernelsearch.lucene.models import BM25Model, Model
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.fusion.features.base import Feature, FeatureContext
from kernelsearch.rerankers.fusion.features.spec import FEATURES, SOURCES, parse
from kernelsearch.rerankers.fusion.pool import Pool
from kernelsearch.rerankers.fusion.training_queries import TrainingVotes

Floats = NDArray[np.float64]


class Features:
    """A recipe on one index: candidates from the union of its sources, and their table of features.

    Parameters
    ----------
    index : the opened index
    recipe : the features by name, in the order of the table's columns
    sources : features by name that bring candidates besides the first stage
    model : the first stage's ranking model
    threads : threads for searches
    option : the option that error messages name
    training_votes : the votes of training queries for the feature `votes`; None: no votes
    runs : files by name for the feature `run`
    shared : features by name to use instead of new ones: the `shared` of another recipe on the same index and first stage
    """

    def __init__(
        self,
        index: OpenedIndex,
        recipe: Sequence[str],
        *,
        sources: Sequence[str] = (),
        model: Model = BM25Model(),  # noqa: B008  an immutable value
        threads: int = 1,
        option: Flag = FEATURES,
        training_votes: TrainingVotes | None = None,
        runs: Mapping[str, str] | None = None,
        shared: Mapping[str, Feature[Any]] | None = None,
    ) -> None:
        self.index, self.model, self.recipe = index, model, tuple(recipe)
        context = FeatureContext(index, model, threads, training_votes, runs or {}, WeakValueDictionary(shared or {}))
        self.shared = context.shared
        specs = {name: parse(name, option) for name in (*recipe, *sources)}
        by_name = {name: spec.shared(context) for name, spec in specs.items()}
        for name in context.runs:
            if name not in context.used_runs:
                raise OptionError(
                    f"{name}: has no effect, because no feature of the model is run:{name}", option=Flag("runs", "fusion")
                )
        self.features = [by_name[name] for name in recipe]
        self.sources = [by_name[name] for name in sources]
        for name in sources:
            if not by_name[name].retrieves:
                raise OptionError(f"{name!r} brings no candidates of its own", option=SOURCES if option == FEATURES else option)

    def pool(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[Candidates]:
        """The union of the best `depth` documents of the first stage and of each source, in the first stage's order.

        `lists` are those of `queries` by the first stage; the pools are in their order.

        A document that the first stage didn't list gets its exact score under the first stage's model, but at most that of the
        list's last document: the model doesn't explain the scores of lists from an expanded query or a run file. Where the
        first stage found nothing, documents of equal score keep the order in which the sources found them.
        """
        retrieved = [source.retrieve(queries, lists, depth) for source in self.sources]
        forward, pools = self.index.forward, []
        for number, (query, first) in enumerate(zip(queries, lists, strict=True)):
            listed = Candidates(first.docs[:depth], first.scores[:depth])
            others = [docs[number] for docs in retrieved]
            new = difference(np.concatenate(others), listed.docs) if others else listed.docs[:0]
            if not len(new):
                pools.append(listed)
                continue
            scores = first_stage_scores(forward, self.model, query, new)
            exact = scores.astype(np.float64)
            if listed.depth:
                exact = np.minimum(exact, float(listed.scores[-1]))
                order = np.lexsort((forward.docid_rank[new], -exact))
            else:
                order = np.lexsort((forward.docid_rank[new], best_ranks(new, others), -exact))
            docs, scores = np.concatenate([listed.docs, new[order]]), np.concatenate([listed.scores, exact[order]])
            pools.append(Candidates(docs, scores))
        return pools

    def tables(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[Floats]:
        """The features of the `candidates` of each of `queries`, shape (candidates, features)."""
        return self._tables(self._pools(queries, candidates))

    def normalised_tables(self, queries: Sequence[Query], candidates: Sequence[Candidates], kind: str) -> list[Floats]:
        """As `tables` of `queries` and `candidates`, normalised within the query and times the features' strengths.

        `kind` of normalisation is "z", "minmax" or "none".
        """
        pools = self._pools(queries, candidates)
        strengths = np.column_stack([feature.strengths(pools) for feature in self.features])
        return [
            normalise_features(table, Lists.single(len(table)), kind) * strength
            for table, strength in zip(self._tables(pools), strengths, strict=True)
        ]

    def _pools(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[Pool]:
        return [Pool(self.index, query, listed) for query, listed in zip(queries, candidates, strict=True)]

    def _tables(self, pools: Sequence[Pool]) -> list[Floats]:
        bm25 = {place: queries for place, feature in enumerate(self.features) if (queries := feature.bm25_queries(pools))}
        others = {place: feature.values(pools) for place, feature in enumerate(self.features) if place not in bm25}
        tables = []
        for number, pool in enumerate(pools):
            together = pool.bm25([queries[number] for queries in bm25.values()])
            values = dict(zip(bm25, together, strict=True)) | {place: column[number] for place, column in others.items()}
            columns = [values[place] for place in range(len(self.features))]
            # A feature is contiguous in memory: normalising and adding up features takes a third of the time.
            tables.append(np.array(columns).T)
        return tables


def best_ranks(docs: NDArray[np.int32], lists: Sequence[NDArray[np.int32]]) -> NDArray[np.int64]:
    """The best rank (from 0) of each document among several lists of rows; `docs` is ascending and holds all of them."""
    ranks = np.full(len(docs), np.iinfo(np.int64).max)
    for listed in lists:
        np.minimum.at(ranks, np.searchsorted(docs, listed), np.arange(len(listed)))
    return ranks
