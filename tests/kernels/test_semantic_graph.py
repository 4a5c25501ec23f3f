"""The word graph: hand-computed information, memory-bounded passes, outside sources."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from kernelsearch.kernels.semantic.graph import SPATIAL_ORDER, SemanticGraph, cooccurrence_graph, sequences, take_ranges


class Collection(SimpleNamespace):
    """Texts as word numbers; a gap (-1) is a removed word. Offers what a ForwardIndex offers to the graph."""

    def __init__(self, texts: list[list[int]], words: int) -> None:
        known_words = [[word for word in text if word >= 0] for text in texts]
        super().__init__(
            texts=texts,
            df=np.array([sum(word in text for text in known_words) for word in range(words)], dtype=np.int32),
            cf=np.array([sum(text.count(word) for text in known_words) for word in range(words)], dtype=np.int64),
            lengths=np.array([len(text) for text in known_words], dtype=np.int32),
            live_docs=np.arange(len(texts), dtype=np.int32),
        )

    def positions(self, docs):
        """By document, then word, then position, as the forward index stores them."""
        tokens = [sorted((word, place) for place, word in enumerate(self.texts[doc]) if word >= 0) for doc in docs]
        flat = np.array([token for text in tokens for token in text], dtype=np.int32).reshape(-1, 2)
        return np.concatenate([[0], np.cumsum([len(text) for text in tokens])]), flat[:, 0], flat[:, 1]


def edges(graph: SemanticGraph) -> dict[tuple[int, int], float]:
    return {
        (word, int(other)): float(far)
        for word in range(graph.words)
        for other, far in zip(*graph.neighbours(word), strict=True)
    }


@pytest.mark.parametrize("last", [5, 2**31 - 2])
def test_tokens_at_one_position_and_far_behind_keep_their_text(last):
    def positions(docs):  # the words 7 and 8 are at one position, as synonyms are
        return np.array([0, 3, 5]), np.array([7, 8, 9, 1, 2], dtype=np.int32), np.array([0, 0, last, 1, 0], dtype=np.int32)

    indptr, words = sequences(SimpleNamespace(positions=positions), np.array([0, 1]))
    assert indptr.tolist() == [0, 3, 5] and words.tolist() == [7, 8, 9, 2, 1]


def test_sequences_are_in_reading_order_with_gaps_closed():
    collection = Collection([[3, -1, 1, 1], [], [-1, 2, 0]], 4)
    indptr, words = sequences(collection, np.array([0, 1, 2]))
    assert indptr.tolist() == [0, 3, 3, 5]
    assert words.tolist() == [3, 1, 1, 2, 0]


def test_similarity_is_normalised_information_by_hand():
    # Words 0 1 stand together twice, 2 3 three times; 12 tokens with 4 (a filler in every text, too common).
    collection = Collection([[0, 1, 4], [0, 1, 4], [2, 3, 4], [2, 3, 4], [2, 3, 4]], 5)
    graph = cooccurrence_graph(collection, window=1, min_count=2, common=0.7, neighbours=5)
    tokens = 15

    def similarity(both, first, second):
        joint = both / (tokens * 2)
        return math.log(joint / (first / tokens * second / tokens)) / -math.log(joint)

    distances = np.array([1 - similarity(2, 2, 2), 1 - similarity(3, 3, 3)])
    scaled = distances * SPATIAL_ORDER / distances.mean()
    assert edges(graph) == pytest.approx({(0, 1): scaled[0], (1, 0): scaled[0], (2, 3): scaled[1], (3, 2): scaled[1]}, rel=1e-5)


def test_rare_pairs_and_common_words_give_no_edges():
    texts = [[0, 1, 2], [0, 1, 3], [1, 4, 5]]
    assert edges(cooccurrence_graph(Collection(texts, 6), min_count=2, common=1.0, window=1)).keys() == {(0, 1), (1, 0)}
    assert not edges(cooccurrence_graph(Collection(texts, 6), min_count=2, common=0.7, window=1))


@pytest.mark.parametrize("max_pairs, block", [(10, 7), (200, 1000), (50, 13)])
def test_passes_and_blocks_do_not_change_the_graph(max_pairs, block):
    rng = np.random.default_rng(1)
    collection = Collection([rng.integers(0, 20, rng.integers(0, 30)).tolist() for _ in range(25)], 20)
    options = {"window": 3, "min_count": 2, "common": 1.0, "neighbours": 4}
    whole, parts = (
        cooccurrence_graph(collection, **options),
        cooccurrence_graph(collection, **options, max_pairs=max_pairs, block=block),
    )
    assert whole.edges > 10
    assert edges(parts) == edges(whole)


def test_counts_agree_with_a_plain_count():
    rng = np.random.default_rng(2)
    texts = [rng.integers(0, 8, 12).tolist() for _ in range(10)]
    result = cooccurrence_graph(Collection(texts, 8), window=2, min_count=1, common=1.0, neighbours=99)
    pairs: dict[tuple[int, int], int] = {}
    for text in texts:
        for place, first in enumerate(text):
            for second in text[place + 1 : place + 3]:
                if first != second:
                    key = (min(first, second), max(first, second))
                    pairs[key] = pairs.get(key, 0) + 1
    cf, tokens = np.bincount(np.concatenate(texts), minlength=8), 120
    positive = {key for key, both in pairs.items() if both / (tokens * 4) * tokens**2 / (cf[key[0]] * cf[key[1]]) > 1}
    assert {key for key in edges(result) if key[0] < key[1]} == positive


def test_nearest_neighbours_are_kept_in_either_direction():
    left, right = np.array([0, 0, 0]), np.array([1, 2, 3])
    graph = SemanticGraph.from_edges(4, left, right, np.array([0.9, 0.5, 0.7]))
    assert graph.neighbours(0)[0].tolist() == [1, 3, 2]
    assert graph.neighbours(2)[0].tolist() == [0]
    assert graph.distances.mean() == pytest.approx(SPATIAL_ORDER)


def test_no_text_no_edges():
    assert cooccurrence_graph(Collection([[], []], 3)).edges == 0
    assert cooccurrence_graph(Collection([], 0)).words == 0


def related(texts, words, *, neighbours, window, min_count, common):
    """{(word, other): similarity} of each word's nearest ones, pair by pair."""
    cf = [sum(text.count(word) for text in texts) for word in range(words)]
    df = [sum(word in text for text in texts) for word in range(words)]
    usable = [df[word] <= max(1.0, common * len(texts)) and cf[word] >= min_count for word in range(words)]
    tokens, seen = sum(cf), {}
    for text in texts:
        for i, word in enumerate(text):
            for j, other in enumerate(text):
                if 0 < abs(i - j) <= window and word != other and usable[word] and usable[other]:
                    seen[word, other] = seen.get((word, other), 0) + 1
    out = {}
    for word in range(words):
        near = {}
        for other in range(words):
            both = seen.get((word, other), 0)
            if both >= min_count:
                joint = both / (tokens * 2 * window)
                near[other] = min(1.0, math.log(joint / (cf[word] / tokens * cf[other] / tokens)) / -math.log(joint))
        for other in sorted((o for o in near if near[o] > 0), key=lambda o: (-near[o], o))[:neighbours]:
            out[word, other] = near[other]
    return out


