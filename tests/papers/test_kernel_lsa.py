"""Park & Ramamohanarao, "Kernel Latent Semantic Analysis using an Information Retrieval based Kernel" (CIKM 2009).

Each equation once: dense numpy from token lists against the product.
"""

import numpy as np
import pytest

from kernelsearch import train
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.registry import method
from tests.papers.brute_force import Dense, build, command_line_run, full_text, make_documents

K1, B, DIMS = 2.0, 0.75, 12
TEXT = "w03 w03 w17 w41"


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """An index with a fitted basis, and the same documents as dense arrays."""
    records = make_documents()
    opened = build(tmp_path_factory.mktemp("klsa"), records)
    method("klsa").fit(opened, TrainingData(), dims=DIMS)
    return opened, Dense([full_text(record) for record in records])


def gram(dense):
    saturation = dense.saturation(K1, B)
    return (saturation * dense.idf) @ saturation.T


def query_and_list(opened):
    query = Query.from_tokens(TEXT, TEXT.split())
    return query, opened.lucene.search([query], 1000, model=BM25Model(K1, B))[0]


def expected_scores(dense, z, weight):
    eigenvalues, vectors = np.linalg.eigh(gram(dense))
    basis = vectors[:, np.argsort(-eigenvalues)[:DIMS]]
    scores = dense.bm25(TEXT, K1, B)
    threshold = np.where(np.argsort(np.argsort(-scores, kind="stable")) < z, scores, 0.0)
    return weight * basis @ (basis.T @ threshold) + (1 - weight) * scores


def reranked(opened, z, weight):
    query, result = query_and_list(opened)
    scores = method("klsa-paper").make(opened, z=z, **{"lambda": weight}).score(query, result)
    return result.docs, scores


def test_eq_2_the_basis_decomposes_the_gram_matrix(collection):
    opened, dense = collection
    basis = method("klsa").make(opened).basis
    eigenvalues, vectors = np.linalg.eigh(gram(dense))
    order = np.argsort(-eigenvalues)[:DIMS]
    assert basis.values**2 == pytest.approx(eigenvalues[order], rel=1e-5)
    rows = np.asarray(basis.rows, dtype=float)
    assert rows @ rows.T == pytest.approx(vectors[:, order] @ vectors[:, order].T, abs=1e-4)


@pytest.mark.parametrize("k3", [None, 0.0, 1.5])
def test_eq_3_bm25_between_query_and_document(collection, k3):
    opened, dense = collection
    query, result = query_and_list(opened)
    scores = BM25(k1=K1, b=B, k3=k3).scores(opened.forward, query, result.docs)
    assert scores == pytest.approx(dense.bm25(TEXT, K1, B, np.inf if k3 is None else k3 + 1e-12)[result.docs], rel=1e-5)


def test_eq_4_bm25_between_documents(collection):
    opened, dense = collection
    docs = np.arange(len(opened.forward))
    assert BM25(k1=K1, b=B).documents(opened.forward, docs, docs) == pytest.approx(gram(dense), abs=1e-5)


@pytest.mark.parametrize(("z", "weight"), [(10**6, 1.0), (1, 1.0), (5, 1.0), (3, 0.0), (3, 0.3), (3, 0.9)])
def test_eq_1_with_top_z_of_section_3_2_and_smoothing_of_section_3_3(collection, z, weight):
    """The query kernel through the eigenvectors."""
    opened, dense = collection
    docs, scores = reranked(opened, z, weight)
    assert scores == pytest.approx(expected_scores(dense, z, weight)[docs], abs=1e-5)


def likelihood(dense, lam=None, mu=None):
    """Document features of query likelihood, with the length as a last feature for Dirichlet smoothing."""
    if lam is not None:
        return np.log1p((1 - lam) / lam * dense.counts / dense.lengths[:, None] / dense.probability)
    return np.column_stack([np.log1p(dense.counts / (mu * dense.probability)), np.log(mu / (dense.lengths + mu))])


@pytest.mark.parametrize(
    ("kernel", "features"),
    [
        ("bm25(k1=1.2,b=.3)", lambda dense: dense.saturation(1.2, 0.3) * np.sqrt(dense.idf)),
        ("vsm", lambda dense: dense.counts * dense.idf),
        ("cosine", lambda dense: dense.cosine()),
        ("linear", lambda dense: dense.counts),
        ("jm(lam=.3)", lambda dense: likelihood(dense, lam=0.3)),
        ("dirichlet(mu=40)", lambda dense: likelihood(dense, mu=40.0)),
        (
            "2*cosine+vsm",
            lambda dense: np.column_stack([np.sqrt(2) * dense.cosine(), dense.counts * dense.idf]),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_eqs_1_and_2_on_the_command_line_with_other_document_kernels(collection, tmp_path, kernel, features):
    """Section 3.1: k_d and k_q may be chosen apart from each other; here k_q is the first stage's BM25."""
    opened, dense = collection
    place, z, weight = tmp_path / "basis", 4, 0.7
    train.main(
        ["--index", opened.name, "--rerank", "klsa", "--output", str(place), "--klsa.dims", "9", "--klsa.kernel", kernel]
    )
    names, values = ("basis", "z", "lambda"), (place, z, weight)
    options = ["--rerank", "klsa-paper", *(f"--klsa-paper.{name}={value}" for name, value in zip(names, values, strict=True))]
    run = command_line_run(opened, tmp_path, TEXT, "--bm25", "--k1", str(K1), "--b", str(B), *options)
    eigenvalues, vectors = np.linalg.eigh(features(dense) @ features(dense).T)
    basis = vectors[:, np.argsort(-eigenvalues)[:9]]
    scores = dense.bm25(TEXT, K1, B)
    threshold = np.where(np.argsort(np.argsort(-scores, kind="stable")) < z, scores, 0.0)
    expected = weight * basis @ (basis.T @ threshold) + (1 - weight) * scores
    assert run == pytest.approx({f"d{doc:02d}": expected[doc] for doc in np.flatnonzero(scores)}, abs=2e-5)


def test_the_baseline_lsi_with_log_entropy_weights_and_the_cosine(collection, tmp_path):
    """Dumais (1991): documents and query as log(1 + tf) times the entropy weight, compared in the space of the SVD."""
    opened, dense = collection
    share = dense.counts / np.maximum(dense.counts.sum(axis=0), 1)
    entropy = np.where(share > 0, share * np.log(np.where(share > 0, share, 1)), 0).sum(axis=0)
    weights = (1 + entropy / np.log(len(dense.counts))) * (dense.counts.sum(axis=0) > 0)
    left, values, right = np.linalg.svd(np.log1p(dense.counts) * weights, full_matrices=False)
    documents = left[:, :DIMS] * values[:DIMS]
    query_vector = right[:DIMS] @ (np.log1p(dense.query(TEXT)) * weights)
    expected = documents @ query_vector / np.linalg.norm(documents, axis=1)
    place = method("klsa").fit(opened, TrainingData(output=tmp_path / "lsi"), kernel="logentropy", dims=DIMS)
    query, _ = query_and_list(opened)
    everything = Candidates(np.arange(len(dense.counts), dtype=np.int32), np.zeros(len(dense.counts), dtype=np.float32))
    options = {"basis": str(place), "scores": "kernel", "z": 10**6, "cosine": True, "lambda": 1.0}
    reranker = method("klsa-paper").make(opened, **options)
    assert reranker.score(query, everything) == pytest.approx(expected, abs=1e-4)
    explanation = reranker.explain(query, everything, 7)
    assert explanation.score == pytest.approx(expected[7], abs=1e-4)
