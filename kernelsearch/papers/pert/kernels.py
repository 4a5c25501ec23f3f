"""What `pert` is compared with: other perturbations of the query, kernels of words and relevance models.

Collins-Thompson, "Robust Word Similarity Estimation Using Perturbation Kernels" (ICTIR 2009).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import lines, to_number
from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels.perturbation import Floats, distances, gram, leave_one_out
from kernelsearch.kernels.relevance import Words, summed, usable_frequencies


def perturbations(strategy: str, terms: int, *, draws: int = 8, seed: int = 0) -> Floats:
    """Multipliers of the weights of a query's `terms` terms, shape (variants, terms); section 2 of the paper.

    `strategy` `loo` leaves one term out in each row, `tat` has one term alone, `dirichlet` makes `draws` rows of random weights
    (mean 1 per term) with `seed`.
    """
    if strategy == "loo":
        return leave_one_out(terms)
    if strategy == "tat":
        return np.eye(terms)
    return terms * np.random.default_rng(seed).dirichlet(np.ones(terms), size=draws)


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


def covariance(products: Floats) -> Floats:
    """G = `products` (words, words) over the median word's variance: a word that varies under perturbation counts as risky.

    The largest variance is taken where the median is 0; all ones where no word varies.
    """
    variances = np.diag(products)
    scale = float(np.median(variances)) or float(variances.max(initial=0.0))
    return products / scale if scale > 0 else np.ones_like(products)


def jaccard_distances(occurrences: NDArray[np.bool_]) -> Floats:
    """1 - |both| / |either| of words over documents, the paper's baseline; `occurrences` (documents, words)."""
    indicators = occurrences.astype(np.float64)
    both = indicators.T @ indicators
    counts = np.diag(both)
    either = counts[:, None] + counts[None, :] - both
    apart = 1.0 - np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    np.fill_diagonal(apart, 0.0)
    return apart


def random_distances(words: int, dimensions: int = 3, *, seed: int = 0) -> Floats:
    """Squared distances of random points, shape (words, words): the control that says whether a kernel's content matters.

    The points are as many as `words`, drawn with `seed` from the normal distribution in `dimensions` dimensions.
    """
    return distances(gram(np.random.default_rng(seed).standard_normal((words, dimensions))))


def truncated_feedback_words(
    forward: ForwardIndex, docs: NDArray[np.integer], weights: Floats, usable: NDArray[np.bool_], keep: int
) -> Words:
    """The words of `relevance.feedback_words` where, as in Anserini's RM3, a document is first cut to its best `keep` words.

    These are its most frequent usable ones, and p(w|d) is relative to them. The other parameters are those of `feedback_words`.
    """
    rows, terms, tf = usable_frequencies(forward, docs, usable)
    order = np.lexsort((terms, -tf, rows))
    place = np.arange(len(order)) - np.searchsorted(rows[order], rows[order])
    chosen = order[place < keep]
    rows, terms, tf = rows[chosen], terms[chosen], tf[chosen]
    lengths = np.maximum(np.bincount(rows, weights=tf, minlength=len(docs)), 1.0)
    return summed(terms, weights[rows] * tf / lengths[rows])
