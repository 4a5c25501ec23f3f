"""FAISS indexes: the exact kind against numpy, approximate kinds by recall, saving and loading, error messages."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from kernelsearch.core.errors import ArtefactError, OptionError
from kernelsearch.neighbours import Neighbours
from kernelsearch.neighbours import faiss_index as index_module
from kernelsearch.neighbours.faiss_index import CORE, _has_avx512, load_faiss, looked_for
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def vectors():
    """4,000 vectors around 40 centres with norms from a wide range, as in latent semantic analysis."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(40, 24))
    points = centres[rng.integers(40, size=4000)] + 0.4 * rng.normal(size=(4000, 24))
    return (points * rng.lognormal(sigma=0.7, size=(4000, 1))).astype(np.float32)


@pytest.fixture(scope="module")
def queries(vectors):
    return vectors[np.random.default_rng(4).integers(4000, size=50)]


def best(vectors, queries, k):
    products = queries @ vectors.T
    return np.argsort(-products, axis=1, kind="stable")[:, :k], -np.sort(-products, axis=1)[:, :k]


def recall(result, expected):
    return np.mean([len(set(f) & set(e)) / len(e) for f, e in zip(result.tolist(), expected.tolist(), strict=True)])


def test_flat_is_exact(vectors, queries):
    rows, scores = Neighbours.build(vectors, "flat", block=999).search(queries, 20)
    expected, products = best(vectors, queries, 20)
    assert np.array_equal(rows, expected)
    assert scores == pytest.approx(products, rel=1e-5)


def test_auto_is_flat_for_small_sets(vectors):
    assert Neighbours.build(vectors).kind == "flat"


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_approximate_kinds_find_most_and_score_exactly(vectors, queries, kind):
    rows, scores = Neighbours.build(vectors, kind, random_state=1).search(queries, 50)
    assert recall(rows, best(vectors, queries, 50)[0]) > 0.8
    filled = rows >= 0
    products = np.take_along_axis(queries @ vectors.T, np.maximum(rows, 0), axis=1)
    assert scores[filled] == pytest.approx(products[filled], rel=1e-3, abs=1e-2)


@pytest.mark.parametrize(
    ("kind", "least", "error"), [("ivf-fp16", 0.99, 0.001), ("ivf-sq8", 0.95, 0.02), ("ivf-pq4", 0.7, 0.2)]
)
def test_quantised_kinds_lose_little_and_take_less(vectors, queries, kind, least, error, tmp_path, monkeypatch):
    """With all clusters searched, the only error is the rounding of coordinates to sixteen, eight and two bits."""
    built, full = (Neighbours.build(vectors, name, clusters=30) for name in (kind, "ivf"))
    monkeypatch.setattr(index_module, "default_probes", lambda clusters, kind: clusters)
    rows, scores = built.search(queries, 50)
    assert recall(rows, best(vectors, queries, 50)[0]) > least
    products = np.take_along_axis(queries @ vectors.T, rows, axis=1)
    assert np.median(np.abs(scores - products) / products) < error  # coordinates beyond those of the training rows are cut off
    for neighbours, name in ((built, "small"), (full, "large")):
        neighbours.save(tmp_path / name)
    assert (tmp_path / "small").stat().st_size < 0.7 * (tmp_path / "large").stat().st_size


@pytest.mark.parametrize(("count", "expected"), [(10, 115), (300, 550), (501, 852)])
def test_four_bits_look_for_more_vectors_than_are_wanted(count, expected):
    assert looked_for(count, "ivf-pq4") == expected and looked_for(count, "ivf-sq8") == count


@pytest.mark.parametrize("count", [1, 7, 16, 60])
def test_four_bits_for_few_vectors(vectors, count, capfd):
    """FAISS needs sixteen vectors to choose sixteen values, and warns of few."""
    built = Neighbours.build(vectors[:count], "ivf-pq4")
    assert set(built.search(vectors[:5], count)[0].ravel().tolist()) == set(range(count))
    assert capfd.readouterr().err == ""


def test_four_bits_and_exact_products_find_as_much_as_eight_bits(vectors, queries):
    expected, found = best(vectors, queries, 100)[0], {}
    for kind in ("ivf-sq8", "ivf-pq4"):
        rows = Neighbours.build(vectors, kind).search(queries, looked_for(100, kind))[0]
        products = np.where(rows >= 0, np.take_along_axis(queries @ vectors.T, np.maximum(rows, 0), axis=1), -np.inf)
        order = np.argsort(-products, axis=1)[:, :100]
        found[kind] = recall(np.take_along_axis(rows, order, axis=1), expected)
    assert found["ivf-pq4"] >= found["ivf-sq8"] > 0.8


def test_ivf_with_every_cluster_is_exact(vectors, queries):
    rows, _ = Neighbours.build(vectors, "ivf", clusters=8).search(queries, 10)
    assert recall(rows, best(vectors, queries, 10)[0]) == 1


def test_the_same_seed_gives_the_same_index(vectors, queries):
    first, second = (Neighbours.build(vectors, "ivf", random_state=5).search(queries, 10)[0] for _ in range(2))
    assert np.array_equal(first, second)


