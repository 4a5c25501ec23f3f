"""How a fusion is trained: what it learns from, the choice of a learner, and what is saved."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelsearch.clicks.importing import opened_log
from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.types import Query
from kernelsearch.learning.folds import related_groups
from kernelsearch.learning.ranking.choose import Best
from kernelsearch.learning.ranking.far_queries import find_far_queries
from kernelsearch.learning.ranking.fusers import CombSUM, Learner
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers.base import OpenedIndex, TrainingData
from kernelsearch.rerankers.fusion import FUSION
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion.features import SOURCES as SOURCES_FLAG
from kernelsearch.rerankers.fusion.features import of_kind, parse_recipe
from kernelsearch.rerankers.fusion.features.evidence import read_runs
from kernelsearch.rerankers.fusion.learners import ENOUGH_QUERIES, anchored_learner, fit_learner, log_choice, make_learner
from kernelsearch.rerankers.fusion.recipes import AUTO_WEIGHTS, PARTS, auto_weights, available, usable_vectors
from kernelsearch.rerankers.fusion.settings import RECIPE, FusionFitSettings
from kernelsearch.rerankers.fusion.training_queries import FILE, TrainingQueries, query_key
from kernelsearch.rerankers.fusion.training_table import FeaturePlan, TrainingTable, training_table

logger = logging.getLogger(__name__)


def fit_model(index: OpenedIndex, data: TrainingData, settings: FusionFitSettings) -> Path:
    """Learns from the judged topics or the click log of `data`, and saves the model with its recipe; returns its folder.

    `index` is what features are computed on, `settings` are the options of train.
    """
    # Made here first: an unknown learner is refused before the work. The table of features is normalised already.
    flag = Flag("learner", "fusion")
    named = make_learner(settings.learner, normalise="none", random_state=settings.random_state, option=flag)
    folder = data.folder(index, "fusion")
    plan = _plan(index, settings)
    topics, judged = training_topics(data)
    queries = index.lucene.queries(list(topics.values()), list(topics))
    training = TrainingQueries.of(queries, judged) if of_kind("votes", (*plan.recipe, *plan.sources)) else TrainingQueries()
    table = training_table(
        data.engine,
        FeaturePlan(
            index,
            plan.recipe,
            plan.sources,
            BM25Model(),
            training,
            settings.depth,
            "z",
            read_runs(settings.runs, Flag("runs", "fusion")),
        ),
        queries,
        judged,
        negatives=settings.negatives,
        random_state=settings.random_state,
        progress=data.progress,
    )
    learner, ranked_by_input = _learned(table, plan, queries, judged, settings, named)
    notes: dict[str, Any] = {
        "normalise": "z",
        "sources": list(plan.sources),
        "queries": len(np.unique(table.qid)),
        "rows": len(table.y),
        "trained_on": sorted({query_key(query) for query in queries}),
        **ranked_by_input,
    }
    files = {FILE: "".join(training.lines())} if training.queries else {}
    return models.save(folder, learner, plan.recipe, notes, files, index.fingerprint)


class _TrainingPlan(NamedTuple):
    """What a model is trained with."""

    recipe: tuple[str, ...]
    sources: tuple[str, ...]
    weights: dict[str, float]  #: those of `auto`, by features of the recipe, towards which weights are regularised
    vectors: str | None  #: the name of the vectors in the default recipe


def _plan(index: OpenedIndex, settings: FusionFitSettings) -> _TrainingPlan:
    """The recipe and the sources that `settings` name; the default recipe is extended by what `auto` uses on `index`."""
    recipe = parse_recipe(settings.features)
    sources = () if settings.sources == "none" else parse_recipe(settings.sources, SOURCES_FLAG)
    if settings.features != RECIPE:
        if settings.vectors is not None:
            raise OptionError(
                "is for the default recipe; ",
                Flag("features", "fusion"),
                " names dense:NAME itself",
                option=Flag("vectors", "fusion"),
            )
        return _TrainingPlan(recipe, sources, {name: AUTO_WEIGHTS[name] for name in AUTO_WEIGHTS if name in recipe}, None)
    vectors, part = usable_vectors(index, settings.vectors, FUSION.name)
    wanted = auto_weights(index, vectors)
    if vectors is not None:
        recipe = (*recipe, f"dense-rm:{vectors}")
        sources = tuple(dict.fromkeys((*sources, f"dense:{vectors}"))) if sources else sources
    elif PARTS in wanted:
        sources = (*sources, PARTS) if sources else sources
    offered, parts = available(tuple(dict.fromkeys((*recipe, *wanted))), index)
    for name, missing in (*parts, part):
        if missing is not None:
            logger.info("fusion: learns without %s: %s", name, missing)
    weights: dict[str, float] = {}
    for name, weight in wanted.items():
        if name in offered:
            weights[offered[name]] = weights.get(offered[name], 0.0) + weight
    return _TrainingPlan(tuple(dict.fromkeys(offered.values())), sources, weights, vectors)


def _learned(
    table: TrainingTable,
    plan: _TrainingPlan,
    queries: Sequence[Query],
    judged: Mapping[str, Mapping[str, int]],
    settings: FusionFitSettings,
    named: Learner,
) -> tuple[Learner, dict[str, Any]]:
    """The fitted learner, and notes for the model on the queries that an input ranks instead: all, those far away, or none.

    `table` has the features of `queries`, which were `judged`; `plan` says what they are, `settings` how to learn, and
    `named` is the unfitted learner that they name.
    """
    default_recipe = settings.features == RECIPE and plan.sources
    as_auto = {models.AS_AUTO: plan.vectors or "none"} if default_recipe else {}
    count = len(np.unique(table.qid))
    if settings.learner != "best":
        return fit_learner(named, table.X, table.y, table.qid), {}
    if count < ENOUGH_QUERIES and plan.weights:
        logger.info(
            "fusion: %s with a relevant candidate %s too few to learn from (%d are needed); auto's weights are used",
            *(("1 training query", "is") if count == 1 else (f"{count} training queries", "are")),
            ENOUGH_QUERIES,
        )
        known = CombSUM(weights=[plan.weights.get(name, 0.0) for name in plan.recipe], normalise="none")
        return known.fit(table.X, table.y, table.qid), as_auto
    best = _best_learner(table, plan, queries, judged, settings)
    nearness = [entry.nearness for entry in table.complete if entry.nearness is not None]
    far = find_far_queries(best.cases_, np.array(nearness).T, best.choice_, best.inputs, best.caution) if nearness else None
    if far is None:
        log_choice(best, FUSION.name, f"{count} queries")
        return best, as_auto if best.choice_ == "auto" else {}
    best.take(far.near, table.X, table.y, table.qid)
    log_choice(best, FUSION.name, f"{count} queries", far)
    weights = zip(plan.recipe, (best.candidates or {})[far.far].get_params()["weights"], strict=True)
    note = {models.LIMIT: far.limit, models.WEIGHTS: {name: weight for name, weight in weights if weight}}
    return best, {models.FAR: {**note, **(as_auto if far.far == "auto" else {}), "cross_validated": list(far.scores)}}


def _best_learner(
    table: TrainingTable,
    plan: _TrainingPlan,
    queries: Sequence[Query],
    judged: Mapping[str, Mapping[str, int]],
    settings: FusionFitSettings,
) -> Best:
    """The choice among the inputs and learned weights, fitted on `table`, whose `queries` were `judged`."""
    best = anchored_learner(plan.recipe, plan.weights, folds=settings.folds, random_state=settings.random_state)
    relevant = [[docid for docid, grade in judged.get(query.qid, {}).items() if grade > 0] for query in queries]
    groups = dict(enumerate(related_groups(relevant, -(-len(queries) // settings.folds)).tolist()))
    best.fit(table.X, table.y, table.qid, complete=table.complete, groups=groups)
    return best


def training_topics(data: TrainingData) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Topics {qid: text} and judgements {qid: {docid: grade}} of `data`; in a click log, clicked documents have grade 1.

    Raises InputError where no topic has a relevant document, OptionError where there is nothing to learn from.
    """
    if data.clicks is not None and (data.topics or data.qrels):
        raise OptionError(
            "has no effect with ",
            Flag("topics"),
            " and ",
            Flag("qrels"),
            ", from which fusion then learns",
            option=Flag("clicks"),
        )
    if data.topics and data.qrels:
        topics = {
            qid: text for qid, text in data.topics.items() if any(grade > 0 for grade in data.qrels.get(qid, {}).values())
        }
        if not topics:
            raise InputError("no training topic has a relevant document", option=Flag("qrels"))
        return topics, data.qrels
    if data.topics or data.qrels:
        missing, present = ("qrels", "topics") if data.topics else ("topics", "qrels")
        raise OptionError(
            "is needed with ",
            Flag(present),
            ": ",
            Flag("rerank", value="fusion"),
            " learns from both together",
            option=Flag(missing),
        )
    if data.clicks is None:
        parts = "learns from ", Flag("topics"), " and ", Flag("qrels"), ", or from ", Flag("clicks")
        raise OptionError(*parts, "; none was given", option=Flag("rerank", value="fusion"))
    with opened_log(data.clicks) as log:
        logged = list(log.all_queries())
        shown = log.shown(np.array([number for number, _ in logged], dtype=np.int64), clicked_only=True)
        judged: dict[str, dict[str, int]] = {str(number): {} for number, _ in logged}
        for number, docid in zip(shown.queries.tolist(), log.docids(shown.docs), strict=True):
            judged[str(number)][docid] = 1
    return {str(number): text for number, text in logged}, judged
