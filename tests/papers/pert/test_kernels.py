"""The controls of the perturbation kernel against hand-computed values."""

import numpy as np
import pytest

from kernelsearch.kernels import perturbation
from kernelsearch.papers.pert import kernels


def test_random_perturbations_keep_the_mean_weight_and_repeat_with_their_seed():
    drawn = kernels.perturbations("dirichlet", 4, draws=50, seed=7)
    assert drawn.shape == (50, 4)
    np.testing.assert_allclose(drawn.mean(axis=1), 1.0)
    np.testing.assert_array_equal(drawn, kernels.perturbations("dirichlet", 4, draws=50, seed=7))
    assert not np.array_equal(drawn, kernels.perturbations("dirichlet", 4, draws=50, seed=8))


def test_jaccard_by_hand():
    occurrences = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0]], dtype=bool)
    # Words 0 and 1 share one of three documents; word 2 occurs nowhere and is as far as can be from all but itself.
    np.testing.assert_allclose(kernels.jaccard_distances(occurrences), [[0, 2 / 3, 1], [2 / 3, 0, 1], [1, 1, 0]])


def test_covariance_is_relative_to_the_median_word():
    np.testing.assert_allclose(np.diag(kernels.covariance(np.diag([1.0, 4.0, 400.0]))), [0.25, 1.0, 100.0])
    np.testing.assert_allclose(np.diag(kernels.covariance(np.diag([0.0, 0.0, 2.0]))), [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(kernels.covariance(np.zeros((2, 2))), np.ones((2, 2)))


def test_random_distances_are_those_of_normal_points():
    """The mean squared distance of points in d dimensions is 2 d; seeds and dimensions are used."""
    for dimensions in (1, 3, 40):
        apart = kernels.random_distances(200, dimensions, seed=3)
        assert apart[np.triu_indices(200, 1)].mean() == pytest.approx(2 * dimensions, rel=0.2)
        points = np.random.default_rng(3).standard_normal((200, dimensions))
        assert apart == pytest.approx(((points[:, None] - points[None]) ** 2).sum(axis=2), abs=1e-9)
    assert not np.array_equal(kernels.random_distances(5, seed=1), kernels.random_distances(5, seed=2))


@pytest.mark.parametrize("draws", [1, 8, 30])
def test_dirichlet_draws(draws):
    drawn = kernels.perturbations("dirichlet", 3, draws=draws, seed=2)
    assert drawn.shape == (draws, 3) and (drawn > 0).all()
    assert drawn == pytest.approx(3 * np.random.default_rng(2).dirichlet(np.ones(3), size=draws))


def test_kernels_of_the_controls_are_positive_semi_definite():
    rng = np.random.default_rng(5)
    for words in (2, 5, 12):
        for apart in (kernels.jaccard_distances(rng.random((5, words)) < 0.4), kernels.random_distances(words)):
            matrix = perturbation.similarity(apart)
            np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
            assert np.linalg.eigvalsh(matrix).min() > -1e-9


@pytest.mark.parametrize("keep", [1, 2, 50])
def test_truncated_feedback_words_from_token_lists(make_collection, keep):
    """Ties among a document's most frequent words go to the first in the order of terms; documents may be empty."""
    tokens = [text.split() for text in ("b b a a c d", "", "c c c a", "d e b", "e e e e a")]
    collection = make_collection(tokens)
    words = sorted({word for text in tokens for word in text})
    usable, docs, weights = np.array([word != "e" for word in words]), np.array([4, 0, 1, 2]), np.array([0.4, 0.3, 0.2, 0.1])
    p = dict.fromkeys(words, 0.0)
    for doc, weight in zip(docs, weights, strict=True):
        counts = {word: tokens[doc].count(word) for word in words if word in tokens[doc] and word != "e"}
        best = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:keep])
        for word, count in best.items():
            p[word] += weight * count / sum(best.values())
    found = kernels.truncated_feedback_words(collection, docs, weights, usable, keep)
    named = dict(zip(collection.terms.take(found.terms), found.p.tolist(), strict=True))
    assert named == pytest.approx({word: value for word, value in p.items() if value > 0})
