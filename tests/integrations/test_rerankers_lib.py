"""The adapter for AnswerDotAI's rerankers library."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from kernelsearch.core.errors import InputError

pytest.importorskip("rerankers")
from rerankers.documents import Document
from rerankers.models.ranker import BaseRanker

from kernelsearch.integrations.rerankers_lib import KernelRanker

TEXT = "dripping tap"


@pytest.fixture(scope="module")
def ranker(demo_index):
    return KernelRanker(demo_index, "pert")


@pytest.fixture(scope="module")
def docids(demo_index):
    return demo_index.search(TEXT, k=15).docids


def test_documents_are_ranked_as_the_index_ranks_them(demo_index, ranker, docids):
    shuffled = sorted(docids)
    results = ranker.rank(TEXT, docs=[f"text of {docid}" for docid in shuffled], doc_ids=shuffled)
    assert isinstance(ranker, BaseRanker)
    assert results.has_scores
    assert [result.rank for result in results] == list(range(1, 16))
    ranked = demo_index.lucene.search([demo_index.query(TEXT)], 15)[0]
    expected = ranker._reranker._apply([demo_index.query(TEXT)], [ranked])[0]
    assert [result.doc_id for result in results] == demo_index.forward.docids.take(expected.docs)
    np.testing.assert_allclose([result.score for result in results], expected.scores, rtol=1e-6)
    assert all(result.text == f"text of {result.doc_id}" for result in results)
    assert [result.doc_id for result in results.top_k(3)] == [result.doc_id for result in results[:3]]


def test_all_forms_of_documents_are_taken(ranker, docids):
    plain = ranker.rank(TEXT, ["a"] * 15, docids)
    objects = ranker.rank(TEXT, [Document(text="a", doc_id=docid, metadata={"n": 1}) for docid in docids])
    assert [result.doc_id for result in objects] == [result.doc_id for result in plain]
    assert objects[0].document.metadata == {"n": 1}
    named = ranker.rank(TEXT, [Document(text="a", doc_id=docids[0], metadata={"n": 1})], metadata=[{"n": 2}])
    assert named[0].document.metadata == {"n": 2}
    assert asyncio.run(ranker.rank_async(TEXT, ["a"] * 15, docids))[0].doc_id == plain[0].doc_id
    assert ranker.rank(TEXT, "one", [docids[0]])[0].doc_id == docids[0]
    single = ranker.rank(TEXT, "one", docids[0], {"n": 3})  # as the library's own rankers take one document
    assert single[0].doc_id == docids[0] and single[0].document.metadata == {"n": 3}
    assert ranker.score(TEXT, "one", docids[0]) == ranker.score(TEXT, Document(text="a", doc_id=docids[0])) == single[0].score


def test_documents_without_a_known_id_are_named(ranker):
    with pytest.raises(InputError, match="doc_ids are needed"):
        ranker.rank(TEXT, ["a text"])
    with pytest.raises(InputError, match="doc_ids are needed"):
        ranker.score(TEXT, "a text")
    with pytest.raises(InputError, match="1 documents but 2 doc_ids"):
        ranker.rank(TEXT, ["a text"], ["1", "2"])
    with pytest.raises(InputError, match="2 documents but 1 doc_ids"):
        ranker.rank(TEXT, ["a text", "another"], "12")
    with pytest.raises(InputError, match="document 0 has no doc_id"):
        ranker.rank(TEXT, [Document(text="a")])
    with pytest.raises(InputError, match="such as elsewhere"):
        ranker.rank(TEXT, ["a"], ["elsewhere"])
