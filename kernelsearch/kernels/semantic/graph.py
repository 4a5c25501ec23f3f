"""The semantic axis of the language pyramid: an undirected graph of related words with distances.

Yang & Zha (CIKM 2010), Section 2.2. Word i contributes to a neighbour j with weight exp(-d_ij²/2σ²) (Eq. 8), a word's
weights (its own included, d = 0) being normalised to one. Distances are brought to the order of the spatial axis,
as the paper does (footnote 3), so that one scale serves both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

#: Mean distance between neighbours: the mean |t| of the paper's window of five positions, the middle left out.
SPATIAL_ORDER = 1.5
#: Co-occurring pairs held at a time, and tokens processed together, unless a memory limit requires fewer.
PAIRS, BLOCK = 20_000_000, 2_000_000

#: Left words, right words, similarities.
Edges = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


class RelatedWords(NamedTuple):
    """Words with the weights that some words receive from them, row after row: row i is at indptr[i] to indptr[i+1]-1."""

    indptr: NDArray[np.int64]
    words: NDArray[np.int64]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class SemanticGraph:
    """Distances between related words, symmetric, as CSR arrays without a diagonal; `words` is the vocabulary's size.

    `scale` of the methods is σ, the scale along words, from 0 to ∞ in the distances' unit.
    """

    words: int
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    distances: NDArray[np.float32]
    _cache: dict[float, NDArray[np.float64]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def empty(cls, words: int) -> SemanticGraph:
        """A graph of `words` words without neighbours: semantic smoothing changes nothing."""
        return cls(words, np.zeros(words + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))

    @classmethod
    def from_edges(
        cls, words: int, left: NDArray[np.integer], right: NDArray[np.integer], similarity: NDArray[np.floating]
    ) -> SemanticGraph:
        """From similarities in (0, 1]: d = 1 - s, made symmetric (either direction is enough), scaled to SPATIAL_ORDER.

        `left`, `right` and `similarity` (edges,) are word numbers below `words` and s; edges of a word to itself or with s ≤ 0
        are left out. An edge that is there twice counts once, with the larger s.
        """
        keep = (left != right) & (similarity > 0)
        left, right, similarity = left[keep], right[keep], similarity[keep]
        # Sparse matrices add up duplicates, and drop zeros: of each edge the largest s, and s itself instead of a distance.
        order = np.lexsort((-similarity, right, left))
        left, right, similarity = left[order], right[order], similarity[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
        edges = (similarity[first].astype(np.float64), (left[first], right[first]))
        directed = sparse.csr_matrix(edges, shape=(words, words))
        both = directed.maximum(directed.T).tocsr()
        both.sort_indices()
        distances = np.maximum(1.0 - both.data, 1e-3)
        if len(distances):
            distances *= SPATIAL_ORDER / distances.mean()
        return cls(words, both.indptr.astype(np.int64), both.indices.astype(np.int32), distances.astype(np.float32))

    @property
    def edges(self) -> int:
        """Edges, each counted once."""
        return len(self.indices) // 2

    def neighbours(self, word: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """A word's neighbours and their distances, nearest first."""
        span = slice(int(self.indptr[word]), int(self.indptr[word + 1]))
        order = np.argsort(self.distances[span], kind="stable")
        return self.indices[span][order], self.distances[span][order]

    def weight(self, distances: NDArray[np.floating], scale: float) -> NDArray[np.float64]:
        """exp(-d²/2σ²) of `distances` (n,), shape (n,); at `scale` 0 a word gives nothing to others, at ∞ its full weight."""
        if scale == 0:
            return np.zeros(len(distances))
        if scale == math.inf:
            return np.ones(len(distances))
        with np.errstate(over="ignore"):  # at a tiny scale the quotient is infinite, and its weight zero
            return np.asarray(np.exp(-0.5 * (np.asarray(distances, dtype=np.float64) / scale) ** 2))

    def normaliser(self, scale: float) -> NDArray[np.float64]:
        """Each word's total weight at `scale`, itself included, shape (words,); cached for the next query."""
        if scale not in self._cache:
            running = np.concatenate([[0.0], np.cumsum(self.weight(self.distances, scale))])
            self._cache[scale] = 1.0 + running[self.indptr[1:]] - running[self.indptr[:-1]]
        return self._cache[scale]

    def weights_of(self, words: NDArray[np.integer], scale: float) -> RelatedWords:
        """From whom `words` receive how much at `scale`: rows of the operator S."""
        numbers = np.asarray(words, dtype=np.int64)
        starts = np.asarray(self.indptr[numbers])
        sizes = np.asarray(self.indptr[numbers + 1]) - starts
        indptr = np.zeros(len(numbers) + 1, dtype=np.int64)
        np.cumsum(sizes + 1, out=indptr[1:])
        ours = np.ones(indptr[-1], dtype=bool)
        ours[indptr[:-1]] = False  # a row's first place is the word itself
        places = np.arange(sizes.sum()) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        related = np.repeat(numbers, sizes + 1)
        weights = np.ones(indptr[-1])
        related[ours] = self.indices[places]
        weights[ours] = self.weight(self.distances[places], scale)
        weights /= self.normaliser(scale)[related]
        return RelatedWords(indptr, related, weights)

    def rows(self, words: NDArray[np.integer], scale: float) -> sparse.csr_matrix:
        """`weights_of` at `scale` as a matrix, shape (len(words), all words)."""
        indptr, related, weights = self.weights_of(words, scale)
        return sparse.csr_matrix((weights, related, indptr), shape=(len(indptr) - 1, self.words))

    def operator(self, scale: float) -> sparse.csr_matrix:
        """S at `scale`, words × words; a column is the distribution of a word's mass over words and sums to one."""
        matrix = self.rows(np.arange(self.words), scale)
        matrix.eliminate_zeros()
        return matrix


