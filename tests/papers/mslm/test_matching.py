"""The paper's ways of matching against dense matrices, and interest points by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernelsearch.kernels.pyramid.matching import Matcher
from kernelsearch.kernels.pyramid.query_rows import Scale
from kernelsearch.kernels.semantic.graph import SemanticGraph
from kernelsearch.papers.mslm.interest_points import interest_points
from kernelsearch.papers.mslm.matching import AllWindows, Global, Points, make_matcher
from tests.kernels.test_pyramid import random_graph
from tests.kernels.test_pyramid_match import (
    LEVELS,
    PARTS_SCALES,
    WORDS,
    assert_background,
    assert_dense,
    assert_parts,
    js_similarity,
    make_rows,
    pack,
)

MODES = ("max", "mean", "sum", "global", "points")
FORMS = [(mode, divergence) for mode in MODES for divergence in ("js", "kl") if (mode, divergence) != ("max", "js")]


def kl_similarity(a, b):
    return -(a @ np.log(a / b))


def double(matcher):
    """The same matcher in double precision."""
    return replace(matcher, precision=np.float64)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("mode", "divergence"), [form for form in FORMS if form[0] != "points"])
@pytest.mark.parametrize("scale", LEVELS)
def test_levels_agree_with_dense_matrices(seed, mode, divergence, scale):
    combine = {"max": max, "mean": np.mean, "sum": sum, "global": None}[mode]
    matcher = double(make_matcher(mode, (scale,), divergence=divergence))
    assert_dense(matcher, seed, combine, js_similarity if divergence == "js" else kl_similarity)


@pytest.mark.parametrize(("mode", "divergence"), FORMS)
def test_working_in_parts_and_empty_texts(mode, divergence, monkeypatch):
    assert_background(make_matcher(mode, (Scale(1, 0.5), Scale(2, 0.5)), divergence=divergence))
    assert_parts(double(make_matcher(mode, PARTS_SCALES, divergence=divergence)), monkeypatch)


def test_whole_texts_and_points_are_matched_in_single_precision():
    kinds = {mode: (type(make_matcher(mode, LEVELS)), make_matcher(mode, LEVELS).precision) for mode in MODES}
    assert kinds == {
        "max": (Matcher, np.float64),
        "mean": (AllWindows, np.float64),
        "sum": (AllWindows, np.float64),
        "global": (Global, np.float32),
        "points": (Points, np.float32),
    }


def test_sum_is_the_mean_times_the_number_of_windows():
    graph = random_graph(WORDS, 2)
    texts = [np.arange(9), np.arange(4)]
    rows = make_rows(graph, [1, 2], (Scale(1, 1),))
    total, mean = (make_matcher(mode, (Scale(1, 1),)).scores(rows, rows.texts(*pack(texts)))[:, 0] for mode in ("sum", "mean"))
    assert total == pytest.approx(mean * [8, 3])


def test_interest_points_are_local_maxima_in_position_and_scale():
    strengths = np.array([[0.0, 1.0, 0.0, 0.0, 2.0, 2.0], [0.0, 0.5, 0.0, 3.0, 0.0, 0.0]])
    text = np.zeros(6, dtype=int)
    points = interest_points(strengths, text)
    # Level 0: the bump at 1 beats level 1; 4 is below level 1's 3 next to it but is its level's first strongest column.
    assert np.flatnonzero(points[0]).tolist() == [1, 4]
    assert np.flatnonzero(points[1]).tolist() == [3]


def points_by_hand(strengths, text):
    """Neighbours and the level above and below, one comparison at a time."""

    def is_point(level, column):
        own, mine = strengths[level, column], np.flatnonzero(text == text[column])
        if column == mine[strengths[level, mine].argmax()]:
            return True
        near = [place for place in (column - 1, column, column + 1) if place in mine]
        sideways = all(own > strengths[level, place] if place < column else own >= strengths[level, place] for place in near)
        others = [other for other in (level - 1, level + 1) if 0 <= other < len(strengths)]
        return bool(own > 0 and sideways and all(own >= strengths[other, place] for other in others for place in near))

    return [[is_point(level, column) for column in range(len(text))] for level in range(len(strengths))]


@pytest.mark.parametrize("seed", range(8))
def test_interest_points_by_hand(seed):
    """Small whole numbers have ties."""
    rng = np.random.default_rng(seed)
    strengths, text = rng.integers(-1, 4, (4, 15)).astype(float), np.sort(rng.integers(0, 4, 15))
    assert interest_points(strengths, text).tolist() == points_by_hand(strengths, text)


def test_interest_points_do_not_look_across_texts():
    strengths = np.array([[1.0, 2.0, 1.0, 5.0, 0.0, 0.0]])
    assert np.flatnonzero(interest_points(strengths, np.array([0, 0, 0, 1, 1, 2]))[0]).tolist() == [1, 3, 5]


def test_interest_points_prefer_the_document_with_the_query_together():
    graph = SemanticGraph.empty(WORDS)
    scales = (Scale(1, 0), Scale(2, 0), Scale(4, 0))
    rows = make_rows(graph, [1, 2, 3], scales)
    near = np.array([0] * 10 + [1, 2, 3] + [0] * 10)
    far = np.array([1] + [0] * 9 + [2] + [0] * 9 + [3] + [0] * 2)
    values = make_matcher("points", scales).scores(rows, rows.texts(*pack([near, far])))
    assert (values[0] > values[1]).all()
