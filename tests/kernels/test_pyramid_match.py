"""Matching: agreement with dense matrices over the whole vocabulary, symmetry, windows, interest points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelsearch.kernels.pyramid import matching as pyramid_match
from kernelsearch.kernels.pyramid.matching import Matcher, psi
from kernelsearch.kernels.pyramid.query_rows import QueryRows, Scale
from kernelsearch.kernels.semantic.graph import SemanticGraph
from tests.kernels.test_pyramid import dense_semantic, dense_spatial, random_graph

ETA = 0.2
WORDS = 14


def pack(texts):
    return np.concatenate([[0], np.cumsum([len(text) for text in texts])]), np.concatenate([*texts, []]).astype(int)


def make_rows(graph, query, scales, *, weights=None, importance=None, limit=1000, background=None):
    weights = np.ones(len(query)) if weights is None else weights
    base = np.full(graph.words, 1 / graph.words) if background is None else background
    return QueryRows(graph, np.array(query), weights, base, scales, eta=ETA, limit=limit, importance=importance)


def scores(graph, query, texts, scale, **options):
    scale = Scale(scale.spatial, scale.semantic, 5)
    rows = make_rows(graph, query, (scale,), **options)
    return Matcher((scale,)).scores(rows, rows.texts(*pack(texts)))[:, 0]


def dense_columns(graph, text, mass, scale, width, background, rows):
    """A text's columns over (rows, all other words), from dense matrices over the whole vocabulary."""
    length = len(text)
    spatial = dense_spatial(length, scale.spatial, width) * mass[:, None]
    spatial /= spatial.sum(axis=0)
    full = dense_semantic(graph, scale.semantic) @ np.eye(graph.words)[:, text] @ spatial
    full = (full + ETA * background[:, None]) / (1 + ETA)
    rest = np.setdiff1d(np.arange(graph.words), rows)
    return np.vstack([full[rows], full[rest].sum(axis=0)])


def js_similarity(a, b):
    middle = (a + b) / 2
    return math.log(2) - 0.5 * sum(x @ np.log(x / middle) for x in (a, b))


