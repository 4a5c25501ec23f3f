"""The table that a fusion learns from: features of the training queries' candidates, computed in batches by any engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.execution import Engine
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.sequences import chunks
from kernelsearch.core.types import Query
from kernelsearch.learning.ranking.cross_validation import CompleteList
from kernelsearch.lucene.models import Model
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.fusion.features import Features, of_kind
from kernelsearch.rerankers.fusion.training_queries import TrainingQueries, TrainingVotes

Floats = NDArray[np.float64]

#: Queries per task of the engine.
BATCH = 64


@dataclass(frozen=True)
class FeaturePlan:
    """All that the features of training queries depend on. A worker process opens the index itself.

    `recipe` and `sources` are features by name, `model` the first stage's ranking model, `training` the queries that vote,
    `depth` the number of candidates per source, `normalise` the normalisation within a query ("z", "minmax" or "none"),
    `runs` are files by name for the feature `run`.
    """

    index: OpenedIndex
    recipe: tuple[str, ...]
    sources: tuple[str, ...]
    model: Model
    training: TrainingQueries
    depth: int
    normalise: str
    runs: Mapping[str, str] = field(default_factory=dict)


class QueryTable(NamedTuple):
    """A query's candidates: their rows, their normalised features, shape (candidates, features), and the columns of votes
    without those of related training queries, shape (candidates, columns); None where the recipe has no votes.

    `nearness` is the largest cosine of the query with another training query and with an unrelated one, None without votes.
    """

    docs: NDArray[np.int32]
    features: Floats
    unrelated_votes: Floats | None
    nearness: tuple[float, float] | None = None


class FeatureTables:
    """Computes feature tables by a plan. Sent to another process, it is made again there from the plan."""

    def __init__(self, plan: FeaturePlan) -> None:
        self.plan = plan
        self.votes = TrainingVotes(plan.index, plan.training, leave_out=True)
        self.features = Features(
            plan.index, plan.recipe, sources=plan.sources, model=plan.model, training_votes=self.votes, runs=plan.runs
        )
        self.vote_columns = [plan.recipe.index(name) for name in of_kind("votes", plan.recipe)]
        self.unrelated_votes = TrainingVotes(plan.index, plan.training, leave_out=True, related=False)
        self.unrelated_features = Features(
            plan.index,
            [plan.recipe[column] for column in self.vote_columns],
            model=plan.model,
            training_votes=self.unrelated_votes,
        )

    def __reduce__(self) -> tuple[type[FeatureTables], tuple[FeaturePlan]]:
        return FeatureTables, (self.plan,)

    def make(self, queries: Sequence[Query]) -> list[QueryTable]:
        """The tables of some training queries."""
        plan = self.plan
        lists = plan.index.lucene.search(queries, plan.depth, model=plan.model)
        pools = self.features.pool(queries, lists, plan.depth)
        tables = self.features.normalised_tables(queries, pools, plan.normalise)
        if not self.vote_columns:
            return [QueryTable(pool.docs, table, None) for pool, table in zip(pools, tables, strict=True)]
        votes = self.unrelated_features.normalised_tables(queries, pools, plan.normalise)
        nearness = [(self.votes.nearness(query), self.unrelated_votes.nearness(query)) for query in queries]
        return [
            QueryTable(pool.docs, table, other, near)
            for pool, table, other, near in zip(pools, tables, votes, nearness, strict=True)
        ]

    def unrelated(self, table: QueryTable) -> NDArray[np.float32] | None:
        """The features of `table`, a query's, if no training query were related to it; None without votes.

        Candidates that related queries alone brought in stay, without votes.
        """
        if table.unrelated_votes is None:
            return None
        features = table.features.astype(np.float32)
        features[:, self.vote_columns] = table.unrelated_votes
        return features


class TrainingTable(NamedTuple):
    """Rows to learn from and whole rankings to measure with.

    `X` (rows, features), `y` (rows,) grades, 0 for what isn't judged relevant, and `qid` (rows,) the queries' numbers: per
    query all relevant candidates and a draw of others. `complete` are whole rankings of some queries, those without a relevant
    candidate included.
    """

    X: Floats
    y: Floats
    qid: NDArray[np.int64]
    complete: list[CompleteList]


def training_table(
    engine: Engine,
    plan: FeaturePlan,
    queries: Sequence[Query],
    judged: Mapping[str, Mapping[str, int]],
    *,
    negatives: int = 200,
    complete: int = 300,
    random_state: int = 0,
    progress: Progress = silent,
) -> TrainingTable:
    """The table of training queries: per query all relevant candidates and at most `negatives` others, drawn uniformly.

    `engine` computes the features by `plan`; `judged` is {qid: {docid: grade}}; `random_state` is the seed of the draws,
    `progress` gets the progress. Features are normalised over the whole pool before the draw. Queries without a relevant
    candidate have no rows; InputError is raised where no query has any. `complete` bounds the number of queries whose whole
    rankings are kept. All draws are made here, in the order of the queries, so that they are the same for every engine.
    """
    # Made in this process first: an unknown feature is refused, and a missing basis is fitted once instead of by every worker.
    shared = FeatureTables(plan)
    generator, forward, parts = np.random.default_rng(random_state), plan.index.forward, []
    measured = set(np.random.default_rng(random_state).permutation(len(queries))[:complete].tolist())
    rankings: list[CompleteList] = []
    full = False  # whether a query has relevant candidates only
    batches = list(chunks(queries, BATCH))
    with progress("features", total=len(queries), unit="query") as bar:
        made = engine.map_shared(_make_tables, batches, shared, label="table")
        tables = (made_table for batch in made for made_table in batch)
        for number, (query, query_table) in enumerate(zip(queries, tables, strict=True)):
            docs, table = query_table.docs, query_table.features
            grades = judged.get(query.qid, {})
            rows = forward.rows_of(list(grades))
            grade_of = {int(row): grade for row, grade in zip(rows, grades.values(), strict=True) if row >= 0 and grade > 0}
            y = np.array([grade_of.get(int(row), 0) for row in docs], dtype=np.float64)
            if number in measured and grade_of:
                total = sum(grade > 0 for grade in grades.values())
                unrelated = shared.unrelated(query_table)
                rankings.append(CompleteList(number, table.astype(np.float32), y > 0, total, unrelated, query_table.nearness))
            relevant, others = np.flatnonzero(y > 0), np.flatnonzero(y <= 0)
            full = full or (len(relevant) > 0 and not len(others))
            if len(relevant) and len(others):
                if len(others) > negatives:
                    others = generator.choice(others, negatives, replace=False)
                selected = np.sort(np.concatenate([relevant, others]))
                parts.append((table[selected], y[selected], np.full(len(selected), number)))
            bar.update()
    if not parts:
        reason = "all documents that queries find are relevant" if full else "no query finds a relevant document"
        raise InputError(f"training: {reason}, so there is nothing to learn")
    X, y, qid = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return TrainingTable(X, y, qid, rankings)


def _make_tables(queries: Sequence[Query], tables: FeatureTables) -> list[QueryTable]:
    return tables.make(queries)
