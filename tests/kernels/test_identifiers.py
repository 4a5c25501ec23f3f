"""Words inside identifiers, found from the vocabulary of an index."""

import numpy as np
import pytest

import kernelsearch
from kernelsearch.kernels.identifiers import Word, joined_share, segment, word_parts

PROGRAMS = [
    {"id": "1", "contents": "def parse_json_file(path): return json.load(path)"},
    {"id": "2", "contents": "def parseFile(name): return open_file(name)"},
    {"id": "3", "contents": "the file is read, then parse the json, then load the path by name"},
    {"id": "4", "contents": "parse a json file and open it, load its path and its name"},
    {"id": "5", "contents": "parse the file and the json at this path, open and load, by name"},
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return kernelsearch.build(tmp_path_factory.mktemp("programs") / "index", PROGRAMS)


def parts_of(index, term):
    forward = index.forward
    matrix = word_parts(forward, index.lucene.analyze)
    number = int(forward.term_ids([term])[0])
    assert number >= 0, term
    return {forward.terms[column] for column in matrix[number].indices}


def test_words_are_found_at_separators_and_by_segmentation(programs):
    """`parse_json_fil` is what the analyser makes of the first identifier, `parsefil` of the second."""
    parse, json, file, load = (programs.lucene.analyze([word])[0][0] for word in ("parse", "json", "file", "load"))
    assert programs.lucene.analyze(["parse_json_file", "parseFile"]) == [["parse_json_fil"], ["parsefil"]]
    assert parts_of(programs, "parse_json_fil") == {parse, json, file}
    assert parts_of(programs, "parsefil") == {parse, file}
    assert parts_of(programs, "json.load") == {json, load}
    assert parts_of(programs, file) == set()


def test_the_share_of_joined_words_counts_tokens(programs):
    tokens = [token for text in programs.lucene.analyze([document["contents"] for document in PROGRAMS]) for token in text]
    joined = [token for token in tokens if "_" in token or "." in token]
    assert joined_share(programs.forward) == pytest.approx(len(joined) / len(tokens))


def test_prose_has_no_joined_words(demo_index):
    assert joined_share(demo_index.forward) < 0.001


def test_a_term_is_segmented_only_into_more_frequent_words():
    lexicon = {"over": Word(40, "over"), "flow": Word(90, "flow"), "overf": Word(3, "overf"), "low": Word(50, "low")}
    # By hand: log(.4) + log(.9) - 2 = -3.02 for over + flow, log(.03) + log(.5) - 2 = -6.20 for overf + low.
    assert np.log(0.4) + np.log(0.9) > np.log(0.03) + np.log(0.5)
    assert segment("overflow", lexicon, 10, 100) == ["over", "flow"]
    assert segment("overflow", lexicon, 59, 100) == ["over", "flow"]
    assert segment("overflow", lexicon, 60, 100) == []  # the geometric mean of 40 and 90 is 60
    assert segment("overflown", lexicon, 1, 100) == []
    assert segment("flow", lexicon, 1, 100) == []
