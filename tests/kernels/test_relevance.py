"""Relevance models by hand and against Anserini's."""

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.kernels import relevance


def test_document_weights_of_the_best_documents():
    scores = np.array([[4.0, 2.0, 3.0], [1.0, -np.inf, 1.0], [-np.inf] * 3])
    by_score = relevance.document_weights(scores, 2, "score")
    np.testing.assert_allclose(by_score, [[4 / 7, 0, 3 / 7], [0.5, 0, 0.5], [0, 0, 0]])
    soft = relevance.document_weights(scores, 2, "softmax", temperature=0.5)
    np.testing.assert_allclose(soft[0], [1 / (1 + np.exp(-2)), 0, np.exp(-2) / (1 + np.exp(-2))])
    np.testing.assert_allclose(relevance.document_weights(scores, 3, "uniform"), [[1 / 3] * 3, [0.5, 0, 0.5], [0, 0, 0]])


def test_softmax_weights_survive_large_scores():
    np.testing.assert_allclose(relevance.document_weights(np.array([[5000.0, 5000.0]]), 2), [[0.5, 0.5]])


def test_unknown_weighting_is_refused():
    with pytest.raises(OptionError, match="'rank' is not one of softmax, score, uniform"):
        relevance.document_weights(np.ones((1, 2)), 1, "rank")


def test_usable_words(tiny):
    index = tiny.forward
    usable = dict(zip(index.terms.take(np.arange(len(index.terms))), relevance.usable_words(index, 0.5).tolist(), strict=True))
    assert usable["washer"] and usable["fuse"]  # in two and in one of six documents
    assert usable["müller"]  # letters beyond a to z are letters
    assert not relevance.usable_words(index, 0.1).any()  # one of six documents is more than a tenth


def test_feedback_words_by_hand(tiny):
    index = tiny.forward
    docs = index.rows_of(["d3", "d2"])
    everything = relevance.usable_words(index, 1.0)
    words = relevance.feedback_words(index, docs, np.array([0.75, 0.25]), everything)
    p = dict(zip(index.terms.take(words.terms), words.p.tolist(), strict=True))
    # Two of d3's tokens are fuses; the washer is d2's alone.
    assert p["fuse"] == pytest.approx(0.75 * 2 / index.lengths[docs[0]])
    assert p["washer"] == pytest.approx(0.25 / index.lengths[docs[1]])
    assert sum(p.values()) == pytest.approx(1.0)
    cut = relevance.feedback_words(index, docs, np.array([1.0, 0.0]), everything, keep=1)
    assert index.terms.take(cut.terms) == ["fuse"] and cut.p.tolist() == [1.0]


def test_strongest_words_leave_the_named_ones_aside():
    words = relevance.Words(np.array([2, 5, 7, 9]), np.array([0.1, 0.4, 0.4, 0.2]))
    best = relevance.strongest(words, 2, without=np.array([5]))
    assert best.terms.tolist() == [7, 9] and best.p.tolist() == [0.4, 0.2]
    assert relevance.strongest(words, 3).terms.tolist() == [5, 7, 9]


def test_models_without_documents_are_the_collection(tiny):
    index = tiny.forward
    terms, docs = index.term_ids(["water", "fuse"]), index.rows_of(["d1", "d3"])
    weights = np.array([[1.0, 0.0], [0.0, 0.0]])
    models, frequencies = relevance.smoothed_models(index, docs, weights, terms, 0.1)
    collection = index.cf[terms] / index.statistics.tokens
    np.testing.assert_allclose(models[1], collection)
    np.testing.assert_allclose(models[0], 0.9 * np.array([2 / index.lengths[docs[0]], 0]) + 0.1 * collection)
    assert frequencies.tolist() == [[2, 0], [0, 2]]


def test_posterior_weights_fall_with_the_score_relative_to_the_best():
    weights = relevance.posterior_weights(np.array([10.0, 8.0, 5.0, 0.0]), docs=3, sharpness=5)
    assert weights == pytest.approx(np.exp([0, -1, -2.5]) / np.exp([0, -1, -2.5]).sum())
    for scale in (2.0, 0.01):
        assert relevance.posterior_weights(scale * np.array([10.0, 8.0, 5.0]), 3, 5) == pytest.approx(weights)
    assert relevance.posterior_weights(np.array([10.0, 8.0]), sharpness=0) == pytest.approx([0.5, 0.5])


def test_posterior_weights_of_odd_lists():
    assert len(relevance.posterior_weights(np.zeros(0))) == 0
    assert relevance.posterior_weights(np.zeros(4)) == pytest.approx(np.full(4, 0.25))
    # Log probabilities: the lowest score of the list takes the place of 0.
    assert relevance.posterior_weights(np.array([-2.0, -3.0, -4.0]), 2, 1) == pytest.approx(
        np.exp([1, 0.5]) / np.exp([1, 0.5]).sum()
    )


def test_effective_documents_count_weights():
    assert relevance.effective_documents(np.array([1.0, 0.0])) == pytest.approx(1)
    assert relevance.effective_documents(np.full(8, 1 / 8)) == pytest.approx(8)


