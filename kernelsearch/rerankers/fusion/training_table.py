"""The table that a fusion learns from: features of the training queries' candidates, made in parts by any engine."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import chunks
from kernelsearch.cli import console
from kernelsearch.core.errors import InputError
from kernelsearch.core.types import Query
from kernelsearch.engines import Engine, keep_open, opened_once
from kernelsearch.learning.ranking.lists import Lists, normalised
from kernelsearch.lucene.models import Model
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.training_memory import Memory, Recollection

Floats = NDArray[np.float64]

#: Queries of a part.
BATCH = 64


@dataclass(frozen=True)
class FeaturePlan:
    """What a worker needs to know to make the features of training queries as the driver would; it opens the index itself."""

    index: Index
    recipe: tuple[str, ...]
    sources: tuple[str, ...]
    model: Model
    memory: Memory
    depth: int
    normalise: str
    artefacts: str | None = None  #: KERNELSEARCH_ARTEFACTS of the driver

    @property
    def key(self) -> Hashable:
        index = self.index
        opened = (index.shards.given, index.fingerprint, index.language, self.artefacts)
        return "features", opened, self.recipe, self.sources, self.model, self.memory

    def open(self) -> Features:
        if self.artefacts is not None:
            os.environ["KERNELSEARCH_ARTEFACTS"] = self.artefacts
        recollection = Recollection(self.index, self.memory, leave_out=True)
        return Features(self.index, self.recipe, sources=self.sources, model=self.model, recollection=recollection)


def training_table(
    engine: Engine,
    plan: FeaturePlan,
    queries: Sequence[Query],
    judged: Mapping[str, Mapping[str, int]],
    *,
    negatives: int = 200,
    random_state: int = 0,
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """(X, y, qid): every relevant candidate and uniformly drawn others, normalised before the draw over the whole pool.

    Queries without a relevant candidate teach nothing and are left out. The draw is made here, query after query, so that it
    doesn't depend on who made the features.
    """
    # Opened here first: a recipe that names nothing is refused, and a missing basis is fitted once instead of by every worker.
    keep_open(plan.key, plan.open())
    chance, forward, parts = np.random.default_rng(random_state), plan.index.forward, []
    # Held, so that the plan with its memory of all queries goes to a worker once, and not with every part.
    held = engine.hold(_same, list(chunks(queries, BATCH)), label="queries")
    with console.progress(total=len(queries), label="features", unit="query") as bar:
        tables = (one for part in held.map(feature_tables, plan, label="table") for one in part)
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


def feature_tables(queries: Sequence[Query], plan: FeaturePlan) -> list[tuple[NDArray[np.int32], Floats]]:
    """The rows of each query's candidates and their normalised features, in this process."""
    features: Features = opened_once(plan.key, plan.open)
    lists = features.index.lucene.search(queries, plan.depth, model=plan.model)
    pools = features.pool(queries, lists, plan.depth)
    return [
        (pool.docs, normalised(table, Lists.of(np.zeros(pool.depth, dtype=np.int64)), plan.normalise))
        for pool, table in zip(pools, features.tables(queries, pools), strict=True)
    ]


def _same(value: Any) -> Any:
    return value
