"""Graphs of related words from files of vectors and from WordNet."""

from __future__ import annotations

import numpy as np
import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.papers.classify.text_files import read_similarities
from kernelsearch.papers.mslm.sources import vectors_graph, wordnet_graph
from tests.kernels.test_semantic_graph import edges

TERMS = ["big", "car", "larg", "red"]


def term_ids(terms):
    return np.array([TERMS.index(term) if term in TERMS else -1 for term in terms], dtype=np.int32)


def analyze(texts):
    """A toy stemmer: cuts a final e and s; two-word entries become two terms."""
    return [[word.rstrip("s").removesuffix("e") for word in text.replace("_", " ").split()] for text in texts]


WORDNET = """  1 This software and database is being provided to you, the LICENSEE
00000010 00 a 02 big 0 large 0 001 & 00000020 a 0000 | above average in size
00000020 00 s 02 red 0 fire_red(a) 0 000 | a colour
"""


SYNSETS = {
    "data.noun": """  2 the licence
00000001 00 n 03 big 0 car 0 large 1 002 @ 00000002 n 0000 ! 00000003 n 0000 | one
00000002 00 n 01 red 0 001 #p 00000009 v 0000 | another
00000003 00 n 01 unknown 0 000 | a third
""",
    "data.verb": "00000009 30 v 02 red 0 big(p) 0 000 01 + 08 00 | with a frame\n",
}


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
