"""BEM-MKL: kernel weights in closed form from nearest hits and misses, as a scikit-learn transformer.

Yang & Zha, "Language Pyramid and Multi-Scale Text Analysis" (CIKM 2010), Eqs. 9-10.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kernelsearch.learning.bem import bem_weights, uniform_weights

Array = NDArray[np.float64]


class StackedKernels(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of transformers of stacked kernels, which says so to scikit-learn's tools: their tables don't fit."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.pairwise = False, True, True
        return tags


class BemMKL(StackedKernels):
    """Adds kernels with weights a = m⁺/‖m⁺‖, m the mean margin between a text's nearest miss and nearest hit.

    Takes stacked kernels, shape (texts, training texts, kernels), and gives their weighted sum, shape (texts, training texts).
    Every kernel is divided by the square of its mean distance between training texts unless `standardize` is off, so that
    neither the weights nor their sum follow the kernels' scales. The nearest hit and miss (nearest text of the same and of
    another class) are found with all kernels together. Where no margin is positive the weights are uniform.

    Attributes: `weights_` (kernels,), `margins_` (kernels,), both for kernels times `scale_` (kernels,).
    """

    def __init__(self, *, standardize: bool = True) -> None:
        self.standardize = standardize

    def fit(self, X: Array, y: ArrayLike) -> BemMKL:
        """X holds the training texts' kernels with themselves, shape (n, n, kernels); y their classes."""
        kernels = stacked(X, square=True)
        labels = np.asarray(y)
        if len(labels) != len(kernels):
            raise ValueError(f"{len(kernels)} texts but {len(labels)} labels")
        squared = distances_squared(kernels)
        unit = np.sqrt(squared).mean(axis=(0, 1)) if self.standardize else np.ones(kernels.shape[2])
        self.scale_: Array = 1 / np.where(unit > 0, unit, 1.0) ** 2
        squared *= self.scale_
        together = squared.sum(axis=2)
        same = labels[:, None] == labels[None, :]
        hits = np.where(same & ~np.eye(len(labels), dtype=bool), together, np.inf)
        misses = np.where(~same, together, np.inf)
        # A text alone in its class has no hit; with one class only there is no miss.
        usable = np.flatnonzero(np.isfinite(hits.min(axis=1)) & np.isfinite(misses.min(axis=1)))
        if not len(usable):
            raise ValueError("BemMKL needs two classes, one of them with two texts")
        hit, miss = hits[usable].argmin(axis=1), misses[usable].argmin(axis=1)
        margins = np.sqrt(squared[usable, miss]) - np.sqrt(squared[usable, hit])
        self.margins_: Array = margins.mean(axis=0)
        weights = bem_weights(self.margins_)
        self.weights_: Array = uniform_weights(kernels.shape[2]) if weights is None else weights
        return self

    def transform(self, X: Array) -> Array:
        """Σ_l a_l K_l of scaled kernels, shape (texts, training texts), of the kernels `X` (texts, training texts, kernels).

        Raises NotFittedError before a fit, ValueError for another shape.
        """
        check_is_fitted(self, "weights_")
        return stacked(X) @ (self.weights_ * self.scale_)


def stacked(X: ArrayLike, *, square: bool = False) -> Array:
    """`X` as an array, a stack of kernels of shape (texts, training texts, kernels); with `square` (n, n, kernels).

    Raises ValueError for another shape and for values that aren't finite.
    """
    kernels = np.asarray(X, dtype=np.float64)
    if kernels.ndim != 3 or (square and kernels.shape[0] != kernels.shape[1]):
        wanted = "(n, n, kernels)" if square else "(texts, training texts, kernels)"
        raise ValueError(f"stacked kernels of shape {wanted} were expected, found {kernels.shape}")
    if not np.isfinite(kernels).all():
        raise ValueError("kernels must be finite")
    return kernels


def distances_squared(kernels: Array) -> Array:
    """k(d,d) + k(d',d') - 2 k(d,d') at every level, shape (n, n, kernels)."""
    own = np.einsum("iil->il", kernels)
    result: Array = np.maximum(own[:, None] + own[None, :] - 2 * kernels, 0.0)
    return result
