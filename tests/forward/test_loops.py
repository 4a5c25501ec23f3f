"""The compiled loops over postings: equal to numpy, and safe with numbers that are out of range."""

from __future__ import annotations

import numpy as np
import pytest

from kernelsearch.core import compiled
from kernelsearch.core.errors import IndexProblem
from kernelsearch.core.rows import unit_products
from kernelsearch.forward.index import compiled_term_frequencies
from kernelsearch.kernels import ranking_models
from kernelsearch.kernels.tfidf import (
    TfidfVectors,
    compiled_cosines,
    compiled_inverse_norms,
    compiled_products,
    known_inverse_norms,
    vocabulary_idf,
)

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
@pytest.mark.parametrize("queries", [1, 3, 8, 9, 17])
def test_bm25_is_the_sum_over_the_table_of_frequencies(dtype, queries):
    """For fewer and more queries than are added up together, some of them without some of the terms."""
    table, rng, terms = TABLE.astype(dtype), np.random.default_rng(queries), np.array([1, 2, 4])
    weights = (rng.uniform(0.5, 2, (3, queries)) * (rng.random((3, queries)) < 0.7)).astype(np.float32)
    weights[:, 0] = [2.0, 1.0, 0.5]
    factors = rng.uniform(0.3, 1.5, (queries, 4)).astype(np.float32)
    frequencies = table[DOCS][:, terms]
    expected = [(w - w / (1 + frequencies * factor[:, None])).sum(axis=1) for w, factor in zip(weights.T, factors, strict=True)]
    scores = ranking_models.compiled_bm25_scores(rows(dtype=dtype), terms, weights, factors)
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    assert (scores[0] > 0).tolist() == [True, True, False, True]


@built
@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.uint32])
def test_frequencies_of_terms_are_those_of_the_table(dtype):
    for terms in ([1, 3, 4], [2], [0, 1, 2, 3, 4], []):
        numbers = np.array(terms, dtype=np.int64)
        expected = TABLE.astype(dtype)[DOCS][:, numbers]
        np.testing.assert_array_equal(compiled_term_frequencies(rows(dtype=dtype), numbers), expected)


@built
def test_occurrences_and_frequencies_of_an_index_are_numpys(demo_index, monkeypatch):
    """Terms in any order, unknown ones, and for frequencies terms that are there twice."""
    forward, rng = demo_index.forward, np.random.default_rng(1)
    docs = rng.permutation(len(forward))[:40].astype(np.int32)
    distinct = np.concatenate([[-1], rng.permutation(np.argsort(-np.asarray(forward.df))[:30])])
    asked = [distinct, distinct[1:], distinct[:1], distinct[:0]]
    repeated = [np.concatenate([terms, terms[:5]]) for terms in asked]
    with_loops = [forward.occurrences(docs, terms) for terms in asked]
    tables = [forward.term_frequencies(docs, terms) for terms in repeated]
    monkeypatch.setenv(compiled.SWITCH, "0")
    dense = forward.matrix(docs).toarray()
    for terms, ours in zip(asked, with_loops, strict=True):
        for array, other in zip(ours, forward.occurrences(docs, terms), strict=True):
            np.testing.assert_array_equal(array, other)
    for terms, ours in zip(repeated, tables, strict=True):
        np.testing.assert_array_equal(ours, np.where(terms >= 0, dense[:, terms], 0))
        np.testing.assert_array_equal(ours, forward.term_frequencies(docs, terms))
    assert len(with_loops[0].rows) > 100


@built
def test_cosines_are_those_of_dense_vectors():
    idf, weights = np.array([1.0, 0.5, 2.0, 0.25, 0.001]), np.array([0.7, 0.3])
    vectors = TABLE[DOCS] * idf
    norms = np.linalg.norm(vectors, axis=1)
    unit = vectors / np.where(norms > 0, norms, 1)[:, None]
    inverse_norms = compiled_inverse_norms(rows(), idf)
    np.testing.assert_allclose(inverse_norms, [1 / norm if norm else 0 for norm in norms], rtol=1e-12)
    cosines = compiled_cosines(rows(), idf, weights, inverse_norms)
    np.testing.assert_allclose(cosines, unit @ (weights @ unit[:2]), rtol=1e-12)
    terms, query, factors = np.array([4, 1]), np.array([0.5, 3.0]), np.array([2.0, 1.0, 7.0, 0.5])
    expected = TABLE[DOCS][:, terms] @ query * factors
    np.testing.assert_allclose(compiled_products(rows(), terms, query, factors), expected, rtol=1e-12)


