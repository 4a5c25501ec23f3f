"""Asymmetric kernel learning with any hyper asymmetric kernel: ranking, classification and regression.

Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010), section 4: the learned function is an asymmetric kernel again,
k*(q, d) = Σ α_i k̄((q_i, d_i), (q, d)) (Eq. 3).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.kernels.algebra import Collection, Kernel
from kernelsearch.learning.programs.box import minimise_in_box
from kernelsearch.papers.rbm25.hyper import HyperKernel, Pairs
from kernelsearch.papers.rbm25.learned import learned_kernel


class AsymmetricKernelLearner:
    """Learns k* from pairs. After fitting, `pairs_` and `alpha_` hold the representer theorem's expansion.

    Parameters
    ----------
    kernel : the hyper asymmetric kernel k̄
    lam : λ, the weight of |k|²/2 against the sum of losses
    tolerance : of the solver, see `minimise_in_box`
    """

    def __init__(self, kernel: HyperKernel, *, lam: float = 1.0, tolerance: float = 1e-8) -> None:
        if not 0 < lam < math.inf:
            raise OptionError(f"lam: {lam} must be positive and finite")
        self.kernel, self.lam, self.tolerance = kernel, lam, tolerance

    def fit_ranking(self, better: Pairs, worse: Pairs, weights: ArrayLike = 1.0) -> AsymmetricKernelLearner:
        """Hinge loss [1 - (k(q_i, d_i⁺) - k(q_i, d_i⁻))]₊ on parallel lists of pairs (section 5.3), times `weights`.

        `better` and `worse` have a pair (q_i, d_i⁺) and (q_i, d_i⁻) per preference, `weights` a number for all or one for each.
        Returns the learner. Raises OptionError for lists of different lengths and empty ones.
        """
        if len(better) != len(worse) or not len(better):
            raise OptionError(f"ranking: {len(better)} preferred pairs for {len(worse)} others")
        both = Pairs(np.concatenate([better.queries, worse.queries]), np.concatenate([better.docs, worse.docs]))
        gram, size = self.kernel(both, both), len(better)
        matrix = gram[:size, :size] - gram[:size, size:] - gram[size:, :size] + gram[size:, size:]
        theta = self._solve(matrix, np.ones(size), weights)
        return self._store(both, np.concatenate([theta, -theta]))

    def fit_classification(self, pairs: Pairs, labels: ArrayLike) -> AsymmetricKernelLearner:
        """Hinge loss [1 - t_i k(q_i, d_i)]₊ on `pairs` with `labels` t (pairs,), -1 or +1; returns the learner.

        Raises OptionError for other labels, and for another number of them.
        """
        signs = self._targets(pairs, labels)
        if not np.isin(signs, (-1.0, 1.0)).all():
            raise OptionError("classification: labels must be -1 or +1")
        theta = self._solve(self.kernel(pairs, pairs) * np.outer(signs, signs), np.ones(len(pairs)))
        return self._store(pairs, theta * signs)

    def fit_regression(self, pairs: Pairs, targets: ArrayLike) -> AsymmetricKernelLearner:
        """Squared loss (k(q_i, d_i) - t_i)²/2 on `pairs` with `targets` t (pairs,), kernel ridge regression.

        Returns the learner. Raises OptionError for another number of targets and for targets that aren't finite.
        """
        values = self._targets(pairs, targets)
        gram = self.kernel(pairs, pairs)
        return self._store(pairs, np.asarray(np.linalg.solve(gram + self.lam * np.eye(len(pairs)), values), dtype=np.float64))

    def predict(self, pairs: Pairs) -> NDArray[np.float64]:
        """k*(q, d) of each of `pairs`, shape (pairs,). Raises scikit-learn's NotFittedError before a fit."""
        self._require_fit()
        return self.kernel(pairs, self.pairs_) @ self.alpha_

    def as_kernel(self, collection: Collection) -> Kernel:
        """k* as a kernel between any query and document of `collection` (Theorems 2 to 4), to be combined with others.

        The learner's kernel is one of `learned.hyper_kernel`, a power series or a sum of those. Raises scikit-learn's
        NotFittedError before a fit, OptionError for other kernels.
        """
        self._require_fit()
        return learned_kernel(self.kernel, collection, self.pairs_, self.alpha_)

    def _require_fit(self) -> None:
        if not hasattr(self, "alpha_"):
            from sklearn.exceptions import NotFittedError  # importing scikit-learn takes seconds

            raise NotFittedError("AsymmetricKernelLearner: call fit_ranking, fit_classification or fit_regression first")

    def _targets(self, pairs: Pairs, targets: ArrayLike) -> NDArray[np.float64]:
        values = np.asarray(targets, dtype=np.float64)
        if values.shape != (len(pairs),) or not len(pairs):
            raise OptionError(f"targets: {values.shape} values for {len(pairs)} pairs")
        if not np.isfinite(values).all():
            raise OptionError("targets: must be finite numbers")
        return values

    def _solve(self, matrix: NDArray[np.float64], linear: NDArray[np.float64], weights: ArrayLike = 1.0) -> NDArray[np.float64]:
        bounds = np.asarray(weights, dtype=np.float64) / self.lam
        return minimise_in_box(matrix, linear, 0.0, bounds, tolerance=self.tolerance).x

    def _store(self, pairs: Pairs, alpha: NDArray[np.float64]) -> AsymmetricKernelLearner:
        self.pairs_, self.alpha_ = pairs, alpha
        return self
