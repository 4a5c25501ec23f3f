"""The largest eigenpairs of a positive semi-definite operator by a randomised block Krylov method.

Musco & Musco, "Randomized Block Krylov Methods for Stronger and Faster Approximate Singular Value Decomposition" (NIPS 2015):
for the same number of products with the matrix, the space [Q, AQ, A²Q, ...] holds far better approximations than the last power
alone, which is what plain randomised SVD keeps. Each new block is made orthogonal to the others (block Lanczos with full
orthogonalisation, twice), which also gives the projected matrix without a further product; when the space is full it is
restarted from the best vectors so far (Wu & Simon, "Thick-Restart Lanczos Method", 2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Eigenpairs:
    """Largest first: `values` θ (k,), `vectors` v (size, k), `residuals` |A·v - θ·v| (k,); `products` with A, by vector."""

    values: NDArray[np.float64]
    vectors: NDArray[np.floating]
    residuals: NDArray[np.float64]
    products: int


def block_krylov(
    apply: Callable[[NDArray[np.floating]], NDArray[np.floating]],
    size: int,
    k: int,
    *,
    tolerance: float = 1e-2,
    block: int = 16,
    space: int | None = None,
    limit: int = 40,
    dtype: type = np.float64,
    random_state: int = 0,
    allocate: Callable[..., NDArray[Any]] = np.zeros,
    progress: Callable[[int, float], None] = lambda products, residual: None,
) -> Eigenpairs:
    """The k largest eigenpairs of A, where apply(X) = A·X for X of shape (size, block).

    Stops when every pair's residual is at most `tolerance` times its value, or after `limit`·k products. `space` bounds the
    vectors held at once (default 1.5k + 2 blocks: more save hardly any product); `allocate(shape, dtype)` gives the array of
    zeros that holds them, which may be a mapped file. `progress` gets the number of products so far and the
    largest relative residual. `random_state` is the seed of the first block.
    """
    k = min(k, size)
    block = min(block, size)
    space = min(size, max(space or k + k // 2 + 2 * block, k + 2 * block))
    rng = np.random.default_rng(random_state)
    store = allocate((space, size), dtype)
    basis: NDArray[np.floating] = store.T
    projected = np.zeros((space, space))
    used = products = 0
    current = np.linalg.qr(rng.standard_normal((size, block)).astype(dtype))[0]
    values, weights, residuals = np.empty(0), np.empty((0, 0)), np.empty(0)
    while True:
        width = current.shape[1]
        basis[:, used : used + width] = current
        image: NDArray[np.floating] = np.asarray(apply(np.ascontiguousarray(current)), dtype=dtype)
        products += width
        start, used = used, used + width
        held = basis[:, :used]
        coupling = held.T @ image
        image -= held @ coupling
        again = held.T @ image
        image -= held @ again
        coupling += again
        projected[:used, start:used] = coupling
        projected[start:used, :used] = coupling.T
        current, remainder = np.linalg.qr(image)
        scale = float(np.abs(projected[:used, :used]).max())
        alive = np.abs(np.diag(remainder)) > 100 * np.finfo(dtype).eps * scale
        full = used + width > space
        if full or used >= k:
            values, weights = _projection(projected, used)
            residuals = np.linalg.norm(remainder @ weights[start:used], axis=0) if used < size else np.zeros(used)
            count = min(k, used)
            relative = residuals[:count] / np.maximum(values[:count], np.finfo(dtype).eps * max(scale, 1e-300))
            progress(products, float(relative.max()) if used >= k else 1.0)
            if used >= min(k, size) and (relative.max() <= tolerance or products >= limit * k):
                break
        if used >= size:
            break
        if not alive.all():
            # The space is invariant in some directions: go on with fresh random ones instead.
            current = _fresh(rng, basis[:, :used], current[:, alive], min(width, size - used))
        if full:
            keep = min(k + block, used - block)
            _rotate(basis, used, weights[:, :keep].astype(dtype))
            projected[:] = 0
            projected[:keep, :keep] = np.diag(values[:keep])
            used = keep
        current = current[:, : space - used]
    _rotate(basis, used, weights[:, :k].astype(dtype))
    del basis, held
    count = min(k, used)
    if store.flags.owndata:
        # Gives back the memory of the vectors that aren't wanted; a copy of the others would take as much again.
        store.resize((count, size), refcheck=False)
    return Eigenpairs(np.maximum(values[:k], 0), store[:count].T, residuals[:k], products)


def _projection(projected: NDArray[np.float64], used: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenpairs of the projected matrix, largest first."""
    corner = projected[:used, :used]
    values, weights = np.linalg.eigh((corner + corner.T) / 2)
    return values[::-1], weights[:, ::-1]


def _rotate(basis: NDArray[np.floating], used: int, weights: NDArray[np.floating], rows: int = 4096) -> None:
    """basis[:, :keep] = basis[:, :used] @ weights without a second array of that size."""
    for start in range(0, len(basis), rows):
        part = basis[start : start + rows]
        part[:, : weights.shape[1]] = part[:, :used] @ weights


def _fresh(
    rng: np.random.Generator, held: NDArray[np.floating], alive: NDArray[np.floating], width: int
) -> NDArray[np.floating]:
    """`alive` filled up to `width` columns with random ones, orthogonal to each other and to what is held."""
    new = rng.standard_normal((held.shape[0], width - alive.shape[1])).astype(held.dtype)
    for _ in range(2):
        new -= held @ (held.T @ new)
        new -= alive @ (alive.T @ new)
        new = np.linalg.qr(new)[0]
    return np.hstack([alive, new])
