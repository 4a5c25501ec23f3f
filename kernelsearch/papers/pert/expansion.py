"""The expansions of `pert-paper`: those of `pert` with each of its steps exchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.kernels import perturbation, relevance
from kernelsearch.kernels.ranking_models import best_scores, document_weights, shares_of_best
from kernelsearch.lucene.models import Model
from kernelsearch.papers.pert import kernels, local_context
from kernelsearch.papers.pert.active_set import Infeasible
from kernelsearch.papers.pert.program import ConstrainedProgram
from kernelsearch.papers.pert.settings import PaperPerturbationSettings
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.rerankers.pert.expansion import NOTHING, Choice, Floats, PertExpander, PertExpansion


class PaperExpander(PertExpander):
    """Computes expansions on the index `forward` with the method's `settings`."""

    settings: PaperPerturbationSettings

    def __init__(self, forward: ForwardIndex, settings: PaperPerturbationSettings) -> None:
        super().__init__(forward, settings)
        self.smoothing, self.pool = settings.smoothing, settings.pool
        self.constrained = ConstrainedProgram(
            risk=settings.kappa,
            strangeness=settings.gamma,
            support=settings.support,
            balance=settings.balance,
            coverage=settings.coverage,
            budget=settings.budget,
        )
        self.perturbations = kernels.read_perturbations(settings.perturbations) if settings.perturbations else {}
        self.perturbed = settings.method == "program" and settings.kernel in ("perturbation", "gram")

    def needs_single_terms(self, query: Query) -> bool:
        """Whether variants are single terms: always one at a time, and where one of two is left out."""
        if self.perturbations or not self.perturbed or self.settings.strategy == "dirichlet":
            return False
        return self.settings.strategy == "tat" or super().needs_single_terms(query)

    def expand(
        self, query: Query, candidates: Candidates, model: Model, single_terms: Sequence[Candidates] | None = None
    ) -> PertExpansion:
        """The expansion of `query`, as `PertExpander.expand`, or by words of the feedback documents alone.

        The parameters are those of `PertExpander.expand`.
        """
        if self.settings.method in ("program", "rm3-all"):
            return super().expand(query, candidates, model, single_terms)
        found, count = self.feedback(query, candidates), self.settings.terms
        if self.settings.method == "lca":
            beliefs = local_context.beliefs(self.forward, found.docs, found.own, self.usable)
            best = relevance.strongest(beliefs, count)
            shares = local_context.rank_weights(len(best.terms))
        else:  # Anserini's relevance model: without smoothing and the query's terms
            words = kernels.truncated_feedback_words(self.forward, found.docs, found.weights, self.usable, count)
            best = relevance.strongest(words, count)
            shares = best.p
        if not len(best.terms):
            raise CannotAct("the feedback documents have no usable word")
        strings, ones = tuple(self.forward.words(best.terms)), np.ones(len(best.p))
        return PertExpansion(
            query, strings, best.terms, 0, best.p, shares / shares.sum(), ones, found.docs, found.weights, Choice(ones)
        )

    def document_weights(self, scores: Floats) -> Floats:
        """p(d|q) by --pert-paper.weighting: a softmax, proportional to the score as in Anserini, or all the same."""
        docs, weighting = self.settings.docs, self.settings.weighting
        if weighting == "softmax":
            return document_weights(scores, docs, self.settings.temperature)
        best, top = best_scores(scores, docs)
        return shares_of_best(
            scores, best, np.maximum(top, 0.0) if weighting == "score" else np.isfinite(top).astype(np.float64)
        )

    def multipliers(self, query: Query, known: NDArray[np.bool_]) -> Floats:
        """The perturbations of `query` over its `known` terms, shape (variants, terms); none for kernels without any."""
        settings = self.settings
        if not self.perturbed:
            return np.zeros((0, int(known.sum())))
        if not self.perturbations:
            return kernels.perturbations(settings.strategy, int(known.sum()), draws=settings.draws, seed=settings.seed)
        if query.qid not in self.perturbations:
            raise CannotAct("the file of perturbations has no weights for the query")
        multipliers = self.perturbations[query.qid]
        if multipliers.shape[1] != len(known):
            raise InputError(
                f"query {query.qid} has {len(known)} terms ({' '.join(query.terms)}), {multipliers.shape[1]} "
                "weights were given",
                path=settings.perturbations,
            )
        return multipliers[:, known]

    def choose(
        self, words: tuple[str, ...], terms: NDArray[np.int64], docs: NDArray[np.int32], models: Floats, gain: Floats, own: int
    ) -> Choice:
        """What the program chooses with the kernel of the settings; every word without a program.

        The parameters are those of `PertExpander.choose`.
        """
        settings, program = self.settings, self.constrained
        if settings.method == "rm3-all":
            return Choice(np.ones(len(words)))
        coordinates, similar = NOTHING, None
        if self.perturbed:
            coordinates = perturbation.features(models[0], models[1:])
            if settings.denominator == "p":
                coordinates /= np.sqrt(models[0])[:, None]
            products = perturbation.gram(coordinates)
            apart = perturbation.distances(products)
            similar = kernels.covariance(products) if settings.kernel == "gram" else None
        elif settings.kernel == "jaccard":
            apart = kernels.jaccard_distances(self.forward.term_frequencies(docs, terms) > 0)
        else:
            apart = kernels.random_distances(len(words), seed=settings.seed)
        similar = perturbation.similarity(apart) if similar is None else similar
        quadratic = program.quadratic(similar, apart, own)
        try:
            x = program.solve_with_rows(gain, quadratic, own, similar)
        except Infeasible:
            raise CannotAct("the expansion program's constraints contradict each other") from None
        return Choice(x, coordinates, apart, quadratic, self._names(words[:own], coordinates.shape[1]))

    def _names(self, words: tuple[str, ...], variants: int) -> tuple[str, ...]:
        """What each of the `variants` of a query of these words is."""
        if self.perturbations or self.settings.strategy == "dirichlet":
            return tuple(f"variant {number}" for number in range(1, variants + 1))
        return tuple(f"without {word!r}" if self.settings.strategy == "loo" else f"{word!r} alone" for word in words)
