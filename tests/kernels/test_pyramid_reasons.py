"""Matches of a query and a document, word by word and position by position, against dense matrices over the vocabulary."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import xlogy

from kernelsearch.kernels.pyramid import reasons
from kernelsearch.kernels.pyramid.matching import Matcher
from kernelsearch.kernels.pyramid.query_rows import Scale
from kernelsearch.kernels.pyramid.reasons import level_matches
from tests.kernels.test_pyramid import dense_semantic, dense_spatial, random_graph
from tests.kernels.test_pyramid_match import ETA, WORDS, make_rows, pack

WIDTH = 5
SCALES = (Scale(1, 0.7, WIDTH), Scale(2, 1.1, WIDTH), Scale(4, 0.4, WIDTH))
WHOLE = (Scale(math.inf, 0.7), Scale(0, 1.1))


def js_cells(a, b):
    """A cell's part of ln 2 - JS(a, b)."""
    return 0.5 * (xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b))


class DenseMatch:
    """The columns of a query and a text at each level, over the rows and one cell for all other words; their best window."""

    def __init__(self, seed, length, scales, cells=js_cells):
        self.cells = cells
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

    def windows(self, length, mass, scale):
        """Windows that sum to one, shape (tokens, columns)."""
        spatial = dense_spatial(length, scale.spatial, WIDTH)
        if mass is not None:
            spatial = spatial * mass[:, None] / (mass @ spatial)
        return spatial[:, :1] if scale.spatial == math.inf else spatial

    def columns(self, tokens, window, scale):
        """Distributions over the rows and the cell of other words, shape (rows + 1, columns)."""
        full = dense_semantic(self.graph, scale.semantic)[:, tokens] @ window
        full = (full + ETA * self.background[:, None]) / (1 + ETA)
        return np.vstack([full[self.rows.words], full.sum(axis=0) - full[self.rows.words].sum(axis=0)])

    def sides(self, scale):
        """The query's columns and their weights; the text's columns and its windows, padded to the length of the query."""
        own = self.windows(3, None, scale) * self.weights[:, None]
        share = own.sum(axis=0)
        window = self.windows(len(self.text), self.importance[self.text], scale)
        theirs = self.columns(self.text, window, scale)
        missing = max(0, len(share) - theirs.shape[1])
        theirs = np.column_stack([theirs, *[self.floor()] * missing])
        window = np.column_stack([window, np.zeros((len(self.text), missing))])
        return self.columns(self.query, own / share, scale), share / share.sum(), theirs, window

    def floor(self):
        rows = ETA / (1 + ETA) * self.background[self.rows.words]
        return np.append(rows, 1 - rows.sum())

    def pairs(self, level):
        """(query column, document column, weight) of what is compared."""
        mine, share, theirs, _ = self.sides(self.scales[level])
        values = [
            sum(part * self.cells(mine[:, j], theirs[:, start + j]).sum() for j, part in enumerate(share))
            for start in range(theirs.shape[1] - len(share) + 1)
        ]
        best = int(np.argmax(values))
        return [(j, best + j, part) for j, part in enumerate(share)]


def assert_matches(match, expected, level):
    scale = match.scales[level]
    mine, _, theirs, window = match.sides(scale)
    parts, empty, attention = np.zeros(len(mine)), np.zeros(len(mine)), np.zeros(len(match.text))
    for j, p, weight in match.pairs(level):
        parts += weight * match.cells(mine[:, j], theirs[:, p])
        empty += weight * match.cells(mine[:, j], match.floor())
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


def assert_explained(matcher, match):
    found = level_matches(matcher, match.rows, match.texts)
    for level, expected in enumerate(found):
        assert_matches(match, expected, level)
    assert [level.similarity for level in found] == pytest.approx(matcher.scores(match.rows, match.texts)[0], abs=1e-5)


def assert_only_background(matcher):
    """A text without words."""
    match = DenseMatch(1, 4, SCALES)
    empty = match.rows.texts(*pack([[]]))
    for level, value in zip(level_matches(matcher, match.rows, empty), matcher.scores(match.rows, empty)[0], strict=True):
        assert level.words == pytest.approx(np.zeros(len(match.rows.words)), abs=1e-12)
        assert level.background == pytest.approx(value) and level.other == pytest.approx(0, abs=1e-12)
        assert level.span == (0, 0)


@pytest.mark.parametrize("pairs", [1 << 14, 2])
@pytest.mark.parametrize("length", [11, 2])
def test_every_word_and_position_of_a_match_is_that_of_dense_matrices(length, pairs, monkeypatch):
    monkeypatch.setattr(reasons, "PAIRS", pairs)
    for seed in range(3):
        assert_explained(Matcher(SCALES, step=1), DenseMatch(seed, length, SCALES))


def test_the_whole_text_is_one_column_and_an_empty_one_is_background():
    assert_explained(Matcher(WHOLE), DenseMatch(5, 9, WHOLE))
    assert_only_background(Matcher(SCALES, step=1))