#: Slots per token for ordering tokens without sorting; a position far behind the others would take memory for the gap.
MAX_SLOTS = 64


class Tokens(Protocol):
    """What building a graph needs of a collection; a ForwardIndex has it."""

    df: NDArray[np.int32]
    cf: NDArray[np.int64]
    lengths: NDArray[np.int32]

    @property
    def live_docs(self) -> NDArray[np.int32]: ...

    def positions(self, docs: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]: ...


def sequences(collection: Tokens, docs: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Texts as word numbers in reading order, removed words closed up: (indptr, words), shapes (documents + 1,) and (tokens,).

    `docs` are rows of `collection`.
    """
    indptr, words, places = collection.positions(docs)
    if not len(words):
        return indptr, words
    text = np.repeat(np.arange(len(docs)), np.diff(indptr))
    longest = np.zeros(len(docs), dtype=np.int64)
    filled = np.flatnonzero(np.diff(indptr))
    longest[filled] = np.maximum.reduceat(places, indptr[filled]).astype(np.int64) + 1
    # Mostly, positions are distinct and have no large gaps: then the occupied slots give the order without sorting.
    slots = int(longest.sum())
    if slots <= MAX_SLOTS * len(words):
        ordered = np.full(slots, -1, dtype=np.int32)
        ordered[(np.cumsum(longest) - longest)[text] + places] = words
        ordered = ordered[ordered >= 0]
        if len(ordered) == len(words):
            return indptr, ordered
    return indptr, words[np.lexsort((places, text))]


def take_ranges(
    words: NDArray[np.int32], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The ranges starts[i]..ends[i]-1 of `words`, one after another: (indptr, words), with indptr of shape (ranges + 1,)."""
    indptr = np.concatenate([[0], np.cumsum(ends - starts)])
    return indptr, words.take(np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], ends - starts))


