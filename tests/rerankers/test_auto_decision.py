"""`auto` ranks a query by words alone where its words are in one document and its vector is not near to any."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kernelsearch
from kernelsearch.core.types import Query
from kernelsearch.kernels.tfidf import vocabulary_idf
from kernelsearch.rerankers.auto.decision import coverage, may_decide, words_decide
from kernelsearch.rerankers.auto.reranker import AutoReranker
from kernelsearch.rerankers.base import Context
from kernelsearch.trec import read_topics
from kernelsearch.vectors import store
from kernelsearch.vectors.readers import open_vectors

from ..conftest import DEMO

#: d0 has all four words of QUERY, d1 and d2 three of them, d8 one.
TEXTS = [
    "copper kettle whistles loudly", "copper kettle whistles", "kettle whistles loudly", "steel pot", "glass jar", "clay oven",
    "wooden spoon", "paper plate", "kettle stand", "silver fork",
]  # fmt: skip
QUERY = "copper kettle whistles loudly"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Vectors in two dimensions: topic "far" is near to d3 to d7, topic "near" is near to d0 to d2."""
    folder = tmp_path_factory.mktemp("decision")
    documents = [{"id": f"d{number}", "contents": text} for number, text in enumerate(TEXTS)]
    built = kernelsearch.build(folder / "index", documents)
    vectors = np.array([[1, 0]] * 3 + [[0, 1]] * 5 + [[-1, 0]] * 2, dtype=np.float32) * np.linspace(1, 0.5, 10)[:, None]
    np.savez(folder / "v.npz", ids=np.array([document["id"] for document in documents]), vectors=vectors)
    np.savez(folder / "q.npz", ids=np.array(["far", "near"]), vectors=np.array([[0.1, 1], [1, 0.1]], dtype=np.float32))
    store.import_vectors(store.place(built.artefacts, "m"), built.forward, open_vectors(folder / "v.npz"))
    return kernelsearch.open(folder / "index", vectors={"queries": str(folder / "q.npz")})


def idf(documents):
    """Lucene's idf of a word that so many of the ten documents contain."""
    return math.log(1 + (10 - documents + 0.5) / (documents + 0.5))


def test_coverage_is_the_share_of_idf(index):
    query = index.query("copper kettle whistles loudly xylophone")  # in 2, 4, 3, 2 and 0 documents
    rows = np.array([index.row(docid) for docid in ("d0", "d1", "d8", "d5")])
    total = idf(2) + idf(4) + idf(3) + idf(2) + idf(1)  # the unknown word weighs as much as the rarest
    expected = [(total - idf(1)) / total, (total - idf(2) - idf(1)) / total, idf(4) / total, 0.0]
    assert coverage(index.forward, query, rows) == pytest.approx(expected, rel=1e-5)
    assert coverage(index.forward, index.query("the"), rows).tolist() == [0.0] * 4
    assert coverage(index.forward, query, rows[:0]).tolist() == []


def test_a_document_without_words_contains_nothing(tmp_path):
    built = kernelsearch.build(tmp_path / "index", [{"id": "1", "contents": "the"}, {"id": "2", "contents": "kettle"}])
    rows = np.array([built.row(docid) for docid in ("1", "2")])
    assert coverage(built.forward, built.query("kettle"), rows).tolist() == [0.0, 1.0]


def test_coverage_counts_the_first_term_of_the_vocabulary(tmp_path):
    """Its number is 0. It is in two of three documents and weighs less than the rarest words, as which unknown ones count."""
    built = kernelsearch.build(
        tmp_path / "index", [{"id": str(n), "contents": text} for n, text in enumerate(("apple pear", "apple plum", "quince"))]
    )
    assert built.forward.terms[0] == "appl"
    common, rare = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    shares = coverage(built.forward, built.query("apple quince"), np.array([built.row("1"), built.row("2")]))
    assert shares == pytest.approx(np.array([common, rare]) / (common + rare), rel=1e-5)


