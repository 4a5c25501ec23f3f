"""The bound on what feedback can cost a query: by hand, as a property of random orders, and in lists and explanations."""

import numpy as np
import pytest

from kernelsearch.demo import DATA
from kernelsearch.rerankers.auto.bound import FACTOR, lifts
from kernelsearch.rerankers.auto.reranker import AutoReranker
from kernelsearch.trec import read_topics


def test_places_by_hand():
    """By sum a b c d e, by match e d c b a: e gets 1.5 · 1, so it is second; d gets 1.5 · 2 = 3, as c has by its sum."""
    sums = np.array([9.0, 8.0, 6.0, 5.0, 1.0])
    lifted = sums + lifts(sums, np.arange(5), np.arange(5)[::-1])
    assert np.argsort(-lifted).tolist() == [0, 4, 1, 2, 3]
    assert lifted.tolist() == [9.0, 8.0, 6.0, 5.0, 8.5]  # e is between a and b; d passes nothing


def test_nothing_moves_where_the_orders_agree_or_the_factor_is_large():
    generator = np.random.default_rng(0)
    sums = generator.normal(size=30)
    order = np.argsort(-sums)
    assert not lifts(sums, order, order).any()
    assert not lifts(sums, order, generator.permutation(30), factor=30.0).any()
    assert lifts(np.array([3.0]), np.array([0]), np.array([0])).tolist() == [0.0]


@pytest.mark.parametrize("factor", [FACTOR, 1.0, 2.0, 3.7])
def test_no_document_is_further_below_its_place_by_match_than_the_bound(factor):
    """For random orders; and the documents that are not moved keep their scores and their order."""
    generator = np.random.default_rng(1)
    farthest = 0.0
    for _ in range(200):
        count = int(generator.integers(1, 60))
        sums = generator.normal(size=count)
        by_sum, by_match = np.argsort(-sums), generator.permutation(count)
        added = lifts(sums, by_sum, by_match, factor)
        lifted = sums + added
        assert len(set(lifted.tolist())) == count and (added >= 0).all()
        place = np.empty(count)
        place[np.argsort(-lifted)] = np.arange(1, count + 1)
        ranks = np.arange(1, count + 1)
        assert (place[by_match] <= np.floor(factor * ranks) + ranks).all()
        farthest = max(farthest, float((place[by_match] / ranks).max()))
        expected = sorted(
            range(count), key=lambda doc: (min(by_sum.tolist().index(doc) + 1, factor * (by_match.tolist().index(doc) + 1)),
                                           by_sum.tolist().index(doc))
        )  # fmt: skip
        assert np.argsort(-lifted).tolist() == expected
        unmoved = [doc for doc in by_sum.tolist() if added[doc] == 0]
        assert sorted(unmoved, key=lambda doc: place[doc]) == unmoved
    assert farthest > 1.5  # the bound is needed in these orders


@pytest.fixture(scope="module")
def moved(demo_index):
    """A query of the bundled collection with a document that the bound moves up: reranker, query, list, row, reranked list."""
    reranker = AutoReranker(demo_index)
    for text in read_topics(DATA / "topics.tsv").values():
        query = demo_index.query(text)
        candidates = demo_index.lucene.search([query], 100)[0]
        ranked = reranker.apply(query, candidates)
        for doc in ranked.docs[:10].tolist():
            explanation = reranker.explain(query, candidates, doc)
            if explanation.contributions[-1].label == "bound":
                return reranker, query, candidates, doc, ranked
    raise AssertionError("the bound moves nothing in the bundled collection")


def test_the_explanation_of_a_moved_document_sums_to_its_score(moved):
    reranker, query, candidates, doc, ranked = moved
    explanation = reranker.explain(query, candidates, doc)
    score = float(ranked.scores[ranked.docs.tolist().index(doc)])
    assert sum(part.value for part in explanation.contributions) == pytest.approx(score, abs=1e-9)
    assert explanation.score == pytest.approx(score, abs=1e-9)
    decision = explanation.notes["decision"]
    assert sum(decision["parts"].values()) == pytest.approx(score, abs=1e-3) and decision["parts"]["bound"] > 0
    assert decision["reasons"][-1].startswith("bound: ")


def test_without_the_bound_the_document_is_lower(moved, monkeypatch):
    reranker, query, candidates, doc, ranked = moved
    monkeypatch.setattr("kernelsearch.rerankers.auto.bound.lifts", lambda sums, by_sum, by_match: np.zeros(len(sums)))
    unbounded = reranker.apply(query, candidates)
    assert unbounded.docs.tolist().index(doc) > ranked.docs.tolist().index(doc)
    assert sorted(unbounded.docs.tolist()) == sorted(ranked.docs.tolist())


def test_a_picture_of_a_moved_document(moved, tmp_path):
    reranker, query, candidates, doc, _ = moved
    reranker.plot(query, candidates, doc, tmp_path / "moved.svg")
    assert "bound" in (tmp_path / "moved.svg").read_text(encoding="utf-8")
