"""Why a document matched at a level: which columns were compared, which words counted, and which tokens contributed to them.

A level's similarity is Σ_jp w_jp s(j, p) for weights w that follow from the mode (the best window, all windows, ...), and s
is a sum over rows; so the similarity is a sum over words, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.kernels.pyramid.interest_points import filled, point_similarities, regions
from kernelsearch.kernels.pyramid.matching import Matcher, local_windows, psi
from kernelsearch.kernels.pyramid.query_rows import Array, QueryLevel, QueryRows, Scale, Texts
from kernelsearch.kernels.pyramid.text_pyramid import Samples, interpolated_operator, spatial_operator

#: Pairs of a query column and a document column whose cells are computed at a time: 257 rows of them take 35 MB.
PAIRS = 1 << 14


@dataclass(frozen=True)
class LevelMatch:
    """One level's match of a query and one document.

    - `similarity`: the level's score; the sum of `words`, `other` and `background`
    - `words` (rows,): what each row adds to a text of nothing but background; `other`: the same for all other words together
    - `background`: the similarity of a text of nothing but background
    - `span`: first and last position (from 0, in words that the index keeps) of where most of the comparison was
    - `attention` (positions,): how much each position counted, summing to one for all modes but `sum`
    - `lent` (rows, positions), sparse: how much each token contributed to each row, attention included
    """

    scale: Scale
    similarity: float
    words: Array
    other: float
    background: float
    span: tuple[int, int]
    attention: Array
    lent: sparse.csr_matrix


@dataclass(frozen=True)
class _Aligned:
    """The query's columns, the document's windows (columns, tokens), and triples (query column, document column, weight).

    Only document columns that are compared have a window.
    """

    query: QueryLevel
    window: sparse.csr_matrix
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], Array]


def level_matches(matcher: Matcher, rows: QueryRows, text: Texts) -> list[LevelMatch]:
    """The matches of the query `rows` and the document `text` at every level of `matcher`, in double precision."""
    text = filled(text)
    if matcher.mode == "points":
        aligned = _points(matcher, rows, text)
    else:
        aligned = [_windows(matcher, rows, text, scale) for scale in matcher.scales]
    return [_reasons(matcher, rows, text, scale, alignment) for scale, alignment in zip(matcher.scales, aligned, strict=True)]


def _windows(matcher: Matcher, rows: QueryRows, text: Texts, scale: Scale) -> _Aligned:
    if matcher.mode == "global":
        query, _ = matcher.global_levels(rows, text, scale)
        columns = np.arange(len(query.weights))
        window = interpolated_operator(text.lengths, len(columns), scale.spatial, matcher.width, mass=text.mass)
        return _Aligned(query, window, (columns, columns, query.weights))
    query, similarity, places = matcher.local_similarity(rows, text, scale)
    count = len(query.weights)
    values, inside = local_windows(similarity, query.weights, places)
    starts = np.flatnonzero(inside)
    if matcher.mode == "max":
        starts = starts[values[starts].argmax()][None]
    share = 1.0 if matcher.mode == "sum" else 1 / len(starts)
    mine = np.tile(np.arange(count), len(starts))
    theirs, weights = np.repeat(starts, count) + mine, np.tile(query.weights, len(starts)) * share
    return _aligned(query, text, places, (mine, theirs, weights), scale, matcher.width)


def _aligned(
    query: QueryLevel,
    text: Texts,
    places: Samples,
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], Array],
    scale: Scale,
    width: int,
) -> _Aligned:
    """The pairs with the windows of those of the columns `places` that they name."""
    mine, theirs, weights = pairs
    compared, theirs = np.unique(theirs, return_inverse=True)
    columns = Samples(places.text[compared], places.position[compared])
    window = spatial_operator(text.lengths, columns, scale.spatial, width, mass=text.mass)
    return _Aligned(query, window, (mine, theirs, weights))


def _points(matcher: Matcher, rows: QueryRows, text: Texts) -> list[_Aligned]:
    levels = point_similarities(rows, text, matcher.scales, matcher.width, partial(matcher.similarity, rows))
    aligned = []
    for scale, (similarity, weights, mine, _, at) in zip(matcher.scales, levels, strict=True):
        best = similarity.argmax(axis=1)
        chosen = Samples(at.text[best], at.position[best])
        sides = regions(mine, len(rows.query), chosen, text.lengths, scale)
        near = np.concatenate([side for side, _ in sides])
        far = np.concatenate([other.position for _, other in sides])
        pairs = (near, far, np.tile(weights, len(sides)) / len(sides))
        query = rows.query_level(scale, matcher.width, step=1)
        aligned.append(_aligned(query, text, Samples.every(text.lengths), pairs, scale, matcher.width))
    return aligned


def _reasons(matcher: Matcher, rows: QueryRows, text: Texts, scale: Scale, aligned: _Aligned) -> LevelMatch:
    mine, theirs, weights = aligned.pairs
    code = rows.code(text, aligned.window, scale)
    held = aligned.window @ rows.held(text, scale)
    parts = np.zeros(len(rows.floor))
    for start in range(0, len(mine), PAIRS):
        block = slice(start, start + PAIRS)
        columns, place = np.unique(theirs[block], return_inverse=True)
        cells = code[:, columns].toarray() / (1 + rows.eta) + rows.floor[:-1, None]
        filled_columns = np.vstack([cells, np.maximum(rows.floor[-1] - held[columns] / (1 + rows.eta), 0.0)]).T
        parts += weights[block] @ psi(aligned.query.columns[mine[block]], filled_columns[place], matcher.divergence)
    by_column = np.bincount(mine, weights, len(aligned.query.columns))
    empty = by_column @ psi(aligned.query.columns, rows.floor[None, :], matcher.divergence)
    gain = parts - empty
    used = np.bincount(theirs, weights, aligned.window.shape[0])
    attention = aligned.window.T @ used
    lent = sparse.csr_matrix(rows.sparse_spread(text, scale).multiply(attention[None, :]))
    # Windows have long tails: what counted at least half as much as the position that counted most is what was compared.
    seen = np.flatnonzero(attention >= 0.5 * attention.max(initial=0.0))
    span = (int(seen[0]), int(seen[-1])) if attention.any() else (0, 0)
    return LevelMatch(scale, float(parts.sum()), gain[:-1], float(gain[-1]), float(empty.sum()), span, attention, lent)
