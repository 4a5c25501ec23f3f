"""The language pyramid: a text as a words × positions distribution, smoothed on both axes at a series of scales.

Yang & Zha, "Language Pyramid and Multi-Scale Text Analysis" (CIKM 2010). A text of N words is an M × N code X with a one
where word i is at position j. Each level smooths it along positions (Eq. 6) and along a graph of related words (Eq. 8):

    X(scale) = S(scale) X K(scale),   S: words × words, K: positions × positions, columns of both sum to one.

Readings. The printed Gaussians lack a minus sign and a normalisation: the window is exp(-t²/2σ²), normalised, also at a
text's two ends. At scale ∞ the spatial window is the whole text (the bag of words) and every neighbour in the graph
counts as much as the word itself. Every column is kept at mass one (divide by N for the paper's Definition 1). The
Dirichlet part of the code, (x + η b) / (1 + η) with a background b, is added after the smoothing: codes stay sparse, and
`background` says what every column has on top. Smoothing along positions would leave b as it is; smoothing along words
would not, since the columns of S sum to one and its rows don't: words with many neighbours would gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kernelsearch.kernels.semantic.graph import SemanticGraph

#: The paper's scales (Section 5): the code itself, three Gaussians, and the whole text.
SCALES = (0.0, 1.0, 2.0, 4.0, math.inf)

Shape = str | Callable[[NDArray[np.float64]], NDArray[np.float64]]
#: Window shapes by name, as functions of t / σ.
SHAPES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "gaussian": lambda t: np.exp(-0.5 * t**2),
    "triangle": lambda t: np.maximum(0.0, 1 - np.abs(t) / 2),
    "box": lambda t: np.ones_like(t),
}


def window(scale: float, width: int = 0, shape: Shape = "gaussian") -> NDArray[np.float64]:
    """Weights of the offsets -h..h, largest in the middle, not yet normalised; shape (2h+1,).

    `width` is the paper's T; 0 takes as many positions as the scale needs (two scales to each side). `shape` is a name in
    SHAPES or a function of t/σ.
    """
    if not 0 <= scale < math.inf:
        raise ValueError(f"a window needs a finite scale that isn't negative, not {scale}")
    if scale == 0:
        return np.ones(1)
    half = width // 2 if width else math.ceil(2 * scale)
    weigh = SHAPES[shape] if isinstance(shape, str) else shape
    with np.errstate(over="ignore"):  # at a tiny scale the quotient is infinite, and its weight zero
        return np.asarray(weigh(np.arange(-half, half + 1) / scale), dtype=np.float64)


@dataclass(frozen=True)
class Samples:
    """Columns at which texts are looked at: the text's number and a position in it, both shape (columns,)."""

    text: NDArray[np.int64]
    position: NDArray[np.int64]

    def blocks(self, columns: int) -> Iterator[Samples]:
        """The same columns in order, at most so many at a time; one block without columns where there are none."""
        for start in range(0, max(len(self.text), 1), columns):
            yield Samples(self.text[start : start + columns], self.position[start : start + columns])

    @classmethod
    def every(cls, lengths: ArrayLike, step: int = 1, at_least: int = 1) -> Samples:
        """Every `step`-th position of concatenated texts of `lengths` tokens; short ones get empty columns up to `at_least`."""
        counts = np.maximum((np.asarray(lengths, dtype=np.int64) + step - 1) // step, at_least)
        text = np.repeat(np.arange(len(counts)), counts)
        return cls(text, (np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)) * step)


