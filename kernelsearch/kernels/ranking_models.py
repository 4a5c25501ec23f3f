"""Lucene's ranking models in numpy, and what their scores say about documents.

Scores, and each term's part of them, are computed on the forward index. Feedback weights the best documents by a probability
p(d|q), computed from their scores.

BM25 equals Lucene's to the last bit. Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), as
Lucene's BM25Similarity computes it: without the constant factor (k1 + 1), with the document length that survives in one byte,
in single precision per term and double precision for the sum over terms.

Query likelihood with Dirichlet or Jelinek-Mercer smoothing: Zhai & Lafferty, "A study of smoothing methods for language models
applied to ad hoc information retrieval" (SIGIR 2001), as Lucene's LMDirichletSimilarity and LMJelinekMercerSimilarity compute
it: only terms that a document has count, p(w|C) is add-one, and a term's Dirichlet part is never negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core import compiled
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene.models import BM25Model, DirichletModel, Model

if TYPE_CHECKING:
    from kernelsearch.forward import ForwardIndex
    from kernelsearch.forward.selection import TermPostings
    from kernelsearch.kernels.algebra import Collection

#: Documents of a posterior, and its sharpness: chosen by leaving one collection out, see docs/reproductions/auto.md.
POSTERIOR_DOCUMENTS, POSTERIOR_SHARPNESS = 20, 5.0


def first_stage_term_scores(
    forward: ForwardIndex, model: Model, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer]
) -> NDArray[np.floating]:
    """Each term's part of each document's first-stage score, shape (documents, terms).

    Parameters
    ----------
    forward : the forward index
    model : the ranking model of the first stage
    terms : numbers of the query's terms, -1 for unknown ones, shape (terms,)
    weights : their weights in the query, shape (terms,)
    docs : rows of the documents, shape (documents,)
    """
    if isinstance(model, BM25Model):
        return bm25_term_scores(forward, terms, weights, docs, k1=model.k1, b=model.b)
    if isinstance(model, DirichletModel):
        return dirichlet_term_scores(forward, terms, weights, docs, mu=model.mu)
    return jelinek_mercer_term_scores(forward, terms, weights, docs, lam=model.lam)


def first_stage_scores(forward: ForwardIndex, model: Model, query: Query, docs: NDArray[np.integer]) -> NDArray[np.floating]:
    """Each document's first-stage score for the `query`, shape (documents,): the sums over terms, without their table.

    The other parameters are those of `first_stage_term_scores`.
    """
    terms, weights = forward.term_ids(query.terms), query.weights
    if isinstance(model, BM25Model):
        return bm25_scores(forward, terms, weights, docs, k1=model.k1, b=model.b)
    if isinstance(model, DirichletModel):
        return dirichlet_scores(forward, terms, weights, docs, mu=model.mu)
    return jelinek_mercer_scores(forward, terms, weights, docs, lam=model.lam)


def idf(df: ArrayLike, documents: int) -> NDArray[np.float32]:
    """Lucene's inverse document frequency, ln(1 + (N - df + 1/2) / (df + 1/2)), never negative; of the shape of `df`.

    `df` are document frequencies, `documents` is N, the number of documents.
    """
    frequency = np.asarray(df, dtype=np.float64)
    return np.log(1 + (documents - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)


def length_factor(norm_lengths: ArrayLike, average: float, k1: float, b: float) -> NDArray[np.float32]:
    """1 / (k1 ((1 - b) + b dl / avgdl)), in the order of operations and the precision that Lucene uses.

    `norm_lengths` are document lengths dl as Lucene's norms round them, `average` is avgdl; the result has the shape of
    `norm_lengths`.
    """
    unit, slope = np.float32(1), np.float32(b)
    lengths = np.asarray(norm_lengths, dtype=np.float32)
    with np.errstate(divide="ignore"):  # k1 = 0 is allowed: the factor is infinite and every tf saturates
        return unit / (np.float32(k1) * ((unit - slope) + slope * lengths / np.float32(average)))


def bm25_term_scores(
    collection: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer], *, k1: float, b: float
) -> NDArray[np.float32]:
    """Each term's part of each document's score, shape (documents, terms). Term -1 (unknown) gives zeros.

    Parameters
    ----------
    collection : the postings of a field
    terms : numbers of the query's terms, shape (terms,)
    weights : their weights in the query, shape (terms,)
    docs : rows of the documents, shape (documents,)
    k1, b : BM25's parameters
    """
    numbers = np.asarray(terms, dtype=np.int64)
    known = numbers >= 0
    df = np.where(known, np.asarray(collection.df[np.maximum(numbers, 0)]) if len(collection.df) else 0, 0)
    weight = np.asarray(weights, dtype=np.float32) * idf(df, collection.statistics.documents)
    factor = length_factor(collection.norm_lengths[docs], float(collection.statistics.average_length), k1, b)
    frequency = collection.term_frequencies(docs, numbers).astype(np.float32)
    with np.errstate(invalid="ignore"):
        saturation = np.float32(1) + np.where(frequency > 0, frequency * factor[:, None], np.float32(0))
    return np.where(frequency > 0, weight - weight / saturation, np.float32(0))


def bm25_scores(
    collection: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer], *, k1: float, b: float
) -> NDArray[np.float32]:
    """BM25 of each document, equal to Lucene's raw score to the last bit, shape (documents,).

    The parameters are those of `bm25_term_scores`.
    """
    scores: NDArray[np.float32] = bm25_table(collection, [BM25Query(terms, weights, k1, b)], docs)[0]
    return scores


class BM25Query(NamedTuple):
    """Numbers of a query's terms, -1 for unknown ones, and their weights, both of shape (terms,), with BM25's parameters."""

    terms: ArrayLike
    weights: ArrayLike
    k1: float
    b: float


def bm25_table(collection: Collection, queries: Sequence[BM25Query], docs: NDArray[np.integer]) -> NDArray[np.float32]:
    """As `bm25_scores` of the rows `docs` for several queries, shape (queries, documents): their postings are read once."""
    known = [known_terms(query.terms, query.weights) for query in queries]
    owners = np.repeat(np.arange(len(queries)), [len(numbers) for numbers, _ in known])
    terms, places = np.unique(np.concatenate([numbers for numbers, _ in known]), return_inverse=True)
    query_weights = np.concatenate([weights for _, weights in known]).astype(np.float32)
    weights = np.zeros((len(terms), len(queries)), dtype=np.float32)
    weights[places, owners] = query_weights * idf(collection.df[terms], collection.statistics.documents)[places]
    lengths, average = collection.norm_lengths[docs], float(collection.statistics.average_length)
    by_parameters = {(k1, b): length_factor(lengths, average, k1, b) for _, _, k1, b in queries}
    factors = np.array([by_parameters[query.k1, query.b] for query in queries])
    if (posting_rows := collection.compiled_rows(docs)) is not None:
        return compiled_bm25_scores(posting_rows, terms, weights, factors)
    rows, columns, frequencies = collection.occurrences(docs, terms)
    out = np.empty((len(queries), len(docs)), dtype=np.float32)
    for scores, term_weights, factor in zip(out, weights.T, factors, strict=True):
        parts = term_weights[columns]
        parts = parts - parts / (np.float32(1) + frequencies.astype(np.float32) * factor[rows])
        scores[:] = np.bincount(rows, parts, len(docs))
    return out


def bm25_search(forward: ForwardIndex, postings: TermPostings, query: BM25Query, hits: int) -> Candidates:
    """The best `hits` documents of the whole index for `query` as Lucene's search returns them, ties in docid order.

    `postings` are those of `forward` by term. Sources of candidates use it instead of a further call of Java per query.
    """
    terms, weights = known_terms(query.terms, query.weights)
    order = np.argsort(terms)  # the order in which `bm25_table` adds
    weight = weights[order].astype(np.float32) * idf(forward.df[terms[order]], forward.statistics.documents)
    docs, columns, frequencies = postings.occurrences(terms[order])
    factor = length_factor(forward.norm_lengths, float(forward.statistics.average_length), query.k1, query.b)
    term_weights = weight[columns]
    parts = term_weights - term_weights / (np.float32(1) + frequencies.astype(np.float32) * factor[docs])
    sums = np.bincount(docs, parts, len(forward)).astype(np.float32)
    matches = np.zeros(len(forward), dtype=bool)
    matches[docs] = True  # a term of weight 0 matches, too
    rows = np.flatnonzero(matches)
    scores = sums[rows]
    if len(rows) > hits:
        best = np.flatnonzero(scores >= np.partition(scores, len(rows) - hits)[len(rows) - hits])
        rows, scores = rows[best], scores[best]
    order = np.lexsort((forward.docid_rank[rows], -scores))[:hits]
    return Candidates(rows[order].astype(np.int32), scores[order])


def compiled_bm25_scores(
    rows: compiled.PostingRows, terms: NDArray[np.int64], weights: NDArray[np.float32], factors: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The sums of w - w / (1 + tf · factor) over distinct terms, by the compiled loop, shape (queries, documents).

    Parameters
    ----------
    rows : the documents
    terms : numbers of all terms of the queries, ascending, shape (terms,)
    weights : their weights in each query times idf, shape (terms, queries)
    factors : the documents' length factors for each query, shape (queries, documents)
    """
    count, (size, queries) = len(rows.docs), weights.shape
    out = np.empty((queries, count), dtype=np.float32)
    compiled.call(
        rows.library.kernelsearch_bm25,
        *(*rows.postings, (rows.docs, np.int32, count), count),
        *((terms, np.int64, size), (weights, np.float32, size, queries), size, queries),
        *((factors, np.float32, queries, count), (out, np.float32, queries, count)),
    )
    return out


