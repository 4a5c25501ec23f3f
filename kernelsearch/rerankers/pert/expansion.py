"""From a query and its first-stage list to a weighted query: feedback terms, their kernel, the program's choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import lines, to_number
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.kernels import local_context, perturbation, relevance
from kernelsearch.kernels.ranking_models import document_weights, first_stage_term_scores
from kernelsearch.learning.programs.active_set import Infeasible
from kernelsearch.learning.programs.expansion import ExpansionProgram
from kernelsearch.lucene.models import Model
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.rerankers.pert.settings import PerturbationSettings

Floats = NDArray[np.float64]
NOTHING: Floats = np.zeros((0, 0))


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
    choice: Floats  #: the program's x, shape (words,); ones without a program
    gain: Floats  #: the program's c, shape (words,)
    docs: NDArray[np.int32]  #: rows of the feedback documents, shape (docs,)
    document_weights: Floats  #: p(d|q) of the feedback documents, shape (docs,)
    coordinates: Floats = field(default_factory=lambda: NOTHING)  #: perturbation features, shape (words, variants)
    apart: Floats = field(default_factory=lambda: NOTHING)  #: distances of the kernel, shape (words, words)
    quadratic: Floats = field(default_factory=lambda: NOTHING)  #: kappa (S + gamma diag r), shape (words, words)

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

    @property
    def risk(self) -> Floats:
        """Each term's share of the program's risk, x_i (Hx)_i / 2, shape (words,); they sum to x'Hx / 2."""
        return self.choice * (self.quadratic @ self.choice) / 2.0 if len(self.quadratic) else np.zeros(len(self.words))


def read_perturbations(path: str) -> dict[str, Floats]:
    """Reads perturbations from the file `path`: {qid: multipliers of shape (variants, terms)}.

    A line is one variant: the qid, a tab, and a multiplier per distinct analysed term of the query, in their order, separated
    by spaces: 0 leaves a term out, 1 keeps it, 2 doubles it. Raises InputError, which names the line, for anything else.
    """
    by_qid: dict[str, list[list[float]]] = {}
    for number, line in lines(path):
        if not line.strip():
            continue
        qid, _, rest = line.partition("\t")
        try:
            row = [to_number(value) for value in rest.split()]
        except ValueError:
            row = []
        if not row or not all(0 <= value < np.inf for value in row):
            raise InputError(f"{path}:{number}: not a qid, a tab and weights of zero or more")
        if qid in by_qid and len(by_qid[qid][0]) != len(row):
            raise InputError(f"{path}:{number}: {len(row)} weights where query {qid} had {len(by_qid[qid][0])} before")
        by_qid.setdefault(qid, []).append(row)
    if not by_qid:
        raise InputError("holds no perturbation", path=path)
    return {qid: np.array(rows) for qid, rows in by_qid.items()}


