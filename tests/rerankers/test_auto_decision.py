"""`auto` ranks a query by words alone where the first document by words has far more of it than the nearest by vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kernelsearch
from kernelsearch.rerankers.auto.decision import coverage, may_lead, words_lead
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


def test_the_lead_is_decisive_above_a_bound_and_for_three_terms(index):
    def lead(text, listed, near):
        return words_lead(index.forward, index.query(text), *(np.array([index.row(d) for d in ids]) for ids in (listed, near)))

    assert lead(QUERY, ["d0", "d1"], ["d3", "d4", "d5", "d6", "d7"]) == pytest.approx(1.0)
    total = idf(2) + idf(4) + idf(3) + idf(2)
    assert lead(QUERY, ["d0"], ["d1", "d8", "d3", "d4", "d5", "d0", "d0"]) == pytest.approx(
        1 - (total - idf(2) + idf(4)) / total / 5  # the mean over the nearest five
    )
    assert lead(QUERY, ["d0"], ["d0", "d1", "d2", "d3", "d4"]) is None  # 1 - 2.5/5
    assert lead("copper kettle", ["d0"], ["d3", "d4", "d5", "d6", "d7"]) is None
    assert lead(QUERY, [], ["d3"]) is None and lead(QUERY, ["d0"], []) is None


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


def test_the_nearest_documents_matter_only_where_words_may_lead(demo_index):
    """Whatever documents are near, no lead is decisive where the first document contains too little of the query."""
    forward, random = demo_index.forward, np.random.default_rng(0)
    decided = []
    for text in read_topics(DEMO / "topics.tsv").values():
        query = demo_index.query(f"{text} unheardof")
        for _ in range(5):
            listed, near = random.permutation(len(forward))[:3], random.permutation(len(forward))[:5]
            best = demo_index.lucene.search([query], 1)[0].docs
            for first in (listed, best):
                lead = words_lead(forward, query, first, near)
                decided.append((lead is not None, may_lead(forward, query, first)))
    assert (True, False) not in decided
    assert {(True, True), (False, False), (False, True)} <= set(decided)
    query = demo_index.query("unheardof words")
    assert not may_lead(forward, query, np.zeros(0, dtype=np.int32))