@built
@pytest.mark.parametrize("postings", [63, 64, 65, 130])
def test_bm25_of_a_row_of_several_blocks(postings):
    """Terms at the ends of blocks of 64 postings count, and those of no other row."""
    indptr = np.array([0, 3, 3 + postings], dtype=np.int64)
    terms = np.concatenate([[0, 63, 64], np.arange(postings)]).astype(np.int32)
    frequencies = np.arange(1, len(terms) + 1, dtype=np.int32)
    arguments = compiled.posting_arguments(indptr, terms, frequencies, postings)
    whole = compiled.PostingRows(compiled.loops(), arguments, (indptr, terms, frequencies), np.array([1], dtype=np.int32))
    asked = np.array(sorted({0, 1, 62, postings - 1, min(63, postings - 1), min(64, postings - 1)}))
    weights, factor = np.linspace(0.5, 2, len(asked)).astype(np.float32), np.array([[0.25]], dtype=np.float32)
    expected = (weights - weights / (1 + frequencies[3:][asked] * factor[0])).sum()
    scores = ranking_models.compiled_bm25_scores(whole, asked, weights[:, None], factor)
    assert scores[0, 0] == pytest.approx(expected, rel=1e-6)
    assert compiled_term_frequencies(whole, asked)[0].tolist() == frequencies[3:][asked].tolist()


@built
def test_norms_of_documents_are_computed_once(tiny, monkeypatch):
    """Those that another list of documents needed are not read again; by hand from the vectors."""
    forward, seen = tiny.forward, []
    known_inverse_norms(forward)[:] = 0

    def counted(rows, idf):
        seen.extend(rows.docs.tolist())
        return compiled_inverse_norms(rows, idf)

    monkeypatch.setattr("kernelsearch.kernels.tfidf.compiled_inverse_norms", counted)
    for docs in ([2, 0], [0, 1, 2]):
        norms = TfidfVectors(forward, np.array(docs)).inverse_norms
        lengths = np.linalg.norm(forward.matrix(np.array(docs)).toarray() * vocabulary_idf(forward), axis=1)
        assert norms == pytest.approx(1 / lengths)
    assert seen == [2, 0, 1]


@built
def test_scores_of_an_index_are_numpys(demo_index, monkeypatch):
    forward, rng = demo_index.forward, np.random.default_rng(0)
    docs = rng.permutation(len(forward))[:50].astype(np.int32)
    terms = np.argsort(-np.asarray(forward.df))[3:40]
    weights, shares = rng.uniform(0.1, 2, len(terms)), rng.dirichlet(np.ones(7))

    def computed():
        vectors = TfidfVectors(forward, docs)
        scores = ranking_models.bm25_scores(forward, terms, weights, docs, k1=1.2, b=0.7)
        return scores, vectors.inverse_norms, vectors.mean_cosines(shares), vectors.query_cosines(terms, weights)

    with_loops = computed()
    monkeypatch.setenv(compiled.SWITCH, "0")
    assert forward.compiled_rows(docs) is None
    without = computed()
    np.testing.assert_array_equal(with_loops[0], without[0])  # to the last bit, as Lucene's
    np.testing.assert_allclose(with_loops[1], without[1], rtol=1e-12)
    np.testing.assert_allclose(with_loops[2], without[2], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(with_loops[3], without[3], rtol=1e-12)
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
    damaged, ones = rows(**case), np.ones((1, 4), dtype=np.float32)
    with pytest.raises(IndexProblem, match="out of range"):
        ranking_models.compiled_bm25_scores(damaged, np.array([1]), ones[:, :1], ones)
    with pytest.raises(IndexProblem, match="out of range"):
        compiled_term_frequencies(damaged, np.array([1]))
    with pytest.raises(IndexProblem, match="out of range"):
        compiled_inverse_norms(damaged, np.ones(5))
    with pytest.raises(IndexProblem, match="out of range"):
        compiled_cosines(damaged, np.ones(5), np.ones(2), np.ones(4))
    with pytest.raises(IndexProblem, match="out of range"):
        compiled_products(damaged, np.array([1]), np.ones(1), np.ones(4))


@built
@pytest.mark.parametrize("terms", [[1, 1, 0, 1, 4], [3, 1, 0, 1, 4]])
def test_rows_that_are_not_ascending_are_refused(terms):
    """A term that is there twice would fill more room than there are terms."""
    damaged, ones = rows(terms=np.array(terms, dtype=np.int32)), np.ones((2, 1), dtype=np.float32)
    asked = np.array([1, 3])
    with pytest.raises(IndexProblem, match="out of range"):
        compiled_term_frequencies(damaged, asked)
    with pytest.raises(IndexProblem, match="out of range"):
        ranking_models.compiled_bm25_scores(damaged, asked, ones, np.ones((1, 4), dtype=np.float32))


@built
def test_rows_and_terms_out_of_range_are_refused():
    ones, table = np.ones(1, dtype=np.float32), np.ones((3, 2), dtype=np.float32)
    square = ones[:, None]
    for doc in (-1, 3):
        with pytest.raises(IndexProblem, match="out of range"):
            ranking_models.compiled_bm25_scores(rows([doc]), np.array([1]), square, square)
        with pytest.raises(IndexProblem, match="out of range"):
            unit_products(table, ones, ones, np.array([doc]))
    with pytest.raises(IndexProblem, match="out of range"):
        ranking_models.compiled_bm25_scores(rows(DOCS[:1]), np.array([5]), square, square)
    for term in (-1, 5):
        with pytest.raises(IndexProblem, match="out of range"):
            compiled_products(rows(DOCS[:1]), np.array([term]), np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="float64"):
        rows(dtype=np.float64)
