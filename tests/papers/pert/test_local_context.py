"""Local context analysis from counts of token lists, word by word."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelsearch.papers.pert import local_context

TOKENS = [text.split() for text in (
    "ant bee bee cow", "cow cow dog", "bee ant", "ant ant ant dog eel eel", "fox fox bee ant cow", "gnu", "hen", "gnu hen",
)]  # fmt: skip


@pytest.fixture(scope="module")
def animals(make_collection):
    return make_collection(TOKENS)


def idf(word):
    return min(1.0, math.log10(len(TOKENS) / sum(word in tokens for tokens in TOKENS)) / 5)


@pytest.mark.parametrize("docs", [[0], [0, 3], [4, 1, 0, 3], [4, 1, 0, 3, 2]])
@pytest.mark.parametrize("delta", [local_context.DELTA, 0.5])
def test_beliefs_by_definition(animals, docs, delta):
    """Words that co-occur with both query words, with one and with none; `ant`, the term 0, is a word of the query."""
    query, usable = ["ant", "cow"], np.array([word != "dog" for word in sorted({w for text in TOKENS for w in text})])
    found = local_context.beliefs(animals, np.array(docs), animals.term_ids(query), usable, delta)
    words = sorted({word for doc in docs for word in TOKENS[doc]} - {"dog"})
    assert animals.terms.take(found.terms) == words

    def belief(word):
        total = 1.0
        for asked in query:
            together = sum(TOKENS[doc].count(word) * TOKENS[doc].count(asked) for doc in docs)
            degree = math.log10(together + 1) * idf(word) / math.log10(max(len(docs), 2))
            total *= (delta + degree) ** idf(asked)
        return total

    assert found.p == pytest.approx([belief(word) for word in words])


def test_idf_is_at_most_one(make_collection):
    """A word of one of 100,000 documents has log10(100,000) / 5 = 1; rarer ones don't have more."""

    class Vocabulary:
        df = np.array([1, 10, 0, 1_000_000])

        class statistics:
            documents = 1_000_000

    assert local_context.idf(Vocabulary, np.arange(4)) == pytest.approx([1.0, 1.0, 1.0, 0.0])
    Vocabulary.statistics.documents = 1000
    assert local_context.idf(Vocabulary, np.array([0, 1, 2])) == pytest.approx([3 / 5, 2 / 5, 3 / 5])


def test_weights_fall_evenly_from_one_to_a_tenth():
    assert local_context.rank_weights(3) == pytest.approx([1.0, 0.7, 0.4])
    assert local_context.rank_weights(1).tolist() == [1.0] and not len(local_context.rank_weights(0))
