"""Relevance models: the words of feedback documents, each document weighted by its score.

Lavrenko & Croft, "Relevance-based language models" (SIGIR 2001): p(w|R) = sum over documents of p(d|q) p(w|d). All functions
except one work on a few feedback documents of a forward index and never use the whole vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.forward import ForwardIndex

WEIGHTINGS = ("softmax", "score", "uniform")

Floats = NDArray[np.float64]


class Words(NamedTuple):
    """Words of the feedback documents: term numbers, ascending, and their probabilities."""

    terms: NDArray[np.int64]
    p: Floats


def document_weights(scores: Floats, docs: int, weighting: str = "softmax", temperature: float = 5.0) -> Floats:
    """The weights p(d|q) of the best `docs` documents of each row, zero elsewhere, shape as `scores` (lists, documents).

    Of equal scores the earlier ones are better. Documents that a list doesn't hold are marked -inf. A row that holds none gets
    zeros. `weighting` `softmax` is
    exp(score / temperature), `score` is proportional to the score as in Anserini, `uniform` counts them all the same. Raises
    OptionError for another.
    """
    if weighting not in WEIGHTINGS:
        raise OptionError(f"document weighting {weighting!r} is not one of {', '.join(WEIGHTINGS)}")
    scores = np.atleast_2d(scores)
    docs = min(docs, scores.shape[1])
    # Of equal scores at the cut the earlier documents are taken, as in the list itself, on every processor.
    best = np.argsort(-scores, axis=1, kind="stable")[:, :docs] if docs < scores.shape[1] else np.arange(docs)[None, :]
    top = np.take_along_axis(scores, np.broadcast_to(best, (len(scores), docs)), axis=1)
    held = np.isfinite(top)
    if weighting == "softmax":
        highest = np.where(held.any(axis=1), np.max(top, axis=1, initial=-np.inf), 0.0)
        raw = np.where(held, np.exp((np.where(held, top, 0.0) - highest[:, None]) / temperature), 0.0)
    elif weighting == "score":
        raw = np.where(held, np.maximum(top, 0.0), 0.0)
    else:
        raw = held.astype(np.float64)
    total = raw.sum(axis=1, keepdims=True)
    out = np.zeros(scores.shape)
    np.put_along_axis(
        out, np.broadcast_to(best, top.shape), np.divide(raw, total, out=np.zeros_like(raw), where=total > 0), axis=1
    )
    return out


#: Documents of a posterior, and its sharpness: chosen by leaving one collection out, see docs/reproductions/auto.md.
POSTERIOR_DOCUMENTS, POSTERIOR_SHARPNESS = 20, 5.0


def posterior_weights(
    scores: NDArray[np.floating], docs: int = POSTERIOR_DOCUMENTS, sharpness: float = POSTERIOR_SHARPNESS
) -> Floats:
    """p(d|q) of the first `docs` documents of a ranked list: exp(sharpness · s/s₁), normalised, shape (at most docs,).

    A probability that is proportional to the score, as Anserini's RM3 has it, trusts ten documents about equally, whether they
    score alike or the first one scores twice as much as the second. Here a document that scores alone at the top keeps
    nearly all the weight, so that a query for one known document is expanded from that document, and a query for which many
    documents score alike from all of them. Scores are taken relative to the best one, s₁, which makes the weights independent
    of the query's length. Where a list has negative scores, its lowest score takes the place of 0.

    `scores` are in descending order.
    """
    top = np.asarray(scores[:docs], dtype=np.float64)
    if not len(top):
        return top
    floor = min(0.0, float(scores[-1]))
    height = float(top[0]) - floor
    raw = np.exp(sharpness * ((top - floor) / height - 1.0)) if height > 0 else np.ones(len(top))
    return np.asarray(raw / raw.sum())


def effective_documents(weights: Floats) -> float:
    """How many documents weights amount to: the exponential of their entropy, 1 for a single document, n for n equal ones."""
    positive = weights[weights > 0]
    return float(np.exp(-np.sum(positive * np.log(positive))))


def usable_words(index: ForwardIndex, max_df: float = 0.1) -> NDArray[np.bool_]:
    """Which terms of the vocabulary may expand a query, shape (terms,); computed once per index.

    Those in at most `max_df` of the documents and made of 2 to 20 letters or digits (Anserini's rule, except that letters
    beyond a to z count as letters too, by their UTF-8 bytes).
    """
    letters = np.zeros(256, dtype=bool)
    letters[list(b"abcdefghijklmnopqrstuvwxyz0123456789")] = True
    letters[0x80:] = True
    rare = np.asarray(index.df) <= np.float32(max_df) * index.statistics.documents
    return rare & index.terms.made_of(letters, 2, 20)


def feedback_words(
    index: ForwardIndex, docs: NDArray[np.integer], weights: Floats, usable: NDArray[np.bool_], *, keep: int | None = None
) -> Words:
    """Every usable word of the feedback documents with sum_d p(d|q) p(w|d), unsmoothed.

    `docs` are rows of `index`, `weights` (documents,) their p(d|q), `usable` (terms,) is that of `usable_words`. Without
    `keep`, p(w|d) = tf / length. With it, as Anserini's RM3 does, a document is first cut to its `keep` most frequent usable
    words and p(w|d) is relative to those.
    """
    indptr, places = index.gather(docs)
    terms = np.asarray(index.indices[places], dtype=np.int64)
    tf = np.asarray(index.frequencies[places], dtype=np.float64)
    rows = np.repeat(np.arange(len(docs)), np.diff(indptr))
    selected = np.flatnonzero(usable[terms])
    lengths: Floats = np.asarray(index.lengths[docs], dtype=np.float64)
    if keep is not None:
        selected = selected[np.lexsort((terms[selected], -tf[selected], rows[selected]))]
        place = np.arange(len(selected)) - np.searchsorted(rows[selected], rows[selected])
        selected = selected[place < keep]
        lengths = np.bincount(rows[selected], weights=tf[selected], minlength=len(docs)).astype(np.float64)
    rows, tf = rows[selected], tf[selected]
    vocabulary, slots = np.unique(terms[selected], return_inverse=True)
    shares = weights[rows] * tf / np.maximum(lengths, 1.0)[rows]
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
    index: ForwardIndex, docs: NDArray[np.integer], weights: Floats, terms: NDArray[np.integer], smoothing: float
) -> tuple[Floats, NDArray[np.int32]]:
    """p(w|R) of a few `terms` for several weightings of the documents, shape (weightings, terms), and the frequencies used.

    `docs` are rows of `index`, `weights` has shape (weightings, documents), the frequencies (documents, terms). Mixed with the
    collection's own model by `smoothing`; a row without documents is the collection's model, which is the model of an
    uninformative query.
    """
    frequencies = index.term_frequencies(docs, terms)
    by_document = frequencies / np.maximum(np.asarray(index.lengths[docs], dtype=np.float64), 1.0)[:, None]
    collection = np.asarray(index.cf[terms], dtype=np.float64) / max(index.statistics.tokens, 1)
    own = np.where(weights.sum(axis=1) > 0, smoothing, 1.0)[:, None]
    return (1.0 - own) * (weights @ by_document) + own * collection, frequencies
