"""Query kernels: by hand, positive semi-definite, and close for what people mistype."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import sparse

from kernelsearch.kernels.queries import (
    COLUMNS,
    NgramCosine,
    Queries,
    TermCosine,
    click_correlation,
    compact,
    ngrams,
)
from kernelsearch.neighbours.sparse import sketch

TEXTS = ["dripping tap", "driping tap", "leaking faucet", "blown fuse", "tap tap fuse", "x", "Wasserhahn"]


def clicks(rows):
    return sparse.csr_matrix(np.array(rows, dtype=np.float64))


def cosines(kernel, a, b=None):
    """The values of a kernel of texts, by its features."""
    left, right = compact(kernel.features(a), kernel.features(a if b is None else b))
    return (left @ right.T).toarray()


def random_queries(tiny, seed=0, count=40):
    rng = np.random.default_rng(seed)
    words = ["tap", "taps", "fuse", "water", "leaking", "unknownword", "panel", "washer", "tpa"]
    texts = [" ".join(rng.choice(words, size=rng.integers(1, 5))) for _ in range(count)]
    table = sparse.csr_matrix(rng.poisson(0.3, size=(count, 25)).astype(np.float64))
    return Queries.make(tiny.lucene.queries(texts), tiny.forward, table)


def test_the_correlation_of_clicks_is_symmetric_and_positive_semi_definite():
    table = clicks(np.random.default_rng(0).poisson(0.3, size=(40, 25)))
    values = click_correlation(table, table)
    assert values == pytest.approx(values.T)
    assert np.linalg.eigvalsh(values).min() > -1e-9


def test_ngrams_by_hand():
    # " ab " has the 3-grams " ab", "ab "; " abc " has " ab", "abc", "bc ".
    rows = ngrams(["ab", "AB  ", "abc", ""])
    values = (rows @ rows.T).toarray()
    assert values[0, 1] == pytest.approx(1) and values[0, 2] == pytest.approx(1 / np.sqrt(6))
    assert rows.getnnz(axis=1).tolist() == [2, 2, 3, 0]


def test_misspelt_and_joined_words_are_near():
    batch = Queries(("walmart", "wallmart", "wal mart", "mens magazines", "mensmagazines", "garden hose"))
    values = cosines(NgramCosine(), batch)
    assert values[0, 1] > 0.6 and values[0, 2] > 0.4 and values[3, 4] > 0.8
    assert values[0, 5] == 0 and values[4, 5] < 0.1


def test_term_cosine_uses_the_indexs_analysis_and_idf(tiny):
    batch = Queries.make(tiny.lucene.queries(["taps", "tap tap", "tap zzz", "zzz"]), tiny.forward)
    values = cosines(TermCosine(), batch)
    assert values[0, 1] == pytest.approx(1)
    # A word that the index lacks is its rarest: it weighs more than 'tap'.
    assert values[3, 2] > values[0, 2] > 0


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


def test_ngrams_have_three_characters_by_default():
    # " ab " and " abc " share one of two and of three 3-grams.
    batch = Queries(("ab", "abc"))
    assert cosines(NgramCosine(), batch)[0, 1] == pytest.approx(1 / np.sqrt(6))


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_ngram_cosines_are_those_of_counted_ngrams(n):
    """Against a Counter, on texts with repeated and rare characters; hashing may not merge n-grams of a few texts."""
    rng = np.random.default_rng(n)
    texts = ["".join(rng.choice(list("abé 😀"), size=rng.integers(0, 12))) for _ in range(30)] + ["", "a", "ab"]

    def counted(text):
        padded = f" {' '.join(text.split())} ".ljust(n) if text.strip() else ""
        return Counter(padded[start : start + n] for start in range(len(padded) - n + 1))

    counts = [counted(text) for text in texts]
    norms = [math.sqrt(sum(count**2 for count in row.values())) or 1.0 for row in counts]
    expected = [
        [sum(a[gram] * b[gram] for gram in a) / norms[i] / norms[j] for j, b in enumerate(counts)] for i, a in enumerate(counts)
    ]
    rows = ngrams(texts, n)
    assert (rows @ rows.T).toarray() == pytest.approx(np.array(expected))
    assert rows.getnnz(axis=1).tolist() == [len(row) for row in counts]


def test_no_texts_have_no_ngrams():
    assert ngrams([]).shape == ngrams([], 5).shape == (0, COLUMNS)


def test_correlations_pair_by_pair():
    """np.corrcoef over all documents; 0 where it is undefined."""
    rng = np.random.default_rng(5)
    u, v = rng.poisson(0.6, size=(12, 9)), rng.poisson(0.6, size=(7, 9))
    u[0], u[1], v[2] = 0, 3, 0
    expected = np.zeros((12, 7))
    for i, a in enumerate(u):
        for j, b in enumerate(v):
            if np.ptp(a) > 0 and np.ptp(b) > 0:
                expected[i, j] = np.corrcoef(a, b)[0, 1]
    assert click_correlation(clicks(u), clicks(v)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_correlations_do_not_depend_on_the_number_of_clicks(size):
    rows = np.array([[3.0, 1, 0, 0], [1, 2, 0, 5], [2, 2, 2, 2]])
    expected = click_correlation(clicks(rows), clicks(rows))
    assert click_correlation(clicks(size * rows), clicks(rows)) == pytest.approx(expected)
