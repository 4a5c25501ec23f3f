"""`fusion`: learns the weights of kernels and methods from judgements or clicks.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import ArtefactError, Flag, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.learning.ranking.fusers import CombSUM
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
from kernelsearch.rerankers.fusion.features import of_kind
from kernelsearch.rerankers.fusion.features.evidence import read_runs
from kernelsearch.rerankers.fusion.inputs import Inputs
from kernelsearch.rerankers.fusion.settings import FusionFitSettings, FusionSettings
from kernelsearch.rerankers.fusion.training_queries import TrainingQueries, TrainingVotes, query_key

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
        from kernelsearch.rerankers.fusion.training import fit_model

        return fit_model(index, data, settings)


class InputReranker(PooledReranker[FusionSettings]):
    """Ranks by an input of a trained fusion, a weighted sum of features: the first stage, the match, or auto's weights.

    `fusion` is the trained fusion, whose candidates and normalisation it shares; `weights` are {feature: weight}.
    """

    method = FUSION

    def __init__(self, fusion: FusionReranker, weights: Mapping[str, float]) -> None:
        super().__init__(fusion.index, **fusion.settings.to_dict())
        self.recipe = tuple(weights)
        self.learner = CombSUM(weights=list(weights.values()), normalise="none")
        self.inputs = fusion.inputs.of_recipe(self.recipe)
        self.features(DEFAULT_CONTEXT)

    def importance(self) -> Floats:
        """Share of each feature in the sum of weights, shape (features,), summing to 1."""
        weights = np.asarray(self.learner.get_params()["weights"], dtype=np.float64)
        return np.asarray(weights / weights.sum())
