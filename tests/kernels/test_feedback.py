"""Feedback on the forward index gives Anserini's own weights, which LuceneIndex.expand asks Anserini for."""

from __future__ import annotations

import numpy as np
import pytest

from kernelsearch import index as index_verb
from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward.index import StringTable
from kernelsearch.kernels import java_maps
from kernelsearch.kernels.feedback import FeedbackExpander
from kernelsearch.lucene.index import FirstStage
from kernelsearch.lucene.models import BM25PRF, RM3, BM25Model, DirichletModel, Rocchio
from kernelsearch.trec.topics import read_topics
from tests.conftest import DEMO, TINY, write_jsonl
from tests.lucene.test_lucene_index import change

BM25 = BM25Model()
SETTINGS = [
    RM3(),
    RM3(terms=1, docs=1, original_weight=0.0),
    RM3(terms=40, docs=3, original_weight=0.7),
    RM3(terms=7, docs=30, original_weight=0.3, english=False),
    RM3(terms=3, docs=10, original_weight=1.0, english=False),
    Rocchio(),
    Rocchio(top_terms=40, top_docs=4, alpha=0.5, beta=1.5),
    Rocchio(negative=True),
    Rocchio(top_terms=5, top_docs=3, bottom_terms=30, bottom_docs=20, alpha=0.1, beta=0.2, gamma=0.9, negative=True, hits=30),
    BM25PRF(),
    BM25PRF(terms=3, docs=4, new_term_weight=1.0),
    BM25PRF(terms=100, docs=40, new_term_weight=0.6),
]
#: One letter, digits, 20 and 21 letters, accents, one unit and two units of UTF-16 outside ASCII, and characters whose order in
#: UTF-16 differs from that in UTF-8.
ODD = ["x", "7", "42", "2024", "aaaaaa7", "a" * 20, "b" * 21, "under_score", "it's", "MiXed"]
ODD += [
    "é",
    "éa",
    "señor",
    "straße",
    "日本",
    "日",
    "\U0001f600",
    "\U0001f600" * 10,
    "\U0001f600" * 11,
    "\U00010428z",
    "ｗｗ",
    "ﬀz",
]


def weights(query: Query) -> dict[str, np.float32]:
    return {term: np.float32(weight) for term, weight in zip(query.terms, query.weights, strict=True)}


def assert_anserinis(index: Index, queries: list[Query], feedback, model=BM25) -> None:
    lists = index.lucene.search(queries, feedback.depth, model=model)
    result = FeedbackExpander(index.forward)(queries, lists, feedback)
    for query, ours, theirs in zip(queries, result, index.lucene.expand(queries, feedback, model=model), strict=True):
        assert weights(ours) == weights(theirs), query.text
        assert (ours.text, ours.qid) == (query.text, query.qid)


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> Index:
    """Words of all kinds, few and repeated, so that ties decide what is cut off; split at white space only."""
    folder = tmp_path_factory.mktemp("odd")
    chance = np.random.default_rng(3)
    words = np.array([*ODD, *(f"w{number}" for number in range(150)), *(str(number) for number in range(20))])
    probable = 1 / np.arange(3, len(words) + 3)
    probable = chance.permutation(probable / probable.sum())
    sizes = chance.integers(1, 60, size=200)
    documents = [
        {"id": f"d{number:03d}", "contents": " ".join(chance.choice(words, size=size, p=probable))}
        for number, size in enumerate(sizes)
    ]
    source = write_jsonl(folder / "corpus.jsonl", documents)
    index_verb.main(["--input", str(source), "--index", str(folder / "index"), "--language", "whitespace"])
    return Index(folder / "index")


@pytest.fixture(scope="module")
def odd_queries(odd) -> list[Query]:
    chance = np.random.default_rng(4)
    texts = [" ".join(chance.choice([*ODD, "w1", "w2", "w2", "w9", "w40", "unknown", "5"], size=3)) for _ in range(40)]
    first = odd.forward.terms[0]  # the term with the number 0, which is a known one
    texts += ["", "unknown", "unknown words only", "w3 w3 w3 w7", "w3", f"{first} w1"]
    return odd.lucene.queries(texts, [str(number) for number in range(len(texts))])


@pytest.mark.parametrize("feedback", SETTINGS, ids=str)
def test_every_weight_is_anserinis_on_odd_words(odd, odd_queries, feedback):
    assert_anserinis(odd, odd_queries, feedback)


@pytest.mark.parametrize("feedback", SETTINGS, ids=str)
def test_every_weight_is_anserinis_on_the_bundled_topics(demo_index, feedback):
    queries = demo_index.lucene.queries(list(read_topics(DEMO / "topics.tsv").values())[:12])
    assert_anserinis(demo_index, queries, feedback)


@pytest.mark.parametrize("feedback", SETTINGS, ids=str)
def test_every_weight_is_anserinis_on_fewer_documents_than_asked_for(tiny, feedback):
    assert_anserinis(tiny, tiny.lucene.queries(["tap water", "water water panel xyz", "fuse", "xyz", ""]), feedback)


