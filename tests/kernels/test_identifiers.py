"""Words inside identifiers, found from the vocabulary of an index."""

import math

import numpy as np
import pytest

import kernelsearch
from kernelsearch.kernels.identifiers import Word, _joined, _lexicon, joined_share, segment, word_parts

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


@pytest.mark.parametrize(("documents", "parts"), [(3, {"open", "workflow"}), (2, {"open", "work", "flow"})])
def test_a_piece_that_three_documents_have_is_a_word(tmp_path, documents, parts):
    texts = [*["open work and flow"] * 5, *["a workflow"] * documents, "open_workflow(now)"]
    index = kernelsearch.build(tmp_path / "i", [{"id": str(n), "contents": text} for n, text in enumerate(texts)])
    assert parts_of(index, "open_workflow") == parts


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


def segmentations(term):
    """All ways to cut a term into words of at least three letters."""
    yield [term]
    for cut in range(3, len(term) - 2):
        for rest in segmentations(term[cut:]):
            yield [term[:cut], *rest]


@pytest.mark.parametrize("seed", range(12))
def test_segments_are_the_most_probable_ones_of_all(seed):
    """Σ log(documents / collection) - 1 per word is largest; a last word may lack its e."""
    rng = np.random.default_rng(seed)
    term = "".join(rng.choice(list("abc"), size=int(rng.integers(6, 17))))
    pieces = {term[a:b] for a in range(len(term)) for b in range(a + 3, min(a + 8, len(term)) + 1)}
    chosen = [piece for piece in sorted(pieces) if rng.random() < 0.7]
    lexicon = {piece: Word(int(rng.integers(3, 90)), f"{piece}~") for piece in chosen}
    lexicon |= {f"{term[-4:]}e": Word(50, "ended"), term: Word(99, "whole"), "xyz": Word(99, "foreign")}

    def known(words):
        last = lexicon.get(words[-1]) or lexicon.get(f"{words[-1]}e")
        found = [*(lexicon.get(word) for word in words[:-1]), last]
        return found if None not in found and len(words) > 1 else None

    candidates = [found for words in segmentations(term) if (found := known(words))]
    best = max(candidates, key=lambda words: sum(math.log(word.documents / 100) - 1 for word in words), default=None)
    assert (best is not None) == bool(candidates)
    for documents in (1, 20, 60):
        mean = math.exp(np.mean([math.log(word.documents) for word in best])) if best else 0
        assert segment(term, lexicon, documents, 100) == ([word.stem for word in best] if best and mean > documents else [])


def test_what_is_no_word_or_too_short_is_not_segmented():
    lexicon = {
        "abc": Word(50, "abc"),
        "def": Word(50, "def"),
        "de": Word(50, "de"),
        "x2y": Word(50, "x2y"),
        "ab": Word(9, "ab"),
    }
    assert segment("abcdef", lexicon, 1, 100) == ["abc", "def"]
    assert segment("abcde", lexicon, 1, 100) == []  # each word has three letters or more
    assert segment("abcx2y", lexicon, 1, 100) == []
    # A word that is the stem of the whole term says nothing about its parts.
    assert segment("abcdef", {"abc": Word(50, "abcdef"), "def": Word(50, "def")}, 1, 100) == []


def test_words_are_at_most_fourteen_letters_long():
    long, longer = "a" * 7 + "b" * 7, "a" * 7 + "b" * 8
    assert segment(long + "xyz", {long: Word(9, "long"), "xyz": Word(9, "xyz")}, 1, 100) == ["long", "xyz"]
    assert segment(longer + "xyz", {longer: Word(9, "longer"), "xyz": Word(9, "xyz")}, 1, 100) == []


def test_the_words_that_terms_may_consist_of():
    """Stems of three letters and more in three documents and more, with the endings that stemming may have removed."""
    terms = ["pars", "fil", "ab", "rare", "x9z", "citi", "a" * 14, "b" * 15]
    df = np.array([5, 9, 50, 2, 50, 3, 4, 4])
    numbers = {term: number for number, term in enumerate(terms)}
    lexicon = _lexicon(terms, df, {"files": "fil", "abs": "ab", "of": "ab", "rarely": "rare", "gone": "nowhere"}, numbers)
    endings = ("", "e", "s", "ing", "ed", "er")
    expected = {
        f"{stem}{ending}": Word(int(df[numbers[stem]]), stem)
        for stem in ("pars", "fil", "citi", "a" * 14)
        for ending in endings
    }
    expected |= {"city": Word(3, "citi"), "files": Word(9, "fil"), "abs": Word(50, "ab")}
    assert lexicon == expected
    # Of two stems with the same spelling the more frequent one counts.
    assert _lexicon(["pass", "passe"], np.array([4, 7]), {}, {})["passe"] == Word(7, "passe")
    assert _lexicon(["pass", "passe"], np.array([8, 7]), {}, {})["passe"] == Word(8, "pass")


def test_joined_terms_have_separators_between_words(make_collection):
    """Two letters or more on both sides; version numbers and abbreviations are no words that are joined."""
    tokens = ["open_file", "std::sort", "os.path", "a.b", "v1.2", "_private", "plain", "x_axis", "ab_c", "é_file", "été.là"]
    collection = make_collection([tokens, ["plain", "os.path", "os.path"]])
    joined = {"open_file", "std::sort", "os.path", "été.là"}
    assert set(_joined(collection).values()) == joined
    assert {collection.terms[number] for number in _joined(collection)} == joined
    assert joined_share(collection) == pytest.approx((len(joined) + 2) / (len(tokens) + 3))
