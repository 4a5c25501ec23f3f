"""Query kernels: by hand, positive semi-definite, and close for what people mistype."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import sparse

from kernelsearch.core.errors import OptionError
from kernelsearch.kernels.queries import (
    COLUMNS,
    BM25Cosine,
    ClickPearson,
    NgramCosine,
    Queries,
    TermCosine,
    compact,
    ngrams,
)
from kernelsearch.neighbours.sparse import sketch

TEXTS = ["dripping tap", "driping tap", "leaking faucet", "blown fuse", "tap tap fuse", "x", "Wasserhahn"]


def clicks(rows):
    return sparse.csr_matrix(np.array(rows, dtype=np.float64))


def with_clicks(rows):
    table = clicks(rows)
    return Queries(tuple(f"q{n}" for n in range(table.shape[0])), clicks=table)


def test_global_pearson_is_numpys_correlation_over_all_documents():
    rows = [[3, 1, 0, 0, 0], [1, 2, 0, 0, 1], [0, 0, 0, 4, 1], [1, 0, 0, 0, 0]]
    batch = with_clicks(rows)
    assert ClickPearson()(batch, batch) == pytest.approx(np.corrcoef(rows))


def test_union_pearson_by_hand():
    # Union of clicked documents of the two: three documents, u = (3, 1, 0), v = (1, 2, 1): means 4/3 and 4/3,
    # covariance sum 5 - 16/3 = -1/3, sums of squares 10 - 16/3 and 6 - 16/3.
    batch = with_clicks([[3, 1, 0, 0, 0], [1, 2, 0, 0, 1]])
    expected = (-1 / 3) / np.sqrt((10 - 16 / 3) * (6 - 16 / 3))
    assert ClickPearson(union=True)(batch, batch)[0, 1] == pytest.approx(expected)
    assert ClickPearson()(batch, batch)[0, 1] > 0.4  # over all five documents the same two queries agree


def test_queries_without_clicks_correlate_with_nothing():
    batch = with_clicks([[0, 0, 0], [1, 0, 0], [2, 2, 2]])
    for kernel in (ClickPearson(), ClickPearson(union=True)):
        values = kernel(batch, batch)
        assert np.isfinite(values).all() and values[0].tolist() == [0, 0, 0] and values[2].tolist() == [0, 0, 0]


def random_queries(tiny, seed=0, count=40):
    rng = np.random.default_rng(seed)
    words = ["tap", "taps", "fuse", "water", "leaking", "unknownword", "panel", "washer", "tpa"]
    texts = [" ".join(rng.choice(words, size=rng.integers(1, 5))) for _ in range(count)]
    table = sparse.csr_matrix(rng.poisson(0.3, size=(count, 25)).astype(np.float64))
    return Queries.make(tiny.lucene.queries(texts), tiny.forward, table)


@pytest.mark.parametrize("kernel", [ClickPearson(), NgramCosine(2), NgramCosine(3), TermCosine(), BM25Cosine()])
def test_every_kernel_is_symmetric_and_positive_semi_definite(tiny, kernel):
    batch = random_queries(tiny)
    values = kernel(batch, batch)
    assert values == pytest.approx(values.T)
    assert np.linalg.eigvalsh(values).min() > -1e-9


def test_pearson_over_the_union_is_not_positive_semi_definite():
    rng = np.random.default_rng(1)
    batch = with_clicks(rng.poisson(0.3, size=(40, 25)))
    assert np.linalg.eigvalsh(ClickPearson(union=True)(batch, batch)).min() < -0.1


def test_ngrams_by_hand():
    # " ab " has the 3-grams " ab", "ab "; " abc " has " ab", "abc", "bc ".
    rows = ngrams(["ab", "AB  ", "abc", ""])
    values = (rows @ rows.T).toarray()
    assert values[0, 1] == pytest.approx(1) and values[0, 2] == pytest.approx(1 / np.sqrt(6))
    assert rows.getnnz(axis=1).tolist() == [2, 2, 3, 0]


def test_misspelt_and_joined_words_are_near():
    batch = Queries(("walmart", "wallmart", "wal mart", "mens magazines", "mensmagazines", "garden hose"))
    values = NgramCosine(3)(batch, batch)
    assert values[0, 1] > 0.6 and values[0, 2] > 0.4 and values[3, 4] > 0.8
    assert values[0, 5] == 0 and values[4, 5] < 0.1


def test_term_cosine_uses_the_indexs_analysis_and_idf(tiny):
    batch = Queries.make(tiny.lucene.queries(["taps", "tap tap", "tap zzz", "zzz"]), tiny.forward)
    values = TermCosine()(batch, batch)
    assert values[0, 1] == pytest.approx(1)
    # A word that the index lacks is its rarest: it weighs more than 'tap'.
    assert values[3, 2] > values[0, 2] > 0


def test_bm25_cosine_saturates_repetition(tiny):
    batch = Queries.make(tiny.lucene.queries(["tap fuse", "tap tap tap tap fuse"]), tiny.forward)
    assert BM25Cosine()(batch, batch)[0, 1] > TermCosine()(batch, batch)[0, 1]


def test_sketches_keep_inner_products(tiny):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefgh "), size=30)) for _ in range(60)]
    rows = ngrams(texts)
    error = sketch(rows, 256) @ sketch(rows, 256).T - (rows @ rows.T).toarray()
    assert abs(error.mean()) < 0.01 and error.std() < 2 / np.sqrt(256)


def test_compacting_changes_no_product():
    rows = ngrams(TEXTS)
    a, b = compact(rows[:3], rows[3:])
    assert (a @ b.T).toarray() == pytest.approx((rows[:3] @ rows[3:].T).toarray())
    assert a.shape[1] == b.shape[1] < 100


def test_taking_rows_keeps_terms_and_idf_together(tiny):
    batch = random_queries(tiny)
    rows = np.array([7, 3, 3, 0])
    assert TermCosine()(batch.take(rows), batch) == pytest.approx(TermCosine()(batch, batch)[rows])


def test_ngrams_have_three_characters_by_default():
    # " ab " and " abc " share one of two and of three 3-grams.
    batch = Queries(("ab", "abc"))
    assert NgramCosine()(batch, batch)[0, 1] == pytest.approx(1 / np.sqrt(6))


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_ngram_cosines_are_those_of_counted_ngrams(n):
    """Against a Counter, on texts with repeated and rare characters; hashing may not merge n-grams of a few texts."""
    rng = np.random.default_rng(n)
    texts = ["".join(rng.choice(list("abé 😀"), size=rng.integers(0, 12))) for _ in range(30)] + ["", "a", "ab"]

    def counted(text):
        padded = f" {' '.join(text.split())} ".ljust(n) if text.strip() else ""
        return Counter(padded[start : start + n] for start in range(len(padded) - n + 1))

    rows = [counted(text) for text in texts]
    norms = [math.sqrt(sum(count**2 for count in row.values())) or 1.0 for row in rows]
    expected = [
        [sum(a[gram] * b[gram] for gram in a) / norms[i] / norms[j] for j, b in enumerate(rows)] for i, a in enumerate(rows)
    ]
    batch = Queries(tuple(texts))
    assert NgramCosine(n)(batch, batch) == pytest.approx(np.array(expected))
    assert ngrams(texts, n).getnnz(axis=1).tolist() == [len(row) for row in rows]


def test_no_texts_have_no_ngrams():
    assert ngrams([]).shape == ngrams([], 5).shape == (0, COLUMNS)
    with pytest.raises(OptionError, match="n 0 must be at least 1"):
        NgramCosine(0)


@pytest.mark.parametrize("union", [False, True])
def test_correlations_pair_by_pair(union):
    """np.corrcoef over all documents, or over those that either query has clicks on; 0 where it is undefined."""
    rng = np.random.default_rng(5)
    u, v = rng.poisson(0.6, size=(12, 9)), rng.poisson(0.6, size=(7, 9))
    u[0], u[1], v[2] = 0, 3, 0
    expected = np.zeros((12, 7))
    for i, a in enumerate(u):
        for j, b in enumerate(v):
            seen = (a > 0) | (b > 0) if union else np.ones(9, dtype=bool)
            if a[seen].any() and np.ptp(a[seen]) > 0 and np.ptp(b[seen]) > 0:
                expected[i, j] = np.corrcoef(a[seen], b[seen])[0, 1]
    result = ClickPearson(union).of_clicks(clicks(u), clicks(v))
    assert result == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_correlations_do_not_depend_on_the_number_of_clicks(size):
    rows = np.array([[3.0, 1, 0, 0], [1, 2, 0, 5], [2, 2, 2, 2]])
    for kernel in (ClickPearson(), ClickPearson(union=True)):
        assert kernel.of_clicks(clicks(size * rows), clicks(rows)) == pytest.approx(
            kernel.of_clicks(clicks(rows), clicks(rows))
        )
