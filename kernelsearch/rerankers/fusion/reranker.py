"""`fusion`: learns how much each kernel and method should count, from judgements, clicks or a file of features.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation".
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.execution import Engine
from kernelsearch.learning.ranking.choose import LEARNERS, Best
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.letor import read_letor
from kernelsearch.learning.ranking.lists import Lists, mean_average_precision, precisions
from kernelsearch.learning.ranking.simlistmkl import SimListMKL
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, FittedFeatures, OpenedIndex, TrainingData
from kernelsearch.rerankers.fusion import FUSION
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion.features import parse_recipe
from kernelsearch.rerankers.fusion.fused import FusedReranker
from kernelsearch.rerankers.fusion.settings import FusionFitSettings, FusionSettings
from kernelsearch.rerankers.fusion.training_memory import FILE, Memory, Recollection
from kernelsearch.rerankers.fusion.training_table import FeaturePlan, training_table

Floats = NDArray[np.float64]

logger = logging.getLogger(__name__)


class FusionReranker(FusedReranker[FusionSettings]):
    """Ranks with a model that `kernelsearch.train --rerank fusion` made, on this index or on another."""

    method = FUSION

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        path = Path(self.settings.model or index.artefacts / "fusion")
        self.model = models.load(path)
        if "normalise" not in self.model.notes:
            raise OptionError(f"--fusion.model: {path} was learned from a feature file, whose columns no index has")
        self.learner, self.recipe = self.model.learner, self.model.recipe
        self.sources, self.normalise = tuple(self.model.notes["sources"]), self.model.notes["normalise"]
        if "votes" in kinds(self.recipe, self.sources):
            self.recollection = Recollection(index, Memory.read(path), leave_out=False)
        self.features(DEFAULT_CONTEXT)  # a recipe that names an unknown feature is refused now, not at the first query

    def importance(self) -> Floats:
        return self.model.importance()

    @classmethod
    def fit(cls, index: OpenedIndex, data: TrainingData, settings: FusionFitSettings) -> Path:
        """Learns from judged topics or from a click log and saves the model with its recipe."""
        recipe = parse_recipe(settings.features)
        sources = () if settings.sources == "none" else parse_recipe(settings.sources, "--fusion.sources")
        topics, judged = training_topics(data)
        queries = index.lucene.queries(list(topics.values()), list(topics))
        memory = Memory.of(queries, judged) if "votes" in kinds(recipe, sources) else Memory()
        plan = FeaturePlan(
            index,
            recipe,
            sources,
            BM25Model(settings.k1, settings.b),
            memory,
            settings.depth,
            settings.normalise,
        )
        chance = {"negatives": settings.negatives, "random_state": settings.random_state}
        X, y, qid = training_table(data.engine, plan, queries, judged, progress=data.progress, **chance)
        learner = learn(make_learner(settings, normalise="none"), X, y, qid, data.engine)
        report(learner, len(np.unique(qid)))
        notes = {"normalise": settings.normalise, "sources": list(sources), "queries": len(np.unique(qid)), "rows": len(y)}
        files = {FILE: "".join(memory.lines())} if memory.queries else {}
        return models.save(data.output or index.artefacts / "fusion", learner, recipe, notes, files)

    @classmethod
    def fit_features(cls, data: TrainingData, settings: FusionFitSettings) -> FittedFeatures:
        """Learns from a LETOR file; with a second one, says how well the model ranks it."""
        assert data.ltr is not None
        if data.output is None:
            raise OptionError("--output is not given: a model learned from a feature file belongs to no index")
        table = read_letor(data.ltr)
        learner = learn(make_learner(settings, normalise=settings.normalise), table.X, table.y, table.qid, data.engine)
        report(learner, len(np.unique(table.qid)))
        recipe = [f"column:{number}" for number in range(1, table.X.shape[1] + 1)]
        saved = models.save(data.output, learner, recipe, {"rows": len(table.y), "queries": len(np.unique(table.qid))})
        measures = {}
        if data.ltr_test is not None:
            test = read_letor(data.ltr_test, table.X.shape[1])
            lists, scores = Lists.of(test.qid), models.load(saved).learner.predict(test.X, test.qid)
            at = precisions(scores, test.y, lists).mean(axis=0)
            found = (mean_average_precision(scores, test.y, lists), float(at[0]), float(at[9]))
            measures = dict(zip(("AP", "P@1", "P@10"), found, strict=True))
        return FittedFeatures(saved, measures)


def kinds(*recipes: Sequence[str]) -> set[str]:
    """The kinds of features that recipes name."""
    return {name.partition(":")[0] for recipe in recipes for name in recipe}


def make_learner(settings: FusionFitSettings, normalise: str) -> Learner:
    """The learner that the options ask for."""
    if settings.learner == "best":
        return Best(folds=settings.folds, normalise=normalise, random_state=settings.random_state)
    kind = LEARNERS[settings.learner]
    known = kind().parameters()
    return kind(
        **{key: value for key, value in (("normalise", normalise), ("random_state", settings.random_state)) if key in known}
    )


def learn(learner: Learner, X: Floats, y: Floats, qid: NDArray[Any], engine: Engine) -> Learner:
    """Fits a learner; on an engine's Dask workers where it can make use of them (simlistmkl's trees)."""
    if engine.client is None or not isinstance(learner, SimListMKL):
        return learner.fit(X, y, qid)
    return learner.fit(X, y, qid, client=engine.client)


def report(learner: Learner, queries: int) -> None:
    """Says which learner was chosen and why."""
    if isinstance(learner, Best):
        tried = ", ".join(f"{name} {score:.4f}" for name, score in learner.scores_.items())
        logger.info("fusion: chose %s on %d queries (cross-validated MAP: %s)", learner.chosen_.name, queries, tried)


def training_topics(data: TrainingData) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Topics and judgements, {qid: {docid: grade}}; in a click log, clicked documents are the relevant ones."""
    if data.topics and data.qrels:
        topics = {
            qid: text for qid, text in data.topics.items() if any(grade > 0 for grade in data.qrels.get(qid, {}).values())
        }
        if not topics:
            raise InputError("--qrels: no training topic has a relevant document")
        return topics, data.qrels
    if data.clicks is None:
        raise OptionError("--rerank fusion: learns from --topics and --qrels, from --clicks, or from --ltr; none was given")
    from kernelsearch.clicks.store import ClickLog

    log = ClickLog(data.clicks)
    asked = list(log.all_queries())
    shown = log.shown(np.array([number for number, _ in asked], dtype=np.int64), clicked_only=True)
    judged: dict[str, dict[str, int]] = {str(number): {} for number, _ in asked}
    for number, docid in zip(shown.queries.tolist(), log.docids(shown.docs), strict=True):
        judged[str(number)][docid] = 1
    return {str(number): text for number, text in asked}, judged
