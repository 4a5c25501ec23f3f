"""Matches of a query and a document, word by word and position by position, against dense matrices over the vocabulary."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import xlogy

from kernelsearch.kernels.pyramid import reasons
from kernelsearch.kernels.pyramid.matching import MODES, Matcher
from kernelsearch.kernels.pyramid.query_rows import Scale
from kernelsearch.kernels.pyramid.reasons import level_matches
from tests.kernels.test_pyramid import dense_semantic, dense_spatial, random_graph
from tests.kernels.test_pyramid_match import ETA, WORDS, make_rows, pack, points_by_hand

WIDTH, COLUMNS = 5, 4
SCALES = (Scale(1, 0.7), Scale(2, 1.1), Scale(4, 0.4))


def cells(a, b, divergence):
    """A cell's part of ln 2 - JS(a, b), or of -KL(a, b)."""
    if divergence == "js":
        return 0.5 * (xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b))
    return a * np.log(b / a)


class DenseMatch:
    """The columns of a query and a text at each level, over the rows and one cell for all other words."""

    def __init__(self, seed, length, scales):
        rng = np.random.default_rng(seed)
        self.graph, self.scales = random_graph(WORDS, seed), scales
        self.background = rng.dirichlet(np.ones(WORDS))
        self.importance, self.weights = rng.uniform(0.5, 2, WORDS), rng.uniform(0.5, 2, 3)
        self.query, self.text = rng.choice(WORDS, 3, replace=False), rng.integers(0, WORDS, length)
        self.rows = make_rows(
            self.graph,
            self.query,
            scales,
            weights=self.weights,
            importance=self.importance,
            background=self.background,
            limit=8,
        )
        self.texts = self.rows.texts(*pack([self.text]))

    def windows(self, length, mass, scale, mode):
        """Windows that sum to one, shape (tokens, columns)."""
        spatial = dense_spatial(length, scale.spatial, WIDTH)
        if mass is not None:
            spatial = spatial * mass[:, None] / (mass @ spatial)
        if scale.spatial == math.inf:
            return spatial[:, :1]
        if mode != "global":
            return spatial
        along = np.linspace(0, length - 1, COLUMNS)
        low = np.floor(along).astype(int)
        return spatial[:, low] * (1 - along + low) + spatial[:, np.minimum(low + 1, length - 1)] * (along - low)

    def columns(self, tokens, window, scale):
        """Distributions over the rows and the cell of other words, shape (rows + 1, columns)."""
        full = dense_semantic(self.graph, scale.semantic)[:, tokens] @ window
        full = (full + ETA * self.background[:, None]) / (1 + ETA)
        return np.vstack([full[self.rows.words], full.sum(axis=0) - full[self.rows.words].sum(axis=0)])

    def sides(self, scale, mode):
        """The query's columns and their weights; the text's columns and its windows, padded to the length of the query."""
        own = self.windows(3, None, scale, mode) * self.weights[:, None]
        share = own.sum(axis=0)
        window = self.windows(len(self.text), self.importance[self.text], scale, mode)
        theirs = self.columns(self.text, window, scale)
        missing = 0 if mode == "points" else max(0, len(share) - theirs.shape[1])
        theirs = np.column_stack([theirs, *[self.floor()] * missing])
        window = np.column_stack([window, np.zeros((len(self.text), missing))])
        return self.columns(self.query, own / share, scale), share / share.sum(), theirs, window

    def floor(self):
        rows = ETA / (1 + ETA) * self.background[self.rows.words]
        return np.append(rows, 1 - rows.sum())

    def strengths(self, tokens, mass):
        """Mass on the rows at each level minus that at the next one, shape (levels, positions)."""
        levels = []
        for scale in self.scales:
            held = dense_semantic(self.graph, scale.semantic)[self.rows.words].sum(axis=0)[tokens]
            levels.append(held @ self.windows(len(tokens), mass, scale, "points"))
        return -np.diff([*levels, np.zeros(len(tokens))], axis=0)

    def pairs(self, level, mode, divergence):
        """(query column, document column, weight) of what is compared."""
        scale = self.scales[level]
        mine, share, theirs, _ = self.sides(scale, mode)
        similarity = np.array([[cells(a, b, divergence).sum() for b in theirs.T] for a in mine.T])
        count = len(share)
        if mode == "global":
            return [(j, j, share[j]) for j in range(count)]
        if mode != "points":
            starts = range(theirs.shape[1] - count + 1)
            if mode == "max":
                starts = [max(starts, key=lambda start: sum(share[j] * similarity[j, start + j] for j in range(count)))]
            part = 1.0 if mode == "sum" else 1 / len(starts)
            return [(j, start + j, part * share[j]) for start in starts for j in range(count)]
        asked = points_by_hand(self.strengths(self.query, self.importance[self.query]), np.zeros(3, dtype=int))[level]
        found = points_by_hand(self.strengths(self.text, self.importance[self.text]), np.zeros(len(self.text), dtype=int))[
            level
        ]
        points = [j for j in range(3) if asked[j]]

        def region(j, p):
            offsets = (-round(scale.spatial), 0, round(scale.spatial))
            return [(min(max(j + o, 0), 2), min(max(p + o, 0), len(self.text) - 1)) for o in offsets]

        result = []
        for j in points:
            regions = [region(j, p) for p in range(len(self.text)) if found[p]]
            best = max(regions, key=lambda near: sum(similarity[cell] for cell in near))
            result += [(a, b, share[j] / sum(share[points]) / 3) for a, b in best]
        return result