@pytest.mark.parametrize("seed", range(6))
def test_graphs_are_those_of_pairs_counted_one_by_one(seed):
    rng = np.random.default_rng(seed)
    words = 12
    texts = [np.minimum(rng.geometric(0.15, size=rng.integers(0, 14)) - 1, words - 1).tolist() for _ in range(20)]
    options = {"neighbours": 2, "window": int(rng.integers(1, 4)), "min_count": int(rng.integers(1, 4)), "common": 0.5}
    similar = related(texts, words, **options)
    distances = {}
    for (word, other), value in similar.items():
        either = max(value, similar.get((other, word), 0.0))
        distances[word, other] = distances[other, word] = max(1 - either, 1e-3)
    mean = np.mean(list(distances.values()))
    expected = {pair: distance * 1.5 / mean for pair, distance in distances.items()}
    for extra in ({}, {"max_pairs": 40, "block": 9}):
        graph = cooccurrence_graph(Collection(texts, words), **options, **extra)
        assert len(expected) > 4 and edges(graph) == pytest.approx(expected, rel=1e-4)
        assert graph.edges == len(expected) / 2


def test_edges_of_any_direction_and_strength():
    """An edge in both directions has the larger similarity; one to the word itself or without similarity is none."""
    left, right = np.array([0, 1, 2, 2, 3, 1]), np.array([1, 0, 2, 3, 4, 4])
    graph = SemanticGraph.from_edges(5, left, right, np.array([0.4, 0.7, 0.9, 1.0, 0.0, -0.5]))
    scale = 1.5 / np.mean([0.3, 0.3, 1e-3, 1e-3])
    expected = {(0, 1): 0.3 * scale, (1, 0): 0.3 * scale, (2, 3): 1e-3 * scale, (3, 2): 1e-3 * scale}
    assert edges(graph) == pytest.approx(expected, rel=1e-6) and graph.edges == 2


