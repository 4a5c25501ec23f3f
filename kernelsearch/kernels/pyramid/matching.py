"""Matching a query's pyramid with documents' pyramids, level by level.

Yang & Zha (CIKM 2010), Section 4.2. A document column is sparse over the query's rows, and a row where it has nothing but
background contributes a constant; so the similarity of query column j and document column p is

    s(j, p) = s(j, background) + Σ_{r in column p} [ψ(a_rj, b_rp) - ψ(a_rj, floor_r)] + the change of the cell of other words,

with ψ(a, b) = ½ [φ(a+b) - φ(a) - φ(b)], φ(x) = x ln x, for ln 2 - Jensen-Shannon (Eq. 11). Windows are renormalised to mass
one, which makes a window's similarity the mean of its columns' similarities: a mean along a diagonal of s. A document has that
of its best window.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.core import compiled
from kernelsearch.kernels.pyramid.compiled import WordRanges, level_scores
from kernelsearch.kernels.pyramid.query_rows import Array, DocumentLevel, QueryLevel, QueryRows, Scale, Texts, samples
from kernelsearch.kernels.pyramid.text_pyramid import Samples, spatial_operator, window
from kernelsearch.kernels.semantic.graph import take_ranges

#: Tokens under the windows of the document columns that are compared at a time, which bounds the memory of a long document.
WINDOW_TOKENS = 1 << 21
#: Tokens of the documents worked on together, which bounds the memory of a level.
TOKENS = 1 << 15
#: Largest rounding errors of a similarity in single and in double precision.
SINGLE_ERROR, DOUBLE_ERROR = 1e-5, 1e-12


class Divergence(NamedTuple):
    """How columns are compared.

    `cell(a, b)` is ψ, a cell's part of the similarity, of a query's and a document's probabilities. `excess(a, floor, cells)`
    is Σ_r [ψ(a_rj, b_rp) - ψ(a_rj, floor_r)] over the cells of each document column, shape (query columns, columns).
    """

    cell: Callable[[Array, Array], Array]
    excess: Callable[[Array, Array, sparse.csr_matrix], Array]


@dataclass(frozen=True)
class Aligned:
    """The query's columns, the document's windows (columns, tokens), and triples (query column, document column, weight).

    Only document columns that are compared have a window.
    """

    query: QueryLevel
    window: sparse.csr_matrix
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], Array]


def phi(x: Array) -> Array:
    """x ln x, 0 at 0."""
    return x * np.log(np.maximum(x, np.finfo(x.dtype).tiny))


def psi(a: Array, b: Array) -> Array:
    """A cell's part of ln 2 - JS, ½ [φ(a+b) - φ(a) - φ(b)].

    `a` and `b` are the probabilities of the query's and the document's cell, of shapes that broadcast together.
    """
    return 0.5 * (phi(a + b) - phi(a) - phi(b))


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


#: ln 2 - JS (Eq. 11).
JENSEN_SHANNON = Divergence(psi, _js_excess)


@dataclass(frozen=True)
class Matcher:
    """Levels matched by the best window: as long as the query, it slides over a document's columns.

    `scales` are the levels, `step` is the distance of the columns that are compared (0: the scale), `divergence` compares
    columns, in single or double `precision`.

    Parameters of the methods: `rows`, the query; `texts`, the documents; `scale`, a level of `scales`; `query` and `documents`,
    the two sides at a level; `places`, columns of the texts.
    """

    scales: tuple[Scale, ...]
    step: int = 0
    divergence: Divergence = JENSEN_SHANNON
    precision: type = np.float64

    @property
    def error(self) -> float:
        """How far the similarities of equal texts, or sums of them that cancel, may be from each other by rounding."""
        return SINGLE_ERROR if self.precision == np.float32 else DOUBLE_ERROR

    def scores(self, rows: QueryRows, texts: Texts) -> Array:
        """Similarities of the query and each text at each level, shape (texts, levels)."""
        none = np.empty((0, len(self.scales)))
        return np.concatenate([none, *(self.part_scores(rows, part) for part in texts.parts(TOKENS))])

    def scores_of_words(self, rows: QueryRows, texts: WordRanges) -> Array:
        """The same for texts as word numbers, by the compiled loop where it is built, shape (texts, levels)."""
        library = compiled.loops() if self.divergence is JENSEN_SHANNON else None
        if library is None:
            return self.scores(rows, rows.texts(*take_ranges(*texts)))
        steps = [self.step or scale.step for scale in self.scales]
        return np.column_stack([
            level_scores(library, rows, rows.query_level(scale, step), texts, scale, step)
            for scale, step in zip(self.scales, steps, strict=True)
        ])  # fmt: skip

    def part_scores(self, rows: QueryRows, texts: Texts) -> Array:
        """`scores` of one part of the texts."""
        return np.column_stack([self.level_score(rows, texts, scale) for scale in self.scales])

    def level_score(self, rows: QueryRows, texts: Texts, scale: Scale) -> Array:
        """The similarity of each text at a level, shape (texts,)."""
        query, similarity, places = self.local_similarity(rows, texts, scale)
        return best_windows(similarity, query.weights, places)

    def similarity(self, rows: QueryRows, query: QueryLevel, documents: DocumentLevel) -> Array:
        """s(j, p), shape (query columns, document columns)."""
        return column_similarity(rows, query, documents, self.divergence, self.precision)

    def local_similarity(self, rows: QueryRows, texts: Texts, scale: Scale) -> tuple[QueryLevel, Array, Samples]:
        """The query at a level, s(j, p), shape (query columns, document columns), and which columns those of the texts are."""
        query = rows.query_level(scale, self.step)
        places = samples(texts.lengths, scale, at_least=len(query.weights), step=self.step)
        if len(places.text) > self._columns_at_a_time(texts, scale):
            return query, self.similarity_at(rows, query, texts, places, scale), places
        documents = rows.document_level(texts, scale, at_least=len(query.weights), step=self.step)
        return query, self.similarity(rows, query, documents), places

    def similarity_at(self, rows: QueryRows, query: QueryLevel, texts: Texts, places: Samples, scale: Scale) -> Array:
        """s(j, p) of the query's columns and document columns at any places, shape (query columns, columns)."""
        blocks = places.blocks(self._columns_at_a_time(texts, scale))
        parts = [self.similarity(rows, query, rows.document_columns(texts, block, scale)) for block in blocks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _columns_at_a_time(self, texts: Texts, scale: Scale) -> int:
        span = int(texts.lengths.max(initial=1))
        if np.isfinite(scale.spatial):
            span = min(span, len(window(scale.spatial, scale.width)))
        return max(1, WINDOW_TOKENS // max(span, 1))

    def alignments(self, rows: QueryRows, text: Texts) -> list[Aligned]:
        """What is compared at each level for one text that isn't empty."""
        return [self._alignment(rows, text, scale) for scale in self.scales]

    def _alignment(self, rows: QueryRows, text: Texts, scale: Scale) -> Aligned:
        query, similarity, places = self.local_similarity(rows, text, scale)
        values, inside = local_windows(similarity, query.weights, places)
        best = np.where(inside, values, -np.inf).argmax()
        mine = np.arange(len(query.weights))
        return aligned_columns(query, text, places, (mine, best + mine, query.weights), scale)


def column_similarity(
    rows: QueryRows, query: QueryLevel, documents: DocumentLevel, divergence: Divergence, precision: type = np.float64
) -> Array:
    """s(j, p) for every query column and document column, shape (query columns, document columns).

    `query` and `documents` are at the same level of `rows`; `divergence` compares them. Single `precision` is several times
    faster and leaves errors of about 1e-6.
    """
    a, floor = query.columns[:, :-1], rows.floor[:-1]
    cells = documents.code.data.astype(precision)
    cells /= 1 + rows.eta
    cells += np.repeat(floor.astype(precision), np.diff(documents.code.indptr))
    other = np.maximum(rows.floor[-1] - documents.held / (1 + rows.eta), 0.0).astype(precision)
    excess = divergence.excess(a, floor, with_values(documents.code, cells))
    excess += divergence.cell(query.columns[:, -1].astype(precision)[:, None], other[None, :])
    excess += divergence.cell(a, floor[None, :]).sum(axis=1)[:, None]
    return excess if documents.which is None else excess.take(documents.which, axis=1)


def with_values(code: sparse.csr_matrix, values: Array) -> sparse.csr_matrix:
    """The cells of `code` with other `values`; a constructor would check them all again."""
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


def best_windows(similarity: Array, weights: Array, places: Samples) -> Array:
    """The similarity of each document's best window, shape (documents,).

    `similarity`, `weights` and `places` are those of `local_windows`.
    """
    values, inside = local_windows(similarity, weights, places)
    first = np.flatnonzero(np.diff(places.text, prepend=-1))  # every document has a column
    return np.maximum.reduceat(np.where(inside, values, -np.inf), first)


def aligned_columns(
    query: QueryLevel,
    text: Texts,
    places: Samples,
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], Array],
    scale: Scale,
) -> Aligned:
    """The `query` and the `pairs` of `Aligned` at `scale`.

    The windows are those of the columns `places` of `text` that the pairs name.
    """
    mine, theirs, weights = pairs
    compared, theirs = np.unique(theirs, return_inverse=True)
    columns = Samples(places.text[compared], places.position[compared])
    windows = spatial_operator(text.lengths, columns, scale.spatial, scale.width, text.mass)
    return Aligned(query, windows, (mine, theirs, weights))
