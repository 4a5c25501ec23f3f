"""All levels of one text, and texts interpolated to one length: what the paper shows, and what global matching compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kernelsearch.kernels.pyramid.text_pyramid import SCALES, Samples, spatial_operator
from kernelsearch.kernels.semantic.graph import SemanticGraph


def interpolated_operator(
    lengths: ArrayLike,
    columns: int,
    scale: float,
    width: int = 0,
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
    near = spatial_operator(lengths, Samples(text, low), scale, width, mass)
    far = spatial_operator(lengths, Samples(text, high), scale, width, mass)
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
    eta: float = 0.1,
    background: ArrayLike | None = None,
    iterate: bool = False,
) -> list[Level]:
    """The levels of one text, one per scale: `tokens` are its word numbers in order of position, `graph` relates the words.

    `width` is that of `window`, `eta` is the η of the Dirichlet smoothing. `semantic_scales` smooths words at other scales than
    positions (the paper uses one for both). `iterate` smooths each level from the one before it, as the paper writes, instead
    of from the code; it makes little difference. `background` is a distribution over words (uniform if None). Raises
    ValueError where `scales` and `semantic_scales` differ in number, or a token is no word of the graph.
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
        # At scale ∞ there is one distinct column; the level keeps the text's width, so that all levels have one shape.
        code = smoothed @ spatial_operator([length], Samples.every([length]), scale, width).T
        levels.append(Level(scale, sparse.csc_matrix(code), base, eta))
    return levels
