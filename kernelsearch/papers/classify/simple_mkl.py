"""SimpleMKL: kernel weights on the simplex by reduced gradient descent around an SVM, as a scikit-learn transformer.

Rakotomamonjy, Bach, Canu & Grandvalet, "SimpleMKL" (JMLR 2008). The weights minimise the SVM's optimal objective

    J(d) = max_α Σ α_i - ½ β' (Σ_m d_m K_m) β,   β_i = α_i y_i, 0 ≤ α ≤ C, Σ β = 0,   d ≥ 0, Σ d = 1,

whose gradient is -½ β*' K_m β* (Eq. 11). With several classes, J is the sum over one-against-rest problems.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kernelsearch.papers.classify.bem_mkl import StackedKernels, stacked

Array = NDArray[np.float64]


class SimpleMKL(StackedKernels):
    """Adds kernels with weights that are best for an SVM.

    Takes stacked kernels, shape (texts, training texts, kernels), and gives their weighted sum for `SVC(kernel="precomputed")`.

    Parameters
    ----------
    C : penalty C of the SVM
    tol : stop when the duality gap is below `tol` × the objective
    max_iter : largest number of gradient steps
    normalize : bring every kernel to a mean diagonal of one first

    Attributes: `weights_` (kernels,) on the simplex (for kernels as given to `transform`, times `scale_`), `scale_` (kernels,),
    `objectives_` the objective after every step, `duality_gap_` the last gap relative to the objective, `n_iter_`.
    """

    def __init__(self, *, C: float = 1.0, tol: float = 1e-3, max_iter: int = 50, normalize: bool = True) -> None:
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.normalize = normalize

    def fit(self, X: Array, y: ArrayLike) -> SimpleMKL:
        """X holds the training texts' kernels with themselves, shape (n, n, kernels); y their classes."""
        kernels = stacked(X, square=True)
        labels = np.asarray(y)
        classes = np.unique(labels)
        if len(labels) != len(kernels) or len(classes) < 2:
            raise ValueError(f"SimpleMKL needs a label for each of {len(kernels)} texts and two classes or more")
        diagonal = np.einsum("iil->l", kernels) / len(kernels)
        self.scale_: Array = 1 / np.where(self.normalize & (diagonal > 0), diagonal, 1.0)
        # One against the rest; two classes are one problem.
        wanted = classes[1:] if len(classes) == 2 else classes
        signs = [np.where(labels == label, 1.0, -1.0) for label in wanted]
        levels = np.ascontiguousarray(np.moveaxis(kernels * self.scale_, 2, 0))

        def solve(weights: Array) -> tuple[float, Array]:
            """J and its gradient at the weights."""
            kernel = np.tensordot(weights, levels, axes=1)
            betas = [self._svm(kernel, sign) for sign in signs]
            quadratic = np.array([sum(beta @ level @ beta for beta in betas) for level in levels])
            linear = sum(float(np.abs(beta).sum()) for beta in betas)
            return linear - 0.5 * float(weights @ quadratic), -0.5 * quadratic

        weights = np.full(len(levels), 1 / len(levels))
        objective, gradient = solve(weights)
        self.objectives_ = [objective]
        self.duality_gap_ = duality_gap(weights, gradient, objective)
        while self.duality_gap_ > self.tol and len(self.objectives_) <= self.max_iter:
            moved, reached, slope = descend(weights, objective, gradient, solve)
            if reached >= objective:
                break
            weights, objective, gradient = moved, reached, slope
            self.objectives_.append(objective)
            self.duality_gap_ = duality_gap(weights, gradient, objective)
        self.n_iter_ = len(self.objectives_) - 1
        self.weights_: Array = weights
        return self

    def _svm(self, kernel: Array, signs: Array) -> Array:
        """β of the SVM's dual solution, shape (n,)."""
        from sklearn.svm import SVC

        model = SVC(kernel="precomputed", C=self.C, tol=1e-6, cache_size=200).fit(kernel, signs)
        beta = np.zeros(len(signs))
        beta[model.support_] = model.dual_coef_[0]
        return beta

    def transform(self, X: Array) -> Array:
        """Σ_m d_m K_m, shape (texts, training texts), of the kernels `X` (texts, training texts, kernels).

        Raises NotFittedError before a fit, ValueError for another shape.
        """
        check_is_fitted(self, "weights_")
        return stacked(X) @ (self.weights_ * self.scale_)


def duality_gap(weights: Array, gradient: Array, objective: float) -> float:
    """(max_m ½ β'K_mβ - Σ_m d_m ½ β'K_mβ) / J: zero exactly where the weights are optimal.

    `weights` d and the `gradient` of J at them have shape (kernels,), `objective` is J.
    """
    return float(((-gradient).max() - weights @ -gradient) / max(abs(objective), 1e-12))


def reduced_gradient(weights: Array, gradient: Array) -> Array:
    """The descent direction that stays on the simplex (Eq. 12), shape (kernels,): zero sum, no weight of 0 falls.

    `weights` on the simplex and the `gradient` of J at them have shape (kernels,).
    """
    largest = int(weights.argmax())
    direction: Array = gradient[largest] - gradient
    direction[(weights <= 0) & (direction < 0)] = 0.0
    direction[largest] = 0.0
    direction[largest] = -direction.sum()
    return direction


def descend(
    weights: Array, objective: float, gradient: Array, solve: Callable[[Array], tuple[float, Array]]
) -> tuple[Array, float, Array]:
    """One step of Algorithm 1: drop weights to zero while that lowers J, then bisect along what remains.

    `objective` and `gradient` (kernels,) are J and its gradient at `weights` (kernels,); `solve` gives both for other weights.
    Returns the new weights, their objective and gradient.
    """
    largest = int(weights.argmax())
    direction = reduced_gradient(weights, gradient)
    while True:
        falling = np.flatnonzero(direction < 0)
        if not len(falling):
            return weights, objective, gradient
        limits = -weights[falling] / direction[falling]
        first = int(falling[limits.argmin()])
        longest = float(limits.min())
        end = _on_simplex(weights + longest * direction, first)
        reached, slope = solve(end)
        if reached >= objective:
            break
        weights, objective, gradient = end, reached, slope
        if first == largest:  # the next step has another weight to balance the others with
            return weights, objective, gradient
        direction = direction.copy()
        direction[[first, largest]] = 0.0
        direction[largest] = -direction.sum()  # anew: sums of what was removed would leave rounding errors, a direction of none
    best = (weights, objective, gradient)
    low, high = 0.0, longest
    for _ in range(10):
        middle = (low + high) / 2
        candidate = _on_simplex(weights + middle * direction)
        value, slope = solve(candidate)
        if value < best[1]:
            best = (candidate, value, slope)
        # J is convex along the line: its slope says on which side the minimum lies.
        if slope @ direction > 0:
            high = middle
        else:
            low = middle
    return best


def _on_simplex(weights: Array, zero: int | None = None) -> Array:
    """Clears rounding: nothing negative, sum one."""
    clean = np.maximum(weights, 0.0)
    if zero is not None:
        clean[zero] = 0.0
    result: Array = clean / clean.sum()
    return result
