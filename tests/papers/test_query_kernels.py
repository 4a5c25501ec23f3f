"""Kernels between queries beside those of the product: clicks over the union as printed, BM25's weights."""

import numpy as np
import pytest
from scipy import sparse

from kernelsearch.kernels.queries import Queries, TermCosine, click_correlation
from kernelsearch.papers.rbm25.reranker import BM25Cosine, union_correlation


def clicks(rows):
    return sparse.csr_matrix(np.array(rows, dtype=np.float64))


def test_union_pearson_by_hand():
    # Union of clicked documents of the two: three documents, u = (3, 1, 0), v = (1, 2, 1): means 4/3 and 4/3,
    # covariance sum 5 - 16/3 = -1/3, sums of squares 10 - 16/3 and 6 - 16/3.
    table = clicks([[3, 1, 0, 0, 0], [1, 2, 0, 0, 1]])
    expected = (-1 / 3) / np.sqrt((10 - 16 / 3) * (6 - 16 / 3))
    assert union_correlation(table, table)[0, 1] == pytest.approx(expected)
    assert click_correlation(table, table)[0, 1] > 0.4  # over all five documents the same two queries agree


def test_correlations_over_the_union_pair_by_pair():
    """np.corrcoef over the documents that either query has clicks on; 0 where it is undefined."""
    rng = np.random.default_rng(5)
    u, v = rng.poisson(0.6, size=(12, 9)), rng.poisson(0.6, size=(7, 9))
    u[0], u[1], v[2] = 0, 3, 0
    expected = np.zeros((12, 7))
    for i, a in enumerate(u):
        for j, b in enumerate(v):
            seen = (a > 0) | (b > 0)
            if a[seen].any() and np.ptp(a[seen]) > 0 and np.ptp(b[seen]) > 0:
                expected[i, j] = np.corrcoef(a[seen], b[seen])[0, 1]
    assert union_correlation(clicks(u), clicks(v)) == pytest.approx(expected, abs=1e-9)


def test_pearson_over_the_union_is_not_positive_semi_definite():
    table = clicks(np.random.default_rng(1).poisson(0.3, size=(40, 25)))
    assert np.linalg.eigvalsh(union_correlation(table, table)).min() < -0.1


def test_bm25_cosine_is_the_cosine_of_saturated_weights(tiny):
    texts = ["tap fuse", "tap tap tap tap fuse", "fuse"]
    batch = Queries.make(tiny.lucene.queries(texts), tiny.forward)
    idf = {word: np.log(1 + (len(tiny.forward) - df + 0.5) / (df + 0.5)) for word, df in document_frequencies(tiny).items()}
    rows = np.array([
        [np.sqrt(idf[word]) * text.split().count(word) / (text.split().count(word) + 0.9) for word in ("tap", "fuse")]
        for text in texts
    ])  # fmt: skip
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    saturated, plain = (kernel.features(batch) @ kernel.features(batch).T for kernel in (BM25Cosine(), TermCosine()))
    assert saturated.toarray() == pytest.approx(rows @ rows.T)
    assert saturated[0, 1] > plain[0, 1]


def document_frequencies(index):
    counts = index.forward.matrix().toarray() > 0
    numbers = index.forward.term_ids(("tap", "fuse"))
    return dict(zip(("tap", "fuse"), counts[:, numbers].sum(axis=0).tolist(), strict=True))
