"""`fusion`: learns the weights of kernels and methods from judgements or clicks.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation".
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.importing import opened_log
from kernelsearch.core.errors import ArtefactError, Flag, InputError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.learning.folds import related_groups
from kernelsearch.learning.ranking.choose import Best
from kernelsearch.learning.ranking.far_queries import find_far_queries
from kernelsearch.learning.ranking.fusers import CombSUM, Learner
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import (
    DEFAULT_CONTEXT,
    Context,
    Explanation,
    OpenedIndex,
    Reranker,
    TrainingData,
)
from kernelsearch.rerankers.fusion import FUSION
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion.base import FusedReranker, PooledReranker, apply_apart
from kernelsearch.rerankers.fusion.features import SOURCES as SOURCES_FLAG
from kernelsearch.rerankers.fusion.features import of_kind, parse_recipe
from kernelsearch.rerankers.fusion.features.evidence import read_runs
from kernelsearch.rerankers.fusion.inputs import Inputs
from kernelsearch.rerankers.fusion.learners import ENOUGH_QUERIES, anchored_learner, fit_learner, log_choice, make_learner
from kernelsearch.rerankers.fusion.recipes import (
    AUTO_WEIGHTS,
    PARTS,
    auto_weights,
    available,
    usable_vectors,
)
from kernelsearch.rerankers.fusion.settings import RECIPE, FusionFitSettings, FusionSettings
from kernelsearch.rerankers.fusion.training_queries import FILE, TrainingQueries, TrainingVotes
from kernelsearch.rerankers.fusion.training_table import FeaturePlan, TrainingTable, training_table

Floats = NDArray[np.float64]

logger = logging.getLogger(__name__)


class FusionReranker(PooledReranker[FusionSettings]):
    """Ranks with a model that `kernelsearch.train --rerank fusion` made, on this index or on another."""

    method = FUSION
    _training_votes: TrainingVotes | None = None

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        path = Path(self.settings.model or index.artefacts / "fusion")
        if self.settings.model is None and not path.exists():
            raise ArtefactError(
                f"no fusion is trained for it; train one with python -m kernelsearch.train {index.shards.flags} "
                "--rerank fusion --topics TOPICS --qrels QRELS, or use --rerank auto, which needs no training",
                path=index.name,
            )
        self._saved = index.opened(models.load, path)  # others share it as long as it is referred to
        flag = Flag("model", "fusion")
        if "normalise" not in self._saved.notes:
            raise OptionError(path, " was learned from a feature file, whose columns no index has", option=flag)
        # A run that is given for a feature must not be refused as one that has no effect.
        self.model = self._saved.effective(of_kind("run", self._saved.recipe, flag))
        self.learner, self.recipe = self.model.learner, self.model.recipe
        sources = tuple(self.model.notes["sources"])
        self._trained_on = frozenset(self.model.notes.get("trained_on", ()))
        if of_kind("votes", (*self.recipe, *sources), flag) or models.FAR in self.model.notes:
            self._training_votes = TrainingVotes(index, self._training_queries(path), leave_out=False)
        self.inputs = Inputs(
            index,
            self.recipe,
            sources=sources,
            depth=self.settings.depth,
            option=flag,
            normalise=self.model.notes["normalise"],
            training_votes=self._training_votes,
            runs=read_runs(self.settings.runs, Flag("runs", "fusion")),
        )
        self.features(DEFAULT_CONTEXT)  # a recipe that names an unknown feature is refused now, not at the first query
        self._input = self._make_input()

    def _make_input(self) -> Reranker[Any] | None:
        """The input that ranks in the place of learned weights: all queries, or those far from the training queries."""
        notes = self.model.notes
        if models.AS_AUTO in notes:
            return self._make_auto(notes[models.AS_AUTO])
        if models.FAR not in notes:
            return None
        far = notes[models.FAR]
        return self._make_auto(far[models.AS_AUTO]) if models.AS_AUTO in far else InputReranker(self, far[models.WEIGHTS])

    def _ranked_by_input(self, query: Query) -> bool:
        """Whether an input ranks `query`: one that was chosen for all queries, or for those far from the training queries."""
        far = self.model.notes.get(models.FAR)
        if far is None or self._training_votes is None:
            return self._input is not None
        return self._training_votes.nearness(query) < float(far[models.LIMIT])

    def _make_auto(self, vectors: str) -> Reranker[Any]:
        """The method `auto`, which ranks where its weights were chosen: its z-scores are those of fewer documents.

        The same weights over the whole pool gave .6% less than `auto` on npl (docs/reproductions/fusion.md).
        """
        auto = registry.method("auto")
        own_depth = next(option.default for option in auto.options if option.key == "depth")
        return auto.make(self.index, depth=min(self.settings.depth, own_depth), vectors=vectors)

    def _training_queries(self, path: Path) -> TrainingQueries:
        """The model's training queries; none where it was trained on another index.

        Docids are often plain numbers, so a foreign model's would vote for documents that share nothing but the number.
        """
        training = TrainingQueries.read(path)
        if not training.queries or self.model.fingerprint == self.index.fingerprint:
            return training
        logger.info(
            "fusion: %s was trained on another index (or the index has changed), so its training queries don't vote", path
        )
        return TrainingQueries()

    def importance(self) -> Floats:
        """Share of each feature in the model, shape (features,), summing to 1."""
        return self.model.importance()

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The reranked lists; the first query that the model was trained on is reported, since its figures are not held out."""
        if self._trained_on:
            overlapping = [query for query in queries if query_key(query) in self._trained_on]
            if overlapping:
                name = overlapping[0].qid or repr(overlapping[0].text)
                logger.warning(
                    "fusion: the model was trained on the words of query %s (and maybe others): not a held-out figure", name
                )
                self._trained_on = frozenset()
        chosen_input = self._input
        if chosen_input is None:
            return super().apply_batch(queries, lists, context)
        return apply_apart(
            queries,
            lists,
            [self._ranked_by_input(query) for query in queries],
            lambda queries, lists: chosen_input.apply_batch(queries, lists, context),
            lambda queries, lists: FusedReranker.apply_batch(self, queries, lists, context),
        )

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """Each feature's part of a document's score; the parts sum to it."""
        if self._input is None or not self._ranked_by_input(query):
            return super().explain(query, candidates, doc, context)
        from kernelsearch.rerankers.fusion.explanation import add_reason

        explanation = self._input.explain(query, candidates, doc, context)
        far = self.model.notes.get(models.FAR)
        if far is not None and self._training_votes is not None:
            add_reason(
                explanation,
                f"not by learned weights: the most similar training query has a cosine of "
                f"{self._training_votes.nearness(query):.2f}, and learned weights rank queries from {far[models.LIMIT]:g} on",
            )
        return explanation

    @classmethod
    def fit(cls, index: OpenedIndex, data: TrainingData, settings: FusionFitSettings) -> Path:
        """Learns from judged topics or from a click log, saves the model with its recipe and returns its folder."""
        # Made here first: an unknown learner is refused before the work. The table of features is normalised already.
        named = make_learner(settings.learner, normalise="none", random_state=settings.random_state)
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


