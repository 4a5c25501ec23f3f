"""Pseudo-relevance classifiers against scikit-learn called by hand; tests/pyserini compares them with Pyserini's own."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from kernelsearch.core.types import Candidates
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.rerankers.prcl.reranker import RelevanceClassifier

TEXT = "how do I repair a leaking tap in the house"


@pytest.fixture
def candidates(demo_index):
    return demo_index.lucene.search([demo_index.query(TEXT)], 100)[0]


def by_hand(index, docs):
    """Rows of tf * ln(N / df), each of length 1, over the words of more than five documents, by the definition."""
    forward = index.forward
    rows = np.zeros((len(docs), len(forward.terms)))
    for place, doc in enumerate(docs.tolist()):
        part = slice(forward.indptr[doc], forward.indptr[doc + 1])
        for term, count in zip(forward.indices[part].tolist(), forward.frequencies[part].tolist(), strict=True):
            if forward.df[term] > 5:
                rows[place, term] = count * math.log(len(forward) / forward.df[term])
        rows[place] /= np.linalg.norm(rows[place])
    return rows


def test_scores_by_hand(demo_index, candidates):
    reranker = RelevanceClassifier(demo_index, r=4, n=20, alpha=0.3)
    vectors = by_hand(demo_index, candidates.docs)
    model = LogisticRegression(random_state=42).fit(np.r_[vectors[:4], vectors[-20:]], [1] * 4 + [0] * 20)
    learned, first = model.predict_proba(vectors)[:, 1], candidates.scores.astype(float)
    scaled = [(values - values.min()) / (values.max() - values.min()) for values in (learned, first)]
    expected = 0.3 * scaled[0] + 0.7 * scaled[1]
    np.testing.assert_allclose(reranker.score(demo_index.query(TEXT), candidates), expected, atol=1e-6)


def test_short_lists_equal_scores_and_no_weight_leave_the_list_alone(demo_index, candidates):
    query = demo_index.query(TEXT)
    few = Candidates(candidates.docs[:110], candidates.scores[:110])
    with pytest.raises(CannotAct, match="no more than r \\+ n = 110 documents"):
        RelevanceClassifier(demo_index).score(query, few)
    with pytest.raises(CannotAct, match="all scores are equal"):
        RelevanceClassifier(demo_index, r=2, n=2).score(query, Candidates(candidates.docs, np.ones(candidates.depth)))
    with pytest.raises(CannotAct, match="alpha is 0"):
        RelevanceClassifier(demo_index, alpha=0, r=2, n=2).score(query, candidates)


def test_bm25_vectors_by_hand(demo_index, candidates):
    """Rows of Lucene's BM25 weights with Pyserini's k1 = 0.9 and b = 0.4, each of length 1."""
    forward = demo_index.forward
    documents, average = len(forward), forward.lengths.sum() / len(forward)
    rows = np.zeros((len(candidates.docs), len(forward.terms)))
    for place, doc in enumerate(candidates.docs.tolist()):
        part = slice(forward.indptr[doc], forward.indptr[doc + 1])
        for term, count in zip(forward.indices[part].tolist(), forward.frequencies[part].tolist(), strict=True):
            if (df := int(forward.df[term])) > 5:
                idf = math.log(1 + (documents - df + 0.5) / (df + 0.5))
                rows[place, term] = idf * count / (count + 0.9 * (0.6 + 0.4 * forward.lengths[doc] / average))
        rows[place] /= np.linalg.norm(rows[place])
    model = LogisticRegression(random_state=42).fit(np.r_[rows[:4], rows[-20:]], [1] * 4 + [0] * 20)
    learned = model.predict_proba(rows)[:, 1]
    expected = (learned - learned.min()) / (learned.max() - learned.min())
    reranker = RelevanceClassifier(demo_index, r=4, n=20, alpha=1.0, vectorizer="BM25Vectorizer")
    np.testing.assert_allclose(reranker.score(demo_index.query(TEXT), candidates), expected, atol=2e-3)


def test_documents_of_rare_terms_leave_the_list_alone(tiny):
    query = tiny.query("water tap replace washer fuse")
    candidates = tiny.lucene.search([query], 10)[0]
    assert candidates.depth > 2
    ((_, reason),) = RelevanceClassifier(tiny, r=1, n=1).apply(query, candidates).fallbacks
    assert "more than 5 documents" in reason


def test_both_classifiers_are_averaged_and_explained(demo_index, candidates):
    """Logistic regression and a linear SVM with Pyserini's seed, scaled to 0..1 each, by scikit-learn."""
    reranker = RelevanceClassifier(demo_index, classifiers="lr,svm", r=4, n=20, alpha=0.3)
    vectors, labels = by_hand(demo_index, candidates.docs), [1] * 4 + [0] * 20
    ends = np.r_[vectors[:4], vectors[-20:]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        models = [
            LogisticRegression(random_state=42).fit(ends, labels),
            SVC(kernel="linear", probability=True, random_state=42).fit(ends, labels),
        ]
    learned = [model.predict_proba(vectors)[:, 1] for model in models]
    scaled = [(values - values.min()) / np.ptp(values) for values in (*learned, candidates.scores.astype(float))]
    query = demo_index.query(TEXT)
    np.testing.assert_allclose(
        reranker.score(query, candidates), 0.3 * (scaled[0] + scaled[1]) / 2 + 0.7 * scaled[2], atol=2e-5
    )
    why = reranker.explain(query, candidates, int(candidates.docs[9]))
    expected = [0.3 * scaled[0][9] / 2, 0.3 * scaled[1][9] / 2, 0.7 * scaled[2][9]]
    assert [part.value for part in why.contributions] == pytest.approx(expected, abs=2e-5)
    assert why.contributions[2].detail == f"{scaled[2][9]:.4f} of 1, weight 0.7"
    assert why.contributions[0].detail.endswith(" of 1, weight 0.3")


def test_a_list_needs_more_documents_than_both_ends(demo_index, candidates):
    query = demo_index.query(TEXT)
    assert candidates.depth == 100
    with pytest.raises(CannotAct, match="no more than r \\+ n = 100 documents"):
        RelevanceClassifier(demo_index, r=4, n=96).score(query, candidates)
    assert np.isfinite(RelevanceClassifier(demo_index, r=4, n=95).score(query, candidates)).all()
