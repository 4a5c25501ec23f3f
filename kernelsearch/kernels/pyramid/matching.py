"""Matching a query's pyramid with documents' pyramids, level by level.

Yang & Zha (CIKM 2010), Section 4.2. A document column is sparse over the query's rows, and a row where it has nothing but
background contributes a constant; so the similarity of query column j and document column p is

    s(j, p) = s(j, background) + Σ_{r in column p} [ψ(a_rj, b_rp) - ψ(a_rj, floor_r)] + the change of the cell of other words,

with ψ(a, b) = ½ [φ(a+b) - φ(a) - φ(b)], φ(x) = x ln x, for ln 2 - Jensen-Shannon (Eq. 11), and a ln(b/a) for
-KL(query || document). Windows are renormalised to mass one, which makes a window's similarity the mean of its columns'
similarities: a mean along a diagonal of s. The paper's sum over windows then ranks documents by length; the mean corrects
this, and the sum is still available.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.core import compiled
from kernelsearch.kernels.pyramid.compiled import WordRanges, level_scores
from kernelsearch.kernels.pyramid.interest_points import points_score
from kernelsearch.kernels.pyramid.query_rows import Array, DocumentLevel, QueryLevel, QueryRows, Scale, Texts, samples
from kernelsearch.kernels.pyramid.text_pyramid import Samples, window
from kernelsearch.kernels.semantic.graph import take_ranges

LOCAL_MODES = ("max", "mean", "sum")
MODES = (*LOCAL_MODES, "global", "points")
DIVERGENCES = ("js", "kl")
#: Columns that global matching interpolates queries and documents to by default.
GLOBAL_COLUMNS = 8
#: Tokens under the windows of the document columns that are compared at a time, which bounds the memory of a long document.
WINDOW_TOKENS = 1 << 21
#: Tokens of the documents worked on together, which bounds the memory of a level.
TOKENS = 1 << 15
#: Largest rounding errors of a similarity in single and in double precision.
SINGLE_ERROR, DOUBLE_ERROR = 1e-5, 1e-12


@dataclass(frozen=True)
class Matcher:
    """How levels are matched.

    `mode` is one of MODES, `divergence` one of DIVERGENCES, `width` the window's width (0: as the scale needs), `step` the
    distance of the columns that are compared (0: the scale), `columns` the number of columns of mode `global`.

    Parameters of the methods: `rows`, the query; `texts`, the documents; `scale`, a level of `scales`; `query` and `documents`,
    the two sides at a level; `places`, columns of the texts.
    """

    scales: tuple[Scale, ...]
    mode: str = "max"
    divergence: str = "js"
    width: int = 0
    precision: type = np.float64
    step: int = 0
    columns: int = GLOBAL_COLUMNS

    @property
    def error(self) -> float:
        """How far the similarities of equal texts, or sums of them that cancel, may be from each other by rounding."""
        return SINGLE_ERROR if self.precision == np.float32 else DOUBLE_ERROR

    def scores(self, rows: QueryRows, texts: Texts) -> Array:
        """Similarities of the query and each text at each level, shape (texts, levels)."""
        none = np.empty((0, len(self.scales)))
        return np.concatenate([none, *(self._part(rows, part) for part in texts.parts(TOKENS))])

    def scores_of_words(self, rows: QueryRows, texts: WordRanges) -> Array:
        """The same for texts as word numbers, by the compiled loop for the modes that it has, shape (texts, levels)."""
        library = compiled.loops() if self.mode in LOCAL_MODES else None
        if library is None:
            return self.scores(rows, rows.texts(*take_ranges(*texts)))
        levels = []
        for scale in self.scales:
            step = self.step or scale.step
            query = rows.query_level(scale, self.width, step=step)
            levels.append(
                level_scores(
                    library, rows, query, texts, scale,
                    mode=self.mode, divergence=self.divergence, width=self.width, step=step,
                )
            )  # fmt: skip
        return np.column_stack(levels)

    def _part(self, rows: QueryRows, texts: Texts) -> Array:
        if self.mode == "points":
            return points_score(rows, texts, self.scales, self.width, partial(self.similarity, rows))
        return np.column_stack([self._level(rows, texts, scale) for scale in self.scales])

    def _level(self, rows: QueryRows, texts: Texts, scale: Scale) -> Array:
        if self.mode == "global":
            query, documents = self.global_levels(rows, texts, scale)
            return global_score(self.similarity(rows, query, documents), query.weights, len(texts.lengths))
        query, similarity, places = self.local_similarity(rows, texts, scale)
        return local_score(similarity, query.weights, places, self.mode)

    def similarity(self, rows: QueryRows, query: QueryLevel, documents: DocumentLevel) -> Array:
        """s(j, p), shape (query columns, document columns)."""
        return column_similarity(rows, query, documents, self.divergence, self.precision)

    def global_levels(self, rows: QueryRows, texts: Texts, scale: Scale) -> tuple[QueryLevel, DocumentLevel]:
        """Both sides at a level, interpolated to the same number of columns."""
        columns = self.columns if np.isfinite(scale.spatial) else 1
        query = rows.query_level(scale, self.width, columns=columns)
        return query, rows.document_level(texts, scale, self.width, columns=columns)

    def local_similarity(self, rows: QueryRows, texts: Texts, scale: Scale) -> tuple[QueryLevel, Array, Samples]:
        """The query at a level, s(j, p), shape (query columns, document columns), and which columns those of the texts are.

        Windows as long as the query slide over them.
        """
        step = self.step or None
        query = rows.query_level(scale, self.width, step=step)
        places = samples(texts.lengths, scale, at_least=len(query.weights), step=step)
        if len(places.text) > self._columns_at_a_time(texts, scale):
            return query, self.similarity_at(rows, query, texts, places, scale), places
        documents = rows.document_level(texts, scale, self.width, at_least=len(query.weights), step=step)
        return query, self.similarity(rows, query, documents), places

    def similarity_at(self, rows: QueryRows, query: QueryLevel, texts: Texts, places: Samples, scale: Scale) -> Array:
        """s(j, p) of the query's columns and document columns at any places, shape (query columns, columns)."""
        blocks = places.blocks(self._columns_at_a_time(texts, scale))
        parts = [self.similarity(rows, query, rows.document_columns(texts, block, scale, self.width)) for block in blocks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _columns_at_a_time(self, texts: Texts, scale: Scale) -> int:
        span = int(texts.lengths.max(initial=1))
        if np.isfinite(scale.spatial):
            span = min(span, len(window(scale.spatial, self.width)))
        return max(1, WINDOW_TOKENS // max(span, 1))


def phi(x: Array) -> Array:
    """x ln x, 0 at 0."""
    return x * np.log(np.maximum(x, np.finfo(x.dtype).tiny))


def psi(a: Array, b: Array, divergence: str) -> Array:
    """A cell's part of the similarity: ½ [φ(a+b) - φ(a) - φ(b)] of ln 2 - JS (`divergence` js), or a ln(b/a) of -KL (kl).

    `a` and `b` are the probabilities of the query's and the document's cell, of shapes that broadcast together.
    """
    if divergence == "js":
        return 0.5 * (phi(a + b) - phi(a) - phi(b))
    tiny = np.finfo(b.dtype).tiny
    result: Array = a * (np.log(np.maximum(b, tiny)) - np.log(np.maximum(a, tiny)))
    return result


def column_similarity(
    rows: QueryRows, query: QueryLevel, documents: DocumentLevel, divergence: str, precision: type = np.float64
) -> Array:
    """s(j, p) for every query column and document column, shape (query columns, document columns).

    `query` and `documents` are at the same level of `rows`; `divergence` is one of DIVERGENCES. Single `precision` is several
    times faster and leaves errors of about 1e-6.
    """
    a, floor = query.columns[:, :-1], rows.floor[:-1]
    cells = documents.code.data.astype(precision)
    cells /= 1 + rows.eta
    cells += np.repeat(floor.astype(precision), np.diff(documents.code.indptr))
    other = np.maximum(rows.floor[-1] - documents.held / (1 + rows.eta), 0.0).astype(precision)
    excess = (_js_excess if divergence == "js" else _kl_excess)(a, floor, _filled(documents.code, cells))
    excess += psi(query.columns[:, -1].astype(precision)[:, None], other[None, :], divergence)
    excess += psi(a, floor[None, :], divergence).sum(axis=1)[:, None]
    return excess if documents.which is None else excess.take(documents.which, axis=1)


def _kl_excess(a: Array, floor: Array, cells: sparse.csr_matrix) -> Array:
    """Σ_r a_rj [ln b_rp - ln floor_r] over the cells of each document column, shape (query columns, columns)."""
    logs = np.log(cells.data)
    logs -= np.repeat(np.log(floor).astype(logs.dtype), np.diff(cells.indptr))
    result: Array = (_filled(cells, logs).T @ a.T.astype(logs.dtype)).T
    return result


def _js_excess(a: Array, floor: Array, cells: sparse.csr_matrix) -> Array:
    """Σ_r [ψ(a_rj, b_rp) - ψ(a_rj, floor_r)] over the cells of each document column, shape (query columns, columns).

    That is half of Σ_r φ(a+b) - φ(b) - φ(a+floor) + φ(floor). A row in which a query column has nothing but background has
    a = floor: it gives the same to all such columns. Where there are such rows, all rows are summed once with a = floor, and
    for every query column what its own rows change is added.
    """
    kind, ends, b = cells.dtype, cells.indptr, cells.data
    sizes = np.diff(ends)
    change = (phi(a + floor) - phi(2 * floor)).astype(kind)
    alike = bool((change == 0).mean() > 0.5)  # else the extra sum costs more than it saves
    base = b * np.log(b)
    out = np.zeros((len(a), cells.shape[1]), dtype=kind)
    if alike:
        empty = np.repeat(floor.astype(kind), sizes)
        empty += b
        empty *= np.log(empty)
        base += np.repeat((phi(2 * floor) - phi(floor)).astype(kind), sizes)
        out += _column_sums(cells, 0, len(floor), empty - base)
        base = empty
    else:
        change = phi(a + floor).astype(kind) - phi(floor).astype(kind)
    for mine, difference, total in zip(a.astype(kind), change, out, strict=True):
        filled = np.flatnonzero(difference)
        if not len(filled):
            continue
        low, high = int(filled[0]), int(filled[-1]) + 1  # a query column's rows are contiguous
        span = slice(ends[low], ends[high])
        values = np.repeat(mine[low:high], sizes[low:high])
        values += b[span]
        values *= np.log(values)
        values -= base[span]
        values -= np.repeat(difference[low:high], sizes[low:high])
        total += _column_sums(cells, low, high, values)
    out *= 0.5
    return out


def _column_sums(cells: sparse.csr_matrix, low: int, high: int, values: Array) -> Array:
    """The sums of values of the cells in rows low..high-1 by column, shape (columns,)."""
    ends = cells.indptr[low : high + 1]
    block = (values, cells.indices[ends[0] : ends[-1]], ends - ends[0])
    result: Array = sparse.csc_matrix(block, shape=(cells.shape[1], high - low)) @ np.ones(high - low, dtype=values.dtype)
    return result


def _filled(code: sparse.csr_matrix, values: Array) -> sparse.csr_matrix:
    """The same cells with other values; a constructor would check them all again."""
    other = copy(code)
    other.data = values
    return other


def local_windows(similarity: Array, weights: Array, places: Samples) -> tuple[Array, NDArray[np.bool_]]:
    """Σ_j w_j s(j, p + j) by a window's first column p, and which windows lie inside one document; both shape (columns,).

    `similarity` is s (query columns, columns), `weights` w (query columns,), `places` says whose the columns are.
    """
    count, columns = similarity.shape
    fit = columns - count + 1  # a document has at least as many columns as the query, so this is positive
    square = np.ascontiguousarray(similarity)
    strides = (square.strides[0] + square.strides[1], square.strides[1])
    diagonals = np.lib.stride_tricks.as_strided(square, (count, fit), strides, writeable=False)
    values, inside = np.zeros(columns), np.zeros(columns, dtype=bool)
    values[:fit] = weights @ diagonals
    inside[:fit] = places.text[:fit] == places.text[count - 1 :]
    return values, inside


def local_score(similarity: Array, weights: Array, places: Samples, mode: str) -> Array:
    """One similarity per document from its windows: their `mean`, `max`, or raw `sum` by `mode`, shape (documents,).

    `similarity`, `weights` and `places` are those of `local_windows`.
    """
    values, inside = local_windows(similarity, weights, places)
    first = np.flatnonzero(np.diff(places.text, prepend=-1))  # every document has a column
    if mode == "max":
        return np.maximum.reduceat(np.where(inside, values, -np.inf), first)
    total = np.add.reduceat(np.where(inside, values, 0.0), first)
    return total if mode == "sum" else total / np.add.reduceat(inside.astype(np.float64), first)


def global_score(similarity: Array, weights: Array, documents: int) -> Array:
    """One similarity per document where both sides have the same columns: column g with column g, shape (documents,).

    `similarity` has shape (columns, `documents` × columns), `weights` (columns,) are the query's.
    """
    count = len(weights)
    result: Array = np.einsum("g,gdg->d", weights, similarity.reshape(count, documents, count))
    return result