LEVELS = [Scale(0, 0, 5), Scale(1, 1, 5), Scale(2.5, 0.7, 5), Scale(1, math.inf, 5), Scale(math.inf, 2, 5)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", LEVELS)
def test_the_best_window_agrees_with_dense_matrices(seed, scale):
    assert_dense(Matcher((scale,)), seed, max, js_similarity)


def assert_dense(matcher, seed, combine, similarity):
    """The level of `matcher` is what `combine` makes of the windows' similarities, from dense matrices over the vocabulary.

    Without `combine` (None), both sides are interpolated to one length.
    """
    (scale,) = matcher.scales
    rng = np.random.default_rng(seed)
    graph = random_graph(WORDS, seed)
    background = rng.dirichlet(np.ones(WORDS))
    importance = rng.uniform(0.5, 2, WORDS)
    query = rng.choice(WORDS, 3, replace=False)
    weights = rng.uniform(0.5, 2, 3)
    texts = [rng.integers(0, WORDS, rng.integers(1, 12)) for _ in range(5)]
    rows = make_rows(graph, query, (scale,), weights=weights, importance=importance, background=background)
    result = matcher.scores(rows, rows.texts(*pack(texts)))[:, 0]

    vocabulary = rows.words
    step = scale.step if combine else 1
    a = dense_columns(graph, query, weights, scale, 5, background, vocabulary)
    spatial = dense_spatial(3, scale.spatial, 5)
    share = weights @ spatial
    floor = ETA * background / (1 + ETA)
    empty = np.append(floor[vocabulary], 1 - floor[vocabulary].sum())
    for text, value in zip(texts, result, strict=True):
        b = dense_columns(graph, text, importance[text], scale, 5, background, vocabulary)
        if combine is None:
            expected = _global(a, b, share, scale, similarity, background, vocabulary, matcher.columns)
        else:
            whole_text = scale.spatial == math.inf
            mine, part = (a[:, :1], share[:1]) if whole_text else (a[:, ::step], share[::step])
            columns = b[:, :1] if whole_text else b[:, ::step]
            part = part / part.sum()
            count = len(part)
            if columns.shape[1] < count:
                columns = np.column_stack([columns, *[empty] * (count - columns.shape[1])])
            windows = [
                sum(part[j] * similarity(mine[:, j], columns[:, start + j]) for j in range(count))
                for start in range(columns.shape[1] - count + 1)
            ]
            expected = combine(windows)
        assert value == pytest.approx(expected, abs=1e-9)


def _global(a, b, share, scale, similarity, background, vocabulary, columns):
    """Both sides interpolated linearly to the same number of columns; the query's columns are mixed by their mass."""
    count = columns if scale.spatial < math.inf else 1

    def stretch(matrix):
        along = np.linspace(0, 1, count) * (matrix.shape[1] - 1) if count > 1 else np.array([0.5 * (matrix.shape[1] - 1)])
        low = np.floor(along).astype(int)
        high = np.minimum(low + 1, matrix.shape[1] - 1)
        return matrix[:, low] * (1 - (along - low)) + matrix[:, high] * (along - low)

    # a's columns are (code + ηb)/(1+η) with the code normalised; undo, weigh by mass, interpolate, normalise again.
    base = np.append(background[vocabulary], 1 - background[vocabulary].sum())
    code = a * (1 + ETA) - ETA * base[:, None]
    mass = stretch(share[None, :])[0]
    mine = (stretch(code * share) / mass + ETA * base[:, None]) / (1 + ETA)
    theirs = stretch(b)
    part = mass / mass.sum()
    return sum(part[g] * similarity(mine[:, g], theirs[:, g]) for g in range(count))


def test_single_precision_is_close():
    graph = random_graph(WORDS, 3)
    rows = make_rows(graph, [1, 5], (Scale(2, 1),))
    texts = rows.texts(*pack([np.arange(10), np.array([1, 5, 1])]))
    exact, quick = (Matcher((Scale(2, 1),), precision=kind).scores(rows, texts) for kind in (np.float64, np.float32))
    assert np.abs(exact - quick).max() < 1e-5


def test_working_in_parts_changes_nothing(monkeypatch):
    assert_parts(Matcher(PARTS_SCALES), monkeypatch)


PARTS_SCALES = (Scale(1, 0.7), Scale(2, 0.7), Scale(4, 0.7))


def assert_parts(matcher, monkeypatch):
    """Texts worked on some at a time, and columns some at a time, have the same scores; some texts are empty."""
    rng = np.random.default_rng(7)
    graph = random_graph(40, 7)
    rows = make_rows(graph, rng.choice(40, 6, replace=False), matcher.scales)
    texts = rows.texts(*pack([rng.integers(0, 40, length) for length in (30, 1, 0, 12, 50, 3)]))
    whole = matcher.scores(rows, texts)
    for name, small in (("TOKENS", 8), ("WINDOW_TOKENS", 20)):
        monkeypatch.setattr(pyramid_match, name, small)
        assert matcher.scores(rows, texts) == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("importance", [None, np.arange(1.0, 41.0)])
@pytest.mark.parametrize("step, at_least, width", [(1, 1, 0), (3, 1, 5), (4, 5, 0)])
def test_columns_from_relevant_tokens_alone_are_those_from_all_tokens(step, at_least, width, importance):
    rng = np.random.default_rng(8)
    scale = Scale(2.5, 0.7, width)
    rows = make_rows(random_graph(40, 8), [3, 8], (scale,), limit=4, importance=importance)
    texts = rows.texts(*pack([rng.integers(0, 40, length) for length in (30, 1, 0, 12, 50, 3)]))
    assert (texts.slots == texts.irrelevant).any()
    level = rows.document_level(texts, scale, at_least=at_least, step=step)
    whole = rows.document_columns(texts, level.samples, scale)
    assert level.code.toarray() == pytest.approx(whole.code.toarray(), abs=1e-14)
    assert level.held == pytest.approx(whole.held, abs=1e-14)
    assert level.first.tolist() == whole.first.tolist()


@pytest.mark.parametrize("texts", [[[]], [[], []]])
def test_texts_without_any_token_score_as_background(texts):
    scale = Scale(2, 0.5)
    rows = make_rows(random_graph(WORDS, 5), [1, 2, 3], (scale,))
    alone = Matcher((scale,)).scores(rows, rows.texts(*pack(texts)))
    beside = Matcher((scale,)).scores(rows, rows.texts(*pack([[], np.array([1, 2, 3])])))
    assert alone == pytest.approx(np.tile(beside[:1], (len(texts), 1)))


def test_no_texts_have_no_scores():
    scales = (Scale(1, 1), Scale(2, 1))
    rows = make_rows(random_graph(WORDS, 1), [1, 2], scales)
    assert Matcher(scales).scores(rows, rows.texts(*pack([]))).shape == (0, 2)


def test_parts_are_the_texts_in_order():
    rows = make_rows(random_graph(WORDS, 1), [1, 2], (Scale(1, 1),), importance=np.arange(1.0, WORDS + 1))
    texts = rows.texts(*pack([np.arange(5), [], np.arange(9), np.arange(2), []]))
    parts = list(texts.parts(4))
    assert [part.lengths.tolist() for part in parts] == [[5], [0, 9], [2], [0]]
    assert np.concatenate([part.slots for part in parts]).tolist() == texts.slots.tolist()
    assert np.concatenate([part.mass for part in parts]).tolist() == texts.mass.tolist()


def test_rows_stand_in_the_order_in_which_the_query_reaches_them():
    graph = SemanticGraph.from_edges(WORDS, np.array([9, 2, 2]), np.array([4, 7, 4]), np.array([0.9, 0.5, 0.5]))
    assert make_rows(graph, [9, 2], (Scale(1, 1),)).words.tolist() == [9, 4, 2, 7]


def test_jensen_shannon_is_symmetric_and_largest_for_equal_columns():
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(6), 2)
    assert psi(a, b).sum() == pytest.approx(psi(b, a).sum())
    assert psi(a, a).sum() == pytest.approx(math.log(2))
    assert psi(a, b).sum() < math.log(2)
    assert psi(np.array([1.0, 0.0]), np.array([0.0, 1.0])).sum() == 0
    assert psi(a, b).sum() == pytest.approx(js_similarity(a, b))


