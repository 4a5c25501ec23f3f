"""Learned fusion of words and vectors from tables of features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kernelsearch
from kernelsearch.core.sequences import chunks
from kernelsearch.core.types import Candidates, Query
from kernelsearch.learning.folds import query_folds
from kernelsearch.learning.ranking.cross_validation import CompleteList
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers.fusion.features import parse_recipe
from kernelsearch.rerankers.fusion.learners import anchored_learner
from kernelsearch.rerankers.fusion.recipes import hybrid_weights
from kernelsearch.rerankers.fusion.settings import RECIPE
from kernelsearch.rerankers.fusion.training_queries import TrainingQueries
from kernelsearch.rerankers.fusion.training_table import FeaturePlan, FeatureTables

FOLDS, SEED, DEPTH, NEGATIVES = 5, 0, 500, 200


@dataclass(frozen=True)
class Tables:
    """Pools of a collection's queries, their z-scored features and which documents are relevant, query by query."""

    recipe: tuple[str, ...]
    docs: list[NDArray[np.int32]]
    features: list[NDArray[np.float64]]
    relevant: list[NDArray[np.bool_]]
    totals: list[int]  #: relevant documents of the collection per query


def feature_tables(
    index: kernelsearch.Index, queries: Sequence[Query], qrels: Mapping[str, Mapping[str, int]], name: str, cache: Path
) -> Tables:
    """The default recipe of fusion with the vectors `name`, without votes of training queries; computed once, into `cache`.

    `queries` are those of `index`, `qrels` has their judgements.
    """
    recipe = tuple(feature for feature in parse_recipe(RECIPE) if not feature.startswith("votes"))
    recipe = tuple(dict.fromkeys((*recipe, *hybrid_weights(index, name), f"dense-rm:{name}")))
    if not cache.exists():
        plan = FeaturePlan(index, recipe, ("rm", "rm3", f"dense:{name}"), BM25Model(), TrainingQueries(), DEPTH, "z")
        maker = FeatureTables(plan)
        made = [table for batch in chunks(queries, 16) for table in maker.make(batch)]
        cache.parent.mkdir(parents=True, exist_ok=True)
        partial = cache.with_suffix(".partial.npz")
        np.savez(
            partial,
            docs=np.concatenate([table.docs for table in made]),
            features=np.concatenate([table.features.astype(np.float32) for table in made]),
            sizes=np.array([len(table.docs) for table in made]),
        )
        partial.rename(cache)
    stored = np.load(cache)
    ends = np.cumsum(stored["sizes"])[:-1]
    docs = np.split(stored["docs"], ends)
    rows = [index.forward.rows_of([docid for docid, grade in qrels[query.qid].items() if grade > 0]) for query in queries]
    return Tables(
        recipe,
        docs,
        [table.astype(np.float64) for table in np.split(stored["features"], ends)],
        [np.isin(pool, relevant) for pool, relevant in zip(docs, rows, strict=True)],
        [len(relevant) for relevant in rows],
    )


@dataclass(frozen=True)
class LearnedLists:
    """A cross-validated list per query, and what was chosen in each fold."""

    lists: list[Candidates]
    choices: list[str]


def learned_lists(
    tables: Tables, index: kernelsearch.Index, qids: Sequence[str], name: str, by_auto: Sequence[Candidates]
) -> LearnedLists:
    """Lists of `fusion` with its default learner, five folds over the queries: what ranks a query has not seen it.

    `tables` has the features of the queries `qids` on `index` with the vectors `name`. Where cross-validation chooses `auto`'s
    weights, `auto` itself ranks, as in `fusion`; `by_auto` are its lists.
    """
    out: list[Candidates] = [Candidates(docs, np.zeros(len(docs))) for docs in tables.docs]
    choices = []
    for held_out in query_folds(np.array(qids), FOLDS, SEED):
        learned = np.flatnonzero(~held_out).tolist()
        X, y, places = (np.concatenate(parts) for parts in zip(*training_rows(tables, learned), strict=True))
        complete = [
            CompleteList(place, tables.features[place].astype(np.float32), tables.relevant[place], tables.totals[place])
            for place in learned
        ]
        learner = anchored_learner(tables.recipe, hybrid_weights(index, name), random_state=SEED)
        learner.fit(X, y, places, complete=complete)
        choices.append(learner.choice_)
        for place in np.flatnonzero(held_out).tolist():
            docs = tables.docs[place]
            if learner.choice_ == "auto":
                out[place] = by_auto[place]
            elif len(docs):
                scores = learner.predict(tables.features[place])
                order = np.lexsort((index.forward.docid_rank[docs], -scores))[:1000]
                out[place] = Candidates(docs[order], scores[order])
    return LearnedLists(out, choices)


def training_rows(
    tables: Tables, places: Sequence[int]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]]:
    """Per query that has both, all relevant candidates and a draw of others: features, labels and the query's number.

    `places` are the numbers of the queries in `tables`.
    """
    chance = np.random.default_rng(SEED)
    for place in places:
        relevant = tables.relevant[place]
        positives, others = np.flatnonzero(relevant), np.flatnonzero(~relevant)
        if len(positives) and len(others):
            if len(others) > NEGATIVES:
                others = chance.choice(others, NEGATIVES, replace=False)
            rows = np.sort(np.concatenate([positives, others]))
            yield tables.features[place][rows], relevant[rows].astype(np.float64), np.full(len(rows), place)