def dirichlet_term_scores(
    collection: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer], *, mu: float
) -> NDArray[np.float64]:
    """max(0, ln(1 + tf / (mu p(w|C))) + ln(mu / (dl + mu))) by weight, shape (documents, terms); term -1 gives zeros.

    Parameters
    ----------
    collection : the postings of a field
    terms : numbers of the query's terms, -1 for unknown ones, shape (terms,)
    weights : their weights in the query, shape (terms,)
    docs : rows of the documents, shape (documents,)
    mu : weight of the collection's model, in tokens
    """
    frequency, background, length = _counts(collection, terms, docs)
    raw = np.log(1.0 + frequency / (mu * background)) + np.log(mu / (length + mu))
    return np.where(frequency > 0, np.asarray(weights) * np.maximum(raw, 0.0), 0.0)


def jelinek_mercer_term_scores(
    collection: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer], *, lam: float
) -> NDArray[np.float64]:
    """ln(1 + (1 - lambda) (tf / dl) / (lambda p(w|C))) by weight, shape (documents, terms). Term -1 (unknown) gives zeros.

    `lam` is lambda, the share of the collection's model; the other parameters are those of `dirichlet_term_scores`.
    """
    frequency, background, length = _counts(collection, terms, docs)
    return np.asarray(weights) * np.log(1.0 + (1.0 - lam) * (frequency / np.maximum(length, 1.0)) / (lam * background))