def test_swapping_query_and_document_of_equal_length_keeps_the_similarity():
    graph = SemanticGraph.empty(WORDS)
    text, other = [2, 3, 4], [4, 2, 9]
    # Both texts have the same words, so that both directions tell the same rows apart.
    forward = scores(graph, text, [np.array([4, 2, 3])], Scale(1, 0))
    backward = scores(graph, [4, 2, 3], [np.array(text)], Scale(1, 0))
    assert forward == pytest.approx(backward)
    assert scores(graph, text, [np.array(text)], Scale(1, 0)) > scores(graph, text, [np.array(other)], Scale(1, 0))


def test_max_finds_a_passage_wherever_it_stands():
    graph = SemanticGraph.empty(WORDS)
    together = [np.array([0] * before + [3, 5, 7] + [0] * (20 - before)) for before in (6, 8, 13)]
    apart = np.array([3] + [0] * 9 + [5] + [0] * 9 + [7] + [0] * 2)
    values = scores(graph, [3, 5, 7], [*together, apart], Scale(1, 0))
    assert values[:3] == pytest.approx(np.full(3, values[0]))
    assert values[0] > values[3]


def test_an_exact_passage_reaches_the_largest_similarity():
    assert scores(random_graph(WORDS, 1), [3, 5], [np.array([9, 3, 5])], Scale(0, 0))[0] == pytest.approx(math.log(2))


def test_order_of_words_counts_at_fine_scales_and_not_in_the_bag_of_words():
    graph = SemanticGraph.empty(WORDS)
    texts = [np.array([1, 2, 3]), np.array([3, 2, 1])]
    fine = scores(graph, [1, 2, 3], texts, Scale(0, 0))
    assert fine[0] > fine[1]
    bag = scores(graph, [1, 2, 3], texts, Scale(math.inf, 0))
    assert bag[0] == pytest.approx(bag[1])


def test_related_words_help_only_through_the_graph():
    linked = SemanticGraph.from_edges(WORDS, np.array([1]), np.array([8]), np.array([0.9]))
    texts = [np.array([8, 4]), np.array([9, 4])]
    with_graph = scores(linked, [1], texts, Scale(1, 1))
    assert with_graph[0] > with_graph[1]
    without = scores(SemanticGraph.empty(WORDS), [1], texts, Scale(1, 1))
    assert without[0] == pytest.approx(without[1])


def test_row_limit_keeps_the_query_and_the_divergence_proper():
    graph = random_graph(WORDS, 4)
    rows = make_rows(graph, [1, 2], (Scale(1, 1),), limit=3)
    assert len(rows.words) == 3 and {1, 2} <= set(rows.words.tolist())
    level = rows.query_level(Scale(1, 1))
    assert level.columns.sum(axis=1) == pytest.approx([1, 1])
    assert rows.floor.sum() == pytest.approx(1)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_query_words_have_rows_whatever_their_weight(limit):
    """The neighbours of the heavy word 1 receive more than the light word 2 has, and are left out all the same."""
    graph = SemanticGraph.from_edges(WORDS, np.array([1, 1, 1]), np.array([5, 6, 7]), np.array([0.9, 0.8, 0.7]))
    rows = make_rows(graph, [1, 2], (Scale(1, 2.0),), weights=np.array([10.0, 0.001]), limit=limit)
    assert set(rows.words.tolist()) == ({1, 2} if limit < 3 else {1, 2, 5})  # 5 is the nearest neighbour


def test_a_level_is_compared_at_every_whole_number_of_its_scale():
    assert [Scale(scale, 0).step for scale in (0.0, 0.6, 1.0, 2.9, 4.0, math.inf)] == [1, 1, 1, 2, 4, 1]


def test_empty_texts_score_as_background():
    assert_background(Matcher((Scale(1, 0.5), Scale(2, 0.5))))


def assert_background(matcher):
    """Empty texts score alike, below a text with the query's words."""
    rows = make_rows(random_graph(WORDS, 5), [1, 2, 3], matcher.scales)
    unrelated = np.setdiff1d(np.arange(WORDS), rows.relevant)
    values = matcher.scores(rows, rows.texts(*pack([[], np.array([1, 2, 3]), unrelated[:1], []])))
    assert np.isfinite(values).all()
    assert values[0] == pytest.approx(values[3]) and (values[1] > values[0]).all()