@pytest.mark.parametrize("feedback", [RM3(), Rocchio(negative=True), BM25PRF()], ids=str)
@pytest.mark.parametrize("model", [BM25Model(2.0, 0.75), DirichletModel(50)], ids=str)
def test_other_first_stages(demo_index, feedback, model):
    assert_anserinis(demo_index, demo_index.lucene.queries(["dripping tap", "wall paint"]), feedback, model)


def test_deleted_documents_count_as_in_anserini(tmp_path, odd):
    """Document frequencies still include them, the number of documents doesn't."""
    texts = odd.lucene.stored(np.arange(200), "contents")
    documents = [{"id": f"d{number}", "contents": text} for number, text in enumerate(texts)]
    source = write_jsonl(tmp_path / "corpus.jsonl", documents)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "index"), "--no-forward", "--language", "whitespace"])
    change(tmp_path / "index", delete=[f"d{n}" for n in range(0, 200, 12)], add=[{"id": "new", "contents": "w1 w2 added word"}])
    index = Index(tmp_path / "index")
    assert len(index.forward.live_docs) < len(index.forward)
    queries = index.lucene.queries(["w1 w2", "w9 señor", "ad", "w40 w41 w42"])
    for feedback in (RM3(), RM3(20, 30, english=False), Rocchio(negative=True), BM25PRF(docs=5)):
        assert_anserinis(index, queries, feedback)


@pytest.mark.collections
@pytest.mark.parametrize("feedback", SETTINGS, ids=str)
def test_every_weight_is_anserinis_on_cacm(collection_index, collections, feedback):
    index = collection_index("cacm")
    topics = read_topics(collections / "cacm" / "topics.tsv")
    assert_anserinis(index, index.lucene.queries(list(topics.values()), list(topics)), feedback)


def test_rm3_by_hand():
    """Two documents of one index: the words' shares, weighted by score, then mixed with the query."""

    class Terms(list):
        arrays = property(lambda self: (np.frombuffer("".join(self).encode(), np.uint8), np.cumsum([len(w) for w in self])))
        take = lambda self, numbers: [self[number] for number in numbers]  # noqa: E731
        made_of = lambda self, *_: np.ones(len(self), dtype=bool)  # noqa: E731

    class Index:
        terms, df, live_docs = Terms(["bolt", "nut", "saw"]), np.array([1, 2, 1]), np.arange(100)
        indices, frequencies = np.array([0, 1, 1, 2]), np.array([3, 1, 1, 1])
        gather = staticmethod(lambda docs: (np.array([0, 2, 4]), np.arange(4)))
        term_ids = staticmethod(lambda words: np.array([["bolt", "nut", "saw"].index(word) for word in words]))

    lists = [Candidates(np.array([0, 1], dtype=np.int32), np.array([2.0, 1.0], dtype=np.float32))]
    expanded = FeedbackExpander(Index())([Query("nut", ("nut",), (1.0,))], lists, RM3(10, 10, 0.6))[0]
    # bolt 2 * 3/4 = 1.5, nut 2 * 1/4 + 1/2 = 1, saw 1/2: of 3 in sum
    assert expanded.terms == ("bolt", "nut", "saw")
    assert expanded.weights == pytest.approx((0.4 * 0.5, 0.6 + 0.4 / 3, 0.4 / 6))


def test_batches_change_nothing(demo_index, monkeypatch):
    queries = demo_index.lucene.queries(["dripping tap", "xyz", "wall paint", "screw"])
    expander = FeedbackExpander(demo_index.forward)
    lists = demo_index.lucene.search(queries, 10)
    together = expander(queries, lists, RM3())
    monkeypatch.setattr("kernelsearch.kernels.feedback.BATCH", 1)
    assert expander(queries, lists, RM3()) == together
    assert expander([], [], RM3()) == []


def test_a_model_of_documents_that_score_nothing_is_left_out(tiny):
    query = tiny.query("tap water")
    result = tiny.lucene.search([query], 3)[0]
    nothing = Candidates(result.docs, np.zeros(3, dtype=np.float32))
    assert weights(FeedbackExpander(tiny.forward)([query], [nothing], RM3())[0]) == {"tap": 0.25, "water": 0.25}


@pytest.mark.parametrize("feedback", [RM3(), Rocchio(), BM25PRF()], ids=str)
def test_an_index_without_document_vectors_gives_the_same_lists(tmp_path, demo_index, feedback):
    flags = ["--input", str(DEMO / "corpus.jsonl"), "--index", str(tmp_path / "index"), "--no-docvectors"]
    index_verb.main(flags)
    first = FirstStage(feedback=feedback, hits=50)
    texts = ["dripping tap", "wall paint", "xyz"]
    theirs = first.search(demo_index.lucene, demo_index.lucene.queries(texts))  # Anserini's, with vectors
    index = Index(tmp_path / "index")
    ours = Pipeline(index, first).retrieve(index.lucene.queries(texts))
    for ours_ranked, theirs_ranked in zip(ours, theirs, strict=True):
        assert index.forward.docids.take(ours_ranked.docs) == demo_index.forward.docids.take(theirs_ranked.docs)
        np.testing.assert_array_equal(ours_ranked.scores, theirs_ranked.scores)
    assert [ranked.depth for ranked in ours] == [50, 50, 0]


