"""Why a document matched at a level: which columns were compared, which words counted, and who lent them.

A level's similarity is Σ_jp w_jp s(j, p) for weights w that follow from the mode (the best window, all windows, ...), and s
is a sum over rows; so the similarity is a sum over words, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kernelsearch.kernels.pyramid.interest_points import filled, point_similarities, regions
from kernelsearch.kernels.pyramid.matching import Matcher, local_windows, psi
from kernelsearch.kernels.pyramid.query_rows import Array, DocumentLevel, QueryLevel, QueryRows, Scale, Texts
from kernelsearch.kernels.pyramid.text_pyramid import Samples, interpolated_operator, spatial_operator


@dataclass(frozen=True)
class LevelMatch:
    """One level's match of a query and one document.

    - `similarity`: the level's score; the sum of `words`, `other` and `background`
    - `words` (rows,): what each row adds to a text of nothing but background; `other`: the same for all other words together
    - `background`: the similarity of a text of nothing but background
    - `span`: first and last position (from 0, in words that the index keeps) of where most of the comparison was
    - `attention` (positions,): how much each position counted, summing to one for all modes but `sum`
    - `lent` (rows, positions): whose tokens filled the rows, attention included
    """

    scale: Scale
    similarity: float
    words: Array
    other: float
    background: float
    span: tuple[int, int]
    attention: Array
    lent: Array


@dataclass(frozen=True)
class _Aligned:
    """Columns of both sides, and triples (query column, document column, weight)."""

    query: QueryLevel
    document: DocumentLevel
    window: Array
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], Array]


def level_matches(matcher: Matcher, rows: QueryRows, text: Texts) -> list[LevelMatch]:
    """The matches of one document at every level, in double precision."""
    text = filled(text)
    if matcher.mode == "points":
        aligned = _points(matcher, rows, text)
    else:
        aligned = [_windows(matcher, rows, text, scale) for scale in matcher.scales]
    return [_reasons(matcher, rows, text, scale, one) for scale, one in zip(matcher.scales, aligned, strict=True)]


def _windows(matcher: Matcher, rows: QueryRows, text: Texts, scale: Scale) -> _Aligned:
    query, document = matcher.levels(rows, text, scale)
    count, columns = len(query.weights), document.code.shape[1]
    if matcher.mode == "global":
        window = interpolated_operator(text.lengths, columns, scale.spatial, matcher.width, mass=text.mass)
        each = np.arange(count)
        return _Aligned(query, document, window.toarray(), (each, each, query.weights))
    window = spatial_operator(text.lengths, document.samples, scale.spatial, matcher.width, mass=text.mass)
    similarity = matcher.similarity(rows, query, document)
    values, inside = local_windows(similarity, query.weights, document)
    starts = np.flatnonzero(inside)
    if matcher.mode == "max":
        starts = starts[values[starts].argmax()][None]
    share = 1.0 if matcher.mode == "sum" else 1 / len(starts)
    mine = np.tile(np.arange(count), len(starts))
    pairs = (mine, np.repeat(starts, count) + mine, np.tile(query.weights, len(starts)) * share)
    return _Aligned(query, document, window.toarray(), pairs)


def _points(matcher: Matcher, rows: QueryRows, text: Texts) -> list[_Aligned]:
    found = point_similarities(rows, text, matcher.scales, matcher.width, partial(matcher.similarity, rows))
    aligned = []
    for scale, (similarity, weights, mine, _, at) in zip(matcher.scales, found, strict=True):
        best = similarity.argmax(axis=1)
        chosen = Samples(at.text[best], at.position[best])
        sides = regions(mine, len(rows.query), chosen, text.lengths, scale)
        samples = Samples.every(text.lengths)
        document = rows.document_columns(text, samples, scale, matcher.width)
        window = spatial_operator(text.lengths, samples, scale.spatial, matcher.width, mass=text.mass)
        near = np.concatenate([one for one, _ in sides])
        far = np.concatenate([other.position for _, other in sides])
        pairs = (near, far, np.tile(weights, len(sides)) / len(sides))
        aligned.append(_Aligned(rows.query_level(scale, matcher.width, step=1), document, window.toarray(), pairs))
    return aligned


def _reasons(matcher: Matcher, rows: QueryRows, text: Texts, scale: Scale, aligned: _Aligned) -> LevelMatch:
    code, held = aligned.document.written_out()
    cells = code / (1 + rows.eta) + rows.floor[:-1, None]
    columns = np.vstack([cells, np.maximum(rows.floor[-1] - held / (1 + rows.eta), 0.0)]).T
    mine, theirs, weights = aligned.pairs
    parts = weights @ psi(aligned.query.columns[mine], columns[theirs], matcher.divergence)
    empty = weights @ psi(aligned.query.columns[mine], rows.floor[None, :], matcher.divergence)
    gain = parts - empty
    used = np.bincount(theirs, weights, len(columns))
    attention = used @ aligned.window
    lent = rows.spread(text, scale) * attention
    # Windows have long tails: what counted at least half as much as the position that counted most is what was compared.
    seen = np.flatnonzero(attention >= 0.5 * attention.max(initial=0.0))
    span = (int(seen[0]), int(seen[-1])) if attention.any() else (0, 0)
    return LevelMatch(scale, float(parts.sum()), gain[:-1], float(gain[-1]), float(empty.sum()), span, attention, lent)