def test_sparse_vectors_are_the_same_as_dense_ones(vectors, queries):
    thin = np.where(np.abs(vectors) > 1, vectors, 0)
    dense = Neighbours.build(thin, "flat").search(queries, 5)
    packed = Neighbours.build(sparse.csr_matrix(thin), "flat").search(sparse.csr_matrix(queries), 5)
    assert np.array_equal(dense[0], packed[0])


@pytest.mark.parametrize("kind", ["flat", "ivf", "ivf-pq4", "hnsw"])
def test_round_trip(vectors, queries, kind, tmp_path):
    built = Neighbours.build(vectors[:1000], kind)
    built.save(tmp_path / "n.faiss")
    loaded = Neighbours.load(tmp_path / "n.faiss", kind, rows=1000, dims=24)
    assert len(loaded) == 1000 and loaded.dims == 24
    for result, expected in zip(built.search(queries, 7), loaded.search(queries, 7), strict=True):
        assert np.array_equal(result, expected)


@pytest.mark.parametrize("kind", ["ivf-fp16", "ivf-sq8"])
def test_files_of_rounded_coordinates_are_filled_up(vectors, queries, kind, tmp_path):
    """FAISS is fast for a multiple of 16 coordinates."""
    built = Neighbours.build(vectors[:1000], kind, clusters=8)
    built.save(tmp_path / "n.faiss")
    assert load_faiss().read_index(str(tmp_path / "n.faiss")).d == 32
    loaded = Neighbours.load(tmp_path / "n.faiss", kind, rows=1000, dims=24)
    rows, _ = loaded.search(queries, 20)
    assert loaded.dims == 24 and np.array_equal(rows, built.search(queries, 20)[0])
    assert recall(rows, best(vectors[:1000], queries, 20)[0]) > 0.9
    with pytest.raises(ArtefactError, match=r"1000 vectors of .* not 1000 of 16"):
        Neighbours.load(tmp_path / "n.faiss", kind, rows=1000, dims=13)


def test_a_mapped_file_is_searched_without_further_threads(vectors, queries, tmp_path):
    """FAISS would start 32 per search, which read ahead."""
    Neighbours.build(vectors, "ivf").save(tmp_path / "n.faiss")
    loaded = Neighbours.load(tmp_path / "n.faiss", "ivf", rows=len(vectors), dims=24)
    lists = load_faiss().downcast_InvertedLists(load_faiss().downcast_index(loaded._index).invlists)
    assert lists.prefetch_nthread == 0


def test_asking_for_more_than_there_is(vectors, queries):
    rows, _ = Neighbours.build(vectors[:3]).search(queries, 10)
    assert rows.shape == (50, 3)


def test_refusals(vectors, queries, tmp_path):
    with pytest.raises(OptionError, match="'tree' is not one of auto, flat, ivf, ivf-fp16, ivf-sq8, ivf-pq4, hnsw"):
        Neighbours.build(vectors, "tree")
    with pytest.raises(OptionError, match="3 dimensions, the index 24"):
        Neighbours.build(vectors).search(queries[:, :3], 5)
    (tmp_path / "bad").write_bytes(b"not an index")
    with pytest.raises(ArtefactError, match="not a valid FAISS index"):
        Neighbours.load(tmp_path / "bad", "flat", rows=3, dims=24)


@pytest.mark.skipif(not _has_avx512(), reason="a processor without AVX-512")
@pytest.mark.parametrize(("core", "kernels"), [(None, "SkylakeX"), ("Haswell", "Haswell")])
def test_faiss_uses_the_processor_and_leaves_the_environment_alone(core, kernels):
    """FAISS's OpenBLAS doesn't recognise new processors; a choice that the user made in the environment is respected."""
    program = f"""
import os
from threadpoolctl import threadpool_info
from kernelsearch.neighbours.faiss_index import load_faiss
assert load_faiss() is load_faiss()
ours = [pool for pool in threadpool_info() if "faiss" in pool["filepath"]]
print(os.environ.get({CORE!r}), [pool["architecture"] for pool in ours if "architecture" in pool])
"""
    environment = {name: value for name, value in os.environ.items() if name != CORE} | ({CORE: core} if core else {})
    child = [sys.executable, "-c", program]
    done = subprocess.run(child, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{core} ['{kernels}']\n"


@pytest.mark.parametrize("number", [1000, 2**40, -2])
def test_a_row_number_out_of_range_in_a_damaged_file_is_refused(vectors, queries, number, tmp_path):
    built = Neighbours.build(vectors[:1000], "ivf", clusters=1)
    built.save(tmp_path / "n.faiss")
    data = (tmp_path / "n.faiss").read_bytes()
    numbers = np.arange(1000, dtype=np.int64).tobytes()  # one list has all numbers, in order
    assert data.count(numbers) == 1
    changed = np.full(1000, number, dtype=np.int64).tobytes()
    (tmp_path / "n.faiss").write_bytes(data.replace(numbers, changed))
    with pytest.raises(ArtefactError, match=r"n\.faiss: damaged \(a row number is not below 1000\)"):
        Neighbours.load(tmp_path / "n.faiss", "ivf", rows=1000, dims=24).search(queries, 5)
