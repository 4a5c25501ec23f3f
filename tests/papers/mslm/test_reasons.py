"""Matches in the paper's ways, word by word and position by position, against dense matrices over the vocabulary."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelsearch.papers.mslm.matching import make_matcher
from tests.kernels.test_pyramid import dense_semantic
from tests.kernels.test_pyramid_reasons import (
    SCALES,
    WHOLE,
    DenseMatch,
    assert_explained,
    assert_only_background,
    js_cells,
)
from tests.papers.mslm.test_matching import FORMS, double, points_by_hand

COLUMNS = 4


def kl_cells(a, b):
    """A cell's part of -KL(a, b)."""
    return a * np.log(b / a)


class ModeMatch(DenseMatch):
    """What is compared in a mode."""

    def __init__(self, mode, divergence, *arguments):
        super().__init__(*arguments, cells=js_cells if divergence == "js" else kl_cells)
        self.mode = mode

    def windows(self, length, mass, scale):
        """Windows that sum to one, shape (tokens, columns)."""
        spatial = super().windows(length, mass, scale)
        if self.mode != "global" or scale.spatial == math.inf:
            return spatial
        along = np.linspace(0, length - 1, COLUMNS)
        low = np.floor(along).astype(int)
        return spatial[:, low] * (1 - along + low) + spatial[:, np.minimum(low + 1, length - 1)] * (along - low)

    def strengths(self, tokens, mass):
        """Mass on the rows at each level minus that at the next one, shape (levels, positions)."""
        levels = []
        for scale in self.scales:
            held = dense_semantic(self.graph, scale.semantic)[self.rows.words].sum(axis=0)[tokens]
            levels.append(held @ super().windows(len(tokens), mass, scale))
        return -np.diff([*levels, np.zeros(len(tokens))], axis=0)

    def pairs(self, level):
        """(query column, document column, weight) of what is compared."""
        scale, mode = self.scales[level], self.mode
        mine, share, theirs, _ = self.sides(scale)
        similarity = np.array([[self.cells(a, b).sum() for b in theirs.T] for a in mine.T])
        count = len(share)
        if mode == "global":
            return [(j, j, share[j]) for j in range(count)]
        if mode != "points":
            if mode == "max":
                return super().pairs(level)
            starts = range(theirs.shape[1] - count + 1)
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


@pytest.mark.parametrize("length", [11, 2])
@pytest.mark.parametrize(("mode", "divergence"), FORMS)
def test_every_word_and_position_of_a_match_is_that_of_dense_matrices(mode, divergence, length):
    matcher = make_matcher(mode, SCALES, divergence=divergence, step=1, columns=COLUMNS)
    for seed in range(3):
        assert_explained(matcher, ModeMatch(mode, divergence, seed, length, SCALES))


@pytest.mark.parametrize("mode", ["mean", "sum", "global"])
def test_the_whole_text_is_one_column(mode):
    assert_explained(make_matcher(mode, WHOLE, columns=COLUMNS), ModeMatch(mode, "js", 5, 9, WHOLE))


@pytest.mark.parametrize("mode", ["mean", "sum", "global", "points"])
def test_a_text_without_words_has_only_a_background(mode):
    assert_only_background(double(make_matcher(mode, SCALES, step=1)))
