"""The paper's other ways of matching: mean or sum over windows, texts of one length, interest points; and its divergence.

Yang & Zha (CIKM 2010), Section 4.2. The paper's sum over windows ranks documents by length; the mean corrects this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import sparse

from kernelsearch.kernels.pyramid.compiled import WordRanges
from kernelsearch.kernels.pyramid.matching import (
    JENSEN_SHANNON,
    Aligned,
    Divergence,
    Matcher,
    aligned_columns,
    best_windows,
    local_windows,
    with_values,
)
from kernelsearch.kernels.pyramid.query_rows import Array, DocumentLevel, QueryLevel, QueryRows, Scale, Texts, filled
from kernelsearch.kernels.pyramid.text_pyramid import Samples
from kernelsearch.kernels.semantic.graph import take_ranges
from kernelsearch.papers.mslm.interest_points import point_similarities, regions
from kernelsearch.papers.mslm.text_levels import interpolated_operator


def kl_cell(a: Array, b: Array) -> Array:
    """A cell's part of -KL(query || document), a ln(b/a); `a` and `b` are those of `psi`."""
    tiny = np.finfo(b.dtype).tiny
    result: Array = a * (np.log(np.maximum(b, tiny)) - np.log(np.maximum(a, tiny)))
    return result


def _kl_excess(a: Array, floor: Array, cells: sparse.csr_matrix) -> Array:
    """Σ_r a_rj [ln b_rp - ln floor_r] over the cells of each document column, shape (query columns, columns)."""
    logs = np.log(cells.data)
    logs -= np.repeat(np.log(floor).astype(logs.dtype), np.diff(cells.indptr))
    result: Array = (with_values(cells, logs).T @ a.T.astype(logs.dtype)).T
    return result


DIVERGENCES = {"js": JENSEN_SHANNON, "kl": Divergence(kl_cell, _kl_excess)}


def local_score(similarity: Array, weights: Array, places: Samples, mode: str) -> Array:
    """One similarity per document from its windows: their `mean`, `max`, or raw `sum` by `mode`, shape (documents,).

    `similarity`, `weights` and `places` are those of `local_windows`.
    """
    if mode == "max":
        return best_windows(similarity, weights, places)
    values, inside = local_windows(similarity, weights, places)
    first = np.flatnonzero(np.diff(places.text, prepend=-1))  # every document has a column
    total = np.add.reduceat(np.where(inside, values, 0.0), first)
    return total if mode == "sum" else total / np.add.reduceat(inside.astype(np.float64), first)


@dataclass(frozen=True)
class NumpyMatcher(Matcher):
    """A way of matching that the compiled loop does not have."""

    def scores_of_words(self, rows: QueryRows, texts: WordRanges) -> Array:
        """Similarities of texts as word numbers, shape (texts, levels)."""
        return self.scores(rows, rows.texts(*take_ranges(*texts)))


@dataclass(frozen=True)
class AllWindows(NumpyMatcher):
    """Levels matched by the sum over all windows, or by their mean."""

    mean: bool = True

    def level_score(self, rows: QueryRows, texts: Texts, scale: Scale) -> Array:
        """The similarity of each text at a level, shape (texts,)."""
        query, similarity, places = self.local_similarity(rows, texts, scale)
        return local_score(similarity, query.weights, places, "mean" if self.mean else "sum")

    def alignments(self, rows: QueryRows, text: Texts) -> list[Aligned]:
        """What is compared at each level for one text that isn't empty."""
        return [self._all_windows(rows, text, scale) for scale in self.scales]

    def _all_windows(self, rows: QueryRows, text: Texts, scale: Scale) -> Aligned:
        query, similarity, places = self.local_similarity(rows, text, scale)
        count, starts = len(query.weights), np.flatnonzero(local_windows(similarity, query.weights, places)[1])
        mine = np.tile(np.arange(count), len(starts))
        weights = np.tile(query.weights, len(starts)) * (1 / len(starts) if self.mean else 1.0)
        return aligned_columns(query, text, places, (mine, np.repeat(starts, count) + mine, weights), scale)


