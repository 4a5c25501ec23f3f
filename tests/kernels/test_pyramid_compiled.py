"""The compiled loop of local matching: safe, and equal to numpy, which test_pyramid_match.py compares with dense matrices."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelsearch.core import compiled
from kernelsearch.core.errors import IndexProblem
from kernelsearch.kernels.pyramid.compiled import WordRanges
from kernelsearch.kernels.pyramid.matching import Matcher
from kernelsearch.kernels.pyramid.query_rows import QueryRows, Scale
from kernelsearch.kernels.semantic.graph import SemanticGraph
from tests.kernels.test_pyramid import random_graph

INF = math.inf

built = pytest.mark.skipif(compiled.loops() is None, reason="installed without a C compiler")


def ranges(texts):
    """Texts that don't follow each other: their order in the array of words is reversed, and words lie between them."""
    words, starts, ends = [], [], []
    for text in reversed(texts):
        words += [0, *text]
        starts.append(len(words) - len(text))
        ends.append(len(words))
    return WordRanges(
        np.array(words, dtype=np.int32), np.array(starts[::-1], dtype=np.int64), np.array(ends[::-1], dtype=np.int64)
    )


def make(seed, words, query_length, scales, *, weighted=True, limit=40, sizes=(0, 1, 2, 7, 30, 90)):
    rng = np.random.default_rng(seed)
    graph = random_graph(words, seed) if words else SemanticGraph.empty(30)
    count = graph.words
    query = rng.choice(count, query_length, replace=False)
    importance = rng.uniform(0.1, 3, count) if weighted else None
    rows = QueryRows(
        graph, query, rng.uniform(0.5, 2, query_length), rng.dirichlet(np.ones(count)), scales,
        eta=0.1, limit=limit, importance=importance,
    )  # fmt: skip
    return rows, ranges([rng.integers(0, count, size).tolist() for size in sizes])


def by_numpy(monkeypatch, matcher, rows, texts):
    with monkeypatch.context() as patch:
        patch.setenv(compiled.SWITCH, "0")
        assert compiled.loops() is None
        return matcher.scores_of_words(rows, texts)


@built
@pytest.mark.parametrize(
    ("scales", "options"),
    [
        ((Scale(8, 0.7),), {}),
        ((Scale(0, 0.7), Scale(1, 0.7), Scale(2, 0.7), Scale(4, 0.7), Scale(INF, 0.7)), {}),
        ((Scale(0, 0), Scale(1, 1), Scale(2.5, INF), Scale(INF, 2)), {}),
        ((Scale(6, 0.7),), {"step": 1}),
        ((Scale(1, 0.7),), {"step": 6}),  # columns further apart than windows are wide
        ((Scale(2, 0.7, 1),), {}),
        ((Scale(2, 0.7, 40),), {"step": 3}),
    ],
)
def test_equals_numpy(monkeypatch, scales, options):
    for seed, (words, query_length, weighted) in enumerate(
        [(60, 4, True), (60, 1, True), (60, 2, False), (0, 3, True), (300, 12, True), (300, 40, True)]
    ):
        rows, texts = make(seed, words, query_length, scales, weighted=weighted, limit=130 if words > 100 else 40)
        matcher = Matcher(scales, **options)
        result, expected = matcher.scores_of_words(rows, texts), by_numpy(monkeypatch, matcher, rows, texts)
        np.testing.assert_allclose(result, expected, rtol=1e-11, atol=1e-12)


@built
def test_the_best_window_where_nothing_is_left_for_other_words(monkeypatch):
    """The cell of all other words is a difference of two numbers that are nearly equal."""
    rng = np.random.default_rng(2)
    graph = SemanticGraph.from_edges(11, np.zeros(10, dtype=int), np.arange(1, 11), rng.uniform(0.2, 0.9, 10))
    matcher = Matcher((Scale(4, 0.7),))
    rows = QueryRows(
        graph, np.array([0]), np.ones(1), rng.dirichlet(np.ones(11)), matcher.scales,
        eta=1e-6, limit=5, importance=rng.uniform(0.5, 2, 11),
    )  # fmt: skip
    # Words that give all their mass to the rows of the query's word and their own; the query's word also gives to others.
    texts = ranges([rng.choice(rows.words[1:], 300).tolist() for _ in range(20)])
    expected = by_numpy(monkeypatch, matcher, rows, texts)
    np.testing.assert_allclose(matcher.scores_of_words(rows, texts), expected, rtol=1e-6)


@built
@pytest.mark.parametrize(("query_length", "step"), [(1, 0), (12, 0), (12, 3), (20, 2)])
def test_the_best_window_among_many(monkeypatch, query_length, step):
    """Bounds and estimates leave out most windows of long texts, some of which are nearly as good as the best one."""
    rng = np.random.default_rng(query_length + step)
    scales = (Scale(4, 0.7),)
    rows, _ = make(7, 400, query_length, scales, limit=250)
    words = np.concatenate([rows.words[:30], rng.integers(0, 400, 60)])
    texts = ranges([rng.choice(words, size).tolist() for size in rng.integers(200, 500, 25)])
    matcher = Matcher(scales, step=step)
    expected = by_numpy(monkeypatch, matcher, rows, texts)
    np.testing.assert_allclose(matcher.scores_of_words(rows, texts), expected, rtol=1e-11, atol=1e-12)


