"""The kernel of vectors: cosines, unit length in sums, and kernel LSA over it, against numpy."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest

import kernelsearch
from kernelsearch.core.errors import OptionError
from kernelsearch.kernels import registry
from kernelsearch.kernels.algebra import Sum
from kernelsearch.rerankers.klsa.reranker import LatentBasis
from kernelsearch.vectors.__main__ import main as vectors_verb


@pytest.fixture(scope="module")
def index(demo_index, tmp_path_factory):
    """The bundled collection with vectors of all documents but the first."""
    folder = tmp_path_factory.mktemp("vectors")
    shutil.copytree(demo_index.path, folder / "index")
    docids = demo_index.forward.docids.take(demo_index.forward.live_docs)[1:]
    vectors = np.random.default_rng(1).standard_normal((len(docids), 12)) * 3
    np.savez(folder / "v.npz", ids=np.array(docids), vectors=vectors)
    np.savez(folder / "q.npz", ids=np.array(["1"]), vectors=np.arange(12.0)[None])
    vectors_verb(["--index", str(folder / "index"), "--name", "m", "--input", str(folder / "v.npz"), "--dtype", "float32"])
    return kernelsearch.open(folder / "index", vectors={"queries": str(folder / "q.npz")})


@pytest.fixture(scope="module")
def unit(index):
    """The vectors at unit length by row, zeros for the document without one, shape (documents, 12)."""
    table = np.load(index.path.parent / "v.npz")
    out = np.zeros((len(index.forward), 12))
    out[index.forward.rows_of(table["ids"].tolist())] = table["vectors"]
    norms = np.linalg.norm(out, axis=1, keepdims=True)
    return out / np.where(norms > 0, norms, 1)


def test_values_are_cosines(index, unit):
    kernel = registry.kernel("vectors:m", {"vector_weight": 0.25}, index.vectors)
    rows, query = np.arange(0, 40), index.query("tap", "1")
    assert str(kernel) == "vectors:m"
    assert np.allclose(kernel.documents(index.forward, rows, rows[:7]), 0.25 * unit[rows] @ unit[:7].T, atol=1e-6)
    direction = np.arange(12.0) / np.linalg.norm(np.arange(12.0))
    assert np.allclose(kernel.scores(index.forward, query, rows), 0.25 * unit[rows] @ direction, atol=1e-6)
    features = kernel.document_features(index.forward, rows)
    assert np.allclose(
        (features @ kernel.query_features(index.forward, query).T).toarray().ravel(), 0.25 * unit[rows] @ direction
    )
    assert not kernel.scores(index.forward, index.query("tap", "unknown"), rows).any()


def test_in_a_sum_every_part_has_unit_length(index, unit):
    kernel = registry.kernel("2*bm25+vectors", {"k1": 1.2}, index.vectors)
    assert isinstance(kernel, Sum) and str(kernel) == "2*bm25+vectors:m"
    rows = np.arange(30)
    words = registry.kernel("bm25", {"k1": 1.2}).documents(index.forward, rows, rows)
    lengths = np.sqrt(np.diag(words))
    expected = 2 * words / lengths[:, None] / lengths + unit[rows] @ unit[rows].T
    assert np.allclose(kernel.documents(index.forward, rows, rows), expected, atol=1e-6)
    for text in ("vectors+2*bm25", "vectors:m + bm25*2", "(vectors:m)+2*(bm25)"):
        turned = registry.kernel(text, {"k1": 1.2}, index.vectors)
        assert np.allclose(turned.documents(index.forward, rows, rows), expected, atol=1e-6)
    # Without vectors a sum stays as it is.
    plain = registry.kernel("2*bm25+bm25", {"k1": 1.2}, index.vectors)
    assert np.allclose(plain.documents(index.forward, rows, rows), 3 * words)


def test_a_sum_is_positive_semi_definite(index):
    rows = np.arange(0, 200)
    kernel = registry.kernel("bm25+0.3*vectors:m", {}, index.vectors)
    assert np.linalg.eigvalsh(kernel.documents(index.forward, rows, rows))[0] > -1e-8


def test_names_without_an_index_or_of_other_vectors_are_refused(index):
    with pytest.raises(OptionError, match="needs the vectors of an index"):
        registry.kernel("vectors:m")
    with pytest.raises(kernelsearch.KernelSearchError, match="no vectors named 'x'"):
        registry.kernel("bm25+vectors:x", {}, index.vectors)
    with pytest.raises(OptionError, match=r"is not one of linear.*vectors:NAME"):
        registry.kernel("vector", {}, index.vectors)


@pytest.mark.parametrize("weight", [-0.1, np.nan, np.inf])
def test_weights_that_are_no_weights_are_refused(index, weight):
    with pytest.raises(OptionError, match=r"weight .* must be a number from 0 on"):
        registry.kernel("vectors:m", {"vector_weight": weight}, index.vectors)
    none = registry.kernel("vectors:m", {"vector_weight": 0.0}, index.vectors)
    assert not none.documents(index.forward, np.arange(5), np.arange(5)).any()


def test_a_sent_kernel_gives_the_same_values(index):
    kernel = registry.kernel("bm25+vectors:m", {}, index.vectors)
    again, rows, query = pickle.loads(pickle.dumps(kernel)), np.arange(9), index.query("tap", "1")
    assert np.array_equal(again.scores(index.forward, query, rows), kernel.scores(index.forward, query, rows))


def test_the_latent_basis_of_vectors_is_their_singular_vectors(index, unit, tmp_path):
    folder = index.train("klsa", output=tmp_path / "basis", kernel="vectors:m", dims=5)
    basis = LatentBasis(folder)
    left, values, _ = np.linalg.svd(unit, full_matrices=False)
    assert np.allclose(basis.values, values[:5])
    assert np.allclose(np.abs((basis.rows * left[:, :5]).sum(axis=0)), 1, atol=1e-5)
    assert basis.strongest_terms(0)[0] == ("", "(vector)")


def test_a_copied_basis_of_vectors_is_verified_and_opened(index, tmp_path):
    """The contents of a copy, whose files are new, are checked on opening; features of vectors belong to no term."""
    folder = index.train("klsa", output=tmp_path / "basis", kernel="bm25+vectors:m", dims=5)
    shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copyfile)
    copy = LatentBasis(tmp_path / "copy")
    assert (copy.feature_terms < 0).sum() == 12 and np.array_equal(copy.rows, LatentBasis(folder).rows)


def test_kernel_lsa_over_a_sum_ranks_by_the_papers_formula(index, unit, tmp_path):
    """λ · top_z(k_q) U Uᵀ + (1 - λ) · k_q with k_q = cosine of BM25's features + cosine of vectors, computed from scratch."""
    folder = index.train("klsa", output=tmp_path / "basis", kernel="bm25+vectors:m", dims=20, vector_weight=0.5)
    pipeline = index.pipeline({"klsa": {"basis": str(folder), "scores": "kernel", "z": 3, "lambda": 0.6, "dims": 20}})
    query = index.query("dripping tap", "1")
    listed = pipeline.retrieve([query])[0]
    ranked = pipeline.rerank([query], [listed])[0]
    bm25, docs = registry.kernel("bm25", {"k1": 2.0, "b": 0.75}), np.arange(len(index.forward))
    words, asked = bm25.document_features(index.forward, docs).toarray(), bm25.query_features(index.forward, query).toarray()[0]
    lengths = np.linalg.norm(words, axis=1, keepdims=True)
    words = words / np.where(lengths > 0, lengths, 1)
    direction = np.arange(12.0) / np.linalg.norm(np.arange(12.0))
    scores = words @ (asked / np.linalg.norm(asked)) + 0.5 * unit @ direction
    left = np.linalg.svd(np.hstack([words, np.sqrt(0.5) * unit]), full_matrices=False)[0][:, :20]
    k_q = scores[listed.docs]
    best = np.argsort(-k_q)[:3]
    expected = 0.6 * left[listed.docs] @ (k_q[best] @ left[listed.docs[best]]) + 0.4 * k_q
    order = np.argsort(-expected)
    assert ranked.docs.tolist() == listed.docs[order].tolist()
    assert np.allclose(ranked.scores, expected[order], atol=1e-4)