def rows(index, docids):
    return np.array([index.row(docid) for docid in docids], dtype=np.int64)


def decide(index, text, listed, near, nearness=None):
    return words_decide(index.forward, index.query(text), rows(index, listed), rows(index, near), nearness)


OTHERS = ["d3", "d4", "d5", "d6", "d7"]


def test_the_lead_is_decisive_above_a_bound_and_for_three_terms(index):
    assert "contains 100 percentage points more" in decide(index, QUERY, ["d0", "d1"], OTHERS)
    total = idf(2) + idf(4) + idf(3) + idf(2)
    lead = 1 - (total - idf(2) + idf(4)) / total / 5  # the mean over the nearest five
    assert f"contains {100 * lead:.0f} percentage points more" in decide(
        index, QUERY, ["d0"], ["d1", "d8", "d3", "d4", "d5", "d0", "d0"]
    )
    assert decide(index, QUERY, ["d0"], ["d0", "d1", "d2", "d3", "d4"]) is None  # 1 - 2.5/5
    assert decide(index, "copper kettle", ["d0"], OTHERS) is None
    assert decide(index, QUERY, [], ["d3"]) is None and decide(index, QUERY, ["d0"], []) is None
    assert decide(index, QUERY, ["d0"], OTHERS, nearness=0.99) is not None
    assert decide(index, QUERY, ["d0"], OTHERS, nearness=1.01) is None  # the vector is as near as vectors of documents are


def test_words_decide_where_the_vector_is_far_from_all_documents(index):
    near = ["d0", "d1", "d2", "d3", "d4"]
    assert "0.74 times what is usual" in decide(index, QUERY, ["d0"], near, nearness=0.74)
    assert "contains 100 % of the query" in decide(index, "kettle", ["d8"], ["d0"], nearness=0.5)  # one word is enough
    assert decide(index, QUERY, ["d0"], near, nearness=0.76) is None
    assert decide(index, QUERY, ["d1"], near, nearness=0.5) is None  # d1 lacks a word of four


@pytest.mark.parametrize(("listed", "text"), [("d0", QUERY), ("d1", QUERY), ("d8", QUERY), ("d8", "kettle"), ("d5", QUERY)])
def test_no_query_is_left_out_that_words_could_decide(index, listed, text):
    most = decide(index, text, [listed], OTHERS, nearness=0.0) or decide(index, text, [listed], OTHERS)
    possible = may_decide(index.forward, index.query(text), rows(index, [listed]))
    assert possible or most is None
    assert possible == (listed in ("d0", "d1") or text == "kettle")


def test_a_query_far_from_all_documents_is_ranked_by_words(tmp_path):
    """Vectors in two clusters; one topic lies in a cluster, the vector of the other is at right angles to both."""
    texts = [f"word{number} common{number % 7}" for number in range(120)]
    built = kernelsearch.build(tmp_path / "index", [{"id": f"d{n}", "contents": text} for n, text in enumerate(texts)])
    noise = np.random.default_rng(0).standard_normal((120, 8)) * 0.05
    vectors = np.eye(8)[np.arange(120) % 2] + noise
    np.savez(tmp_path / "v.npz", ids=np.array([f"d{n}" for n in range(120)]), vectors=vectors)
    np.savez(tmp_path / "q.npz", ids=np.array(["in", "out"]), vectors=np.eye(8)[[0, 5]])
    store.import_vectors(store.place(built.artefacts, "m"), built.forward, open_vectors(tmp_path / "v.npz"))
    index = kernelsearch.open(tmp_path / "index", vectors={"queries": str(tmp_path / "q.npz")})
    queries = [index.query("word4 common4", "in"), index.query("word4 common4", "out")]
    assert AutoReranker(index).ranked_by_words(queries, index.lucene.search(queries, 10)) == [False, True]


