"""The pyramid's limits, hand-computed levels, and agreement with dense matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from kernelsearch.kernels.pyramid.text_pyramid import (
    SCALES,
    Samples,
    binary_code,
    centred_operator,
    gaussian_pyramid,
    interpolated_operator,
    spatial_operator,
    window,
)
from kernelsearch.kernels.semantic.graph import SPATIAL_ORDER, SemanticGraph


@pytest.fixture
def graph() -> SemanticGraph:
    """Words 0-1 and 1-2 are neighbours at equal distance, word 3 has none."""
    return SemanticGraph.from_edges(4, np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.5]))


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
    assert window(2.0, 3, "box") == pytest.approx([1, 1, 1])
    assert window(2.0, 11, "triangle") == pytest.approx([0, 0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0, 0])
    assert window(2.0, 3, lambda t: 1 / (1 + np.abs(t))) == pytest.approx([2 / 3, 1, 2 / 3])


@pytest.mark.parametrize("scale", [-1.0, math.inf])
def test_window_refuses_scales_without_a_window(scale):
    with pytest.raises(ValueError, match="finite scale"):
        window(scale)


def test_scale_zero_returns_the_code(graph):
    level = gaussian_pyramid([2, 0, 3], graph, scales=[0.0])[0]
    assert np.array_equal(level.code.toarray(), binary_code([2, 0, 3], 4).toarray())


def test_infinite_spatial_scale_gives_the_bag_of_words_everywhere(graph):
    level = gaussian_pyramid([0, 0, 3, 1], graph, scales=[math.inf], semantic_scales=[0.0])[0]
    assert level.code.toarray() == pytest.approx(np.repeat([[0.5], [0.25], [0.0], [0.25]], 4, axis=1))


def test_infinite_semantic_scale_shares_a_word_equally_with_its_neighbours(graph):
    level = gaussian_pyramid([1], graph, scales=[0.0], semantic_scales=[math.inf])[0]
    assert level.code.toarray().ravel() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])


def test_hand_computed_level(graph):
    # One neighbour distance, so it equals SPATIAL_ORDER; semantic weight of a neighbour w = exp(-1.5²/2).
    w = math.exp(-(SPATIAL_ORDER**2) / 2)
    g = math.exp(-0.5)
    code = gaussian_pyramid([0, 3], graph, scales=[1.0], width=3)[0].code.toarray()
    first, second = 1 / (1 + g), g / (1 + g)  # shares of the own and the other position
    assert code[:, 0] == pytest.approx([first / (1 + w), first * w / (1 + w), 0, second])
    assert code[:, 1] == pytest.approx([second / (1 + w), second * w / (1 + w), 0, first])


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


@pytest.mark.parametrize("shape", ["gaussian", "triangle", "box"])
@pytest.mark.parametrize("width", [0, 2, 3, 5])
@pytest.mark.parametrize(("length", "step"), [(1, 1), (4, 2), (7, 3), (9, 1), (6, 8)])
def test_centred_windows_by_definition(length, step, width, shape):
    """Columns are as far from the beginning as from the end; a window is cut at its width, or at two scales."""
    count = max(1, math.ceil(length / step))
    places = [(length - 1) / 2 + (column - (count - 1) / 2) * step for column in range(count)]
    weigh = {
        "gaussian": lambda t: math.exp(-(t**2) / 2), "triangle": lambda t: max(0.0, 1 - abs(t) / 2), "box": lambda t: 1.0
    }[shape]  # fmt: skip
    for scale in (0.7, 1.5, 2.0):
        half = width // 2 if width else math.ceil(2 * scale)
        weights = np.array([
            [weigh((token - place) / scale) if abs(token - place) <= max(half, 0.5) else 0.0 for token in range(length)]
            for place in places
        ])  # fmt: skip
        expected = weights / weights.sum(axis=1, keepdims=True)
        assert centred_operator(length, step, scale, width, shape) == pytest.approx(expected)
    assert centred_operator(length, step, math.inf, width, shape).tolist() == [[1 / length] * length]


@pytest.mark.parametrize("mass", [None, np.linspace(0.2, 2.0, 13)])
@pytest.mark.parametrize("width", [0, 3, 4])
def test_windows_and_interpolation_by_definition(width, mass):
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
        for columns in (1, 2, 4):
            expected = []
            for text, length in enumerate(lengths):
                for along in np.linspace(0, 1, columns) if columns > 1 else [0.5]:
                    place = along * max(length - 1, 0)
                    low = int(place)
                    near, far = row(text, low), row(text, min(low + 1, max(length - 1, 0)))
                    expected.append((1 - place + low) * near + (place - low) * far)
            result = interpolated_operator(lengths, columns, scale, width, mass=mass).toarray()
            assert result == pytest.approx(np.array(expected))


@pytest.mark.parametrize("shape", ["gaussian", "triangle"])
@pytest.mark.parametrize("iterate", [False, True])
def test_levels_are_interpolated_to_one_length(graph, iterate, shape):
    """Two columns are the first and the last one of a level, three have its middle; at scale infinity all are alike."""
    tokens, scales = [0, 1, 2, 3, 0], [0.0, 1.0, math.inf]
    options = {"scales": scales, "width": 3, "iterate": iterate, "shape": shape}
    whole = gaussian_pyramid(tokens, graph, **options)
    for columns, places in ((2, [0, 4]), (3, [0, 2, 4])):
        levels = gaussian_pyramid(tokens, graph, **options, columns=columns)
        for level, full in zip(levels, whole, strict=True):
            assert level.code.toarray() == pytest.approx(full.code.toarray()[:, places])


def test_texts_do_not_flow_into_each_other():
    together = spatial_operator([4, 3], Samples.every([4, 3]), 2.0)
    apart = sparse.block_diag([spatial_operator([n], Samples.every([n]), 2.0) for n in (4, 3)])
    assert together.toarray() == pytest.approx(apart.toarray())


def test_mass_moves_a_window_towards_heavy_words():
    row = spatial_operator([3], Samples(np.array([0]), np.array([1])), 1.0, 3, "box", mass=np.array([1.0, 1.0, 2.0]))
    assert row.toarray().ravel() == pytest.approx([0.25, 0.25, 0.5])


def test_samples_are_padded_with_empty_columns():
    samples = Samples.every([5, 1, 0], step=2, at_least=2)
    assert samples.text.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert samples.position.tolist() == [0, 2, 4, 0, 2, 0, 2]
    rows = spatial_operator([5, 1, 0], samples, 1.0)
    assert np.asarray(rows.sum(axis=1)).ravel() == pytest.approx([1, 1, 1, 1, 0, 0, 0])


def test_interpolation_is_linear_between_columns_and_keeps_mass():
    three = interpolated_operator([2], 3, 0.0).toarray()
    assert three == pytest.approx(np.array([[1, 0], [0.5, 0.5], [0, 1]]))
    long = interpolated_operator([7, 1], 4, 1.0)
    assert np.asarray(long.sum(axis=1)).ravel() == pytest.approx(np.ones(8))


def test_interpolated_pyramid_has_one_length(graph):
    for level in gaussian_pyramid([0, 1, 2, 3, 0], graph, columns=3):
        assert level.code.shape == (4, 3)
        assert np.asarray(level.code.sum(axis=0)).ravel() == pytest.approx(np.ones(3))


def test_word_numbers_are_checked(graph):
    with pytest.raises(ValueError, match=r"0\.\.3"):
        binary_code([4], 4)
    with pytest.raises(ValueError, match="semantic scales"):
        gaussian_pyramid([0], graph, scales=[0.0, 1.0], semantic_scales=[0.0])
