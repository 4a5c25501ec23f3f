"""The compiled loops over postings: equal to numpy, and safe with numbers that are out of range."""

from __future__ import annotations

import numpy as np
import pytest

from kernelsearch.core import compiled
from kernelsearch.core.errors import IndexProblem
from kernelsearch.core.rows import unit_products
from kernelsearch.kernels import bm25
from kernelsearch.kernels.tfidf import TfidfVectors, compiled_cosines, vocabulary_idf

built = pytest.mark.skipif(compiled.loops() is None, reason="installed without a C compiler")

INDPTR = np.array([0, 2, 2, 5], dtype=np.int64)
TERMS = np.array([1, 3, 0, 1, 4], dtype=np.int32)
TABLE = np.array([[0, 2, 0, 1, 0], [0, 0, 0, 0, 0], [1, 3, 0, 0, 70_000]])
DOCS = np.array([2, 0, 1, 2], dtype=np.int32)


def rows(docs=DOCS, dtype=np.int32, indptr=INDPTR, terms=TERMS):
    """Rows of three documents with five terms."""
    arrays = indptr, terms, np.array([2, 1, 1, 3, 70_000]).astype(dtype)
    arguments = compiled.posting_arguments(*arrays, 5)
    return compiled.PostingRows(compiled.loops(), arguments, arrays, np.asarray(docs, dtype=np.int32))


@built
@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.uint32])
def test_bm25_is_the_sum_over_the_table_of_frequencies(dtype):
    table = TABLE.astype(dtype)
    terms, weights = np.array([4, 1, 2]), np.array([0.5, 2.0, 1.0], dtype=np.float32)  # not ascending
    factors = np.array([0.3, 1.5, 1.0, 0.3], dtype=np.float32)
    expected = (weights - weights / (1 + table[DOCS][:, terms] * factors[:, None])).sum(axis=1)
    assert bm25.compiled_scores(rows(dtype=dtype), terms, weights, factors) == pytest.approx(expected, rel=1e-6)
    assert (expected > 0).tolist() == [True, True, False, True]


@built
def test_cosines_are_those_of_dense_vectors():
    idf, weights = np.array([1.0, 0.5, 2.0, 0.25, 0.001]), np.array([0.7, 0.3])
    vectors = TABLE[DOCS] * idf
    norms = np.linalg.norm(vectors, axis=1)
    unit = vectors / np.where(norms > 0, norms, 1)[:, None]
    cosines, inverse_norms = compiled_cosines(rows(), idf, weights)
    np.testing.assert_allclose(cosines, unit @ (weights @ unit[:2]), rtol=1e-12)
    np.testing.assert_allclose(inverse_norms, [1 / norm if norm else 0 for norm in norms], rtol=1e-12)


@built
def test_scores_of_an_index_are_numpys(demo_index, monkeypatch):
    forward, rng = demo_index.forward, np.random.default_rng(0)
    docs = rng.permutation(len(forward))[:50].astype(np.int32)
    terms = np.argsort(-np.asarray(forward.df))[3:40]
    weights, shares = rng.uniform(0.1, 2, len(terms)), rng.dirichlet(np.ones(7))

    def computed():
        vectors = TfidfVectors(forward, docs)
        return bm25.scores(forward, terms, weights, docs, k1=1.2, b=0.7), vectors.inverse_norms, vectors.mean_cosines(shares)

    with_loops = computed()
    monkeypatch.setenv(compiled.SWITCH, "0")
    assert forward.compiled_rows(docs) is None
    without = computed()
    np.testing.assert_array_equal(with_loops[0], without[0])  # to the last bit, as Lucene's
    np.testing.assert_allclose(with_loops[1], without[1], rtol=1e-12)
    np.testing.assert_allclose(with_loops[2], without[2], rtol=1e-12, atol=1e-15)
    assert (without[0] > 0).sum() > 10 and len(vocabulary_idf(forward)) == len(forward.terms)


@built
@pytest.mark.parametrize("dims", [1, 7, 8, 20])
def test_products_with_rows_of_unit_length(dims, monkeypatch):
    rng = np.random.default_rng(dims)
    table, scale, vector = (rng.normal(size=size).astype(np.float32) for size in ((9, 20), dims, dims))
    table[4] = 0
    docs = np.array([8, 4, 0, 8])
    scaled = (table[docs, :dims] * scale).astype(np.float64)
    norms = np.linalg.norm(scaled, axis=1)
    expected = np.divide(scaled @ vector, norms, out=np.zeros(4), where=norms > 0)
    assert unit_products(table, scale, vector, docs) == pytest.approx(expected, abs=1e-6)
    monkeypatch.setenv(compiled.SWITCH, "0")
    assert unit_products(table, scale, vector, docs) == pytest.approx(expected, abs=1e-5)


@built
@pytest.mark.parametrize(
    "case",
    [
        {"terms": np.array([1, 3, 0, 1, 5], dtype=np.int32)},
        {"terms": np.array([1, -3, 0, 1, 4], dtype=np.int32)},
        {"indptr": np.array([0, 2, 2, 6], dtype=np.int64)},
        {"indptr": np.array([0, 2, -1, 5], dtype=np.int64)},
        {"indptr": np.array([0, 2], dtype=np.int64)},
    ],
)
def test_numbers_out_of_range_are_refused(case):
    damaged, ones = rows(**case), np.ones(4, dtype=np.float32)
    with pytest.raises(IndexProblem, match="out of range"):
        bm25.compiled_scores(damaged, np.array([1]), ones[:1], ones)
    with pytest.raises(IndexProblem, match="out of range"):
        compiled_cosines(damaged, np.ones(5), np.ones(2))


@built
def test_rows_and_terms_out_of_range_are_refused():
    ones, table = np.ones(1, dtype=np.float32), np.ones((3, 2), dtype=np.float32)
    for doc in (-1, 3):
        with pytest.raises(IndexProblem, match="out of range"):
            bm25.compiled_scores(rows([doc]), np.array([1]), ones, ones)
        with pytest.raises(IndexProblem, match="out of range"):
            unit_products(table, ones, ones, np.array([doc]))
    with pytest.raises(IndexProblem, match="out of range"):
        bm25.compiled_scores(rows(DOCS[:1]), np.array([5]), ones, ones)
    with pytest.raises(ValueError, match="float64"):
        rows(dtype=np.float64)
