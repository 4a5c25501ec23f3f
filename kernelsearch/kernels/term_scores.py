"""First-stage scores and each term's part of them, under any ranking model of the first stage: BM25 and query likelihood."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.types import Query
from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels import bm25, likelihood
from kernelsearch.lucene.models import BM25Model, DirichletModel, Model


def term_scores(
    index: ForwardIndex, model: Model, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer]
) -> NDArray[np.floating]:
    """Each term's part of each document's first-stage score, shape (documents, terms).

    Parameters
    ----------
    index : the forward index
    model : the ranking model of the first stage
    terms : numbers of the query's terms, -1 for unknown ones, shape (terms,)
    weights : their weights in the query, shape (terms,)
    docs : rows of the documents, shape (documents,)
    """
    if isinstance(model, BM25Model):
        return bm25.term_scores(index, terms, weights, docs, k1=model.k1, b=model.b)
    if isinstance(model, DirichletModel):
        return likelihood.dirichlet_term_scores(index, terms, weights, docs, mu=model.mu)
    return likelihood.jelinek_mercer_term_scores(index, terms, weights, docs, lam=model.lam)


def first_stage_scores(index: ForwardIndex, model: Model, query: Query, docs: NDArray[np.integer]) -> NDArray[np.floating]:
    """Each document's first-stage score for the `query`, shape (documents,): the sums of `term_scores`, without their table.

    The other parameters are those of `term_scores`.
    """
    terms, weights = index.term_ids(query.terms), query.weights
    if isinstance(model, BM25Model):
        return bm25.scores(index, terms, weights, docs, k1=model.k1, b=model.b)
    if isinstance(model, DirichletModel):
        return likelihood.dirichlet_scores(index, terms, weights, docs, mu=model.mu)
    return likelihood.jelinek_mercer_scores(index, terms, weights, docs, lam=model.lam)
