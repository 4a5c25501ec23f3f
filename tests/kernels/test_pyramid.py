"""The pyramid's limits, hand-computed levels, and agreement with dense matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from kernelsearch.kernels.pyramid.text_pyramid import (
    SCALES,
    Samples,
    centred_operator,
    spatial_operator,
    window,
)
from kernelsearch.kernels.semantic.graph import SemanticGraph


def random_graph(words: int, seed: int) -> SemanticGraph:
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, words, (2, words * 2))
    return SemanticGraph.from_edges(words, *_distinct(left, right), rng.uniform(0.1, 1, len(_distinct(left, right)[0])))


def _distinct(left, right):
    pairs = np.unique(np.stack([np.minimum(left, right), np.maximum(left, right)], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def dense_semantic(graph: SemanticGraph, scale: float) -> np.ndarray:
    """S cell by cell from the definition."""
    distance = np.full((graph.words, graph.words), np.inf)
    np.fill_diagonal(distance, 0.0)
    for word in range(graph.words):
        for other, far in zip(*graph.neighbours(word), strict=True):
            distance[word, other] = far
    if scale == 0:
        weight = np.eye(graph.words)
    elif scale == math.inf:
        weight = np.isfinite(distance).astype(float)
    else:
        weight = np.exp(-(distance**2) / (2 * scale**2))
    return weight / weight.sum(axis=0)


def dense_spatial(length: int, scale: float, width: int) -> np.ndarray:
    """K cell by cell: column p is the window around p."""
    out = np.zeros((length, length))
    half = width // 2 if width else math.ceil(2 * scale) if scale < math.inf else length
    for p in range(length):
        for t in range(length):
            if scale == math.inf:
                out[t, p] = 1
            elif scale == 0:
                out[t, p] = t == p
            elif abs(t - p) <= half:
                out[t, p] = math.exp(-((t - p) ** 2) / (2 * scale**2))
    return out / out.sum(axis=0)


def test_window_is_a_gaussian_cut_at_its_width():
    assert window(2.0, 5) == pytest.approx([math.exp(-0.5), math.exp(-0.125), 1, math.exp(-0.125), math.exp(-0.5)])
    assert len(window(3.0)) == 13  # two scales to each side
    assert window(0.0, 5) == pytest.approx([1.0])


@pytest.mark.parametrize("scale", [-1.0, math.inf])
def test_window_refuses_scales_without_a_window(scale):
    with pytest.raises(ValueError, match="finite scale"):
        window(scale)


def test_operators_sum_to_one():
    graph = random_graph(30, 7)
    for scale in SCALES:
        assert np.asarray(graph.operator(scale).sum(axis=0)).ravel() == pytest.approx(np.ones(30))
        rows = spatial_operator([3, 1, 6], Samples.every([3, 1, 6]), scale, mass=np.linspace(0.1, 2, 10))
        assert np.asarray(rows.sum(axis=1)).ravel() == pytest.approx(np.ones(10))


@pytest.mark.parametrize("scale", [0.0, 1e-3])
def test_a_narrow_window_between_two_words_holds_both(scale):
    """Four words by steps of three have columns at 0 and 3, by steps of two at 0.5 and 2.5."""
    np.testing.assert_array_equal(centred_operator(4, 3, scale), [[1, 0, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_array_equal(centred_operator(4, 2, scale), [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])


@pytest.mark.parametrize("width", [0, 2, 3, 5])
@pytest.mark.parametrize(("length", "step"), [(1, 1), (4, 2), (7, 3), (9, 1), (6, 8)])
def test_centred_windows_by_definition(length, step, width):
    """Columns are as far from the beginning as from the end; a window is cut at its width, or at two scales."""
    count = max(1, math.ceil(length / step))
    places = [(length - 1) / 2 + (column - (count - 1) / 2) * step for column in range(count)]
    for scale in (0.7, 1.5, 2.0):
        half = width // 2 if width else math.ceil(2 * scale)
        weights = np.array([
            [math.exp(-(((t - place) / scale) ** 2) / 2) if abs(t - place) <= max(half, 0.5) else 0.0 for t in range(length)]
            for place in places
        ])  # fmt: skip
        expected = weights / weights.sum(axis=1, keepdims=True)
        assert centred_operator(length, step, scale, width) == pytest.approx(expected)
    assert centred_operator(length, step, math.inf, width).tolist() == [[1 / length] * length]


@pytest.mark.parametrize("mass", [None, np.linspace(0.2, 2.0, 13)])
@pytest.mark.parametrize("width", [0, 3, 4])
def test_windows_by_definition(width, mass):
    lengths, weights = [5, 0, 1, 7], np.ones(13) if mass is None else mass
    starts = [0, 5, 5, 6]
    for scale in (0.0, 0.8, 2.0, math.inf):

        def row(text, place, scale=scale):
            out = np.zeros(13)
            if place < lengths[text]:
                span = slice(starts[text], starts[text] + lengths[text])
                out[span] = dense_spatial(lengths[text], scale, width)[:, place] * weights[span]
                out /= out.sum()
            return out

        samples = Samples.every(lengths, step=2, at_least=2)
        expected = [row(text, place) for text, place in zip(samples.text, samples.position, strict=True)]
        assert spatial_operator(lengths, samples, scale, width, mass=mass).toarray() == pytest.approx(np.array(expected))


def test_texts_do_not_flow_into_each_other():
    together = spatial_operator([4, 3], Samples.every([4, 3]), 2.0)
    apart = sparse.block_diag([spatial_operator([n], Samples.every([n]), 2.0) for n in (4, 3)])
    assert together.toarray() == pytest.approx(apart.toarray())


def test_mass_moves_a_window_towards_heavy_words():
    row = spatial_operator([3], Samples(np.array([0]), np.array([1])), 1.0, 3, mass=np.array([1.0, 1.0, 2.0]))
    near = math.exp(-0.5)
    assert row.toarray().ravel() == pytest.approx(np.array([near, 1, 2 * near]) / (3 * near + 1))


def test_samples_are_padded_with_empty_columns():
    samples = Samples.every([5, 1, 0], step=2, at_least=2)
    assert samples.text.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert samples.position.tolist() == [0, 2, 4, 0, 2, 0, 2]
    rows = spatial_operator([5, 1, 0], samples, 1.0)
    assert np.asarray(rows.sum(axis=1)).ravel() == pytest.approx([1, 1, 1, 1, 0, 0, 0])
