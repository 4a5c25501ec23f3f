"""Relevance models: the words of feedback documents, each document weighted by its score.

Lavrenko & Croft, "Relevance-based language models" (SIGIR 2001): p(w|R) = sum over documents of p(d|q) p(w|d), with the weights
p(d|q) of `ranking_models`. All functions except one work on a few feedback documents of a forward index and never use the whole
vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.forward import ForwardIndex

Floats = NDArray[np.float64]


class Words(NamedTuple):
    """Words of the feedback documents: term numbers, ascending, and their probabilities."""

    terms: NDArray[np.int64]
    p: Floats


def usable_words(forward: ForwardIndex, max_df: float = 0.1) -> NDArray[np.bool_]:
    """Which terms of `forward` may expand a query, shape (terms,).

    Those in at most `max_df` of the documents and made of 2 to 20 letters or digits (Anserini's rule, except that letters
    beyond a to z count as letters too, by their UTF-8 bytes).
    """
    letters = np.zeros(256, dtype=bool)
    letters[list(b"abcdefghijklmnopqrstuvwxyz0123456789")] = True
    letters[0x80:] = True
    rare = np.asarray(forward.df) <= np.float32(max_df) * forward.statistics.documents
    return rare & forward.terms.made_of(letters, 2, 20)


def feedback_words(forward: ForwardIndex, docs: NDArray[np.integer], weights: Floats, usable: NDArray[np.bool_]) -> Words:
    """Every usable word of the feedback documents with sum_d p(d|q) p(w|d), where p(w|d) = tf / length, unsmoothed.

    `docs` are rows of `forward`, `weights` (documents,) their p(d|q), `usable` (terms,) is that of `usable_words`.
    """
    rows, terms, tf = usable_frequencies(forward, docs, usable)
    lengths = np.maximum(np.asarray(forward.lengths[docs], dtype=np.float64), 1.0)
    return summed(terms, weights[rows] * tf / lengths[rows])


def usable_frequencies(
    forward: ForwardIndex, docs: NDArray[np.integer], usable: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """The usable words of the documents: the number of the document in `docs`, the term and its frequency, each (words,).

    `docs` are rows of `forward`, `usable` (terms,) is that of `usable_words`.
    """
    indptr, places = forward.gather(docs)
    terms = np.asarray(forward.indices[places], dtype=np.int64)
    rows = np.repeat(np.arange(len(docs)), np.diff(indptr))
    selected = np.flatnonzero(usable[terms])
    return rows[selected], terms[selected], np.asarray(forward.frequencies[places], dtype=np.float64)[selected]


def summed(terms: NDArray[np.int64], shares: Floats) -> Words:
    """The sum of the `shares` (occurrences,) of each of `terms` (occurrences,), without words whose sum is 0."""
    vocabulary, slots = np.unique(terms, return_inverse=True)
    p = np.bincount(slots, weights=shares, minlength=len(vocabulary)).astype(np.float64)
    positive = np.flatnonzero(p > 0)
    return Words(vocabulary[positive], p[positive])


def strongest(words: Words, count: int, without: NDArray[np.integer] | None = None) -> Words:
    """The `count` most probable words, best first, ties in term order; `without` names terms to leave aside."""
    if without is not None and len(without):
        outside = ~np.isin(words.terms, without)
        words = Words(words.terms[outside], words.p[outside])
    order = np.argsort(-words.p, kind="stable")[:count]  # terms are ascending
    return Words(words.terms[order], words.p[order])


def smoothed_models(
    forward: ForwardIndex, docs: NDArray[np.integer], weights: Floats, terms: NDArray[np.integer], smoothing: float
) -> Floats:
    """p(w|R) of a few `terms` for several weightings of the documents, shape (weightings, terms).

    `docs` are rows of `forward`, `weights` has shape (weightings, documents). Mixed with the collection's own model by
    `smoothing`; a row without documents is the collection's model, which is the model of an uninformative query.
    """
    lengths = np.maximum(np.asarray(forward.lengths[docs], dtype=np.float64), 1.0)
    by_document = forward.term_frequencies(docs, terms) / lengths[:, None]
    background = np.asarray(forward.cf[terms], dtype=np.float64) / max(forward.statistics.tokens, 1)
    own = np.where(weights.sum(axis=1) > 0, smoothing, 1.0)[:, None]
    result: Floats = (1.0 - own) * (weights @ by_document) + own * background
    return result
