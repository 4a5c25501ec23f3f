"""From a query and its first-stage list to a weighted query: feedback terms, their kernel, the program's choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.kernels import perturbation, relevance
from kernelsearch.kernels.ranking_models import document_weights, first_stage_term_scores
from kernelsearch.learning.programs.expansion import ExpansionProgram
from kernelsearch.lucene.models import Model
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.rerankers.pert.settings import PerturbationSettings

Floats = NDArray[np.float64]
NOTHING: Floats = np.zeros((0, 0))


@dataclass(frozen=True)
class Choice:
    """What the kernel and the program make of the words of an expansion."""

    x: Floats  #: the program's choice, shape (words,)
    coordinates: Floats = field(default_factory=lambda: NOTHING)  #: perturbation features, shape (words, variants)
    apart: Floats = field(default_factory=lambda: NOTHING)  #: distances of the kernel, shape (words, words)
    quadratic: Floats = field(default_factory=lambda: NOTHING)  #: kappa (S + gamma diag r), shape (words, words)
    variants: tuple[str, ...] = ()  #: what each variant of the query is, such as "without 'tap'"

    @property
    def risk(self) -> Floats:
        """Each term's share of the program's risk, x_i (Hx)_i / 2, shape (words,); they sum to x'Hx / 2."""
        return self.x * (self.quadratic @ self.x) / 2.0 if len(self.quadratic) else np.zeros(len(self.x))


@dataclass(frozen=True)
class PertExpansion:
    """The terms that a query is expanded with, and all that an explanation needs.

    Where the method keeps all query terms, arrays over words begin with them.
    """

    query: Query
    words: tuple[str, ...]
    terms: NDArray[np.int64]  #: term numbers, shape (words,)
    query_terms: int  #: number of the query's own terms, which come first
    p: Floats  #: probabilities of the relevance model, shape (words,)
    weights: Floats  #: weights of the expansion, shape (words,), summing to 1
    gain: Floats  #: the program's c, shape (words,)
    docs: NDArray[np.int32]  #: rows of the feedback documents, shape (docs,)
    document_weights: Floats  #: p(d|q) of the feedback documents, shape (docs,)
    choice: Choice

    def mixed(self, alpha: float) -> Query:
        """The query (1 - alpha) query + alpha expansion, both scaled to sum 1; terms of weight 0 are left out."""
        total = sum(self.query.weights)
        mixture = {
            term: (1.0 - alpha) * weight / total for term, weight in zip(self.query.terms, self.query.weights, strict=True)
        }
        for word, weight in zip(self.words, self.weights.tolist(), strict=True):
            mixture[word] = mixture.get(word, 0.0) + alpha * weight
        positive = {word: weight for word, weight in mixture.items() if weight > 0}
        return Query(self.query.text, tuple(positive), tuple(positive.values()), self.query.qid)


@dataclass(frozen=True)
class Feedback:
    """What an expansion starts from: `known` says which terms of the query the index has, `own` are their numbers.

    `docs` are the rows of the feedback documents and `weights` their p(d|q), both of shape (docs,).
    """

    known: NDArray[np.bool_]
    own: NDArray[np.int64]
    docs: NDArray[np.int32]
    weights: Floats


