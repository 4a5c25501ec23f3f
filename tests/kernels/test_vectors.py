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
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.kernels.saved import from_data, to_data
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
    kernel = registry.kernel("0.25*vectors:m", vectors=index.vectors)
    rows, query = np.arange(0, 40), index.query("tap", "1")
    assert str(kernel) == "0.25*vectors:m"
    assert np.allclose(kernel.documents(index.forward, rows, rows[:7]), 0.25 * unit[rows] @ unit[:7].T, atol=1e-6)
    direction = np.arange(12.0) / np.linalg.norm(np.arange(12.0))
    assert np.allclose(kernel.scores(index.forward, query, rows), 0.25 * unit[rows] @ direction, atol=1e-6)
    features = kernel.document_features(index.forward, rows)
    assert np.allclose(
        (features @ kernel.query_features(index.forward, query).T).toarray().ravel(), 0.25 * unit[rows] @ direction
    )
    assert not kernel.scores(index.forward, index.query("tap", "unknown"), rows).any()


def test_in_a_sum_every_part_has_unit_length(index, unit):
    kernel = registry.kernel("2*bm25(k1=1.2)+vectors", vectors=index.vectors)
    assert isinstance(kernel, Sum) and str(kernel) == "2*bm25+vectors:m"
    rows = np.arange(30)
    words = BM25(k1=1.2).documents(index.forward, rows, rows)
    lengths = np.sqrt(np.diag(words))
    expected = 2 * words / lengths[:, None] / lengths + unit[rows] @ unit[rows].T
    assert np.allclose(kernel.documents(index.forward, rows, rows), expected, atol=1e-6)
    for text in ("vectors+2*bm25(k1=1.2)", "vectors:m + bm25( k1 = 1.2 )*2", "(vectors:m)+2*(bm25(k1=1.2))"):
        turned = registry.kernel(text, vectors=index.vectors)
        assert np.allclose(turned.documents(index.forward, rows, rows), expected, atol=1e-6)
    # Without vectors a sum stays as it is.
    plain = registry.kernel("2*bm25(k1=1.2)+bm25(k1=1.2)", vectors=index.vectors)
    assert np.allclose(plain.documents(index.forward, rows, rows), 3 * words)


def test_a_sum_is_positive_semi_definite(index):
    rows = np.arange(0, 200)
    kernel = registry.kernel("bm25+0.3*vectors:m", vectors=index.vectors)
    assert np.linalg.eigvalsh(kernel.documents(index.forward, rows, rows))[0] > -1e-8


def test_names_without_an_index_or_of_other_vectors_are_refused(index):
    with pytest.raises(OptionError, match="needs the vectors of an index"):
        registry.kernel("vectors:m")
    with pytest.raises(kernelsearch.KernelSearchError, match="no vectors named 'x'"):
        registry.kernel("bm25+vectors:x", vectors=index.vectors)
    with pytest.raises(OptionError, match=r"is not one of linear.*vectors:NAME"):
        registry.kernel("vector", vectors=index.vectors)


def test_a_weight_of_a_saved_kernel_of_vectors_is_a_factor(index):
    """Saved bases have the weight with the kernel."""
    rows, data = np.arange(5), {"sum": [{"normalised": to_data(BM25())}, {"vectors": "m", "vector_weight": 0.5}]}
    kernel = registry.kernel("bm25+0.5*vectors:m", vectors=index.vectors)
    again = from_data(data, index.vectors)
    assert again == kernel == from_data(to_data(kernel), index.vectors) and str(kernel) == "bm25+0.5*vectors:m"
    assert np.array_equal(again.documents(index.forward, rows, rows), kernel.documents(index.forward, rows, rows))


def test_a_sent_kernel_gives_the_same_values(index):
    kernel = registry.kernel("bm25+vectors:m", vectors=index.vectors)
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
