"""The part of the pyramid that a query needs: rows of its words and their neighbours, for many documents at once.

The full matrix of words × positions is never built. Only the query's words and their neighbours in the semantic graph have
separate rows; the weight of all other words is one more cell, so that every column is a distribution and a divergence
between columns is a divergence (of a coarser partition of the vocabulary).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.kernels.pyramid.text_pyramid import Samples, centred_operator, spatial_operator, window
from kernelsearch.kernels.semantic.graph import RelatedWords, SemanticGraph

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """One level: the scales along positions and along words, and a window's width in positions (0: as the scale needs)."""

    spatial: float
    semantic: float
    width: int = 0

    @property
    def step(self) -> int:
        """The default step: columns of a coarse level are nearly alike, so every σ-th is compared, as image pyramids do."""
        return max(1, int(self.spatial)) if self.spatial < math.inf else 1


@dataclass(frozen=True)
class Texts:
    """Texts one after another: `lengths` (texts,), and for each token its word's slot in QueryRows and its mass.

    Words that contribute nothing to the query's rows share the slot `irrelevant`.
    """

    lengths: NDArray[np.int64]
    slots: NDArray[np.int64]
    mass: Array | None
    irrelevant: int

    def parts(self, tokens: int) -> Iterator[Texts]:
        """The same texts, some at a time: as many as begin within so many tokens."""
        ends = np.concatenate([[0], np.cumsum(self.lengths)])
        starts = np.unique(ends[:-1] // tokens, return_index=True)[1]
        for low, high in pairwise([*starts.tolist(), len(self.lengths)]):
            span = slice(ends[low], ends[high])
            yield Texts(
                self.lengths[low:high], self.slots[span], None if self.mass is None else self.mass[span], self.irrelevant
            )


@dataclass(frozen=True)
class QueryLevel:
    """A query at one level: `columns` (columns, rows+1) are distributions, `weights` (columns,) sum to one."""

    columns: Array
    weights: Array


@dataclass(frozen=True)
class DocumentLevel:
    """Documents at one level: `code` (rows, columns) sparse, without background, and whose column each one is.

    `held` (columns,) is each column's mass on the rows; `first` (documents,) is each document's first column. Where columns
    repeat each other (at scale 0 a column is its word), `code` and `held` are of the distinct ones and `which` (columns,)
    says which of them a column is.
    """

    code: sparse.csr_matrix
    held: Array
    samples: Samples
    first: NDArray[np.int64]
    which: NDArray[np.int64] | None = None

    def written_out(self) -> tuple[Array, Array]:
        """Code and mass of every column, repeated ones too, dense; shapes (rows, columns) and (columns,)."""
        code = self.code.toarray()
        return (code, self.held) if self.which is None else (code[:, self.which], self.held[self.which])


class LentBySlot(NamedTuple):
    """What a token of each slot gives to the rows: those of slot s are at ends[s] to ends[s+1]-1; `held` is their sum."""

    ends: NDArray[np.int64]
    rows: NDArray[np.int32]
    values: Array
    held: Array


class QueryRows:
    """The words with rows of their own: the query's, then neighbours by the mass they receive, `limit` rows at most.

    - `words` (rows,): word numbers, in the order in which the query's words reach them
    - `query` (terms,): the query's words in order; `weights` (terms,): their weights
    - `background` (rows,): the background's probability of the rows
    - `floor` (rows+1,): a document column without any relevant token; the last cell is all other words
    - `relevant`: words that contribute to a row at any scale; `slots` (vocabulary,): a word's place in `relevant`, and the
      number of relevant words for all other words

    The constructor takes the `graph` of words, the `scales` of the levels, `eta`, the share of the background in a column, and
    the `importance` of each word of the vocabulary, if it differs. Parameters of the methods: `scale`, a level, `semantic` its
    scale along words, one of those of the constructor; `texts`, texts seen through these rows.
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
        importance: Array | None = None,
    ) -> None:
        self.graph, self.eta, self.importance = graph, eta, importance
        self.query, self.weights = np.asarray(query, dtype=np.int64), np.asarray(weights, dtype=np.float64)
        # The graph's weights are symmetric, so the words that a query word contributes to are the columns of its row.
        reach = graph.weights_of(self.query, max(scale.semantic for scale in scales))
        # A neighbour that receives nothing, as all do at scale 0, is one of the other words.
        receives = reach.weights > 0
        received = (np.repeat(self.weights, np.diff(reach.indptr)) * reach.weights)[receives]
        words, seen, places = np.unique(reach.words[receives], return_index=True, return_inverse=True)
        mass = np.bincount(places, received)
        mass[np.searchsorted(words, self.query)] = np.inf
        largest = np.sort(np.argsort(-mass, kind="stable")[: max(limit, len(self.query))])
        # Rows of neighbouring query words are contiguous: matching works on runs of rows.
        self.words = words[largest[np.argsort(seen[largest])]].astype(np.int64)
        self.background: Array = np.asarray(background[self.words], dtype=np.float64)
        rows = eta * self.background / (1 + eta)
        self.floor: Array = np.append(rows, 1.0 - rows.sum())
        lenders = {semantic: graph.weights_of(self.words, semantic) for semantic in {scale.semantic for scale in scales}}
        lends = np.zeros(graph.words, dtype=bool)
        for lender in lenders.values():
            lends[lender.words] = True
        self.relevant = np.flatnonzero(lends)
        self.slots = np.full(graph.words, len(self.relevant), dtype=np.int32)
        self.slots[self.relevant] = np.arange(len(self.relevant), dtype=np.int32)
        self._by_slot = {semantic: self._lent_by_slot(lender) for semantic, lender in lenders.items()}
        self._lent: dict[float, sparse.csr_matrix] = {}
        self._query_levels: dict[tuple[Scale, int], QueryLevel] = {}
        #: the query as a text
        self.own = self.texts(np.array([0, len(self.query)]), self.query)

    def _lent_by_slot(self, lender: RelatedWords) -> LentBySlot:
        filled = np.flatnonzero(lender.weights)
        row = np.repeat(np.arange(len(self.words), dtype=np.int32), np.diff(lender.indptr))[filled]
        slots, values = self.slots[lender.words[filled]], lender.weights[filled]
        count = len(self.relevant) + 1
        order = np.argsort(_short(slots, count), kind="stable")
        ends = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(slots, minlength=count), out=ends[1:])
        held = np.bincount(slots, values, count).astype(np.float64)
        return LentBySlot(ends, row[order], values[order], held)

    def lent_by_slot(self, semantic: float) -> LentBySlot:
        """What a token of each slot gives to the rows at a scale along words."""
        return self._by_slot[semantic]

    def lent(self, semantic: float) -> sparse.csr_matrix:
        """The same as a matrix, shape (rows, relevant+1)."""
        if semantic not in self._lent:
            by_slot = self._by_slot[semantic]
            parts = (by_slot.values, by_slot.rows, by_slot.ends)
            self._lent[semantic] = sparse.csc_matrix(parts, shape=(len(self.words), len(self.relevant) + 1)).tocsr()
        return self._lent[semantic]

    def texts(self, indptr: NDArray[np.integer], words: NDArray[np.integer]) -> Texts:
        """Texts seen through this query's rows: text i is words[indptr[i]:indptr[i+1]], word numbers in reading order."""
        mass = None if self.importance is None else self.importance[words]
        return Texts(np.diff(indptr).astype(np.int64), self.slots[words].astype(np.int64), mass, len(self.relevant))

    def spread(self, texts: Texts, scale: Scale) -> Array:
        """Every token over the rows, dense: for one short text, shape (rows, tokens)."""
        lent = self._by_slot[scale.semantic]
        starts = lent.ends[texts.slots]
        sizes = lent.ends[texts.slots + 1] - starts
        places = np.arange(sizes.sum()) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        table = np.zeros((len(self.words), len(sizes)))
        table[lent.rows[places], np.repeat(np.arange(len(sizes)), sizes)] = lent.values[places]
        return table

    def sparse_spread(self, texts: Texts, scale: Scale) -> sparse.csr_matrix:
        """Every token over the rows, shape (rows, tokens)."""
        return self.lent(scale.semantic)[:, texts.slots]

    def held(self, texts: Texts, scale: Scale) -> Array:
        """The mass that each token gives to the rows together, shape (tokens,)."""
        return self._by_slot[scale.semantic].held[texts.slots]

    def query_level(self, scale: Scale, step: int = 0) -> QueryLevel:
        """The query smoothed at a level, at every `step`-th column (0: the scale's step), sampled around the query's middle.

        A query no longer than a step is one column, which weighs the words to both sides of the middle alike.
        """
        key = (scale, step or scale.step)
        if key not in self._query_levels:
            windows = centred_operator(len(self.query), step or scale.step, scale.spatial, scale.width)
            self._query_levels[key] = self.smoothed_query(windows, scale)
        return self._query_levels[key]

    def smoothed_query(self, windows: Array, scale: Scale) -> QueryLevel:
        """The query at a level in `windows` (columns, terms).

        A term's weight counts inside its window; a window's mass is its column's weight.
        """
        # A query is small: plain matrices are quicker here than sparse ones.
        weighted = windows * self.weights
        mass = weighted.sum(axis=1)
        code = weighted @ self.spread(self.own, scale).T / mass[:, None]
        held = (code + self.eta * self.background) / (1 + self.eta)
        full = np.column_stack([held, np.maximum(1.0 - held.sum(axis=1), 0.0)])
        return QueryLevel(full, mass / mass.sum())

    def document_level(self, texts: Texts, scale: Scale, *, at_least: int = 1, step: int = 0) -> DocumentLevel:
        """Documents smoothed at a level, at every `step`-th column (0: the scale's step).

        Documents with fewer than `at_least` columns are padded with columns of nothing but background.
        """
        if 0 < scale.spatial < math.inf:
            return self._stepped(texts, scale, at_least, step or scale.step)
        return self.document_columns(texts, samples(texts.lengths, scale, at_least, step), scale)

    def _stepped(self, texts: Texts, scale: Scale, at_least: int, step: int) -> DocumentLevel:
        """The same as `document_columns` at every `step`-th position, from the relevant tokens alone.

        Other tokens add nothing to the rows; they count in the mass of the windows, by which columns are divided.
        """
        weights = window(scale.spatial, scale.width)
        half = len(weights) // 2
        places = Samples.every(texts.lengths, step, at_least)
        filled = (texts.lengths + step - 1) // step  # columns that begin inside a text; those after them stay empty
        counts = np.maximum(filled, at_least)
        first = np.cumsum(counts) - counts
        shares = 1.0 / _window_masses(texts, places, weights)
        tokens = np.flatnonzero(texts.slots != texts.irrelevant)
        # By slot, as the product below needs them.
        tokens = tokens[np.argsort(_short(texts.slots[tokens], texts.irrelevant + 1), kind="stable")]
        slots = texts.slots[tokens]
        starts = np.cumsum(texts.lengths) - texts.lengths
        text = np.repeat(np.arange(len(starts)), texts.lengths)[tokens]
        position = tokens - starts[text]
        low = np.maximum((position - half + step - 1) // step, 0)
        sizes = np.minimum((position + half) // step, filled[text] - 1) - low + 1
        ends = np.concatenate([[0], np.cumsum(sizes)])
        columns = np.arange(ends[-1])
        columns += np.repeat(first[text] + low - ends[:-1], sizes)
        offsets = np.repeat(position + half + first[text] * step, sizes)
        offsets -= columns * step
        data = weights.take(offsets)
        data *= shares.take(columns)
        if texts.mass is not None:
            data *= np.repeat(texts.mass[tokens], sizes)
        indptr = ends[np.searchsorted(slots, np.arange(texts.irrelevant + 2))]
        words = sparse.csr_matrix((data, columns, indptr), shape=(texts.irrelevant + 1, len(places.text)))
        return DocumentLevel(self.lent(scale.semantic) @ words, words.T @ self._by_slot[scale.semantic].held, places, first)

    def document_columns(self, texts: Texts, samples: Samples, scale: Scale) -> DocumentLevel:
        """Documents smoothed at a level, at the columns `samples`; the field `first` needs these in the order of the texts."""
        first = np.searchsorted(samples.text, np.arange(len(texts.lengths)))
        if scale.spatial == 0:
            start = (np.cumsum(texts.lengths) - texts.lengths)[samples.text]
            inside = samples.position < texts.lengths[samples.text]
            which = np.full(len(inside), texts.irrelevant)
            which[inside] = texts.slots[(start + samples.position)[inside]]
            return DocumentLevel(self.lent(scale.semantic), self._by_slot[scale.semantic].held, samples, first, which)
        window = spatial_operator(texts.lengths, samples, scale.spatial, scale.width, texts.mass)
        return self.smoothed(texts, window, scale, samples, first)

    def smoothed(
        self, texts: Texts, window: sparse.csr_matrix, scale: Scale, samples: Samples, first: NDArray[np.int64]
    ) -> DocumentLevel:
        """Documents at a level whose columns are the `window`s (columns, tokens) over the texts.

        `samples` and `first` are those of DocumentLevel.
        """
        return DocumentLevel(self.code(texts, window, scale), window @ self.held(texts, scale), samples, first)

    def code(self, texts: Texts, window: sparse.csr_matrix, scale: Scale) -> sparse.csr_matrix:
        """What `window` (columns, tokens) over the texts holds of the rows, without background, shape (rows, columns)."""
        slots = texts.slots.astype(window.indices.dtype)[window.indices]
        words = sparse.csr_matrix((window.data, slots, window.indptr), shape=(window.shape[0], texts.irrelevant + 1))
        return sparse.csr_matrix(self.lent(scale.semantic) @ words.T.tocsr())


def _short(numbers: NDArray[np.integer], count: int) -> NDArray[np.integer]:
    """Numbers from 0 to `count` - 1 in 16 bits where they fit: numpy sorts these several times as fast."""
    return numbers.astype(np.uint16) if count <= 1 << 16 else numbers


def _window_masses(texts: Texts, samples: Samples, weights: Array) -> Array:
    """The mass of all tokens inside the window around each sample, shape (columns,); 1 for samples beyond their text's end."""
    half, lengths = len(weights) // 2, texts.lengths
    # Texts with a gap of half a window between them, so that no window reaches into another text.
    shift = np.arange(1, len(lengths) + 1) * half
    padded = np.zeros(int(lengths.sum()) + (len(lengths) + 1) * half + 1)
    padded[np.arange(int(lengths.sum())) + np.repeat(shift, lengths)] = 1.0 if texts.mass is None else texts.mass
    inside = np.flatnonzero(samples.position < lengths[samples.text])
    text = samples.text[inside]
    centres = (np.cumsum(lengths) - lengths + shift)[text] + samples.position[inside]
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(weights))
    out = np.ones(len(samples.text))
    out[inside] = windows[centres - half] @ weights
    return out


def samples(lengths: NDArray[np.int64], scale: Scale, at_least: int = 1, step: int = 0) -> Samples:
    """The columns of texts that a level compares: every `step`-th (0: the step of `scale`), at scale ∞ one per text.

    `lengths` (texts,) are in tokens; a short text gets empty columns up to `at_least`, except at scale ∞.
    """
    if scale.spatial == math.inf:
        return Samples(np.arange(len(lengths)), np.zeros(len(lengths), dtype=np.int64))
    return Samples.every(lengths, step or scale.step, at_least)


def filled(texts: Texts) -> Texts:
    """The same `texts`, empty ones with one irrelevant token, so that each has a column of nothing but background."""
    if texts.lengths.all():
        return texts
    places = (np.cumsum(texts.lengths) - texts.lengths)[texts.lengths == 0]
    mass = None if texts.mass is None else np.insert(texts.mass, places, 1.0)
    return Texts(np.maximum(texts.lengths, 1), np.insert(texts.slots, places, texts.irrelevant), mass, texts.irrelevant)