class PertExpander:
    """Computes expansions on the index `forward` with the method's `settings`."""

    #: Share of the collection's model in relevance models, and candidates that the variants' feedback documents come from.
    smoothing, pool = 0.01, 200

    def __init__(self, forward: ForwardIndex, settings: PerturbationSettings) -> None:
        self.forward = forward
        self.settings = settings
        self.usable = relevance.usable_words(forward, settings.max_df)
        self.program = ExpansionProgram(risk=settings.kappa)

    def needs_single_terms(self, query: Query) -> bool:
        """Whether the variants are single terms, whose best documents mostly lie outside the query's list.

        A term of two that is left out leaves the other one.
        """
        return int((self.forward.term_ids(query.terms) >= 0).sum()) == 2

    def expand(
        self, query: Query, candidates: Candidates, model: Model, single_terms: Sequence[Candidates] | None = None
    ) -> PertExpansion:
        """The expansion of `query` from its list `candidates` under `model`; CannotAct where no document or term can be used.

        `single_terms` are the lists of the query's terms alone, where those are the variants; otherwise the variants' lists are
        computed from the query's own list.
        """
        feedback = self.feedback(query, candidates)
        own = feedback.own
        found = relevance.feedback_words(self.forward, feedback.docs, feedback.weights, self.usable)
        fresh = relevance.strongest(found, self.settings.terms, without=own)
        terms = np.concatenate([own, fresh.terms])
        words = (*compress(query.terms, feedback.known), *self.forward.words(fresh.terms))
        docs, weights = self._variants(query, feedback, candidates, model, single_terms)
        models = relevance.smoothed_models(self.forward, docs, weights, terms, self.smoothing)
        p = models[0]
        gain = np.minimum(1.0, p / (p[len(own) :].max() if len(fresh.terms) else p.max()))
        choice = self.choose(words, terms, docs, models, gain, len(own))
        mass = choice.x * p
        return PertExpansion(query, words, terms, len(own), p, mass / mass.sum(), gain, feedback.docs, feedback.weights, choice)

    def feedback(self, query: Query, candidates: Candidates) -> Feedback:
        """The known terms of `query` and the best documents of `candidates`; CannotAct where there are none."""
        numbers = self.forward.term_ids(query.terms).astype(np.int64)
        known = numbers >= 0
        if not known.any() or not candidates.depth or sum(query.weights) <= 0:
            raise CannotAct("no document matches the query")
        docs = candidates.docs[: self.settings.docs]
        scores = np.asarray(candidates.scores[: len(docs)], dtype=np.float64)
        return Feedback(known, numbers[known], docs, self.document_weights(scores)[0])

    def document_weights(self, scores: Floats) -> Floats:
        """p(d|q) of the feedback documents of each list, shape (lists, documents), by their `scores`."""
        return document_weights(scores, self.settings.docs)

    def multipliers(self, query: Query, known: NDArray[np.bool_]) -> Floats:
        """The perturbations of `query` over its `known` terms, shape (variants, terms)."""
        return perturbation.leave_one_out(int(known.sum()))

    def choose(
        self, words: tuple[str, ...], terms: NDArray[np.int64], docs: NDArray[np.int32], models: Floats, gain: Floats, own: int
    ) -> Choice:
        """What the program chooses of the `words`, numbered `terms`, the first `own` of which are the query's.

        `models` (1 + variants, words) are the relevance models of the query and its variants over the documents `docs`, `gain`
        is the relevance of each word.
        """
        coordinates = perturbation.features(models[0], models[1:])
        apart = perturbation.distances(perturbation.gram(coordinates))
        quadratic = self.program.quadratic(perturbation.similarity(apart), apart, own)
        variants = tuple(f"without {word!r}" for word in words[:own])
        return Choice(self.program.solve(gain, quadratic, own), coordinates, apart, quadratic, variants)

    def _variants(
        self, query: Query, feedback: Feedback, candidates: Candidates, model: Model, single_terms: Sequence[Candidates] | None
    ) -> tuple[NDArray[np.int32], Floats]:
        """Documents and their weights in the models of the query, first, and of its variants: (docs,), (1 + variants, docs)."""
        multipliers = self.multipliers(query, feedback.known)
        if single_terms is not None:
            alone = list(compress(single_terms, feedback.known))
            return self._joined(feedback, [alone[int(row.argmax())] for row in multipliers])
        pool = candidates.docs[: max(self.pool, len(feedback.docs))]
        parts = first_stage_term_scores(self.forward, model, feedback.own, np.asarray(query.weights)[feedback.known], pool)
        scores = np.asarray(candidates.scores[: len(pool)], dtype=np.float64)
        table = np.zeros((1 + len(multipliers), len(pool)))
        table[0, : len(feedback.docs)] = feedback.weights
        table[1:] = self.document_weights(perturbation.variant_scores(scores, parts, multipliers))
        used = np.flatnonzero(table.any(axis=0))
        return pool[used], table[:, used]

    def _joined(self, feedback: Feedback, lists: Sequence[Candidates]) -> tuple[NDArray[np.int32], Floats]:
        """As `_variants`, from the feedback documents and the variants' own `lists`."""
        weighted = [(feedback.docs, feedback.weights)]
        for listed in lists:
            weighted.append((listed.docs, self.document_weights(np.asarray(listed.scores, dtype=np.float64))[0]))
        docs = np.unique(np.concatenate([found for found, _ in weighted]))
        table = np.zeros((len(weighted), len(docs)))
        for row, (found, weights) in zip(table, weighted, strict=True):
            row[np.searchsorted(docs, found)] = weights
        used = np.flatnonzero(table.any(axis=0))
        return docs[used].astype(np.int32), table[:, used]