def test_bm25prf_ranks_without_idf(tiny):
    """One document has `fuse`, twice: its weight times tf / (tf + length factor), with no idf."""
    lists = Pipeline(tiny, FirstStage(feedback=BM25PRF(k1=1.2, b=0.0))).retrieve([tiny.query("fuse")])
    weight = np.log(1.5 * (6 - 1 - 1 + 1 + 0.5) / (0.5 * 0.5))
    assert lists[0].scores.tolist() == pytest.approx([weight * 2 / (2 + 1.2)], rel=1e-6)


def test_an_index_with_vectors_needs_no_forward_index_for_feedback(tmp_path):
    source = write_jsonl(tmp_path / "corpus.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "index"), "--no-forward"])
    index = Index(tmp_path / "index")
    assert Pipeline(index, FirstStage(feedback=RM3())).retrieve([index.query("tap water")])[0].depth
    assert index.expander is None and not (index.artefacts / "forward").exists()
    assert len(index.forward) == 6 and index.expander is not None


@pytest.mark.parametrize("text", ["", "a", "tap", "w" * 30, "señor", "日本語", "\U0001f600 x"])
def test_hashes_are_those_of_a_java_map(tiny, text):
    from jnius import autoclass

    data = text.encode()
    table = type("Table", (), {"arrays": (np.frombuffer(b"ab" + data + b"\x00", np.uint8), np.array([2, 2 + len(data)]))})()
    type(table).__getitem__ = lambda self, number: ["ab", text][number]
    code = autoclass("java.util.List").of(text).hashCode() - 31  # a list's hash is 31 + that of its element
    code &= 0xFFFFFFFF
    assert java_maps.hashes(table, np.array([1])).tolist() == [code ^ (code >> 16)]


@pytest.mark.parametrize("entries, buckets", [(0, 16), (1, 16), (12, 16), (13, 32), (24, 32), (25, 64), (48, 64), (49, 128)])
def test_maps_grow_when_three_quarters_full(entries, buckets):
    assert java_maps.capacity(np.array(entries)) == buckets


@pytest.mark.parametrize("other", ["\ue000", "\uee00", "\uf8ff", "\uff21"])
def test_javas_order_of_strings_is_that_of_utf_16(other):
    """Characters of four bytes, of which Java sees the surrogates, stand before those from U+E000 on."""
    for wide in ("\U00010000", "\U0001f600", "\U0010ffff"):
        words = sorted(["a", "é", wide, f"{wide}a", other, f"{other}b", f"a{wide}", f"a{other}"], key=str.encode)
        raw = [word.encode() for word in words]
        table = StringTable(np.frombuffer(b"".join(raw), dtype=np.uint8), np.cumsum([len(word) for word in raw]))
        ranks = java_maps.utf16_ranks(table)
        assert ranks is not None
        assert [words[place] for place in np.argsort(ranks)] == sorted(words, key=lambda word: word.encode("utf-16-be"))


def java_hash(text):
    """String.hashCode() over UTF-16 units, then HashMap's fold of the upper half into the lower."""
    code, raw = 0, text.encode("utf-16-be")
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        code = (31 * code + 256 * high + low) % 2**32
    return code ^ (code // 2**16)


def test_hashes_and_lengths_of_every_string_of_a_table():
    words = ["tap", "", "a", "x" * 40, "z" * 25 + "q", "é", "señor", "日本語", "\U0001f600 x", "tap"]
    raw = [word.encode() for word in words]
    table = StringTable(np.frombuffer(b"".join(raw), dtype=np.uint8), np.cumsum([len(word) for word in raw]))
    numbers = np.array([0, *range(len(words)), 3])
    assert java_maps.hashes(table, numbers).tolist() == [java_hash(words[number]) for number in numbers]
    assert java_maps.hashes(table, np.array([1])).tolist() == [0] and not len(java_maps.hashes(table, np.zeros(0)))
    assert java_maps.utf16_lengths(table).tolist() == [len(word.encode("utf-16-be")) // 2 for word in words]
    assert java_maps.utf16_ranks(table) is None  # no character from U+E000 to U+FFFF


def test_buckets_are_the_lowest_bits():
    hashed = np.array([0, 15, 16, 17, 2**32 - 1, 12345], dtype=np.uint32)
    assert java_maps.buckets(hashed, 12).tolist() == [value % 16 for value in hashed.tolist()]
    assert java_maps.buckets(hashed, np.array([1, 12, 13, 25, 100, 1000])).tolist() == [
        value % size for value, size in zip(hashed.tolist(), (16, 16, 32, 64, 256, 2048), strict=True)
    ]