@built
def test_the_best_window_where_background_is_below_single_precision(monkeypatch):
    """Logarithms of such numbers can't be estimated."""
    rng = np.random.default_rng(5)
    graph, matcher = random_graph(60, 5), Matcher((Scale(4, 0.7),))
    background = rng.dirichlet(np.ones(60))
    background[::2] = 1e-60
    rows = QueryRows(graph, np.array([3, 8, 20]), np.ones(3), background, matcher.scales, eta=0.1, limit=40)
    texts = ranges([rng.integers(0, 60, size).tolist() for size in rng.integers(20, 200, 30)])
    expected = by_numpy(monkeypatch, matcher, rows, texts)
    np.testing.assert_allclose(matcher.scores_of_words(rows, texts), expected, rtol=1e-9)


@built
def test_no_texts_and_none_but_empty_ones(monkeypatch):
    matcher = Matcher((Scale(4, 0.7), Scale(INF, 0.7)))
    for sizes in ((), (0,), (0, 0)):
        rows, texts = make(0, 40, 3, matcher.scales, sizes=sizes)
        result = matcher.scores_of_words(rows, texts)
        assert result.shape == (len(sizes), 2) and np.isfinite(result).all()
        np.testing.assert_allclose(result, by_numpy(monkeypatch, matcher, rows, texts), rtol=1e-12)


@built
def test_a_very_long_text(monkeypatch):
    matcher = Matcher((Scale(8, 0.7), Scale(INF, 0.7)))
    rows, texts = make(3, 60, 5, matcher.scales, sizes=(40_000, 3))
    np.testing.assert_allclose(matcher.scores_of_words(rows, texts), by_numpy(monkeypatch, matcher, rows, texts), rtol=1e-10)


@built
@pytest.mark.parametrize("scale", [0.0, 8.0, INF])
def test_numbers_out_of_range_are_refused(scale):
    """Files may change after they were checked: no number from them is an address before it is compared with the sizes."""
    matcher = Matcher((Scale(scale, 0.7),))
    rows, texts = make(0, 40, 3, matcher.scales)
    for number in (-1, 40, 2**31 - 1, -(2**31)):
        words = texts.words.copy()
        words[texts.ends[3] - 1] = number
        with pytest.raises(IndexProblem, match="out of range"):
            matcher.scores_of_words(rows, texts._replace(words=words))
    for field, number in (("starts", -1), ("ends", len(texts.words) + 1), ("ends", 2**62), ("starts", 2**62), ("ends", -5)):
        bounds = getattr(texts, field).copy()
        bounds[2] = number
        with pytest.raises(IndexProblem, match="out of range"):
            matcher.scores_of_words(rows, texts._replace(**{field: bounds}))


@built
def test_arrays_of_another_type_or_layout_are_refused():
    matcher = Matcher((Scale(8, 0.7),))
    rows, texts = make(0, 40, 3, matcher.scales)
    with pytest.raises(ValueError, match="int32"):
        matcher.scores_of_words(rows, texts._replace(words=texts.words.astype(np.int64)))
    with pytest.raises(ValueError, match="expected"):
        matcher.scores_of_words(rows, texts._replace(words=texts.words[::2]))
    with pytest.raises(ValueError, match="expected"):
        matcher.scores_of_words(rows, texts._replace(ends=texts.ends[:-1]))


def test_a_library_of_another_version_is_not_used(monkeypatch, caplog):
    monkeypatch.setattr(compiled, "VERSION", -1)
    compiled._load.cache_clear()
    try:
        with caplog.at_level("INFO"):
            assert compiled.loops() is None
    finally:
        monkeypatch.undo()
        compiled._load.cache_clear()


@built
def test_search_gives_the_same_lists_with_and_without(demo_index, monkeypatch):
    """Through the public interface, with the methods that use the compiled loop."""
    for method, options in (("mslm", {}), ("mslm", {"scales": (0, 1, float("inf"))}), ("auto", {})):
        with_loops = demo_index.search("heat transfer in pipes", rerank={method: options}, k=50)
        with monkeypatch.context() as patch:
            patch.setenv(compiled.SWITCH, "0")
            without = demo_index.search("heat transfer in pipes", rerank={method: options}, k=50)
        assert [hit.docid for hit in with_loops] == [hit.docid for hit in without]
        np.testing.assert_allclose([hit.score for hit in with_loops], [hit.score for hit in without], atol=1e-9)


def test_the_source_compiles_without_warnings(tmp_path):
    sources = sorted(map(str, Path(compiled.__file__).parent.glob("*.c")))
    command = [
        "gcc",
        "-std=c99",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        "-shared",
        "-o",
        str(tmp_path / "loops.so"),
        *sources,
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sys.platform != "win32"
