"""Matching a query's pyramid with documents' pyramids, level by level, without ever building words × positions.

Yang & Zha (CIKM 2010), Section 4.2. Only the rows of the query's words and of their neighbours in the semantic graph are told
apart; the mass of all other words is one cell, so that every column stays a distribution and the divergences stay
divergences (of a coarser partition of the vocabulary). A column of a document is sparse over these rows, and a row
where it has nothing but background contributes a constant; so the similarity of query column j and document column p is

    s(j, p) = s(j, background) + Σ_{r in column p} [ψ(a_rj, b_rp) - ψ(a_rj, b_r)] + the same for the cell of other words,

ψ(a, b) = ½ [φ(a+b) - φ(a) - φ(b)], φ(x) = x ln x, for ln 2 - Jensen-Shannon (Eq. 11), and a ln(b/a) for -KL. Windows are renormalised to
mass one, which makes a window's similarity the mean of its columns' similarities: a mean along a diagonal of s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.kernels.pyramid import Samples, interpolated_operator, spatial_operator
from kernelsearch.kernels.semantic_graph import SemanticGraph

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """One level: the scale along positions and the scale along words."""

    spatial: float
    semantic: float

    @property
    def step(self) -> int:
        """Columns of a coarse level are nearly alike: every σ/2-th is looked at, as image pyramids subsample."""
        return max(1, int(self.spatial / 2)) if self.spatial < math.inf else 1


@dataclass(frozen=True)
class Texts:
    """Texts one after another: `lengths` (texts,) and for each token its word's slot, `slots` (tokens,); see QueryRows."""

    lengths: NDArray[np.int64]
    slots: NDArray[np.int64]


class QueryRows:
    """The words that a query tells apart: its own, then neighbours by the mass they receive, `limit` at most.

    - `words` (rows,): word numbers; `query` (terms,): the query's words in order; `weights` (terms,)
    - `background` (rows+1,): the background's mass on the rows and on all other words
    """

    def __init__(
        self,
        graph: SemanticGraph,
        query: NDArray[np.integer],
        weights: Array,
        background: Array,
        scales: tuple[Scale, ...],
        *,
        eta: float,
        limit: int,
    ) -> None:
        self.graph, self.eta = graph, eta
        self.query, self.weights = np.asarray(query, dtype=np.int64), np.asarray(weights, dtype=np.float64)
        widest = max(scale.semantic for scale in scales)
        # S is made of symmetric weights, so the words that a query word lends to are the columns of its row.
        reach = graph.rows(self.query, widest)
        mass = np.bincount(reach.indices, np.repeat(self.weights, np.diff(reach.indptr)) * reach.data)
        mass[self.query] = np.inf
        words = np.unique(reach.indices)
        self.words = np.sort(words[np.argsort(-mass[words], kind="stable")[: max(limit, len(self.query))]]).astype(np.int64)
        base = background[self.words]
        self.background: Array = np.append(base, max(0.0, 1.0 - base.sum()))
        self._lenders = {scale: graph.rows(self.words, scale) for scale in {scale.semantic for scale in scales}}
        #: words that lend to one of the rows, at any scale, and their slots
        self.relevant = np.unique(np.concatenate([rows.indices for rows in self._lenders.values()]))
        self._spread = {scale: self._columns(rows) for scale, rows in self._lenders.items()}

    def _columns(self, rows: sparse.csr_matrix) -> sparse.csr_matrix:
        """What a token of each relevant word gives to the rows, shape (relevant+1, rows); the last slot is for other words."""
        slots = np.searchsorted(self.relevant, rows.indices)
        shape = (len(self.words), len(self.relevant) + 1)
        matrix = sparse.csr_matrix((rows.data, slots, rows.indptr), shape=shape).T.tocsr()
        matrix.eliminate_zeros()
        return matrix

    def texts(self, indptr: NDArray[np.integer], words: NDArray[np.integer]) -> Texts:
        """Texts (word numbers in reading order) seen through this query's rows."""
        lookup = np.full(self.graph.words, len(self.relevant), dtype=np.int64)
        lookup[self.relevant] = np.arange(len(self.relevant))
        return Texts(np.diff(indptr).astype(np.int64), lookup[words])

    def spread(self, texts: Texts, scale: Scale) -> sparse.csr_matrix:
        """Every token over the rows, shape (tokens, rows)."""
        return self._spread[scale.semantic][texts.slots]

    def query_texts(self) -> Texts:
        return self.texts(np.array([0, len(self.query)]), self.query)

    def distribution(self, code: sparse.csr_matrix) -> sparse.csr_matrix:
        """(code + η b) / (1 + η) where the code has something; columns' other rows are b's share, see `floor`."""
        mixed = code.copy()
        mixed.data = (mixed.data + self.eta * self.background[mixed.indices]) / (1 + self.eta)
        return mixed

    @property
    def floor(self) -> Array:
        """A column without any relevant token, shape (rows+1,): background on the rows, the rest in the last cell."""
        rows = self.eta * self.background[:-1] / (1 + self.eta)
        return np.append(rows, 1.0 - rows.sum())