def test_such_queries_are_ranked_by_words_alone(index):
    queries = [index.query(QUERY, "far"), index.query(QUERY, "near")]
    lists = index.lucene.search(queries, 10)
    context = Context(hits=10)
    both, words = AutoReranker(index), AutoReranker(index, vectors="none")
    ranked, by_words = (reranker.apply_batch(queries, lists, context) for reranker in (both, words))
    assert ranked[0].docs.tolist() == by_words[0].docs.tolist() and ranked[0].scores.tolist() == by_words[0].scores.tolist()
    assert ranked[1].scores.tolist() != by_words[1].scores.tolist()
    first = int(ranked[0].docs[0])
    explanation = both.explain(queries[0], lists[0], first, context)
    assert explanation.score == pytest.approx(words.explain(queries[0], lists[0], first, context).score)
    assert explanation.notes["decision"]["reasons"][-1].startswith(
        "words alone: the first document by words contains 100 percentage"
    )
    assert "evidence" in both.explain(queries[1], lists[1], first, context).notes


def test_the_nearest_documents_matter_only_where_words_may_decide(demo_index):
    """Whatever documents are near, words don't decide where the first document contains too little of the query."""
    forward, random = demo_index.forward, np.random.default_rng(0)
    decided = []
    for text in read_topics(DEMO / "topics.tsv").values():
        query = demo_index.query(f"{text} unheardof")
        for _ in range(5):
            listed, near = random.permutation(len(forward))[:3], random.permutation(len(forward))[:5]
            best = demo_index.lucene.search([query], 1)[0].docs
            for first in (listed, best):
                for nearness in (None, 0.5, 0.9):
                    reason = words_decide(forward, query, first, near, nearness)
                    decided.append((reason is not None, may_decide(forward, query, first)))
    assert (True, False) not in decided
    assert {(True, True), (False, False), (False, True)} <= set(decided)
    query = demo_index.query("unheardof words")
    assert not may_decide(forward, query, np.zeros(0, dtype=np.int32))


def test_bounds_of_the_decision(tmp_path):
    """Ten words, each in one document of its own and in the first: the share of the query is that of its words, exactly.

    Nine of ten words are enough where the vector is far, six of ten where no near document has one, and a lead of .6 is not."""
    words = [f"word{number}" for number in range(10)]
    texts = {
        "most": " ".join(words[:9]),
        "eight": " ".join(words[:8]),
        "six": " ".join(words[:6]),
        "last": words[9],
        "none": "x",
    }
    built = kernelsearch.build(
        tmp_path / "index",
        [{"id": docid, "contents": text} for docid, text in texts.items()] + [{"id": "rest", "contents": " ".join(words[6:])}],
    )
    weights = vocabulary_idf(built.forward)[built.forward.term_ids(words)]
    query = Query("", tuple(words), tuple((1 / weights).tolist()))  # every word counts the same
    row = {docid: built.forward.rows_of([docid]) for docid in (*texts, "rest")}
    assert coverage(built.forward, query, np.concatenate([row["most"], row["six"]])) == pytest.approx([0.9, 0.6])

    def decided(first, near, nearness, asked=query):
        return words_decide(built.forward, asked, row[first], row[near], nearness)

    assert decided("most", "most", 0.74) is not None and decided("eight", "eight", 0.74) is None
    assert f"contains {90} % of the query" in decided("most", "most", 0.5)
    assert decided("most", "most", 0.75) is None  # not below
    assert decided("six", "none", None) is None and decided("eight", "none", None) is not None  # a lead of .6 is not more
    assert decided("eight", "none", 0.999) is not None and decided("eight", "none", 1.0) is None
    assert may_decide(built.forward, query, row["six"]) and not may_decide(built.forward, query, row["rest"])
    three, two = (Query("", query.terms[:count], query.weights[:count]) for count in (3, 2))
    assert decided("most", "none", None, three) is not None and decided("most", "none", None, two) is None
    assert words_decide(built.forward, query, row["most"], np.zeros(0, dtype=int), 0.1) is None
    assert words_decide(built.forward, query, np.zeros(0, dtype=int), row["none"], 0.1) is None
