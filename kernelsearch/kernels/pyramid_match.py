"""Matching a query's pyramid with documents' pyramids, level by level.

Yang & Zha (CIKM 2010), Section 4.2. A document column is sparse over the query's rows, and a row where it has nothing but
background contributes a constant; so the similarity of query column j and document column p is

    s(j, p) = s(j, background) + Σ_{r in column p} [ψ(a_rj, b_rp) - ψ(a_rj, floor_r)] + the change of the cell of other words,

with ψ(a, b) = ½ [φ(a+b) - φ(a) - φ(b)], φ(x) = x ln x, for ln 2 - Jensen-Shannon (Eq. 11), and a ln(b/a) for
-KL(query || document). Windows are renormalised to mass one, which makes a window's similarity the mean of its columns'
similarities: a mean along a diagonal of s. The paper's sum over windows then ranks documents by length; the mean is its
repair, the sum stays available.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.kernels.pyramid import row_sums
from kernelsearch.kernels.pyramid_points import points_score
from kernelsearch.kernels.pyramid_rows import Array, DocumentLevel, QueryLevel, QueryRows, Scale, Texts

MODES = ("max", "mean", "sum", "global", "points")
DIVERGENCES = ("js", "kl")
#: Columns that global matching interpolates queries and documents to.
GLOBAL_COLUMNS = 8
#: Cells worked on at a time: the temporaries stay in the processor's cache.
BLOCK = 1 << 15


@dataclass(frozen=True)
class Matcher:
    """How levels are matched: `mode` in MODES, `divergence` in DIVERGENCES, the window's `width` (0: as the scale needs)."""

    scales: tuple[Scale, ...]
    mode: str = "max"
    divergence: str = "js"
    width: int = 0
    precision: type = np.float64

    def scores(self, rows: QueryRows, texts: Texts) -> Array:
        """Similarities of the query and each text at each level, shape (texts, levels)."""
        if self.mode == "points":
            return points_score(rows, texts, self.scales, self.width, partial(self.similarity, rows))
        return np.column_stack([self._level(rows, texts, scale) for scale in self.scales])

    def _level(self, rows: QueryRows, texts: Texts, scale: Scale) -> Array:
        query, documents = self.levels(rows, texts, scale)
        similarity = self.similarity(rows, query, documents)
        if self.mode == "global":
            return global_score(similarity, query.weights, len(texts.lengths))
        return local_score(similarity, query.weights, documents, self.mode)

    def similarity(self, rows: QueryRows, query: QueryLevel, documents: DocumentLevel) -> Array:
        """s(j, p), shape (query columns, document columns)."""
        return column_similarity(rows, query, documents, self.divergence, self.precision)

    def levels(self, rows: QueryRows, texts: Texts, scale: Scale) -> tuple[QueryLevel, DocumentLevel]:
        """Both sides at a level, with the columns that the mode compares."""
        if self.mode == "global":
            columns = GLOBAL_COLUMNS if np.isfinite(scale.spatial) else 1
            return (
                rows.query_level(scale, self.width, columns=columns),
                rows.document_level(texts, scale, self.width, columns=columns),
            )
        query = rows.query_level(scale, self.width)
        return query, rows.document_level(texts, scale, self.width, at_least=len(query.weights))


def phi(x: Array) -> Array:
    """x ln x, 0 at 0."""
    return x * np.log(np.maximum(x, np.finfo(x.dtype).tiny))


def psi(a: Array, b: Array, divergence: str) -> Array:
    """A cell's part of the similarity: ½ [φ(a+b) - φ(a) - φ(b)] of ln 2 - JS, or a ln(b/a) of -KL."""
    if divergence == "js":
        return 0.5 * (phi(a + b) - phi(a) - phi(b))
    tiny = np.finfo(b.dtype).tiny
    return a * (np.log(np.maximum(b, tiny)) - np.log(np.maximum(a, tiny)))


def mixed(rows: QueryRows, code: sparse.csr_matrix, held: Array, precision: type = np.float64) -> tuple[Array, Array]:
    """A document's cells with background, (code + η b)/(1 + η), in the code's order, and each column's cell of other words."""
    cells = code.data.astype(precision)
    cells /= 1 + rows.eta
    cells += rows.floor.astype(precision).take(code.indices)
    return cells, np.maximum(rows.floor[-1] - held / (1 + rows.eta), 0.0).astype(precision)


