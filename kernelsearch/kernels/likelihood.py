"""Lucene's query likelihood in numpy: each term's part of a score, with Dirichlet or Jelinek-Mercer smoothing.

Zhai & Lafferty, "A study of smoothing methods for language models applied to ad hoc information retrieval" (SIGIR 2001), as
Lucene's LMDirichletSimilarity and LMJelinekMercerSimilarity compute it: only terms that a document has count, p(w|C) is
add-one, and a term's Dirichlet part is never negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.kernels.bm25 import known_terms

if TYPE_CHECKING:
    from kernelsearch.kernels.algebra import Collection


def dirichlet_term_scores(
    index: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer], *, mu: float
) -> NDArray[np.float64]:
    """max(0, ln(1 + tf / (mu p(w|C))) + ln(mu / (dl + mu))) by weight, shape (documents, terms); term -1 gives zeros.

    Parameters
    ----------
    index : the collection
    terms : numbers of the query's terms, -1 for unknown ones, shape (terms,)
    weights : their weights in the query, shape (terms,)
    docs : rows of the documents, shape (documents,)
    mu : weight of the collection's model, in tokens
    """
    frequency, collection, length = _counts(index, terms, docs)
    raw = np.log(1.0 + frequency / (mu * collection)) + np.log(mu / (length + mu))
    return np.where(frequency > 0, np.asarray(weights) * np.maximum(raw, 0.0), 0.0)


def jelinek_mercer_term_scores(
    index: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer], *, lam: float
) -> NDArray[np.float64]:
    """ln(1 + (1 - lambda) (tf / dl) / (lambda p(w|C))) by weight, shape (documents, terms). Term -1 (unknown) gives zeros.

    `lam` is lambda, the share of the collection's model; the other parameters are those of `dirichlet_term_scores`.
    """
    frequency, collection, length = _counts(index, terms, docs)
    return np.asarray(weights) * np.log(1.0 + (1.0 - lam) * (frequency / np.maximum(length, 1.0)) / (lam * collection))


def dirichlet_scores(
    index: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer], *, mu: float
) -> NDArray[np.float64]:
    """Query likelihood with Dirichlet smoothing, shape (documents,): the sums of `dirichlet_term_scores`.

    The parameters are the same.
    """
    numbers, weight = known_terms(terms, weights)
    rows, columns, frequencies = index.occurrences(docs, numbers)
    collection = (index.cf[numbers] + 1.0) / (index.statistics.tokens + 1.0)
    shift = np.log(mu / (np.asarray(index.norm_lengths[docs], dtype=np.float64) + mu))
    raw = np.log(1.0 + frequencies / (mu * collection)[columns]) + shift[rows]
    return np.asarray(np.bincount(rows, weight[columns] * np.maximum(raw, 0.0), len(docs)), dtype=np.float64)


def jelinek_mercer_scores(
    index: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer], *, lam: float
) -> NDArray[np.float64]:
    """Query likelihood with Jelinek-Mercer smoothing, shape (documents,): the sums of `jelinek_mercer_term_scores`.

    The parameters are the same.
    """
    numbers, weight = known_terms(terms, weights)
    rows, columns, frequencies = index.occurrences(docs, numbers)
    collection = (index.cf[numbers] + 1.0) / (index.statistics.tokens + 1.0)
    lengths = np.maximum(np.asarray(index.norm_lengths[docs], dtype=np.float64), 1.0)
    parts = np.log(1.0 + (1.0 - lam) * (frequencies / lengths[rows]) / (lam * collection)[columns])
    return np.asarray(np.bincount(rows, weight[columns] * parts, len(docs)), dtype=np.float64)


def _counts(
    index: Collection, terms: ArrayLike, docs: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """tf (documents, terms), p(w|C) (terms,), dl (documents, 1)."""
    numbers = np.asarray(terms, dtype=np.int64)
    known = numbers >= 0
    cf = np.where(known, np.asarray(index.cf[np.maximum(numbers, 0)]) if len(index.cf) else 0, 0)
    collection = (cf + 1.0) / (index.statistics.tokens + 1.0)
    frequency = index.term_frequencies(docs, numbers).astype(np.float64)
    return frequency, collection, np.asarray(index.norm_lengths[docs], dtype=np.float64)[:, None]
