"""All levels of a text by dense matrices; limits are in test_language_pyramid.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelsearch.kernels.pyramid.text_pyramid import SCALES
from kernelsearch.kernels.semantic.graph import SemanticGraph
from kernelsearch.papers.mslm.text_levels import binary_code, gaussian_pyramid
from tests.kernels.test_pyramid import dense_semantic, dense_spatial, random_graph


@pytest.fixture
def graph() -> SemanticGraph:
    """Words 0-1 and 1-2 are neighbours at equal distance, word 3 has none."""
    return SemanticGraph.from_edges(4, np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.5]))


def test_infinite_semantic_scale_shares_a_word_equally_with_its_neighbours(graph):
    level = gaussian_pyramid([1], graph, scales=[0.0], semantic_scales=[math.inf])[0]
    assert level.code.toarray().ravel() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("iterate", [False, True])
def test_sparse_pyramid_agrees_with_dense_matrices(seed, iterate):
    rng = np.random.default_rng(seed)
    words, length = 12, int(rng.integers(1, 15))
    graph = random_graph(words, seed)
    tokens = rng.integers(0, words, length)
    levels = gaussian_pyramid(tokens, graph, width=5, iterate=iterate)
    start = current = np.eye(words)[:, tokens]
    for level, scale in zip(levels, SCALES, strict=True):
        current = dense_semantic(graph, scale) @ (current if iterate else start) @ dense_spatial(length, scale, 5)
        assert np.abs(level.code.toarray() - current).max() < 1e-12
        dense = level.dense()
        assert dense.sum(axis=0) == pytest.approx(np.ones(length))
        assert dense == pytest.approx((current + 0.1 / words) / 1.1)


def test_word_numbers_are_checked(graph):
    with pytest.raises(ValueError, match=r"0\.\.3"):
        binary_code([4], 4)
    with pytest.raises(ValueError, match="semantic scales"):
        gaussian_pyramid([0], graph, scales=[0.0, 1.0], semantic_scales=[0.0])