@dataclass(frozen=True)
class QueryLevel:
    """A query at one level: `columns` (columns, rows+1) are distributions, `weights` (columns,) sum to one."""

    columns: Array
    weights: Array


def query_level(rows: QueryRows, scale: Scale, width: int, *, columns: int | None = None, step: int | None = None) -> QueryLevel:
    """The query smoothed at a level; a term's weight counts inside its window, and a window's mass is its column's weight."""
    texts = rows.query_texts()
    if columns is not None:
        window = interpolated_operator(texts.lengths, columns, scale.spatial, width)
    else:
        samples = _samples(texts.lengths, scale, 1, step)
        window = spatial_operator(texts.lengths, samples, scale.spatial, width)
    weighted = sparse.csr_matrix(window.multiply(rows.weights[None, :]))
    mass = np.asarray(weighted.sum(axis=1)).ravel()
    code = (weighted @ rows.spread(texts, scale)).toarray() / mass[:, None]
    held = (code + rows.eta * rows.background[:-1]) / (1 + rows.eta)
    full = np.column_stack([held, np.maximum(1.0 - held.sum(axis=1), 0.0)])
    return QueryLevel(full, mass / mass.sum())


def _samples(lengths: NDArray[np.int64], scale: Scale, at_least: int, step: int | None) -> Samples:
    if scale.spatial == math.inf:
        return Samples(np.arange(len(lengths)), np.zeros(len(lengths), dtype=np.int64))
    return Samples.every(lengths, scale.step if step is None else step, at_least)


@dataclass(frozen=True)
class DocumentLevel:
    """Documents at one level: `code` (columns, rows) sparse, and which document and position each column is of."""

    code: sparse.csr_matrix
    samples: Samples
    starts: NDArray[np.int64]  #: each document's first column, shape (documents + 1,)


def document_level(
    rows: QueryRows, texts: Texts, scale: Scale, width: int, *, columns: int | None = None, at_least: int = 1, step: int | None = None
) -> DocumentLevel:
    """Candidates smoothed at a level: interpolated to `columns` columns, or every `step`-th column, `at_least` so many."""
    documents = len(texts.lengths)
    if columns is not None:
        window = interpolated_operator(texts.lengths, columns, scale.spatial, width)
        samples = Samples(np.repeat(np.arange(documents), columns), np.tile(np.arange(columns), documents))
    else:
        samples = _samples(texts.lengths, scale, at_least, step)
        window = spatial_operator(texts.lengths, samples, scale.spatial, width)
    starts = np.searchsorted(samples.text, np.arange(documents + 1))
    return DocumentLevel((window @ rows.spread(texts, scale)).tocsr(), samples, starts)


def phi(x: Array) -> Array:
    """x ln x, 0 at 0."""
    return x * np.log(np.where(x > 0, x, 1.0))


def psi(a: Array, b: Array, divergence: str) -> Array:
    """A cell's part of the similarity: ½ [φ(a+b) - φ(a) - φ(b)] of ln 2 - JS, or a ln(b/a) of -KL(query || document)."""
    if divergence == "js":
        return 0.5 * (phi(a + b) - phi(a) - phi(b))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a > 0, a * (np.log(b) - np.log(a)), 0.0)


