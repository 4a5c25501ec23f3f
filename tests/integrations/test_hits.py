"""KernelReranker on lists of any objects with a docid and a score."""

from __future__ import annotations

import dataclasses
from collections import namedtuple

import numpy as np
import pytest

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.integrations.pyserini import KernelReranker, KernelSearcher
from kernelsearch.lucene.models import BM25Model, DirichletModel
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Reranker


@dataclasses.dataclass
class Dense:
    """As FaissSearcher's DenseSearchResult."""

    docid: str
    score: float


@dataclasses.dataclass(frozen=True)
class Frozen:
    docid: str
    score: float
    note: str = "kept"


class Plain:
    def __init__(self, docid, score):
        self.docid, self.score, self.extra = docid, score, object()


class Slotted:
    __slots__ = ("docid", "score")

    def __init__(self, docid, score):
        self.docid, self.score = docid, score


class Watched:
    """A hit whose score is a property."""

    def __init__(self, docid, score):
        self.docid, self._score = docid, score

    @property
    def score(self):
        return self._score

    @score.setter
    def score(self, value):
        self._score = value


Tuple = namedtuple("Tuple", "docid score")
TEXT = "dripping tap"


@pytest.fixture
def hits(demo_index):
    return KernelSearcher(demo_index).search(TEXT, 50)


@pytest.mark.parametrize("kind", [Dense, Frozen, Plain, Tuple, Slotted, Watched])
def test_hits_come_back_sorted_and_of_the_same_type(demo_index, hits, kind):
    passed = [kind(hit.docid, hit.score) for hit in hits]
    before = [(hit.docid, hit.score) for hit in passed]
    ranked = KernelReranker(demo_index, "pert").rerank(TEXT, passed)
    assert {type(hit) for hit in ranked} == {kind}
    assert sorted(hit.docid for hit in ranked) == sorted(hit.docid for hit in passed)
    assert [hit.score for hit in ranked] == sorted((hit.score for hit in ranked), reverse=True)
    assert [(hit.docid, hit.score) for hit in passed] == before, "the caller's hits are left as they were"
    if kind is Plain:
        extras = {hit.docid: hit.extra for hit in passed}
        assert all(hit.extra is extras[hit.docid] for hit in ranked)


@pytest.mark.parametrize("name", registry.names())
def test_every_method_keeps_the_lists_documents(ready, hits, name):
    ranked = KernelReranker(ready(name), name).rerank(TEXT, hits)
    assert sorted(hit.docid for hit in ranked) == sorted(hit.docid for hit in hits)
    assert all(isinstance(hit.score, float) for hit in ranked)


def test_scores_are_the_methods_own(demo_index, hits):
    reranker = KernelReranker(demo_index, "pert", pert_alpha=0.6)
    result = demo_index.lucene.search([demo_index.query(TEXT)], 50)[0]
    expected = Reranker.apply(reranker.pipeline.rerankers[0], demo_index.query(TEXT), result)
    raw = [Dense(docid, score) for docid, score in zip(demo_index.forward.docids.take(result.docs), result.scores, strict=True)]
    ranked = reranker.rerank(TEXT, raw)
    assert [hit.docid for hit in ranked] == demo_index.forward.docids.take(expected.docs)
    np.testing.assert_allclose([hit.score for hit in ranked], expected.scores, rtol=1e-6)


def test_two_lists_go_in_and_come_out_as_with_pyserinis_reranker(demo_index, hits):
    reranker = KernelReranker(demo_index, "pert")
    scores, docids = reranker.rerank([hit.docid for hit in hits], [hit.score for hit in hits], query=TEXT)
    ranked = reranker.rerank(TEXT, hits)
    assert docids == [hit.docid for hit in ranked]
    assert scores == [hit.score for hit in ranked]
    assert (type(scores), type(docids)) == (list, list)


def test_the_order_that_hits_are_given_in_does_not_matter(demo_index, hits):
    reranker = KernelReranker(demo_index, "pert")
    assert [hit.docid for hit in reranker.rerank(TEXT, hits[::-1])] == [hit.docid for hit in reranker.rerank(TEXT, hits)]


def test_many_lists_at_once(demo_index, hits):
    reranker = KernelReranker(demo_index, "pert")
    both = reranker.batch_rerank({"a": TEXT, "b": "blown fuse"}, {"a": hits, "b": hits[:5]})
    assert [hit.docid for hit in both["a"]] == [hit.docid for hit in reranker.rerank(TEXT, hits)]
    assert [hit.docid for hit in both["b"]] == [hit.docid for hit in reranker.rerank("blown fuse", hits[:5])]
    with pytest.raises(InputError, match="topic 'b' has hits but no query"):
        reranker.batch_rerank({"a": TEXT}, {"b": hits})


def test_a_document_listed_twice_stays_twice(demo_index, hits):
    passed = [Dense(hit.docid, hit.score) for hit in hits[:5]]
    ranked = KernelReranker(demo_index, "pert").rerank(TEXT, [*passed, passed[0]])
    assert sorted(hit.docid for hit in ranked) == sorted([*(hit.docid for hit in passed), passed[0].docid])


def test_no_hits_are_no_hits(demo_index):
    assert KernelReranker(demo_index, "pert").rerank(TEXT, []) == []
    assert KernelReranker(demo_index, "pert").rerank([], [], query=TEXT) == ([], [])


def test_unknown_documents_are_refused_or_left_behind(demo_index, hits):
    passed = [Dense("elsewhere-1", 99.0), *(Dense(hit.docid, hit.score) for hit in hits[:5]), Dense("elsewhere-2", 98.0)]
    with pytest.raises(InputError, match=r"2 of 7 documents are not in .*, such as elsewhere-1, elsewhere-2"):
        KernelReranker(demo_index, "pert").rerank(TEXT, passed)
    ranked = KernelReranker(demo_index, "pert", missing="last").rerank(TEXT, passed)
    assert [hit.docid for hit in ranked[-2:]] == ["elsewhere-1", "elsewhere-2"]
    assert [hit.score for hit in ranked] == sorted((hit.score for hit in ranked), reverse=True)


def test_a_searchers_ranking_model_is_taken_over(demo_index):
    searcher = KernelSearcher(demo_index)
    searcher.set_qld(321)
    assert KernelReranker(searcher, "pert").pipeline.context().model == DirichletModel(321.0)
    searcher.set_bm25(1.3, 0.7)
    assert KernelReranker(searcher, "pert").pipeline.first.model == BM25Model(1.3, 0.7)
    assert KernelReranker(searcher, "pert", k1=2.0).pipeline.first.model == BM25Model(2.0, 0.4)


def test_bad_input_is_named(demo_index, hits):
    reranker = KernelReranker(demo_index, "pert")
    with pytest.raises(InputError, match="the query's text is needed too"):
        reranker.rerank(["a"], [1.0])
    with pytest.raises(InputError, match="2 documents but 1 scores"):
        reranker.rerank(["a", "b"], [1.0], query=TEXT)
    with pytest.raises(InputError, match="a score is not a finite number"):
        reranker.rerank(TEXT, [Dense(hits[0].docid, float("nan"))])
    with pytest.raises(OptionError, match="missing: 'sometimes' is not one of refuse, last"):
        KernelReranker(demo_index, "pert", missing="sometimes")
    with pytest.raises(OptionError, match="no method is named"):
        KernelReranker(demo_index, None)