def dirichlet_scores(
    collection: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer], *, mu: float
) -> NDArray[np.float64]:
    """Query likelihood with Dirichlet smoothing, shape (documents,): the sums of `dirichlet_term_scores`.

    The parameters are the same.
    """
    rows, frequency, background, weight = _occurrences(collection, terms, weights, docs)
    shift = np.log(mu / (np.asarray(collection.norm_lengths[docs], dtype=np.float64) + mu))
    raw = np.log(1.0 + frequency / (mu * background)) + shift[rows]
    return np.asarray(np.bincount(rows, weight * np.maximum(raw, 0.0), len(docs)), dtype=np.float64)


def jelinek_mercer_scores(
    collection: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer], *, lam: float
) -> NDArray[np.float64]:
    """Query likelihood with Jelinek-Mercer smoothing, shape (documents,): the sums of `jelinek_mercer_term_scores`.

    The parameters are the same.
    """
    rows, frequency, background, weight = _occurrences(collection, terms, weights, docs)
    lengths = np.maximum(np.asarray(collection.norm_lengths[docs], dtype=np.float64), 1.0)
    parts = np.log(1.0 + (1.0 - lam) * (frequency / lengths[rows]) / (lam * background))
    return np.asarray(np.bincount(rows, weight * parts, len(docs)), dtype=np.float64)


