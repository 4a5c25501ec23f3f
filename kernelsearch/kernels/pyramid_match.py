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

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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
    return x * np.log(np.where(x > 0, x, 1.0))


def psi(a: Array, b: Array, divergence: str) -> Array:
    """A cell's part of the similarity: ½ [φ(a+b) - φ(a) - φ(b)] of ln 2 - JS, or a ln(b/a) of -KL."""
    if divergence == "js":
        return 0.5 * (phi(a + b) - phi(a) - phi(b))
    tiny = np.finfo(np.float64).tiny
    return np.where(a > 0, a * (np.log(np.maximum(b, tiny)) - np.log(np.maximum(a, tiny))), 0.0)


def mixed(rows: QueryRows, code: sparse.csr_matrix) -> tuple[Array, Array]:
    """A document's cells with background, (code + η b)/(1 + η), in the code's order, and each column's cell of other words."""
    cells = (code.data + rows.eta * rows.background[code.indices]) / (1 + rows.eta)
    held = np.asarray(code.sum(axis=1)).ravel() / (1 + rows.eta)
    return cells, np.maximum(rows.floor[-1] - held, 0.0)


def column_similarity(
    rows: QueryRows, query: QueryLevel, documents: DocumentLevel, divergence: str, precision: type = np.float64
) -> Array:
    """s(j, p) for every query column and document column, shape (query columns, document columns).

    Logarithms in single `precision` are several times faster and leave errors of about 1e-6.
    """
    code = documents.code
    cells, other = mixed(rows, code)
    a, floor = query.columns[:, :-1], rows.floor[:-1]
    base = psi(a, floor[None, :], divergence)
    if divergence == "js":
        excess = _js_excess(a, base, cells.astype(precision), code)
    else:
        gain = sparse.csr_matrix((np.log(cells / floor[code.indices]), code.indices, code.indptr), shape=code.shape)
        excess = (gain @ a.T).T
    return base.sum(axis=1)[:, None] + excess + psi(query.columns[:, -1][:, None], other[None, :], divergence)


def _js_excess(a: Array, base: Array, cells: Array, code: sparse.csr_matrix) -> Array:
    """Σ_r [ψ(a_rj, b_rp) - ψ(a_rj, floor_r)] over the cells of each document column, shape (query columns, columns)."""
    # Of ψ only φ(a + b) needs both sides; what depends on (row, query column) alone is one constant.
    constant = (phi(a) + 2 * base).astype(cells.dtype)
    a = a.astype(cells.dtype)
    own = cells * np.log(cells)
    out = np.empty((len(a), code.shape[0]))
    value = np.empty(len(cells), dtype=cells.dtype)
    for j in range(len(a)):
        for low in range(0, len(cells), BLOCK):
            part = slice(low, low + BLOCK)
            place = code.indices[part]
            total = a[j].take(place)
            total += cells[part]
            work = np.log(total)
            work *= total
            work -= own[part]
            np.subtract(work, constant[j].take(place), out=value[part])
        out[j] = _row_sums(value, code.indptr)
    out *= 0.5
    return out


def _row_sums(values: Array, indptr: NDArray[np.integer]) -> Array:
    """Sums of CSR rows; an empty row's is 0."""
    sums = np.zeros(len(indptr) - 1, dtype=values.dtype)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        sums[filled] = np.add.reduceat(values, indptr[filled])
    return sums


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
