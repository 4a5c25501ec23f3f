"""The language pyramid: a text as a words × positions distribution, smoothed on both axes at a series of scales.

Yang & Zha, "Language Pyramid and Multi-Scale Text Analysis" (CIKM 2010). A text of N words is an M × N code X with a one
where word i is at position j. Each level smooths it along positions (Eq. 6) and along a graph of related words (Eq. 8):

    X(scale) = S(scale) X K(scale),   S: words × words, K: positions × positions, columns of both sum to one.

Readings. The printed Gaussians lack a minus sign and a normalisation: the window is exp(-t²/2σ²), normalised, also at a
text's two ends. At scale ∞ the spatial window is the whole text (the bag of words) and every neighbour in the graph
counts as much as the word itself. Every column is kept at mass one (divide by N for the paper's Definition 1). The
Dirichlet part of the code, (x + η b) / (1 + η) with a background b, is added after the smoothing: codes stay sparse.
Smoothing along positions would leave b as it is; smoothing along words would not, since the columns of S sum to one and
its rows don't: words with many neighbours would gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

#: The paper's scales (Section 5): the code itself, three Gaussians, and the whole text.
SCALES = (0.0, 1.0, 2.0, 4.0, math.inf)


def window(scale: float, width: int = 0) -> NDArray[np.float64]:
    """Weights of the offsets -h..h, largest in the middle, not yet normalised; shape (2h+1,).

    `width` is the paper's T; 0 takes as many positions as the scale needs (two scales to each side).
    """
    if not 0 <= scale < math.inf:
        raise ValueError(f"a window needs a finite scale that isn't negative, not {scale}")
    if scale == 0:
        return np.ones(1)
    half = width // 2 if width else math.ceil(2 * scale)
    return _gaussian(np.arange(-half, half + 1) / scale)


def _gaussian(offsets: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(-t²/2σ²) of offsets t/σ."""
    with np.errstate(over="ignore"):  # at a tiny scale the quotient is infinite, and its weight zero
        return np.asarray(np.exp(-0.5 * offsets**2))


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


def centred_operator(length: int, step: int, scale: float, width: int = 0) -> NDArray[np.float64]:
    """Kᵀ for one text at `centred_positions`, dense, shape (columns, length): rows hold windows that sum to one.

    `length` is the text's, in words, `step` the distance of the columns; `scale` and `width` are those of `window`, and
    at scale ∞ there is one row, the whole text.
    """
    if scale == math.inf:
        return np.full((1, length), 1 / length)
    offsets = np.arange(length)[None, :] - centred_positions(length, step)[:, None]
    # A narrow window between two words holds both of them; at scale 0, and where a small scale underflows, nothing else.
    weights = nearest = np.asarray(np.abs(offsets) <= 0.5, dtype=np.float64)
    if scale > 0:
        half = width // 2 if width else math.ceil(2 * scale)
        inside = np.where(np.abs(offsets) <= max(half, 0.5), _gaussian(offsets / scale), 0.0)
        weights = np.where(inside.sum(axis=1, keepdims=True) > 0, inside, nearest)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def spatial_operator(
    lengths: ArrayLike,
    samples: Samples,
    scale: float,
    width: int = 0,
    mass: NDArray[np.float64] | None = None,
) -> sparse.csr_matrix:
    """Kᵀ for texts one after another, shape (columns, tokens): row p holds the window around sample p, summing to one.

    `lengths` (texts,) are in tokens, `samples` are the columns; `scale` and `width` are those of `window`, or `scale` is ∞:
    the window is the text. `mass` (tokens,) weighs tokens inside their windows, for codes that aren't binary (idf). A
    sample beyond its text's end has an empty row.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    size, tokens = lengths[samples.text], int(lengths.sum())
    start = (np.cumsum(lengths) - lengths)[samples.text]
    weights = np.ones(1) if scale == math.inf else window(scale, width)
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
