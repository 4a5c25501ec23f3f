"""The truncated singular value decomposition Φ ≈ U Σ Vᵀ of a feature matrix that is read in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.kernels.spectral.blocks import Rows
from kernelsearch.kernels.spectral.krylov import Eigenpairs, block_krylov

#: ARPACK, which is accurate to the last digits, is taken while the smaller side has at most this many rows.
ARPACK_LIMIT = 4_000


@dataclass
class Decomposition:
    """`values` (dims,): singular values, largest first; `right` (width, dims): V. U comes in blocks from `left`.

    `energy` is the captured share of |Φ|²; `residual` the largest |ΦᵀΦ·v - σ²·v| / σ².
    """

    values: NDArray[np.float64]
    right: NDArray[np.floating]
    energy: float
    residual: float
    solver: str
    products: int

    def left(self, rows: Rows) -> Iterator[tuple[int, int, NDArray[np.floating]]]:
        """(start, end, rows start..end-1 of U = Φ V Σ⁻¹), for all documents."""
        return rows.project(np.ascontiguousarray(self.right), self.values.astype(self.right.dtype))


def decompose(
    rows: Rows,
    dims: int,
    *,
    solver: Literal["arpack", "randomised"] | None = None,
    tolerance: float = 1e-2,
    random_state: int = 0,
    allocate: Callable[..., NDArray[Any]] = np.zeros,
    progress: Callable[[int, float], None] = lambda products, residual: None,
) -> Decomposition:
    """The `dims` largest singular values and vectors of Φ = `rows`; fewer where Φ has a smaller rank.

    The operator whose eigenvectors are sought is the smaller of ΦᵀΦ and ΦΦᵀ; it is applied block by block and never formed.
    `tolerance` bounds the residual of the randomised solver; ARPACK iterates to machine precision. `allocate` gives the
    randomised solver's largest array (see block_krylov). `progress` gets the number of products so far and the largest relative
    residual, which ARPACK computes only at its end (nan before). `random_state` is the seed of its start. `solver` is
    chosen by size for None. Raises InputError where all features are zero.
    """
    total = rows.squared_norm()
    if total <= 0:
        raise InputError(
            "decomposition: all features are zero: the field has no terms, because its texts are stop words and signs only, or "
            "the kernel is multiplied by zero"
        )
    by_features = rows.shape[1] <= rows.shape[0]
    size = min(rows.shape)
    apply = rows.gram_times if by_features else (lambda x: rows.times(rows.transposed_times(x)))
    solver = solver or ("arpack" if size <= ARPACK_LIMIT else "randomised")
    if solver == "arpack":
        pairs = _arpack(apply, size, dims, rows.dtype, random_state, progress)
    else:
        pairs = block_krylov(
            apply,
            size,
            dims,
            tolerance=tolerance,
            dtype=rows.dtype.type,
            random_state=random_state,
            allocate=allocate,
            progress=progress,
        )
    # Directions whose singular value is rounding noise would be divided by it. Rounding errors add up like a random walk, hence
    # the root: with the size itself, single precision would take real directions of a million features for noise.
    noise = pairs.values[0] * np.sqrt(size) * np.finfo(rows.dtype).eps
    real = pairs.values > noise
    values = np.sqrt(pairs.values[real])
    vectors = pairs.vectors if real.all() else pairs.vectors[:, real]
    if by_features:
        right = vectors
    else:
        right = rows.transposed_times(vectors)
        right /= values.astype(rows.dtype)
    # In place, here and above: these arrays are as large as the memory of the whole solver.
    right *= _signs(right)
    return Decomposition(
        values=values,
        right=right,
        energy=float((values**2).sum() / total),
        residual=float((pairs.residuals[real] / values**2).max()),
        solver=solver,
        products=pairs.products,
    )


def _arpack(
    apply: Callable[[NDArray[np.floating]], NDArray[np.floating]],
    size: int,
    dims: int,
    dtype: np.dtype[Any],
    random_state: int,
    progress: Callable[[int, float], None],
) -> Eigenpairs:
    """Implicitly restarted Lanczos, or the whole matrix where ARPACK can't give that many vectors."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    products = 0

    def multiply(vector: NDArray[np.floating]) -> NDArray[np.floating]:
        nonlocal products
        products += 1 if vector.ndim == 1 else vector.shape[1]
        progress(products, np.nan)
        result: NDArray[np.floating] = apply(np.ascontiguousarray(vector.reshape(size, -1))).reshape(vector.shape)
        return result

    if dims >= size - 1 or size <= 200:
        values, vectors = np.linalg.eigh(multiply(np.eye(size, dtype=dtype)))
    else:
        start = np.random.default_rng(random_state).standard_normal(size).astype(dtype)
        operator = LinearOperator((size, size), matvec=multiply, matmat=multiply, dtype=dtype)
        values, vectors = eigsh(operator, k=dims, v0=start)
    order = np.argsort(-values)[:dims]
    values, vectors = np.maximum(values[order], 0).astype(np.float64), np.ascontiguousarray(vectors[:, order])
    residuals = np.linalg.norm(apply(vectors) - vectors * values, axis=0)
    return Eigenpairs(values, vectors, residuals, products)


def _signs(right: NDArray[np.floating]) -> NDArray[np.floating]:
    """±1 per dimension, so that its strongest feature is positive: the sign of a singular vector is arbitrary."""
    # A column at a time: numpy's argmax along the first axis copies the whole array.
    strongest = np.array([column[np.abs(column).argmax()] for column in right.T])
    return np.where(strongest < 0, -1, 1).astype(right.dtype)
