"""`fusion`: learns how much each kernel and method should count, from judgements, clicks or a file of features.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation".
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.index import Index
from kernelsearch.cli import console
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.options import Option, resolve
from kernelsearch.engines import Engine
from kernelsearch.learning.ranking.choose import LEARNERS, Best
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.letor import read_letor
from kernelsearch.learning.ranking.lists import NORMALISATIONS, Lists, mean_average_precision, precisions
from kernelsearch.learning.ranking.simlistmkl import SimListMKL
from kernelsearch.lucene.models import BM25
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.fusion.features import parse_recipe
from kernelsearch.rerankers.fusion.fused import FusedReranker
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion.training_memory import FILE, Memory, Recollection
from kernelsearch.rerankers.fusion.training_table import FeaturePlan, training_table

Floats = NDArray[np.float64]

RECIPE = (
    "first bm25:k1=1.2,b=0.75 bm25:k1=2,b=0.75 dirichlet:mu=1000 dirichlet:mu=100 jm:lam=0.1 cosine "
    "bm25:field=title cosine:field=title rm3 rm3:terms=40 rocchio pert top:docs=1 top:docs=5 top:docs=20 "
    "klsa:z=1,lambda=1 klsa:z=5,lambda=1 klsa:z=10,lambda=1 klsa:z=20,lambda=1 klsa:z=50,lambda=1 votes"
)
SOURCES = "rm3 rocchio votes"
SAVABLE = tuple(name for name in LEARNERS if name != "exact")


class FusionReranker(FusedReranker):
    """Ranks with a model that `kernelsearch.train --rerank fusion` made, on this index or on another."""

    name = "fusion"
    summary = "a learned fusion of kernels, feedback and other methods"
    options = (
        Option("model", str, None, "folder of the model; default: beside the index"),
        Option("depth", int, 1000, "candidates of each first stage that are fused", low=1),
    )
    fit_options = (
        Option("features", str, RECIPE, "the recipe: features separated by spaces"),
        Option("sources", str, SOURCES, "features that bring candidates too, separated by spaces; none: the first stage alone"),
        Option("learner", str, "best", "best chooses by cross-validation", choices=("best", *SAVABLE)),
        Option("normalise", str, "z", "features within a query", choices=NORMALISATIONS),
        Option("depth", int, 1000, "candidates of each first stage that are learned from", low=1),
        Option("negatives", int, 200, "documents not judged relevant that are drawn for each query", low=1),
        Option("folds", int, 5, "of learner best", low=2),
        Option("random-state", int, 0, "seed", low=0),
        Option("k1", float, 0.9, "k1 of the first stage in training", low=0),
        Option("b", float, 0.4, "b of the first stage in training", low=0, high=1),
    )

    def __init__(self, index: Index, **options: Any) -> None:
        super().__init__(index, **options)
        path = Path(self.settings["model"] or index.artefacts / "fusion")
        self.model = models.load(path)
        if "normalise" not in self.model.notes:
            raise OptionError(f"--fusion.model: {path} was learned from a feature file, whose columns no index has")
        self.learner, self.recipe = self.model.learner, self.model.recipe
        self.sources, self.normalise = tuple(self.model.notes["sources"]), self.model.notes["normalise"]
        if "votes" in kinds(self.recipe, self.sources):
            self.recollection = Recollection(index, Memory.read(path), leave_out=False)
        self.features()  # a recipe that names an unknown feature is refused now, not at the first query

    def importance(self) -> Floats:
        return self.model.importance()

    @classmethod
    def fit(cls, index: Index, data: TrainingData, **options: Any) -> Path:
        """Learns from judged topics or from a click log and saves the model with its recipe."""
        given = resolve(cls.fit_options, options, cls.name)
        recipe = parse_recipe(given["features"])
        sources = () if given["sources"] == "none" else parse_recipe(given["sources"], "--fusion.sources")
        topics, judged = training_topics(data)
        queries = index.lucene.queries(list(topics.values()), list(topics))
        memory = Memory.of(queries, judged) if "votes" in kinds(recipe, sources) else Memory()
        plan = FeaturePlan(
            index,
            recipe,
            sources,
            BM25(given["k1"], given["b"]),
            memory,
            given["depth"],
            given["normalise"],
            artefacts=os.environ.get("KERNELSEARCH_ARTEFACTS"),
        )
        chance = {"negatives": given["negatives"], "random_state": given["random_state"]}
        X, y, qid = training_table(data.engine, plan, queries, judged, **chance)
        learner = learn(make_learner(given, normalise="none"), X, y, qid, data.engine)
        report(learner, len(np.unique(qid)))
        notes = {"normalise": given["normalise"], "sources": list(sources), "queries": len(np.unique(qid)), "rows": len(y)}
        files = {FILE: "".join(memory.lines())} if memory.queries else {}
        return models.save(data.output or index.artefacts / "fusion", learner, recipe, notes, files)

    @classmethod
    def fit_features(cls, data: TrainingData, **options: Any) -> Path:
        """Learns from a LETOR file; with a second one, says how well the model ranks it."""
        given = resolve(cls.fit_options, options, cls.name)
        assert data.ltr is not None
        if data.output is None:
            raise OptionError("--output is not given: a model learned from a feature file belongs to no index")
        table = read_letor(data.ltr)
        learner = learn(make_learner(given, normalise=given["normalise"]), table.X, table.y, table.qid, data.engine)
        report(learner, len(np.unique(table.qid)))
        recipe = [f"column:{number}" for number in range(1, table.X.shape[1] + 1)]
        saved = models.save(data.output, learner, recipe, {"rows": len(table.y), "queries": len(np.unique(table.qid))})
        if data.ltr_test is not None:
            test = read_letor(data.ltr_test, table.X.shape[1])
            lists, scores = Lists.of(test.qid), models.load(saved).learner.predict(test.X, test.qid)
            at = precisions(scores, test.y, lists).mean(axis=0)
            rows = [
                (str(data.ltr_test), f"{mean_average_precision(scores, test.y, lists):.4f}", f"{at[0]:.4f}", f"{at[9]:.4f}")
            ]
            print(console.table(("file", "AP", "P@1", "P@10"), rows))
        return saved


def kinds(*recipes: Sequence[str]) -> set[str]:
    """The kinds of features that recipes name."""
    return {name.partition(":")[0] for recipe in recipes for name in recipe}


def make_learner(given: Mapping[str, Any], normalise: str) -> Learner:
    """The learner that the options ask for."""
    if given["learner"] == "best":
        return Best(folds=given["folds"], normalise=normalise, random_state=given["random_state"])
    kind = LEARNERS[given["learner"]]
    known = kind().parameters()
    return kind(
        **{key: value for key, value in (("normalise", normalise), ("random_state", given["random_state"])) if key in known}
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
        console.notice(f"fusion: chose {learner.chosen_.name} on {queries} queries (cross-validated MAP: {tried})")


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
