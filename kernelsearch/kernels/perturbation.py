"""The perturbation kernel: words are similar if their relevance changes in the same way under changes of the query.

Collins-Thompson, "Robust Word Similarity Estimation Using Perturbation Kernels" (ICTIR 2009). A perturbation multiplies the
weights of the query's terms; each perturbed query gives a relevance model, and a word's features are the changes of its
probability. Perturbed queries are not searched: a score is a sum over terms, so the scores of all variants are computed from
one table of per-term scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError

STRATEGIES = ("loo", "tat", "dirichlet")
DENOMINATORS = ("p", "sqrt")

Floats = NDArray[np.float64]


def perturbations(strategy: str, terms: int, *, draws: int = 8, seed: int = 0) -> Floats:
    """Multipliers of the weights of a query's `terms` terms, shape (variants, terms); section 2 of the paper.

    `strategy` `loo` leaves one term out in each row, `tat` has one term alone, `dirichlet` makes `draws` rows of random weights
    (mean 1 per term) with `seed`. Raises OptionError for another strategy.
    """
    if strategy == "loo":
        return 1.0 - np.eye(terms)
    if strategy == "tat":
        return np.eye(terms)
    if strategy == "dirichlet":
        return terms * np.random.default_rng(seed).dirichlet(np.ones(terms), size=draws)
    raise OptionError(f"perturbation strategy {strategy!r} is not one of {', '.join(STRATEGIES)}")


def variant_scores(scores: Floats, parts: NDArray[np.floating], multipliers: Floats) -> Floats:
    """Scores of all documents for all variants of a query, shape (variants, documents).

    `scores` (documents,) are those of the query itself, `parts` (documents, terms) each term's share of them. Scores are
    additive: a variant's is the query's plus what its multipliers change. A document without any of its terms gets -inf.
    """
    shares = np.asarray(parts, dtype=np.float64)
    changed = scores + (multipliers - 1.0) @ shares.T
    touched = (multipliers > 0).astype(np.float64) @ (shares > 0).T > 0
    return np.where(touched, changed, -np.inf)


def features(base: Floats, variants: Floats, denominator: str = "sqrt") -> Floats:
    """Each word's perturbation coordinates, shape (words, variants); `base` (words,), `variants` (variants, words).

    With denominator `p`, Eq. 4: phi_i(w) = (sqrt p_i(w) - sqrt p(w)) / (sqrt n p(w)). With `sqrt`, p(w) below the line becomes
    sqrt p(w): Eq. 4 is unbounded for query terms that the feedback documents lack. Probabilities must be positive (smoothed).
    """
    if denominator not in DENOMINATORS:
        raise OptionError(f"perturbation denominator {denominator!r} is not one of {', '.join(DENOMINATORS)}")
    root = np.sqrt(base)
    below = base if denominator == "p" else root
    result: Floats = ((np.sqrt(variants) - root) / below).T / np.sqrt(max(len(variants), 1))
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


def covariance(products: Floats) -> Floats:
    """G = `products` (words, words) over the median word's variance: a word that varies under perturbation counts as risky.

    The largest variance is taken where the median is 0; all ones where no word varies.
    """
    variances = np.diag(products)
    scale = float(np.median(variances)) or float(variances.max(initial=0.0))
    return products / scale if scale > 0 else np.ones_like(products)


def similarity(apart: Floats) -> Floats:
    """exp(-D / median D), positive semi-definite, with a diagonal of ones; all ones where no word differs from another.

    `apart` (words, words) are the distances D, squared Euclidean ones for a kernel.
    """
    return np.exp(-apart / typical_distance(apart))
