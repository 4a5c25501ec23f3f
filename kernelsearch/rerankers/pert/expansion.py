"""From a query and its first-stage list to a weighted query: feedback words, their kernel, the program's choice."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.files import lines
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.kernels import perturbation, relevance
from kernelsearch.kernels.term_scores import term_scores
from kernelsearch.learning.programs.box import Infeasible
from kernelsearch.learning.programs.expansion import ExpansionProgram
from kernelsearch.lucene.models import Model
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.rerankers.pert.settings import PerturbationSettings

Floats = NDArray[np.float64]
NOTHING: Floats = np.zeros((0, 0))


@dataclass(frozen=True)
class Expansion:
    """What a query grows into, and why. Arrays over words start with the query's own terms where the method keeps them all."""

    query: Query
    words: tuple[str, ...]
    terms: NDArray[np.int64]  #: term numbers (words,)
    query_terms: int  #: how many of the words are the query's own, first in order
    p: Floats  #: relevance model (words,)
    weights: Floats  #: the expansion's distribution (words,), sums to 1
    choice: Floats  #: the program's x (words,); ones where no program chose
    gain: Floats  #: the program's c (words,)
    docs: NDArray[np.int32]  #: feedback documents (docs,)
    document_weights: Floats  #: their p(d|q) (docs,)
    coordinates: Floats = field(default_factory=lambda: NOTHING)  #: perturbation features (words, variants)
    apart: Floats = field(default_factory=lambda: NOTHING)  #: the kernel's distances (words, words)
    quadratic: Floats = field(default_factory=lambda: NOTHING)  #: kappa (S + gamma diag r) (words, words)

    def mixed(self, alpha: float) -> Query:
        """(1 - alpha) query + alpha expansion, both of sum 1; words of no weight are left out."""
        total = sum(self.query.weights)
        mixture = {
            term: (1.0 - alpha) * weight / total for term, weight in zip(self.query.terms, self.query.weights, strict=True)
        }
        for word, weight in zip(self.words, self.weights.tolist(), strict=True):
            mixture[word] = mixture.get(word, 0.0) + alpha * weight
        kept = {word: weight for word, weight in mixture.items() if weight > 0}
        return Query(self.query.text, tuple(kept), tuple(kept.values()), self.query.qid)

    @property
    def risk(self) -> Floats:
        """Each word's share of the program's risk term, x_i (Hx)_i / 2, shape (words,); they sum to x'Hx / 2."""
        return self.choice * (self.quadratic @ self.choice) / 2.0 if len(self.quadratic) else np.zeros(len(self.words))


def read_vectors(path: str) -> dict[str, Floats]:
    """Perturbations of the user's own by qid, shape (variants, terms): a line a variant, qid TAB a multiplier for each term.

    Multipliers stand in the order of the query's distinct analysed terms: 0 leaves a term out, 1 keeps it, 2 doubles it.
    """
    found: dict[str, list[list[float]]] = {}
    for number, line in lines(path):
        if not line.strip():
            continue
        qid, _, rest = line.partition("\t")
        try:
            row = [float(value) for value in rest.split()]
        except ValueError:
            row = []
        if not row or not all(0 <= value < np.inf for value in row):
            raise InputError(f"{path}:{number}: not a qid, a tab and weights of zero or more")
        if qid in found and len(found[qid][0]) != len(row):
            raise InputError(f"{path}:{number}: {len(row)} weights where query {qid} had {len(found[qid][0])} before")
        found.setdefault(qid, []).append(row)
    if not found:
        raise InputError(f"{path}: holds no perturbation")
    return {qid: np.array(rows) for qid, rows in found.items()}


