"""Features for kernels that have none: the Nyström method.

Williams & Seeger, "Using the Nyström Method to Speed Up Kernel Machines" (NIPS 2000): with m landmark documents L,
φ(d) = k(d, L) k(L, L)^(-1/2) has the inner products k(d, L) k(L, L)⁻¹ k(L, d'), equal to k(d, d') where one is a landmark.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.kernels.algebra import Collection, Kernel


class NystromMap:
    """The map φ of a kernel over the documents `landmarks` of `collection`, shape (documents, rank).

    Raises InputError without landmarks, OptionError where the values among them are not those of a kernel.
    """

    def __init__(self, kernel: Kernel, collection: Collection, landmarks: NDArray[np.integer]) -> None:
        self.kernel, self.collection, self.landmarks = kernel, collection, np.asarray(landmarks)
        if not len(self.landmarks):
            raise InputError(f"kernel {kernel}: no document has terms of the field, so there is nothing to decompose")
        gram = np.asarray(kernel.documents(collection, self.landmarks, self.landmarks), dtype=np.float64)
        scale = np.abs(gram).max(initial=0.0)
        if not np.isfinite(gram).all() or not np.allclose(gram, gram.T, atol=1e-8 * scale):
            raise OptionError(f"kernel {kernel}: not a kernel (its values are not finite or not symmetric)")
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        if values[0] < -1e-6 * max(values[-1], 0):
            raise OptionError(f"kernel {kernel}: not positive semi-definite (an eigenvalue of {values[0]:.3g} among landmarks)")
        real = values > 1e-10 * values[-1]
        self.whitening = vectors[:, real] / np.sqrt(values[real])

    @property
    def rank(self) -> int:
        """The number of features."""
        return int(self.whitening.shape[1])

    def features(self, docs: NDArray[np.integer]) -> NDArray[np.float64]:
        """φ of each of the rows `docs`, shape (documents, rank)."""
        result: NDArray[np.float64] = self.kernel.documents(self.collection, docs, self.landmarks) @ self.whitening
        return result


def choose_landmarks(collection: Collection, count: int, random_state: int = 0) -> NDArray[np.int64]:
    """At most `count` rows of `collection` with terms, drawn with the seed `random_state`, in row order, shape (landmarks,)."""
    filled = np.flatnonzero(np.diff(collection.indptr) > 0)
    return np.sort(np.random.default_rng(random_state).permutation(filled)[:count])
