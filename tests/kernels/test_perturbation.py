"""The perturbation kernel against hand-computed values and its invariants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelsearch.kernels import perturbation as kernel


def test_each_row_leaves_one_term_out():
    np.testing.assert_array_equal(kernel.leave_one_out(3), [[0, 1, 1], [1, 0, 1], [1, 1, 0]])


def test_variant_scores_are_the_query_minus_what_was_left_out():
    parts = np.array([[2.0, 1.0], [0.0, 3.0]])
    result = kernel.variant_scores(parts.sum(axis=1), parts, kernel.leave_one_out(2))
    # Without the first term the documents score 1 and 3; without the second, the second document isn't found any more.
    np.testing.assert_array_equal(result, [[1.0, 3.0], [2.0, -np.inf]])


def test_features_by_hand():
    # Two variants (n = 2), p = .25 for the word: (sqrt .36 - sqrt .25) / (sqrt 2 * .5) = .1 / .70711 and (.4 - .5) / .70711.
    base, variants = np.array([0.25]), np.array([[0.36], [0.16]])
    np.testing.assert_allclose(kernel.features(base, variants), [[0.14142136, -0.14142136]])


def test_distances_by_hand():
    coordinates = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, -2.0]])
    np.testing.assert_allclose(kernel.distances(kernel.gram(coordinates)), [[0, 4, 9], [4, 0, 13], [9, 13, 0]])


def test_identical_variants_make_all_words_alike():
    base = np.array([0.2, 0.3, 0.5])
    apart = kernel.distances(kernel.gram(kernel.features(base, np.tile(base, (4, 1)))))
    np.testing.assert_array_equal(apart, 0.0)
    np.testing.assert_array_equal(kernel.similarity(apart), np.ones((3, 3)))


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 10_000))
def test_kernels_are_symmetric_and_positive_semi_definite(words, variants, seed):
    rng = np.random.default_rng(seed)
    base, changed = rng.dirichlet(np.ones(words)) + 1e-4, rng.dirichlet(np.ones(words), size=variants) + 1e-4
    products = kernel.gram(kernel.features(base, changed))
    for matrix in (products / max(np.trace(products), 1e-12), kernel.similarity(kernel.distances(products))):
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
        assert np.linalg.eigvalsh(matrix).min() > -1e-9


def test_similarity_of_one_word():
    np.testing.assert_array_equal(kernel.similarity(np.zeros((1, 1))), [[1.0]])


def test_word_groups_separate_what_is_far():
    points = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.1, 5.0], [9.0, 0.0]])
    groups = kernel.word_groups(kernel.distances(kernel.gram(points)), 3)
    assert groups[0] == groups[1] and groups[2] == groups[3] and len(set(groups.tolist())) == 3
    assert kernel.word_groups(np.zeros((4, 4)), 3).tolist() == [0, 0, 0, 0]


def test_typical_distance_is_the_median_of_different_words():
    def apart(*above):
        table = np.zeros((3, 3))
        table[np.triu_indices(3, 1)] = above
        return table + table.T

    assert kernel.typical_distance(apart(1.0, 5.0, 3.0)) == 3.0
    assert kernel.typical_distance(apart(0.0, 0.0, 4.0)) == 4.0  # the largest where the median is 0
    assert kernel.typical_distance(apart(0.0, 0.0, 0.0)) == kernel.typical_distance(np.zeros((1, 1))) == 1.0


@pytest.mark.parametrize("seed", range(8))
def test_word_groups_join_the_nearest_clusters_by_their_mean_distance(seed):
    """Average linkage of distances (roots of squared ones), pair of clusters by pair of clusters."""
    points = np.random.default_rng(seed).normal(size=(14, 2))
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    clusters = [[word] for word in range(14)]
    while len(clusters) > 1:
        pairs = [(a, b) for b in range(len(clusters)) for a in range(b)]
        a, b = min(pairs, key=lambda pair: np.sqrt(squared[np.ix_(clusters[pair[0]], clusters[pair[1]])]).mean())
        clusters[a] += clusters.pop(b)
        expected = np.array([next(n for n, words in enumerate(clusters) if word in words) for word in range(14)])
        result = kernel.word_groups(squared, len(clusters))
        assert ((result[:, None] == result) == (expected[:, None] == expected)).all()
        assert sorted(set(result.tolist())) == list(range(len(clusters)))


def test_groups_of_one_word_and_of_words_that_coincide():
    assert kernel.word_groups(np.zeros((1, 1)), 3).tolist() == [0] and kernel.word_groups(np.zeros((0, 0)), 3).tolist() == []
    assert kernel.word_groups(np.array([[0.0, 4.0], [4.0, 0.0]]), 2).tolist() in ([0, 1], [1, 0])
    assert kernel.word_groups(np.array([[0.0, 4.0], [4.0, 0.0]]), 1).tolist() == [0, 0]


def test_similarity_falls_with_the_distance_in_units_of_the_median():
    points = np.array([[0.0], [1.0], [3.0]])
    apart = kernel.distances(kernel.gram(points))  # 1, 9 and 4: the median is 4
    assert kernel.similarity(apart) == pytest.approx(np.exp(-apart / 4))
    assert kernel.similarity(25 * apart) == pytest.approx(np.exp(-apart / 4))


def test_scores_of_variants_with_any_multipliers():
    rng = np.random.default_rng(4)
    parts, rest = np.maximum(rng.normal(size=(6, 3)), 0), rng.random(6)  # `rest`: what a score has beside its terms
    parts[2] = 0
    multipliers = np.vstack([np.eye(3), 1 - np.eye(3), rng.uniform(0.1, 2, (2, 3))])
    result = kernel.variant_scores(parts.sum(axis=1) + rest, parts, multipliers)
    for variant, row in zip(multipliers, result, strict=True):
        for doc in range(6):
            found = any(variant[term] > 0 and parts[doc, term] > 0 for term in range(3))
            assert row[doc] == (pytest.approx(rest[doc] + variant @ parts[doc]) if found else -np.inf)