class PertExpander:
    """Computes expansions on the index `forward` with the method's `settings` and `perturbations` by qid, if any."""

    def __init__(
        self, forward: ForwardIndex, settings: PerturbationSettings, perturbations: dict[str, Floats] | None = None
    ) -> None:
        self.forward = forward
        self.settings = settings
        self.perturbations = perturbations or {}
        self.usable = relevance.usable_words(forward, settings.max_df)
        self.program = ExpansionProgram(
            risk=settings.kappa,
            strangeness=settings.gamma,
            support=settings.support,
            balance=settings.balance,
            coverage=settings.coverage,
            budget=settings.budget,
        )

    def needs_single_terms(self, query: Query) -> bool:
        """Whether variants are single terms, whose best documents mostly lie outside the query's list.

        A term of two that is left out leaves the other one.
        """
        if self.perturbations or not self._perturbed:
            return False
        strategy = self.settings.strategy
        return strategy == "tat" or (strategy == "loo" and int((self.forward.term_ids(query.terms) >= 0).sum()) == 2)

    @property
    def _perturbed(self) -> bool:
        return self.settings.method == "program" and self.settings.kernel in ("perturbation", "gram")

    def expand(
        self, query: Query, candidates: Candidates, model: Model, single_terms: Sequence[Candidates] | None = None
    ) -> PertExpansion:
        """The expansion of `query` from its list `candidates` under `model`; CannotAct where no document or term can be used.

        `single_terms` are the lists of the query's terms alone, where those are the variants; otherwise the variants' lists are
        computed from the query's own list.
        """
        terms = self.forward.term_ids(query.terms).astype(np.int64)
        known = terms >= 0
        if not known.any() or not candidates.depth or sum(query.weights) <= 0:
            raise CannotAct("no document matches the query")
        docs = candidates.docs[: self.settings.docs]
        scores = np.asarray(candidates.scores, dtype=np.float64)
        weights = self._document_weights(scores[None, : len(docs)])[0]
        if self.settings.method in ("rm1", "rm3"):
            return self._relevance_model(query, docs, weights)
        if self.settings.method == "lca":
            return self._local_context(query, terms[known], docs, weights)
        return self._with_query_terms(query, terms, known, candidates, scores, docs, weights, model, single_terms)

    def _document_weights(self, scores: Floats) -> Floats:
        return document_weights(scores, self.settings.docs, self.settings.weighting, self.settings.temperature)

    def _relevance_model(self, query: Query, docs: NDArray[np.int32], weights: Floats) -> PertExpansion:
        """Anserini's relevance model: documents are cut to their strongest terms, without smoothing or the query's terms."""
        count = self.settings.terms
        feedback = relevance.feedback_words(self.forward, docs, weights, self.usable, keep=count)
        best = relevance.strongest(feedback, count)
        return self._of_words(query, best, best.p, docs, weights)

    def _local_context(self, query: Query, own: NDArray[np.int64], docs: NDArray[np.int32], weights: Floats) -> PertExpansion:
        """Xu & Croft's local context analysis: weights fall with the rank of a word; `own` are the query's terms."""
        beliefs = local_context.beliefs(self.forward, docs, own, self.usable)
        best = relevance.strongest(beliefs, self.settings.terms)
        return self._of_words(query, best, local_context.rank_weights(len(best.terms)), docs, weights)

    def _of_words(
        self, query: Query, best: relevance.Words, shares: Floats, docs: NDArray[np.int32], weights: Floats
    ) -> PertExpansion:
        """An expansion by words of the feedback documents alone; `shares` (words,) are their weights before scaling."""
        if not len(best.terms):
            raise CannotAct("the feedback documents have no usable word")
        strings, ones = tuple(self.forward.words(best.terms)), np.ones(len(best.p))
        return PertExpansion(query, strings, best.terms, 0, best.p, shares / shares.sum(), ones, ones, docs, weights)

    def _with_query_terms(
        self, query: Query, terms: NDArray[np.int64], known: NDArray[np.bool_], candidates: Candidates, scores: Floats,
        docs: NDArray[np.int32], weights: Floats, model: Model, single_terms: Sequence[Candidates] | None,
    ) -> PertExpansion:  # fmt: skip
        """The query's terms and the strongest feedback terms, weighted by the relevance model and the program's choice."""
        settings = self.settings
        own = terms[known]
        feedback = relevance.feedback_words(self.forward, docs, weights, self.usable)
        fresh = relevance.strongest(feedback, settings.terms, without=own)
        words = np.concatenate([own, fresh.terms])
        strings = (
            *(term for term, is_known in zip(query.terms, known, strict=True) if is_known),
            *self.forward.words(fresh.terms),
        )
        pool = candidates.docs[: max(settings.pool, len(docs))]
        table = np.zeros((1, len(pool)))
        table[0, : len(docs)] = weights
        perturbed = self._perturbed
        if perturbed and single_terms is not None:
            lists = [listed for listed, is_known in zip(single_terms, known, strict=True) if is_known]
            if settings.strategy == "loo":
                lists.reverse()  # the first variant is without the first term
            pool, table = self._joined([Candidates(docs, scores[: len(docs)]), *lists])
        elif perturbed:
            parts = first_stage_term_scores(self.forward, model, own, np.asarray(query.weights)[known], pool)
            variants = perturbation.variant_scores(scores[: len(pool)], parts, self._multipliers(query, known))
            table = np.vstack([table, self._document_weights(variants)])
        used = np.flatnonzero(table.any(axis=0))
        models, frequencies = relevance.smoothed_models(self.forward, pool[used], table[:, used], words, settings.smoothing)
        p = models[0]
        gain = np.minimum(1.0, p / (p[len(own) :].max() if len(fresh.terms) else p.max()))
        coordinates, apart, quadratic, choice = NOTHING, NOTHING, NOTHING, np.ones(len(words))
        if settings.method == "program":
            if perturbed:
                coordinates = perturbation.features(p, models[1:], settings.denominator)
                products = perturbation.gram(coordinates)
                apart = perturbation.distances(products)
            elif settings.kernel == "jaccard":
                apart = perturbation.jaccard_distances(frequencies > 0)
            else:
                apart = perturbation.random_distances(len(words), seed=settings.seed)
            if settings.kernel == "gram":
                alike = perturbation.covariance(products)
            else:
                alike = perturbation.similarity(apart)
            quadratic = self.program.quadratic(alike, apart, len(own))
            try:
                choice = self.program.solve(gain, alike, apart, len(own))
            except Infeasible:
                raise CannotAct("the expansion program's constraints contradict each other") from None
        mass = choice * p
        return PertExpansion(
            query, strings, words, len(own), p, mass / mass.sum(), choice, gain, docs, weights, coordinates, apart, quadratic
        )

    def _joined(self, lists: Sequence[Candidates]) -> tuple[NDArray[np.int32], Floats]:
        """The documents of several lists, and each list's feedback weights over them, shape (lists, documents)."""
        pool = np.unique(np.concatenate([listed.docs for listed in lists]))
        table = np.zeros((len(lists), len(pool)))
        for row, listed in zip(table, lists, strict=True):
            if listed.depth:
                row[np.searchsorted(pool, listed.docs)] = self._document_weights(np.asarray(listed.scores, dtype=np.float64))[0]
        return pool.astype(np.int32), table

    def _multipliers(self, query: Query, known: NDArray[np.bool_]) -> Floats:
        """The query's perturbations over the terms that the index has, shape (variants, terms)."""
        if self.perturbations:
            if query.qid not in self.perturbations:
                raise CannotAct("the file of perturbations has no weights for the query")
            multipliers = self.perturbations[query.qid]
            if multipliers.shape[1] != len(known):
                raise InputError(
                    f"query {query.qid} has {len(known)} terms ({' '.join(query.terms)}), {multipliers.shape[1]} "
                    "weights were given",
                    path=self.settings.perturbations,
                )
            return multipliers[:, known]
        settings = self.settings
        return perturbation.perturbations(settings.strategy, int(known.sum()), draws=settings.draws, seed=settings.seed)