def cooccurrence_graph(
    collection: Tokens,
    *,
    neighbours: int = 20,
    window: int = 10,
    min_count: int = 3,
    common: float = 0.25,
    max_pairs: int = PAIRS,
    block: int = BLOCK,
    mapper: Callable[..., Iterable[Edges]] = map,
) -> SemanticGraph:
    """Positive pointwise mutual information of words within `window` positions of `collection`, `neighbours` nearest per word.

    Similarity is the normalised form, ln(p_ij / p_i p_j) / -ln p_ij, in (0, 1]. Words in more than `common` of the documents
    give no edges, pairs seen fewer than `min_count` times don't either. The words are taken in ranges such that at most about
    `max_pairs` pairs are held at a time; each range is one pass over the collection, in blocks of `block` tokens.
    `mapper(function, ranges)` does the passes, as `map` does: one after the other, or elsewhere.
    """
    words = len(collection.df)
    eligible = _eligible(collection, common, min_count)
    expected = np.where(eligible, np.asarray(collection.cf, dtype=np.float64) * 2 * window, 0.0)
    ranges = np.unique(np.floor(np.cumsum(expected) / max_pairs).astype(np.int64), return_index=True)[1]
    bounds = [*ranges.tolist(), words] if words else []
    settings = (neighbours, window, min_count, common, block)
    parts = list(mapper(partial(_range_edges, collection, settings), list(pairwise(bounds))))
    if not parts:
        return SemanticGraph.empty(words)
    left, right, similarity = (np.concatenate(column) for column in zip(*parts, strict=True))
    return SemanticGraph.from_edges(words, left, right, similarity)


def _eligible(collection: Tokens, common: float, min_count: int) -> NDArray[np.bool_]:
    """Words that may have neighbours, shape (words,)."""
    documents = max(1, len(collection.live_docs))
    return (np.asarray(collection.df) <= max(1.0, common * documents)) & (np.asarray(collection.cf) >= min_count)


def _range_edges(collection: Tokens, settings: tuple[int, int, int, float, int], span: tuple[int, int]) -> Edges:
    """The edges from the words low..high-1 to their nearest neighbours: (left, right, similarity), by one pass."""
    neighbours, window, min_count, common, block = settings
    words, eligible = len(collection.df), _eligible(collection, common, min_count)
    cf = np.asarray(collection.cf, dtype=np.float64)
    tokens = max(1.0, cf.sum())
    docs = np.asarray(collection.live_docs)
    cuts = np.flatnonzero(np.diff(np.cumsum(np.asarray(collection.lengths, dtype=np.int64)[docs]) // block)) + 1
    keys = np.zeros(0, dtype=np.int64)
    counts = np.zeros(0, dtype=np.int64)
    for chunk in np.split(docs, cuts):
        new_keys = _pairs(*sequences(collection, chunk), eligible, window, *span, words)
        keys, inverse = np.unique(np.concatenate([keys, new_keys]), return_inverse=True)
        counts = np.bincount(inverse, np.concatenate([counts, np.ones(len(new_keys))]), len(keys)).astype(np.int64)
    often = counts >= min_count
    left, right, seen = keys[often] // words, keys[often] % words, counts[often].astype(np.float64)
    # A pair is counted from both sides, at 2·window places around each of cf_i tokens.
    joint = seen / (tokens * 2 * window)
    information = np.log(joint * tokens * tokens / (cf[left] * cf[right]))
    similarity = np.minimum(information / -np.log(joint), 1.0)
    return _nearest(left, right, similarity, neighbours)


def _pairs(
    indptr: NDArray[np.int64],
    words: NDArray[np.int32],
    eligible: NDArray[np.bool_],
    window: int,
    low: int,
    high: int,
    base: int,
) -> NDArray[np.int64]:
    """left · base + right for every two eligible words within `window` positions, left in low..high; both directions."""
    text = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    usable = eligible[words]
    keys = []
    for step in range(1, window + 1):
        near = (text[:-step] == text[step:]) & usable[:-step] & usable[step:]
        first, second = words[:-step][near].astype(np.int64), words[step:][near].astype(np.int64)
        for left, right in ((first, second), (second, first)):
            mine = (left >= low) & (left < high) & (left != right)
            keys.append(left[mine] * base + right[mine])
    return np.concatenate(keys)


def _nearest(left: NDArray[Any], right: NDArray[Any], similarity: NDArray[Any], neighbours: int) -> Edges:
    """The edges to each left word's most similar words; equal similarity is broken by the smaller number."""
    keep = similarity > 0
    left, right, similarity = left[keep], right[keep], similarity[keep]
    order = np.lexsort((right, -similarity, left))
    left, right, similarity = left[order], right[order], similarity[order]
    first = np.searchsorted(left, left, side="left")
    near = np.arange(len(left)) - first < neighbours
    return left[near], right[near], similarity[near]