def assert_matches(match, expected, mode, divergence, level):
    scale = match.scales[level]
    mine, _, theirs, window = match.sides(scale, mode)
    parts, empty, attention = np.zeros(len(mine)), np.zeros(len(mine)), np.zeros(len(match.text))
    for j, p, weight in match.pairs(level, mode, divergence):
        parts += weight * cells(mine[:, j], theirs[:, p], divergence)
        empty += weight * cells(mine[:, j], match.floor(), divergence)
        attention += weight * window[:, p]
    assert expected.scale == scale and expected.similarity == pytest.approx(parts.sum(), abs=1e-9)
    assert expected.words == pytest.approx((parts - empty)[:-1], abs=1e-9)
    assert expected.other == pytest.approx((parts - empty)[-1], abs=1e-9)
    assert expected.background == pytest.approx(empty.sum(), abs=1e-9)
    assert expected.attention == pytest.approx(attention, abs=1e-9)
    lent = dense_semantic(match.graph, scale.semantic)[np.ix_(match.rows.words, match.text)] * attention
    assert expected.lent.toarray() == pytest.approx(lent, abs=1e-9)
    seen = np.flatnonzero(attention >= 0.5 * attention.max())
    assert expected.span == (seen[0], seen[-1])


@pytest.mark.parametrize("pairs", [1 << 14, 2])
@pytest.mark.parametrize("length", [11, 2])
@pytest.mark.parametrize("divergence", ["js", "kl"])
@pytest.mark.parametrize("mode", MODES)
def test_every_word_and_position_of_a_match_is_that_of_dense_matrices(mode, divergence, length, pairs, monkeypatch):
    monkeypatch.setattr(reasons, "PAIRS", pairs)
    for seed in range(3):
        match = DenseMatch(seed, length, SCALES)
        matcher = Matcher(SCALES, mode, divergence, WIDTH, step=1, columns=COLUMNS)
        found = level_matches(matcher, match.rows, match.texts)
        for level, expected in enumerate(found):
            assert_matches(match, expected, mode, divergence, level)
        assert [level.similarity for level in found] == pytest.approx(matcher.scores(match.rows, match.texts)[0], abs=1e-9)


@pytest.mark.parametrize("mode", ["max", "mean", "sum", "global"])
def test_the_whole_text_is_one_column(mode):
    scales = (Scale(math.inf, 0.7), Scale(0, 1.1))
    match = DenseMatch(5, 9, scales)
    found = level_matches(Matcher(scales, mode, "js", WIDTH, columns=COLUMNS), match.rows, match.texts)
    for level, expected in enumerate(found):
        assert_matches(match, expected, mode, "js", level)


@pytest.mark.parametrize("mode", MODES)
def test_a_text_without_words_has_only_a_background(mode):
    match = DenseMatch(1, 4, SCALES)
    empty = match.rows.texts(*pack([[]]))
    matcher = Matcher(SCALES, mode, step=1)
    for level, value in zip(level_matches(matcher, match.rows, empty), matcher.scores(match.rows, empty)[0], strict=True):
        assert level.words == pytest.approx(np.zeros(len(match.rows.words)), abs=1e-12)
        assert level.background == pytest.approx(value) and level.other == pytest.approx(0, abs=1e-12)
        assert level.span == (0, 0)
