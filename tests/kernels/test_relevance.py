"""Relevance models by hand and against Anserini's."""

import numpy as np
import pytest

from kernelsearch.kernels import relevance


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


def test_strongest_words_leave_the_named_ones_aside():
    words = relevance.Words(np.array([2, 5, 7, 9]), np.array([0.1, 0.4, 0.4, 0.2]))
    best = relevance.strongest(words, 2, without=np.array([5]))
    assert best.terms.tolist() == [7, 9] and best.p.tolist() == [0.4, 0.2]
    assert relevance.strongest(words, 3).terms.tolist() == [5, 7, 9]


def test_models_without_documents_are_the_collection(tiny):
    index = tiny.forward
    terms, docs = index.term_ids(["water", "fuse"]), index.rows_of(["d1", "d3"])
    weights = np.array([[1.0, 0.0], [0.0, 0.0]])
    models = relevance.smoothed_models(index, docs, weights, terms, 0.1)
    collection = index.cf[terms] / index.statistics.tokens
    np.testing.assert_allclose(models[1], collection)
    np.testing.assert_allclose(models[0], 0.9 * np.array([2 / index.lengths[docs[0]], 0]) + 0.1 * collection)


def test_feedback_words_from_token_lists(make_collection):
    """Documents may be empty."""
    tokens = [text.split() for text in ("b b a a c d", "", "c c c a", "d e b", "e e e e a")]
    collection = make_collection(tokens)
    words = sorted({word for text in tokens for word in text})
    usable, docs, weights = np.array([word != "e" for word in words]), np.array([4, 0, 1, 2]), np.array([0.4, 0.3, 0.2, 0.1])
    p = dict.fromkeys(words, 0.0)
    for doc, weight in zip(docs, weights, strict=True):
        counts = {word: tokens[doc].count(word) for word in words if word in tokens[doc] and word != "e"}
        for word, count in counts.items():
            p[word] += weight * count / len(tokens[doc])
    found = relevance.feedback_words(collection, docs, weights, usable)
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
    models = relevance.smoothed_models(collection, docs, weights, terms, smoothing)
    for row, by_document in enumerate(weights):
        share = smoothing if by_document.any() else 1.0
        for column, word in enumerate("ace"):
            own = sum(
                weight * tokens[doc].count(word) / max(len(tokens[doc]), 1)
                for weight, doc in zip(by_document, docs, strict=True)
            )
            assert models[row, column] == pytest.approx((1 - share) * own + share * every.count(word) / len(every))
