"""The word graph: hand-computed information, memory-bounded passes, outside sources."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.kernels.semantic.graph import SPATIAL_ORDER, SemanticGraph, cooccurrence_graph, sequences, take_ranges
from kernelsearch.kernels.semantic.sources import read_similarities, vectors_graph, wordnet_graph


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


TERMS = ["big", "car", "larg", "red"]


def term_ids(terms):
    return np.array([TERMS.index(term) if term in TERMS else -1 for term in terms], dtype=np.int32)


def analyze(texts):
    """A toy stemmer: cuts a final e and s; two-word entries become two terms."""
    return [[word.rstrip("s").removesuffix("e") for word in text.replace("_", " ").split()] for text in texts]


def test_vectors_become_cosine_neighbours(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("5 2\nbig 1 0\nlarge 0.9 0.1\ncar 0 1\ncars 0 2\nunknown 1 1\n")
    graph = vectors_graph(file, term_ids, 4, analyze, neighbours=1)
    assert graph.neighbours(0)[0].tolist() == [2]
    assert 3 not in graph.indices


@pytest.mark.parametrize(
    "content, message",
    [("big 1 0\ncar 1\n", "line 2: 1 numbers where 2"), ("big one\n", "line 1: not a word"), ("", "no word vectors"),
     ("zebra 1 0\n", "none of its 1 words"), ("big 1 nan\n", "line 1")],
)  # fmt: skip
def test_bad_vector_files_are_named(tmp_path, content, message):
    file = tmp_path / "vectors.txt"
    file.write_text(content)
    with pytest.raises(InputError, match=message) as problem:
        vectors_graph(file, term_ids, 4, analyze)
    assert str(file) in str(problem.value)


WORDNET = """  1 This software and database is being provided to you, the LICENSEE
00000010 00 a 02 big 0 large 0 001 & 00000020 a 0000 | above average in size
00000020 00 s 02 red 0 fire_red(a) 0 000 | a colour
"""


def test_wordnet_joins_synonyms_nearer_than_relatives(tmp_path):
    (tmp_path / "data.adj").write_text(WORDNET)
    graph = wordnet_graph(tmp_path, term_ids, 4, analyze)
    words, distances = graph.neighbours(0)
    assert words.tolist() == [2, 3]
    assert distances[0] < distances[1]


def test_wordnet_problems_are_named(tmp_path):
    with pytest.raises(InputError, match="no WordNet database"):
        wordnet_graph(tmp_path, term_ids, 4, analyze)
    (tmp_path / "data.noun").write_text("nonsense\n")
    with pytest.raises(InputError, match="line 1: not a synset"):
        wordnet_graph(tmp_path, term_ids, 4, analyze)


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


def test_vectors_of_a_terms_forms_are_averaged_at_unit_length(tmp_path):
    """`car` (0, 1) and `cars` (3, 0) have the mean direction (1, 1); cosines with big (1, 0) and larg (0, 2)."""
    file = tmp_path / "vectors.txt"
    file.write_text("big 1 0\ncar 0 1\ncars 3 0\nlarge 0 2\nred -1 -1\n")
    for neighbours, pairs in ((1, {("big", "car"), ("car", "larg")}), (3, {("big", "car"), ("car", "larg")})):
        graph = vectors_graph(file, term_ids, 4, analyze, neighbours=neighbours)
        found = {(TERMS[a], TERMS[b]): far for (a, b), far in edges(graph).items() if a < b}
        assert found.keys() == pairs and list(found.values()) == pytest.approx([1.5, 1.5], rel=1e-5)
    file.write_text("big 1 0\nlarge 4 3\ncar 3 4\n")
    found = edges(vectors_graph(file, term_ids, 4, analyze))
    cosines = {("big", "larg"): 0.8, ("big", "car"): 0.6, ("car", "larg"): 0.96}
    mean = np.mean([1 - value for value in cosines.values()])
    expected = {tuple(sorted(map(TERMS.index, pair))): (1 - value) * 1.5 / mean for pair, value in cosines.items()}
    assert {pair: far for pair, far in found.items() if pair[0] < pair[1]} == pytest.approx(expected, rel=1e-4)


def test_similarity_files(tmp_path):
    file = tmp_path / "s.tsv"
    file.write_text("red car\tauto\t0.5\n\nbig large 1\n")
    assert read_similarities(file) == (("red car", "auto", 0.5), ("big", "large", 1.0))
    for line in ("a b", "a b 0", "a b 1.01", "a b -1", "a b x", "a\t\t0.5", "\tb\t0.5", "a b 0.5 c", "a\tb\tnan"):
        file.write_text(f"a b 0.5\n{line}\n")
        with pytest.raises(InputError, match="line 2: two words and a similarity above 0, at most 1"):
            read_similarities(file)
    file.write_text("\n")
    with pytest.raises(InputError, match="no similarities"):
        read_similarities(file)


SYNSETS = {
    "data.noun": """  2 the licence
00000001 00 n 03 big 0 car 0 large 1 002 @ 00000002 n 0000 ! 00000003 n 0000 | one
00000002 00 n 01 red 0 001 #p 00000009 v 0000 | another
00000003 00 n 01 unknown 0 000 | a third
""",
    "data.verb": "00000009 30 v 02 red 0 big(p) 0 000 01 + 08 00 | with a frame\n",
}


@pytest.mark.parametrize("neighbours", [1, 2, 20])
def test_wordnet_relations_by_hand(tmp_path, neighbours):
    """Words of one synset have 1, words one pointer apart .5; antonyms (!) are not followed; d = 1 - s, at least .001."""
    for name, text in SYNSETS.items():
        (tmp_path / name).write_text(text)
    found = edges(wordnet_graph(tmp_path, term_ids, 4, analyze, neighbours=neighbours))
    big, car, large, red = (TERMS.index(word) for word in ("big", "car", "larg", "red"))
    similar = {(big, car): 1.0, (big, large): 1.0, (car, large): 1.0, (big, red): 1.0, (car, red): 0.5, (large, red): 0.5}
    both = similar | {(b, a): value for (a, b), value in similar.items()}
    kept = set()
    for word in (big, car, large, red):
        near = sorted((other for w, other in both if w == word), key=lambda other: (-both[word, other], other))
        kept |= {tuple(sorted((word, other))) for other in near[:neighbours]}
    distances = {pair: max(1 - both[pair], 1e-3) for pair in kept}
    mean = np.mean(list(distances.values()))
    assert {pair: far for pair, far in found.items() if pair[0] < pair[1]} == pytest.approx(
        {pair: 1.5 * distance / mean for pair, distance in distances.items()}, rel=1e-4
    )


def test_an_edge_given_twice_counts_once_with_the_larger_similarity():
    once = SemanticGraph.from_edges(3, np.array([0, 2]), np.array([1, 1]), np.array([0.4, 0.7]))
    twice = SemanticGraph.from_edges(3, np.array([0, 2, 0, 2]), np.array([1, 1, 1, 1]), np.array([0.4, 0.7, 0.3, 0.7]))
    assert once.edges == twice.edges == 2
    assert twice.distances.tolist() == once.distances.tolist() == pytest.approx([2, 2, 1, 1])  # .6 and .3, mean 1.5
