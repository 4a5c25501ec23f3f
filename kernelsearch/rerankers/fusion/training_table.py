"""The table that a fusion learns from: features of the training queries' candidates, made in parts by any engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.execution import Engine
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.sequences import chunks
from kernelsearch.core.types import Query
from kernelsearch.learning.ranking.lists import Lists, normalise_features
from kernelsearch.lucene.models import Model
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.training_memory import Memory, Recollection

Floats = NDArray[np.float64]

#: Queries of a part.
BATCH = 64


@dataclass(frozen=True)
class FeaturePlan:
    """What a worker needs to know to make the features of training queries as the driver would; it opens the index itself."""

    index: OpenedIndex
    recipe: tuple[str, ...]
    sources: tuple[str, ...]
    model: Model
    memory: Memory
    depth: int
    normalise: str


class FeatureTables:
    """A plan at work in one process. It can be sent to other processes, which open it again."""

    def __init__(self, plan: FeaturePlan) -> None:
        self.plan = plan
        recollection = Recollection(plan.index, plan.memory, leave_out=True)
        self.features = Features(plan.index, plan.recipe, sources=plan.sources, model=plan.model, recollection=recollection)

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureTables, (self.plan,)

    def make(self, queries: Sequence[Query]) -> list[tuple[NDArray[np.int32], Floats]]:
        """The rows of each query's candidates and their normalised features."""
        plan, features = self.plan, self.features
        lists = plan.index.lucene.search(queries, plan.depth, model=plan.model)
        pools = features.pool(queries, lists, plan.depth)
        return [
            (pool.docs, normalise_features(table, Lists.of(np.zeros(pool.depth, dtype=np.int64)), plan.normalise))
            for pool, table in zip(pools, features.tables(queries, pools), strict=True)
        ]


def training_table(
    engine: Engine,
    plan: FeaturePlan,
    queries: Sequence[Query],
    judged: Mapping[str, Mapping[str, int]],
    *,
    negatives: int = 200,
    random_state: int = 0,
    progress: Progress = silent,
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """(X, y, qid): every relevant candidate and uniformly drawn others, normalised before the draw over the whole pool.

    Queries without a relevant candidate teach nothing and are left out. The draw is made here, query after query, so that it
    doesn't depend on who made the features.
    """
    # Opened here first: a recipe that names nothing is refused, and a missing basis is fitted once instead of by every worker.
    shared = FeatureTables(plan)
    chance, forward, parts = np.random.default_rng(random_state), plan.index.forward, []
    batches = list(chunks(queries, BATCH))
    with progress("features", total=len(queries), unit="query") as bar:
        tables = (one for part in engine.map_shared(_make_tables, batches, shared, label="table") for one in part)
        for number, (query, (docs, table)) in enumerate(zip(queries, tables, strict=True)):
            grades = judged.get(query.qid, {})
            rows = forward.rows_of(list(grades))
            grade_of = {int(row): grade for row, grade in zip(rows, grades.values(), strict=True) if row >= 0 and grade > 0}
            y = np.array([grade_of.get(int(row), 0) for row in docs], dtype=np.float64)
            relevant, others = np.flatnonzero(y > 0), np.flatnonzero(y <= 0)
            if len(relevant) and len(others):
                if len(others) > negatives:
                    others = chance.choice(others, negatives, replace=False)
                kept = np.sort(np.concatenate([relevant, others]))
                parts.append((table[kept], y[kept], np.full(len(kept), number)))
            bar.update()
    if not parts:
        raise InputError("training: no query finds a relevant document, so there is nothing to learn")
    X, y, qid = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return X, y, qid


def _make_tables(queries: Sequence[Query], tables: FeatureTables) -> list[tuple[NDArray[np.int32], Floats]]:
    return tables.make(queries)