@pytest.mark.parametrize("scale", [0.0, 0.3, 2.0, math.inf])
def test_rows_of_the_operator_are_what_words_receive(scale):
    rng = np.random.default_rng(3)
    graph = SemanticGraph.from_edges(9, rng.integers(0, 4, 12), rng.integers(4, 8, 12), rng.uniform(0.1, 0.4, 12))
    weights = np.eye(9)
    for (word, other), distance in edges(graph).items():
        weights[word, other] = math.exp(-(distance**2) / 2 / scale**2) if scale > 0 else 0.0
    assert graph.normaliser(scale) == pytest.approx(weights.sum(axis=0))
    expected = weights / weights.sum(axis=0)
    assert graph.operator(scale).toarray() == pytest.approx(expected)
    chosen = np.array([7, 0, 0, 8])  # a word twice, and one without neighbours
    assert graph.rows(chosen, scale).toarray() == pytest.approx(expected[chosen])


def test_reading_order_of_many_texts():
    rng = np.random.default_rng(1)
    texts = [[int(word) if rng.random() < 0.8 else -1 for word in rng.integers(0, 6, rng.integers(0, 9))] for _ in range(12)]
    docs = np.array([3, 11, 0, 7, 7])
    indptr, words = sequences(Collection(texts, 6), docs)
    expected = [[word for word in texts[doc] if word >= 0] for doc in docs]
    assert [words[start:end].tolist() for start, end in pairwise(indptr)] == expected
    flat, starts, ends = np.arange(20, dtype=np.int32), np.array([4, 0, 9, 9]), np.array([7, 2, 9, 12])
    indptr, taken = take_ranges(flat, starts, ends)
    assert indptr.tolist() == [0, 3, 5, 5, 8] and taken.tolist() == [4, 5, 6, 0, 1, 9, 10, 11]


def test_an_edge_given_twice_counts_once_with_the_larger_similarity():
    once = SemanticGraph.from_edges(3, np.array([0, 2]), np.array([1, 1]), np.array([0.4, 0.7]))
    twice = SemanticGraph.from_edges(3, np.array([0, 2, 0, 2]), np.array([1, 1, 1, 1]), np.array([0.4, 0.7, 0.3, 0.7]))
    assert once.edges == twice.edges == 2
    assert twice.distances.tolist() == once.distances.tolist() == pytest.approx([2, 2, 1, 1])  # .6 and .3, mean 1.5