def centred_positions(length: int, step: int) -> NDArray[np.float64]:
    """Every `step`-th position of a text of `length` words, as far from its beginning as from its end, shape (columns,).

    They lie between two words where the distances would differ otherwise; so the positions of a text read backwards are the
    same. A text no longer than a step has one, its middle.

    >>> centred_positions(6, 8), centred_positions(10, 4)
    (array([2.5]), array([0.5, 4.5, 8.5]))
    """
    count = max(1, -(-length // step))
    return np.arange(count, dtype=np.float64) * step + (length - 1 - (count - 1) * step) / 2


def centred_operator(length: int, step: int, scale: float, width: int = 0, shape: Shape = "gaussian") -> NDArray[np.float64]:
    """Kᵀ for one text at `centred_positions`, dense, shape (columns, length): rows hold windows that sum to one.

    `length` is the text's, in words, `step` the distance of the columns; `scale`, `width` and `shape` are those of `window`,
    and at scale ∞ there is one row, the whole text.
    """
    if scale == math.inf:
        return np.full((1, length), 1 / length)
    offsets = np.arange(length)[None, :] - centred_positions(length, step)[:, None]
    # A narrow window between two words holds both of them; at scale 0, and where a small scale underflows, nothing else.
    weights = nearest = np.asarray(np.abs(offsets) <= 0.5, dtype=np.float64)
    if scale > 0:
        half = width // 2 if width else math.ceil(2 * scale)
        weigh = SHAPES[shape] if isinstance(shape, str) else shape
        with np.errstate(over="ignore"):  # at a tiny scale the quotient is infinite, and its weight zero
            inside = np.where(np.abs(offsets) <= max(half, 0.5), weigh(offsets / scale), 0.0)
        weights = np.where(inside.sum(axis=1, keepdims=True) > 0, inside, nearest)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def spatial_operator(
    lengths: ArrayLike,
    samples: Samples,
    scale: float,
    width: int = 0,
    shape: Shape = "gaussian",
    mass: NDArray[np.float64] | None = None,
) -> sparse.csr_matrix:
    """Kᵀ for texts one after another, shape (columns, tokens): row p holds the window around sample p, summing to one.

    `lengths` (texts,) are in tokens, `samples` are the columns; `scale`, `width` and `shape` are those of `window`, or `scale`
    is ∞: the window is the text. `mass` (tokens,) weighs tokens inside their windows, for codes that aren't binary (idf). A
    sample beyond its text's end has an empty row.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    size, tokens = lengths[samples.text], int(lengths.sum())
    start = (np.cumsum(lengths) - lengths)[samples.text]
    weights = np.ones(1) if scale == math.inf else window(scale, width, shape)
    half = len(weights) // 2
    # A window is a run of tokens, cut off at its text's two ends.
    low = np.zeros_like(size) if scale == math.inf else np.maximum(samples.position - half, 0)
    high = size if scale == math.inf else np.minimum(samples.position + half + 1, size)
    sizes = np.where(samples.position < size, high - low, 0)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    columns = np.arange(indptr[-1]) + np.repeat(start + low - indptr[:-1], sizes)
    if scale == math.inf:
        data = np.ones(len(columns))
    else:
        data = weights[columns - np.repeat(start + samples.position - half, sizes)]
    if mass is not None:
        data *= mass[columns]
    data /= np.repeat(row_sums(data, indptr), sizes)
    return sparse.csr_matrix((data, columns, indptr), shape=(len(size), tokens))


def row_sums(data: NDArray[np.floating], indptr: NDArray[np.integer]) -> NDArray[np.floating]:
    """Sums of CSR rows with values `data` and bounds `indptr` (rows + 1,), shape (rows,); an empty row's is 0."""
    sums = np.zeros(len(indptr) - 1, dtype=data.dtype)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        sums[filled] = np.add.reduceat(data, indptr[filled])
    return sums


def interpolated_operator(
    lengths: ArrayLike,
    columns: int,
    scale: float,
    width: int = 0,
    shape: Shape = "gaussian",
    mass: NDArray[np.float64] | None = None,
) -> sparse.csr_matrix:
    """Kᵀ followed by linear interpolation of each text to `columns` columns, shape (texts × columns, tokens).

    The paper normalises texts to one length this way (Sections 4.1 and 5.1.1). The other parameters are those of
    `spatial_operator`.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    text = np.repeat(np.arange(len(lengths)), columns)
    along = np.tile(np.linspace(0, 1, columns) if columns > 1 else np.array([0.5]), len(lengths))
    exact = along * np.maximum(lengths[text] - 1, 0)
    low = np.floor(exact).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(lengths[text] - 1, 0))
    share = exact - low
    near = spatial_operator(lengths, Samples(text, low), scale, width, shape, mass)
    far = spatial_operator(lengths, Samples(text, high), scale, width, shape, mass)
    return (near.multiply((1 - share)[:, None]) + far.multiply(share[:, None])).tocsr()


@dataclass(frozen=True)
class Level:
    """One level of a pyramid: `code` (words × positions, sparse) of the text itself; each column's mass is one.

    `dense()` adds the background of the Dirichlet smoothing, for small examples and pictures.
    """

    scale: float
    code: sparse.csc_matrix
    background: NDArray[np.float64]
    eta: float

    def dense(self) -> NDArray[np.float64]:
        """(code + η b) / (1 + η), words × positions."""
        result: NDArray[np.float64] = (self.code.toarray() + self.eta * self.background[:, None]) / (1 + self.eta)
        return result


def binary_code(tokens: ArrayLike, words: int) -> sparse.csc_matrix:
    """The code at scale 0: 1 where word i is at position j, shape (words, positions).

    `tokens` (positions,) are word numbers from 0 to `words` - 1; raises ValueError for others.
    """
    numbers = np.asarray(tokens, dtype=np.int64)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= words):
        raise ValueError(f"word numbers must lie in 0..{words - 1}")
    return sparse.csc_matrix((np.ones(len(numbers)), numbers, np.arange(len(numbers) + 1)), shape=(words, len(numbers)))


def gaussian_pyramid(
    tokens: ArrayLike,
    graph: SemanticGraph,
    *,
    scales: Sequence[float] = SCALES,
    semantic_scales: Sequence[float] | None = None,
    width: int = 0,
    shape: Shape = "gaussian",
    eta: float = 0.1,
    background: ArrayLike | None = None,
    iterate: bool = False,
    columns: int | None = None,
) -> list[Level]:
    """The levels of one text, one per scale: `tokens` are its word numbers in order of position, `graph` relates the words.

    `width` and `shape` are those of `window`, `eta` is the η of the Dirichlet smoothing. `semantic_scales` smooths words at
    other scales than positions (the paper uses one for both). `iterate` smooths each level from the one before it, as the paper
    writes, instead of from the code; it makes little difference. `background` is a distribution over words (uniform if None).
    `columns` interpolates every level to one length. Raises ValueError where `scales` and `semantic_scales` differ in number,
    or a token is no word of the graph.
    """
    if semantic_scales is not None and len(semantic_scales) != len(scales):
        raise ValueError(f"{len(scales)} scales but {len(semantic_scales)} semantic scales")
    base = np.full(graph.words, 1 / graph.words) if background is None else np.asarray(background, dtype=np.float64)
    start = binary_code(tokens, graph.words)
    length = start.shape[1]
    code, levels = start, []
    for scale, semantic in zip(scales, semantic_scales or scales, strict=True):
        source = code if iterate else start
        smoothed = graph.operator(semantic) @ source
        if columns is not None and not iterate:
            code = smoothed @ interpolated_operator([length], columns, scale, width, shape).T
        else:
            # At scale ∞ there is one distinct column; the level keeps the text's width, so that all levels have one shape.
            code = smoothed @ spatial_operator([length], Samples.every([length]), scale, width, shape).T
        shown = code
        if columns is not None and iterate:
            shown = code @ interpolated_operator([length], columns, 0.0).T
        levels.append(Level(scale, sparse.csc_matrix(shown), base, eta))
    return levels