def _occurrences(
    collection: Collection, terms: ArrayLike, weights: ArrayLike, docs: NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating], NDArray[np.float64]]:
    """Per occurrence of a term in a document its place in `docs`, tf, p(w|C) and the weight of the term, (occurrences,)."""
    numbers, weight = known_terms(terms, weights)
    rows, columns, frequency = collection.occurrences(docs, numbers)
    background = (collection.cf[numbers] + 1.0) / (collection.statistics.tokens + 1.0)
    return rows, frequency, background[columns], weight[columns]


def _counts(
    collection: Collection, terms: ArrayLike, docs: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """tf (documents, terms), p(w|C) (terms,), dl (documents, 1)."""
    numbers = np.asarray(terms, dtype=np.int64)
    known = numbers >= 0
    cf = np.where(known, np.asarray(collection.cf[np.maximum(numbers, 0)]) if len(collection.cf) else 0, 0)
    background = (cf + 1.0) / (collection.statistics.tokens + 1.0)
    frequency = collection.term_frequencies(docs, numbers).astype(np.float64)
    return frequency, background, np.asarray(collection.norm_lengths[docs], dtype=np.float64)[:, None]


def known_terms(terms: ArrayLike, weights: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The distinct terms that aren't -1 (unknown) and their weights; the weights of a term that occurs twice are added."""
    numbers, weight = np.asarray(terms, dtype=np.int64), np.asarray(weights, dtype=np.float64)
    if len(numbers) and numbers.min() < 0:
        known = numbers >= 0
        numbers, weight = numbers[known], weight[known]
    if len(set(numbers.tolist())) == len(numbers):
        return numbers, weight
    distinct, places = np.unique(numbers, return_inverse=True)
    return distinct, np.asarray(np.bincount(places, weight), dtype=np.float64)


def document_weights(scores: NDArray[np.float64], docs: int, temperature: float = 5.0) -> NDArray[np.float64]:
    """The weights p(d|q) of the best `docs` documents of each row, zero elsewhere, shape as `scores` (lists, documents).

    They are proportional to exp(score / temperature). Of equal scores the earlier ones are better. Documents that a list
    doesn't hold are marked -inf. A row that holds none gets zeros.
    """
    best, top = best_scores(scores, docs)
    highest = np.max(top, axis=1, initial=-np.inf, keepdims=True)
    held = np.isfinite(top)
    raw = np.where(held, np.exp((np.where(held, top, 0.0) - np.where(np.isfinite(highest), highest, 0.0)) / temperature), 0.0)
    return shares_of_best(scores, best, raw)


def best_scores(scores: NDArray[np.float64], docs: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The columns and values of the best `docs` scores of each row of `scores` (lists, documents), each (lists, docs)."""
    scores = np.atleast_2d(scores)
    docs = min(docs, scores.shape[1])
    # Of equal scores at the cut the earlier documents are taken, as in the list itself, on every processor.
    best = np.argsort(-scores, axis=1, kind="stable")[:, :docs] if docs < scores.shape[1] else np.arange(docs)[None, :]
    best = np.broadcast_to(best, (len(scores), docs))
    return best, np.take_along_axis(scores, best, axis=1)


def shares_of_best(scores: NDArray[np.float64], best: NDArray[np.int64], raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """`raw` over its sum in each row, at the columns `best` of an array shaped as `scores`, zero elsewhere."""
    total = raw.sum(axis=1, keepdims=True)
    out = np.zeros(np.atleast_2d(scores).shape)
    np.put_along_axis(out, best, np.divide(raw, total, out=np.zeros_like(raw), where=total > 0), axis=1)
    return out


def posterior_weights(
    scores: NDArray[np.floating], docs: int = POSTERIOR_DOCUMENTS, sharpness: float = POSTERIOR_SHARPNESS
) -> NDArray[np.float64]:
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


def effective_documents(weights: NDArray[np.float64]) -> float:
    """How many documents weights amount to: the exponential of their entropy, 1 for a single document, n for n equal ones."""
    positive = weights[weights > 0]
    return float(np.exp(-np.sum(positive * np.log(positive))))
