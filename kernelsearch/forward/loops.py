"""The compiled loops over a field's postings (`core/_postings.c`), which read the mapped arrays without copying them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import compiled
from kernelsearch.core.compiled import address

#: The types of frequencies that the loops read.
FREQUENCIES = (np.dtype(np.uint16), np.dtype(np.int32), np.dtype(np.uint32))


class PostingLoops:
    """The loops over the postings `indptr` (n+1,), `terms` (nnz,) and `frequencies` (nnz,) of a field with `width` terms.

    Raises ValueError for arrays of other types than a forward index is written with. Rows are given as contiguous int32.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        indptr: NDArray[np.int64],
        terms: NDArray[np.int32],
        frequencies: NDArray[Any],
        width: int,
    ) -> None:
        if frequencies.dtype not in FREQUENCIES:
            raise ValueError(f"frequencies of {frequencies.dtype}, which the compiled loops don't read")
        self.library, self.width = library, width
        self._arrays = indptr, terms, frequencies  # held, since the addresses below are theirs
        size = len(terms)
        self._postings = (
            *(address(indptr, np.int64, len(indptr)), len(indptr) - 1, address(terms, np.int32, size)),
            *(address(frequencies, frequencies.dtype, size), frequencies.dtype.itemsize, size),
        )

    def bm25(
        self,
        docs: NDArray[np.int32],
        terms: NDArray[np.int64],
        weights: NDArray[np.float32],
        factors: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """Lucene's sums of w - w / (1 + tf · factor) over distinct `terms`, shape (docs,).

        `weights` (terms,) are query weights times idf, `factors` (docs,) the documents' length factors.
        """
        count, asked = len(docs), len(terms)
        order = np.argsort(terms)
        terms, weights, out = terms[order], weights[order], np.empty(count, dtype=np.float32)
        status = self.library.kernelsearch_bm25(
            *self._postings, self.width, address(docs, np.int32, count), count, address(terms, np.int64, asked),
            address(weights, np.float32, asked), asked, address(factors, np.float32, count), address(out, np.float32, count),
        )  # fmt: skip
        compiled.check(status)
        return out

    def mean_cosines(
        self, docs: NDArray[np.int32], idf: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The sum of each row's tf·idf cosines with the first rows times their `weights`, and inverse norms, both (docs,).

        `idf` is that of all terms.
        """
        count, best = len(docs), len(weights)
        inverse_norms, out = np.empty(count), np.empty(count)
        status = self.library.kernelsearch_mean_cosines(
            *self._postings, self.width, address(docs, np.int32, count), count, address(idf, np.float64, self.width),
            address(weights, np.float64, best), best,
            address(inverse_norms, np.float64, count), address(out, np.float64, count),
        )  # fmt: skip
        compiled.check(status)
        return out, inverse_norms
