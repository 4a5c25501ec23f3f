"""Fusions of words and vectors from tables of features: weights of `auto` chosen on other collections, and learned weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kernelsearch
from kernelsearch.core.sequences import chunks
from kernelsearch.core.types import Candidates, Query
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.learning.folds import query_folds
from kernelsearch.learning.ranking.choose import CompleteList
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers.auto.reranker import MATCHED
from kernelsearch.rerankers.fusion.features import parse_recipe
from kernelsearch.rerankers.fusion.learners import anchored_learner
from kernelsearch.rerankers.fusion.recipes import CERTAINTY, MATCH, PLAIN, wanted_weights
from kernelsearch.rerankers.fusion.settings import RECIPE
from kernelsearch.rerankers.fusion.training_queries import TrainingQueries
from kernelsearch.rerankers.fusion.training_table import FeaturePlan, FeatureTables

FOLDS, SEED, DEPTH, NEGATIVES = 5, 0, 500, 200
#: Weights of `auto` to choose among: of the vectors, of each feedback feature, and the part of the match (2) that is mslm's.
DENSE, FEEDBACK, MSLM = (2.0, 3.0, 4.0), (0.3, 0.6, 1.0, 1.5), (1.0, 2.0)

#: Weights of the vectors, of each feedback feature, and of mslm.
AutoSetting = tuple[float, float, float]


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
    """The default recipe of fusion with the vectors `name`, without votes of training queries; computed once."""
    recipe = tuple(feature for feature in parse_recipe(RECIPE) if feature != "votes")
    recipe = tuple(dict.fromkeys((*recipe, *wanted_weights(name), f"dense-rm:{name}")))
    if not cache.exists():
        plan = FeaturePlan(index, recipe, ("rm", "rm3", f"dense:{name}"), BM25Model(), TrainingQueries(), DEPTH, "z")
        maker = FeatureTables(plan)
        made = [table for batch in chunks(queries, 16) for table in maker.make(batch)]
        cache.parent.mkdir(parents=True, exist_ok=True)
        partial = cache.with_suffix(".partial.npz")
        np.savez(
            partial,
            docs=np.concatenate([docs for docs, _ in made]),
            features=np.concatenate([table.astype(np.float32) for _, table in made]),
            sizes=np.array([len(docs) for docs, _ in made]),
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
        [np.isin(pool, found) for pool, found in zip(docs, rows, strict=True)],
        [len(found) for found in rows],
    )


def auto_settings(tables: Tables, index: kernelsearch.Index, judged: JudgedRows, name: str) -> dict[AutoSetting, float]:
    """Mean average precision of the sum of z-scores by its weights, as `auto` ranks: mslm for the best documents alone."""
    columns = {feature: tables.recipe.index(feature) for feature in wanted_weights(name)}
    out = {}
    for dense, feedback, mslm in product(DENSE, FEEDBACK, MSLM):
        weights = {MATCH: mslm, PLAIN: 2.0 - mslm, f"dense:{name}": dense, f"hybrid:{name}/{CERTAINTY}": 1.0}
        vector = np.array([weights.get(feature, feedback) for feature in columns])
        wide = vector.copy()
        names = list(columns)
        wide[names.index(PLAIN)], wide[names.index(MATCH)] = 2.0, 0.0
        lists = []
        for docs, features in zip(tables.docs, tables.features, strict=True):
            table = features[:, list(columns.values())]
            scores, ties = table @ wide, index.forward.docid_rank[docs]
            best = np.lexsort((ties, -scores))[:MATCHED]
            if len(best):
                final = zscores(table[best]) @ vector
                scores[best] = final - final.min() + scores.max() + 1
            order = np.lexsort((ties, -scores))[:1000]
            lists.append(Candidates(docs[order], scores[order]))
        out[dense, feedback, mslm] = float(np.mean(judged.average_precision(lists)))
    return out


def learned_lists(tables: Tables, index: kernelsearch.Index, qids: Sequence[str], name: str) -> list[Candidates]:
    """Lists of `fusion` with its default learner, five folds over the queries: what ranks a query has not seen it."""
    out: list[Candidates] = [Candidates(docs, np.zeros(len(docs))) for docs in tables.docs]
    for held_out in query_folds(np.array(qids), FOLDS, SEED):
        learned = np.flatnonzero(~held_out).tolist()
        X, y, places = (np.concatenate(parts) for parts in zip(*training_rows(tables, learned), strict=True))
        complete = [
            CompleteList(place, tables.features[place].astype(np.float32), tables.relevant[place], tables.totals[place])
            for place in learned
        ]
        learner = anchored_learner(tables.recipe, wanted_weights(name), random_state=SEED)
        learner.fit(X, y, places, complete=complete)
        for place in np.flatnonzero(held_out).tolist():
            docs = tables.docs[place]
            if len(docs):
                scores = learner.predict(tables.features[place])
                order = np.lexsort((index.forward.docid_rank[docs], -scores))[:1000]
                out[place] = Candidates(docs[order], scores[order])
    return out


def training_rows(
    tables: Tables, places: Sequence[int]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]]:
    """Per query that has both, all relevant candidates and a draw of others: features, labels and the query's number."""
    chance = np.random.default_rng(SEED)
    for place in places:
        relevant = tables.relevant[place]
        positives, others = np.flatnonzero(relevant), np.flatnonzero(~relevant)
        if len(positives) and len(others):
            if len(others) > NEGATIVES:
                others = chance.choice(others, NEGATIVES, replace=False)
            rows = np.sort(np.concatenate([positives, others]))
            yield tables.features[place][rows], relevant[rows].astype(np.float64), np.full(len(rows), place)