def column_similarity(
    rows: QueryRows, query: QueryLevel, documents: DocumentLevel, divergence: str, precision: type = np.float64
) -> Array:
    """s(j, p) for every query column and document column, shape (query columns, document columns).

    Single `precision` is several times faster and leaves errors of about 1e-6.
    """
    cells, other = mixed(rows, documents.code, documents.held, precision)
    a, floor = query.columns[:, :-1], rows.floor[:-1]
    excess = (_js_excess if divergence == "js" else _kl_excess)(a, floor, cells, documents.code)
    excess += psi(query.columns[:, -1].astype(precision)[:, None], other[None, :], divergence)
    excess += psi(a, floor[None, :], divergence).sum(axis=1)[:, None]
    return excess if documents.which is None else excess.take(documents.which, axis=1)


def _kl_excess(a: Array, floor: Array, cells: Array, code: sparse.csr_matrix) -> Array:
    """Σ_r a_rj [ln b_rp - ln floor_r] over the cells of each document column, shape (query columns, columns)."""
    constant = (a * np.log(floor)).T.astype(cells.dtype)
    return (_filled(code, np.log(cells)) @ a.T.astype(cells.dtype) - _filled(code, np.ones_like(cells)) @ constant).T


def _js_excess(a: Array, floor: Array, cells: Array, code: sparse.csr_matrix) -> Array:
    """Σ_r [ψ(a_rj, b_rp) - ψ(a_rj, floor_r)] over the cells of each document column, shape (query columns, columns).

    That is half of Σ_r φ(a+b) - Σ_r φ(b) - Σ_r [φ(a+floor) - φ(floor)]: only the first sum needs both sides.
    """
    constant = (phi(a + floor) - phi(floor)).T.astype(cells.dtype)
    out = -(_filled(code, np.ones_like(cells)) @ constant).T
    out -= row_sums(cells * np.log(cells), code.indptr)
    a, place = a.astype(cells.dtype), code.indices.astype(np.intp)
    value, work = np.empty_like(cells), np.empty(BLOCK, dtype=cells.dtype)
    for mine, sums in zip(a, out, strict=True):
        for low in range(0, len(cells), BLOCK):
            total = value[low : low + BLOCK]
            mine.take(place[low : low + BLOCK], out=total, mode="clip")
            total += cells[low : low + BLOCK]
            total *= np.log(total, out=work[: len(total)])
        sums += row_sums(value, code.indptr)
    out *= 0.5
    return out


def _filled(code: sparse.csr_matrix, values: Array) -> sparse.csr_matrix:
    """The same cells with other values; a constructor would check them all again."""
    other = copy(code)
    other.data = values
    return other


def local_windows(similarity: Array, weights: Array, documents: DocumentLevel) -> tuple[Array, NDArray[np.bool_]]:
    """Σ_j w_j s(j, p + j) by a window's first column p, and which windows lie inside one document; both shape (columns,)."""
    count, columns = similarity.shape
    fit = columns - count + 1  # a document has at least as many columns as the query, so this is positive
    square = np.ascontiguousarray(similarity)
    strides = (square.strides[0] + square.strides[1], square.strides[1])
    diagonals = np.lib.stride_tricks.as_strided(square, (count, fit), strides, writeable=False)
    values, inside = np.zeros(columns), np.zeros(columns, dtype=bool)
    values[:fit] = weights @ diagonals
    inside[:fit] = documents.samples.text[:fit] == documents.samples.text[count - 1 :]
    return values, inside


def local_score(similarity: Array, weights: Array, documents: DocumentLevel, mode: str) -> Array:
    """One similarity a document from its windows: their `mean`, `max`, or raw `sum`, shape (documents,)."""
    values, inside = local_windows(similarity, weights, documents)
    if mode == "max":
        return np.maximum.reduceat(np.where(inside, values, -np.inf), documents.first)
    total = np.add.reduceat(np.where(inside, values, 0.0), documents.first)
    return total if mode == "sum" else total / np.add.reduceat(inside.astype(np.float64), documents.first)


def global_score(similarity: Array, weights: Array, documents: int) -> Array:
    """One similarity a document where both sides have the same columns: column g with column g, shape (documents,)."""
    count = len(weights)
    return np.einsum("g,gdg->d", weights, similarity.reshape(count, documents, count))