def column_similarity(rows: QueryRows, query: QueryLevel, document: DocumentLevel, divergence: str) -> Array:
    """s(j, p) for every query column and document column, shape (query columns, document columns)."""
    code, floor = document.code, rows.floor
    mixed = rows.distribution(code)
    held = np.asarray(code.sum(axis=1)).ravel() / (1 + rows.eta)
    other = np.maximum(floor[-1] - held, 0.0)
    a = query.columns
    base = psi(a[:, :-1], floor[None, :-1], divergence)
    if divergence == "js":
        excess = _js_excess(a[:, :-1], mixed, floor[:-1], base)
    else:
        gain = sparse.csr_matrix((np.log(mixed.data / floor[mixed.indices]), mixed.indices, mixed.indptr), shape=mixed.shape)
        excess = (gain @ a[:, :-1].T).T
    return base.sum(axis=1)[:, None] + excess + psi(a[:, -1][:, None], other[None, :], divergence)


#: Cells worked on at a time: the temporaries stay in the processor's cache.
BLOCK = 1 << 15


def _js_excess(a: Array, mixed: sparse.csr_matrix, floor: Array, base: Array) -> Array:
    """Σ_r [ψ(a_rj, b_rp) - ψ(a_rj, floor_r)] over the cells of each document column, shape (query columns, columns)."""
    # Per cell ½ [φ(a+b) - φ(b)] minus a constant of (row, query column); only the first logarithm needs both sides.
    constant = 0.5 * phi(a) + base
    own = 0.5 * phi(mixed.data)
    out = np.empty((len(a), mixed.shape[0]))
    cells = len(mixed.data)
    for j in range(len(a)):
        value = np.empty(cells)
        for low in range(0, cells, BLOCK):
            part = slice(low, low + BLOCK)
            place = mixed.indices[part]
            total = a[j][place] + mixed.data[part]
            value[part] = 0.5 * total * np.log(total) - own[part] - constant[j][place]
        running = np.concatenate([[0.0], np.cumsum(value)])
        out[j] = running[mixed.indptr[1:]] - running[mixed.indptr[:-1]]
    return out


def window_similarity(similarity: Array, weights: Array) -> Array:
    """Means along diagonals, Σ_j w_j s(j, p + j), for every column p where the query fits; shape (columns - J + 1,)."""
    count, columns = similarity.shape
    square = np.ascontiguousarray(similarity)
    step = square.strides[0] + square.strides[1]
    diagonal = np.lib.stride_tricks.as_strided(
        square, (count, columns - count + 1), (step, square.strides[1]), writeable=False
    )
    return weights @ diagonal


def local_windows(similarity: Array, weights: Array, document: DocumentLevel) -> tuple[Array, NDArray[np.bool_]]:
    """Window similarities by their first column, and which of them lie inside one document; both shape (columns,)."""
    count, columns = similarity.shape
    inside = np.zeros(columns, dtype=bool)
    values = np.full(columns, -np.inf)
    if columns >= count:
        values[: columns - count + 1] = window_similarity(similarity, weights)
        text = document.samples.text
        inside[: columns - count + 1] = text[: columns - count + 1] == text[count - 1 :]
    return values, inside


def local_score(similarity: Array, weights: Array, document: DocumentLevel, how: str) -> Array:
    """One similarity a document from its windows: their `mean`, `max`, or raw `sum` (which rewards length)."""
    values, inside = local_windows(similarity, weights, document)
    first = document.starts[:-1]
    if how == "max":
        return np.maximum.reduceat(np.where(inside, values, -np.inf), first)
    total = np.add.reduceat(np.where(inside, values, 0.0), first)
    return total if how == "sum" else total / np.add.reduceat(inside.astype(np.float64), first)


def global_score(similarity: Array, weights: Array, documents: int) -> Array:
    """One similarity a document when both sides have the same number of columns: column g with column g."""
    count = len(weights)
    return np.einsum("g,gdg->d", weights, similarity.reshape(count, documents, count))