class InputReranker(PooledReranker[FusionSettings]):
    """Ranks by an input of a trained fusion, a weighted sum of features: the first stage, the match, or auto's weights.

    `fusion` is the trained fusion, whose candidates and normalisation it shares; `weights` are {feature: weight}.
    """

    method = FUSION

    def __init__(self, fusion: FusionReranker, weights: Mapping[str, float]) -> None:
        super().__init__(fusion.index, **fusion.settings.to_dict())
        self.recipe = tuple(weights)
        self.learner = CombSUM(weights=list(weights.values()), normalise="none")
        own = fusion.inputs
        self.inputs = Inputs(
            fusion.index,
            self.recipe,
            sources=own.sources,
            depth=own.depth,
            option=own.option,
            normalise=own.normalise,
            training_votes=own.training_votes,
            runs=own.runs,
        )
        self.features(DEFAULT_CONTEXT)

    def importance(self) -> Floats:
        """Share of each feature in the sum of weights, shape (features,), summing to 1."""
        weights = np.asarray(self.learner.get_params()["weights"], dtype=np.float64)
        return np.asarray(weights / weights.sum())


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


def query_key(query: Query) -> str:
    """A short hash of a query's terms and weights, by which a model recognises its training queries."""
    text = "\x1f".join(f"{term}={weight:g}" for term, weight in sorted(zip(query.terms, query.weights, strict=True)))
    return hashlib.blake2b(text.encode("utf-8", errors="replace"), digest_size=6).hexdigest()


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
