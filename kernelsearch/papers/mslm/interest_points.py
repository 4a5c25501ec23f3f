"""Matching around interest points, which the paper names and leaves open (Yang & Zha, CIKM 2010, Section 4.2).

As in image matching (Lowe, IJCV 2004), a point is a position and a level where the Laplacian pyramid, the difference of
successive levels, has a local maximum, in position and across scales. It is computed on the weight of the query's rows, so a
point is a cluster of query-related words about one scale wide. At each level every query point is matched with the most
similar document point of that level; regions are compared column by column: the point and one scale to either side. The
level's score is the weighted mean over the query's points.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernelsearch.kernels.pyramid.query_rows import Array, DocumentLevel, QueryLevel, QueryRows, Scale, Texts
from kernelsearch.kernels.pyramid.text_pyramid import Samples, window

Similarity = Callable[[QueryLevel, DocumentLevel], Array]


def interest_points(strengths: Array, text: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Local maxima of `strengths` over positions and neighbouring levels, both of shape (levels, columns).

    `text` (columns,) is the number of each column's text. Of equal neighbours the first counts. A text's strongest column at a
    level is always a point: no text is without one.
    """
    levels, columns = strengths.shape
    before = np.full((levels, columns), -np.inf)
    after = before.copy()
    same = text[1:] == text[:-1]
    before[:, 1:] = np.where(same, strengths[:, :-1], -np.inf)
    after[:, :-1] = np.where(same, strengths[:, 1:], -np.inf)
    around = np.maximum(np.maximum(before, after), strengths)
    points = (strengths > before) & (strengths >= after) & (strengths > 0)
    points[1:] &= strengths[1:] >= around[:-1]
    points[:-1] &= strengths[:-1] >= around[1:]
    first = np.flatnonzero(np.append(True, ~same))
    best = np.maximum.reduceat(strengths, first, axis=1)
    number = np.cumsum(np.append(True, ~same)) - 1
    strongest = strengths == best[:, number]
    seen = np.cumsum(strongest, axis=1)
    earlier = np.where(first[None, :] > 0, seen[:, first - 1], 0)
    result: NDArray[np.bool_] = points | (strongest & (seen - earlier[:, number] == 1))
    return result


def laplacian_strengths(rows: QueryRows, texts: Texts, scales: tuple[Scale, ...]) -> Array:
    """Mass of `texts` on the query's `rows` at a level minus that at the next one, shape (levels, tokens).

    `scales` are those of the levels, finest first; the coarsest one is compared with nothing at all. Every text must have a
    token.
    """
    text = np.repeat(np.arange(len(texts.lengths)), texts.lengths)
    masses = []
    for scale in scales:
        own = rows.held(texts, scale)
        weights = window(scale.spatial, scale.width)
        half = len(weights) // 2
        # A gap of half a window between texts keeps them apart, so that one convolution smooths all of them.
        place = np.arange(len(text)) + text * half
        tokens = np.zeros(int(place[-1]) + 1)
        related = tokens.copy()
        tokens[place] = 1.0 if texts.mass is None else texts.mass
        related[place] = own * tokens[place]
        smooth = [_smoothed(signal, weights)[place] for signal in (related, tokens)]
        masses.append(smooth[0] / smooth[1])
    levels = np.stack([*masses, np.zeros(len(text))])
    result: Array = levels[:-1] - levels[1:]
    return result


def _smoothed(signal: Array, weights: Array) -> Array:
    """The sum of a window `weights`, as symmetric as `window` makes it, around each place of a signal; same shape.

    The numbers are added in the same order at every place. With `np.convolve` the order depends on the place, and rounding
    errors would decide which of two equal neighbours is a maximum: the points of a text would depend on the texts before it.
    """
    padded = np.pad(signal, len(weights) // 2)
    total = np.zeros(len(signal))
    for offset, weight in enumerate(weights.tolist()):
        total += weight * padded[offset : offset + len(signal)]
    return total


def point_similarities(
    rows: QueryRows, texts: Texts, scales: tuple[Scale, ...], similarity: Similarity
) -> list[tuple[Array, Array, NDArray[np.int64], NDArray[np.int64], Samples]]:
    """For each level: similarities (query points, document points), the query points' weights and columns, each text's first
    document point, and where the document points are.

    `rows`, `texts` (none empty) and `scales` (finite) are those of `laplacian_strengths`; `similarity` compares the columns of
    both sides, shape (query columns, document columns).
    """
    query_points = interest_points(laplacian_strengths(rows, rows.own, scales), np.zeros(len(rows.query), dtype=np.int64))
    text = np.repeat(np.arange(len(texts.lengths)), texts.lengths)
    position = np.arange(len(text)) - np.repeat(np.cumsum(texts.lengths) - texts.lengths, texts.lengths)
    document_points = interest_points(laplacian_strengths(rows, texts, scales), text)
    levels = []
    for level, scale in enumerate(scales):
        mine, theirs = np.flatnonzero(query_points[level]), np.flatnonzero(document_points[level])
        at = Samples(text[theirs], position[theirs])
        side = rows.query_level(scale, step=1)
        near, far = zip(*regions(mine, len(rows.query), at, texts.lengths, scale), strict=True)
        samples = Samples(np.tile(at.text, len(far)), np.concatenate([shifted.position for shifted in far]))
        columns = rows.document_columns(texts, samples, scale)
        # Columns of several regions are compared once.
        wanted, place = np.unique(np.concatenate(near), return_inverse=True)
        pairs = similarity(QueryLevel(side.columns[wanted], side.weights[wanted]), columns)
        pairs = pairs.reshape(len(wanted), len(far), len(theirs))
        place = place.reshape(len(far), len(mine))
        total = np.zeros((len(mine), len(theirs)))
        for region, own_columns in enumerate(place):
            total += pairs[own_columns, region] / len(far)
        weights = side.weights[mine] / side.weights[mine].sum()
        levels.append((total, weights, mine, np.searchsorted(at.text, np.arange(len(texts.lengths))), at))
    return levels


def regions(
    mine: NDArray[np.int64], query_length: int, at: Samples, lengths: NDArray[np.int64], scale: Scale
) -> list[tuple[NDArray[np.int64], Samples]]:
    """The columns one scale before, at and one scale after each point, clipped to the query and the texts.

    `mine` are the query's points, positions in a query of `query_length` terms, `at` those of the texts, whose `lengths`
    (texts,) count tokens; the distance is the spatial `scale`, rounded, at least 1.
    """
    reach = max(1, round(scale.spatial))
    return [
        (
            np.clip(mine + offset, 0, query_length - 1),
            Samples(at.text, np.clip(at.position + offset, 0, lengths[at.text] - 1)),
        )
        for offset in (-reach, 0, reach)
    ]
