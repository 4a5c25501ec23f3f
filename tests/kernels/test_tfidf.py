"""tf·idf vectors from one reading of the postings are those of the kernel `cosine`."""

from __future__ import annotations

import numpy as np
import pytest

from kernelsearch.kernels import ranking_models
from kernelsearch.kernels.documents import Cosine
from kernelsearch.kernels.tfidf import TfidfVectors


def test_cosines_are_those_of_the_kernel(tiny):
    docs = tiny.forward.rows_of(["d5", "d4", "d1", "d2"])  # d4 has stop words only
    vectors = TfidfVectors(tiny.forward, docs)
    query = tiny.query("dripping tap water water unknown")
    result = vectors.query_cosines(tiny.forward.term_ids(query.terms), query.weights)
    assert result == pytest.approx(Cosine().scores(tiny.forward, query, docs))
    assert result[1] == 0 and result[2] > 0
    between = Cosine().documents(tiny.forward, docs, docs[:3])
    assert vectors.mean_cosines(np.array([0.5, 0.3, 0.2])) == pytest.approx(between @ [0.5, 0.3, 0.2])


def test_a_query_without_known_terms_is_like_nothing(tiny):
    vectors = TfidfVectors(tiny.forward, np.array([0, 1]))
    assert vectors.query_cosines(np.array([-1]), [1.0]).tolist() == [0, 0]


@pytest.mark.parametrize(
    "whole, parts, options",
    [
        (ranking_models.bm25_scores, ranking_models.bm25_term_scores, {"k1": 1.2, "b": 0.75}),
        (ranking_models.bm25_scores, ranking_models.bm25_term_scores, {"k1": 0.0, "b": 0.75}),
        (ranking_models.dirichlet_scores, ranking_models.dirichlet_term_scores, {"mu": 20.0}),
        (ranking_models.jelinek_mercer_scores, ranking_models.jelinek_mercer_term_scores, {"lam": 0.3}),
    ],
)
def test_scores_are_the_sums_of_the_terms_parts(tiny, whole, parts, options):
    """Also where a term is there twice, or unknown, and for documents without any of them."""
    docs = np.arange(6)
    terms = tiny.forward.term_ids(["tap", "xyz", "water", "tap", "panel"])
    weights = [1.0, 2.0, 0.5, 0.25, 3.0]
    expected = parts(tiny.forward, terms, weights, docs, **options).sum(axis=1)
    assert whole(tiny.forward, terms, weights, docs, **options) == pytest.approx(expected, rel=1e-6)
    assert (expected == 0).any() and (expected > 0).any()