def test_posterior_of_negative_scores_counts_from_the_lowest():
    scores = np.array([1.0, -1.0, -3.0])
    expected = np.exp(5 * (np.array([4.0, 2.0, 0.0]) / 4.0))
    assert relevance.posterior_weights(scores, sharpness=5) == pytest.approx(expected / expected.sum())


@pytest.mark.parametrize("weighting", relevance.WEIGHTINGS)
@pytest.mark.parametrize("docs", [1, 3, 30, 60, 90])
def test_document_weights_row_by_row(weighting, docs):
    """Sixty documents, some that a list doesn't hold and some with negative scores, as log probabilities are."""
    rng = np.random.default_rng(docs)
    scores = rng.permutation(300).reshape(5, 60) / 10 - 12.0
    scores[rng.random((5, 60)) < 0.3] = -np.inf
    scores[3] = -np.inf
    raw = {"softmax": lambda score: np.exp(score / 4.0), "score": lambda score: max(score, 0.0), "uniform": lambda score: 1.0}
    expected = np.zeros((5, 60))
    for row, values in enumerate(scores):
        best = [doc for doc in np.argsort(-values)[:docs].tolist() if np.isfinite(values[doc])]
        parts = [raw[weighting](values[doc]) for doc in best]
        if sum(parts) > 0:
            expected[row, best] = np.array(parts) / sum(parts)
    assert relevance.document_weights(scores, docs, weighting, 4.0) == pytest.approx(expected)
    assert relevance.document_weights(scores[0], docs, weighting, 4.0) == pytest.approx(expected[:1])


@pytest.mark.parametrize("keep", [None, 1, 2, 50])
def test_feedback_words_from_token_lists(make_collection, keep):
    """Ties among a document's most frequent words go to the first in the order of terms; documents may be empty."""
    tokens = [text.split() for text in ("b b a a c d", "", "c c c a", "d e b", "e e e e a")]
    collection = make_collection(tokens)
    words = sorted({word for text in tokens for word in text})
    usable, docs, weights = np.array([word != "e" for word in words]), np.array([4, 0, 1, 2]), np.array([0.4, 0.3, 0.2, 0.1])
    p = dict.fromkeys(words, 0.0)
    for doc, weight in zip(docs, weights, strict=True):
        counts = {word: tokens[doc].count(word) for word in words if word in tokens[doc] and word != "e"}
        total = len(tokens[doc])
        if keep is not None:
            counts = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:keep])
            total = sum(counts.values())
        for word, count in counts.items():
            p[word] += weight * count / total
    found = relevance.feedback_words(collection, docs, weights, usable, keep=keep)
    named = dict(zip(collection.terms.take(found.terms), found.p.tolist(), strict=True))
    assert named == pytest.approx({word: value for word, value in p.items() if value > 0})
    assert sorted(found.terms.tolist()) == found.terms.tolist()


def test_a_document_without_weight_adds_no_word(make_collection):
    collection = make_collection([["aa", "bb"], ["bb", "cc"]])
    found = relevance.feedback_words(collection, np.array([0, 1]), np.array([1.0, 0.0]), np.ones(3, dtype=bool))
    assert collection.terms.take(found.terms) == ["aa", "bb"] and found.p.tolist() == [0.5, 0.5]


def test_usable_words_by_their_letters_and_documents(make_collection):
    words = ["a", "ab", "a" * 20, "a" * 21, "é", "a1", "99", "a-b", "Ab", "zz"]
    texts = [words, ["ab"], ["ab", "zz"], *[["filler"]] * 17]
    collection = make_collection(texts)
    usable = dict(zip(sorted({*words, "filler"}, key=str.encode), relevance.usable_words(collection).tolist(), strict=True))
    # `ab` is in three of twenty documents, `zz` in two; an é has two bytes.
    expected = {"a" * 20, "é", "a1", "99", "zz"}
    assert {word for word, good in usable.items() if good} == expected


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_models_of_several_weightings(make_collection, smoothing):
    tokens = [text.split() for text in ("b b a a c d", "", "c c c a", "d e b")]
    collection = make_collection(tokens)
    docs, weights = np.array([2, 1, 0]), np.array([[0.5, 0.1, 0.4], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    terms = np.array([0, 2, 4])
    every = [word for text in tokens for word in text]
    models, frequencies = relevance.smoothed_models(collection, docs, weights, terms, smoothing)
    for row, by_document in enumerate(weights):
        share = smoothing if by_document.any() else 1.0
        for column, word in enumerate("ace"):
            own = sum(
                weight * tokens[doc].count(word) / max(len(tokens[doc]), 1)
                for weight, doc in zip(by_document, docs, strict=True)
            )
            assert models[row, column] == pytest.approx((1 - share) * own + share * every.count(word) / len(every))
    assert frequencies.tolist() == [[tokens[doc].count(word) for word in "ace"] for doc in docs]


def test_of_equal_scores_the_earlier_documents_are_the_best():
    scores = np.random.default_rng(0).integers(0, 6, (20, 200)).astype(float)
    weights = relevance.document_weights(scores, 10, "uniform")
    for row, weight in zip(scores.tolist(), weights, strict=True):
        best = sorted(range(len(row)), key=lambda place: (-row[place], place))[:10]
        assert np.flatnonzero(weight).tolist() == sorted(best)
