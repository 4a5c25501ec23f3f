"""The perturbation kernel: words are similar if their relevance changes in the same way under changes of the query.

Collins-Thompson, "Robust Word Similarity Estimation Using Perturbation Kernels" (ICTIR 2009). A perturbation multiplies the
weights of the query's terms; each perturbed query gives a relevance model, and a word's features are the changes of its
probability. Perturbed queries are not searched: a score is a sum over terms, so the scores of all variants are computed from
one table of per-term scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def leave_one_out(terms: int) -> Floats:
    """Multipliers of the weights of a query's `terms` terms, one term left out in each row, shape (terms, terms); section 2."""
    return 1.0 - np.eye(terms)


def variant_scores(scores: Floats, parts: NDArray[np.floating], multipliers: Floats) -> Floats:
    """Scores of all documents for all variants of a query, shape (variants, documents).

    `scores` (documents,) are those of the query itself, `parts` (documents, terms) each term's share of them. Scores are
    additive: a variant's is the query's plus what its multipliers change. A document without any of its terms gets -inf.
    """
    shares = np.asarray(parts, dtype=np.float64)
    changed = scores + (multipliers - 1.0) @ shares.T
    touched = (multipliers > 0).astype(np.float64) @ (shares > 0).T > 0
    return np.where(touched, changed, -np.inf)


def features(base: Floats, variants: Floats) -> Floats:
    """Each word's perturbation coordinates phi_i(w) = (sqrt p_i(w) - sqrt p(w)) / (sqrt n sqrt p(w)), shape (words, variants).

    `base` (words,) is p, `variants` (variants, words) are the p_i of n variants, all positive (smoothed). Eq. 4 divides by p(w)
    and is unbounded for query terms that the feedback documents lack.
    """
    root = np.sqrt(base)
    result: Floats = ((np.sqrt(variants) - root) / root).T / np.sqrt(max(len(variants), 1))
    return result


def gram(coordinates: Floats) -> Floats:
    """G = A A^T (Figure 1, step 4), shape (words, words), of `coordinates` A (words, variants)."""
    return coordinates @ coordinates.T


def distances(products: Floats) -> Floats:
    """d_ij = g_ii + g_jj - 2 g_ij (Figure 1, step 4), shape (words, words): squared Euclidean distances, never below zero.

    `products` (words, words) is the Gram matrix.
    """
    squares = np.diag(products)
    apart = np.maximum(squares[:, None] + squares[None, :] - 2.0 * products, 0.0)
    np.fill_diagonal(apart, 0.0)
    return apart


def word_groups(apart: Floats, groups: int) -> NDArray[np.int64]:
    """Group numbers from 0 of words, shape (words,), at most `groups` of them.

    Words are joined by average linkage of the roots of `apart` (words, words), their squared distances.
    """
    if len(apart) < 2 or groups < 2 or not apart.any():
        return np.zeros(len(apart), dtype=np.int64)
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    tree = hierarchy.linkage(np.sqrt(squareform(apart, checks=False)), "average")
    result: NDArray[np.int64] = hierarchy.fcluster(tree, groups, "maxclust").astype(np.int64) - 1
    return result


def typical_distance(apart: Floats) -> float:
    """The median of the distances `apart` (words, words) between different words, 1 where all coincide.

    Where the median is 0 and some words differ, the largest distance.
    """
    above = apart[np.triu_indices(len(apart), 1)]
    middle = float(np.median(above)) if len(above) else 0.0
    return middle if middle > 0 else float(above.max(initial=0.0)) or 1.0


def similarity(apart: Floats) -> Floats:
    """exp(-D / median D), positive semi-definite, with a diagonal of ones; all ones where no word differs from another.

    `apart` (words, words) are the distances D, squared Euclidean ones for a kernel.
    """
    return np.exp(-apart / typical_distance(apart))