@dataclass(frozen=True)
class Global(NumpyMatcher):
    """Levels matched as a whole: both sides are interpolated to `columns` columns, of which each is compared with its own."""

    columns: int = 8

    def level_score(self, rows: QueryRows, texts: Texts, scale: Scale) -> Array:
        """The similarity of each text at a level, shape (texts,)."""
        query, documents = self.sides(rows, texts, scale)
        count = len(query.weights)
        pairs = self.similarity(rows, query, documents).reshape(count, len(texts.lengths), count)
        result: Array = np.einsum("g,gdg->d", query.weights, pairs)
        return result

    def sides(self, rows: QueryRows, texts: Texts, scale: Scale) -> tuple[QueryLevel, DocumentLevel]:
        """The query and `texts` at a level."""
        windows = self._windows(texts, scale)
        # The words' importance is in the weights of the query's terms.
        query = rows.smoothed_query(self._windows(replace(rows.own, mass=None), scale).toarray(), scale)
        count = len(query.weights)
        text = np.arange(len(texts.lengths))
        places = Samples(np.repeat(text, count), np.tile(np.arange(count), len(text)))
        return query, rows.smoothed(texts, windows, scale, places, text * count)

    def alignments(self, rows: QueryRows, text: Texts) -> list[Aligned]:
        """What is compared at each level for one text that isn't empty."""
        aligned = []
        for scale in self.scales:
            query, _ = self.sides(rows, text, scale)
            columns = np.arange(len(query.weights))
            aligned.append(Aligned(query, self._windows(text, scale), (columns, columns, query.weights)))
        return aligned

    def _windows(self, texts: Texts, scale: Scale) -> sparse.csr_matrix:
        columns = self.columns if np.isfinite(scale.spatial) else 1
        return interpolated_operator(texts.lengths, columns, scale.spatial, scale.width, texts.mass)


@dataclass(frozen=True)
class Points(NumpyMatcher):
    """Levels matched by their interest points; the scales are finite, in ascending order."""

    def part_scores(self, rows: QueryRows, texts: Texts) -> Array:
        """Similarities of the query and each text at each level, shape (texts, levels); a text may be empty."""
        levels = point_similarities(rows, filled(texts), self.scales, partial(self.similarity, rows))
        return np.column_stack(
            [weights @ np.maximum.reduceat(similarities, first, axis=1) for similarities, weights, _, first, _ in levels]
        )

    def alignments(self, rows: QueryRows, text: Texts) -> list[Aligned]:
        """What is compared at each level for one text that isn't empty, chosen in double precision."""
        exact = replace(self, precision=np.float64)
        levels = point_similarities(rows, text, self.scales, partial(exact.similarity, rows))
        aligned = []
        for scale, (similarity, weights, mine, _, at) in zip(self.scales, levels, strict=True):
            best = similarity.argmax(axis=1)
            chosen = Samples(at.text[best], at.position[best])
            sides = regions(mine, len(rows.query), chosen, text.lengths, scale)
            near = np.concatenate([side for side, _ in sides])
            far = np.concatenate([other.position for _, other in sides])
            pairs = (near, far, np.tile(weights, len(sides)) / len(sides))
            aligned.append(aligned_columns(rows.query_level(scale, step=1), text, Samples.every(text.lengths), pairs, scale))
        return aligned


def make_matcher(mode: str, scales: tuple[Scale, ...], *, divergence: str = "js", step: int = 0, columns: int = 8) -> Matcher:
    """The matcher of a `mode` (max, mean, sum, global, points) and a `divergence` (a key of DIVERGENCES) at `scales`.

    `step` is the distance of the columns that windows are compared at (0: the scale), `columns` that of `Global`. Whole texts
    and interest points are matched in single precision.
    """
    compare = DIVERGENCES[divergence]
    if mode == "global":
        return Global(scales, divergence=compare, precision=np.float32, columns=columns)
    if mode == "points":
        return Points(scales, divergence=compare, precision=np.float32)
    return Matcher(scales, step, compare) if mode == "max" else AllWindows(scales, step, compare, mean=mode == "mean")