class Expander:
    """Makes expansions for one index with one setting (the options of the `pert` method, by Python name)."""

    def __init__(self, index: ForwardIndex, settings: PerturbationSettings, vectors: dict[str, Floats] | None = None) -> None:
        self.index = index
        self.settings = settings
        self.vectors = vectors or {}
        self.usable = relevance.usable_words(index, settings.max_df)
        self.program = ExpansionProgram(
            risk=settings.kappa,
            strangeness=settings.gamma,
            support=settings.support,
            balance=settings.balance,
            coverage=settings.coverage,
            budget=settings.budget,
        )

    def expand(self, query: Query, candidates: Candidates, model: Model) -> Expansion:
        """The expansion of a query by its list. Raises CannotAct where there is nothing to learn from."""
        terms = self.index.term_ids(query.terms).astype(np.int64)
        known = terms >= 0
        if not known.any() or not candidates.depth or sum(query.weights) <= 0:
            raise CannotAct("no document matches the query")
        docs = candidates.docs[: self.settings.docs]
        scores = np.asarray(candidates.scores, dtype=np.float64)
        weights = self._document_weights(scores[None, : len(docs)])[0]
        if self.settings.method in ("rm1", "rm3"):
            return self._plain(query, docs, weights)
        return self._chosen(query, terms, known, candidates, scores, docs, weights, model)

    def _document_weights(self, scores: Floats) -> Floats:
        return relevance.document_weights(scores, self.settings.docs, self.settings.weighting, self.settings.temperature)

    def _plain(self, query: Query, docs: NDArray[np.int32], weights: Floats) -> Expansion:
        """Anserini's relevance model: documents cut to their strongest words, no smoothing, no regard for the query."""
        count = self.settings.terms
        found = relevance.feedback_words(self.index, docs, weights, self.usable, keep=count)
        best = relevance.strongest(found, count)
        if not len(best.terms):
            raise CannotAct("the feedback documents have no usable word")
        ones = np.ones(len(best.p))
        return Expansion(
            query,
            tuple(self.index.terms.take(best.terms)),
            best.terms,
            0,
            best.p,
            best.p / best.p.sum(),
            ones,
            ones,
            docs,
            weights,
        )

    def _chosen(
        self, query: Query, terms: NDArray[np.int64], known: NDArray[np.bool_], candidates: Candidates, scores: Floats,
        docs: NDArray[np.int32], weights: Floats, model: Model,
    ) -> Expansion:  # fmt: skip
        """The query's terms and the strongest feedback words, weighted by the relevance model and the program's choice."""
        settings = self.settings
        own = terms[known]
        found = relevance.feedback_words(self.index, docs, weights, self.usable)
        fresh = relevance.strongest(found, settings.terms, without=own)
        words = np.concatenate([own, fresh.terms])
        strings = (
            *(term for term, there in zip(query.terms, known, strict=True) if there),
            *self.index.terms.take(fresh.terms),
        )
        pool = candidates.docs[: max(settings.pool, len(docs))]
        table = np.zeros((1, len(pool)))
        table[0, : len(docs)] = weights
        perturbed = settings.method == "program" and settings.kernel in ("perturbation", "gram")
        if perturbed:
            parts = term_scores(self.index, model, own, np.asarray(query.weights)[known], pool)
            variants = perturbation.variant_scores(scores[: len(pool)], parts, self._multipliers(query, known))
            table = np.vstack([table, self._document_weights(variants)])
        used = np.flatnonzero(table.any(axis=0))
        models, frequencies = relevance.smoothed_models(self.index, pool[used], table[:, used], words, settings.smoothing)
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
        return Expansion(
            query, strings, words, len(own), p, mass / mass.sum(), choice, gain, docs, weights, coordinates, apart, quadratic
        )

    def _multipliers(self, query: Query, known: NDArray[np.bool_]) -> Floats:
        """The query's perturbations, over the terms that the index knows."""
        if self.vectors:
            if query.qid not in self.vectors:
                raise CannotAct("--pert.vectors has no weights for the query")
            given = self.vectors[query.qid]
            if given.shape[1] != len(known):
                raise InputError(
                    f"{self.settings.vectors}: query {query.qid} has {len(known)} terms ({' '.join(query.terms)}), "
                    f"{given.shape[1]} weights were given"
                )
            return given[:, known]
        settings = self.settings
        return perturbation.perturbations(settings.strategy, int(known.sum()), draws=settings.draws, seed=settings.seed)
