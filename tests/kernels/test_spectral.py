"""Truncated SVD of feature matrices: against dense linear algebra, over blocks, by seed; Nyström."""

import numpy as np
import pytest
from scipy import sparse

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.kernels.documents import RBF, Cosine, Custom
from kernelsearch.kernels.spectral import NystromMap, RowBlocks, choose_landmarks, decompose
from kernelsearch.kernels.spectral.krylov import block_krylov

SOLVERS = pytest.mark.parametrize("solver", ["arpack", "randomised"])


def matrix(rows=400, columns=250, seed=0):
    """A sparse matrix with a decaying spectrum."""
    rng = np.random.default_rng(seed)
    dense = (rng.normal(size=(rows, 30)) * 0.8 ** np.arange(30)) @ rng.normal(size=(30, columns))
    return sparse.csr_matrix(np.where(rng.random(dense.shape) < 0.3, dense, 0))


def left_vectors(result, rows):
    return np.vstack([block for _, _, block in result.left(rows)])


@SOLVERS
@pytest.mark.parametrize("shape", [(400, 250), (250, 400)])
def test_agrees_with_a_dense_decomposition(solver, shape):
    phi = matrix(*shape)
    rows = RowBlocks.of(phi, size=64)
    result = decompose(rows, 20, solver=solver, tolerance=1e-9)
    u, s, vt = np.linalg.svd(phi.toarray(), full_matrices=False)
    assert result.values == pytest.approx(s[:20], rel=1e-8)
    assert result.energy == pytest.approx((s[:20] ** 2).sum() / (s**2).sum())
    left = left_vectors(result, rows)
    assert np.allclose(left @ left.T, u[:, :20] @ u[:, :20].T, atol=1e-7)
    assert np.allclose(np.abs(np.sum(result.right * vt[:20].T, axis=0)), 1, atol=1e-7)


@SOLVERS
def test_the_basis_is_orthonormal_even_when_it_is_rough(solver):
    """Ritz vectors are orthogonal whatever their residual."""
    phi = matrix()
    rows = RowBlocks.of(phi)
    result = decompose(rows, 25, solver=solver, tolerance=0.3)
    left = left_vectors(result, rows)
    assert np.allclose(left.T @ left, np.eye(25), atol=1e-8)
    assert np.allclose(result.right.T @ result.right, np.eye(25), atol=1e-8)


def test_blocks_and_memory_do_not_change_the_result():
    phi = matrix()
    whole = decompose(RowBlocks.of(phi), 10, solver="randomised")
    for options in ({"size": 7}, {"size": 50, "memory": 0}, {"size": 50, "memory": 5000}):
        again = decompose(RowBlocks.of(phi, **options), 10, solver="randomised")
        assert np.allclose(again.values, whole.values, rtol=1e-10)
        assert np.allclose(again.right, whole.right, atol=1e-8)


def test_blocks_are_made_once_if_they_fit_and_at_every_pass_if_not():
    phi, made = matrix(), []

    def make(start, end):
        made.append(start)
        return phi[start:end]

    RowBlocks(make, phi.shape, size=100).gram_times(np.eye(250)[:, :3])
    first = len(made)
    cached = RowBlocks(make, phi.shape, size=100)
    thrown = RowBlocks(make, phi.shape, size=100, memory=0)
    for rows, passes in ((cached, 1), (thrown, 3)):
        made.clear()
        for _ in range(3):
            rows.gram_times(np.eye(250)[:, :3])
        assert len(made) == passes * first == passes * 4


@SOLVERS
def test_the_same_seed_gives_the_same_bits(solver):
    phi = matrix()
    first, second = (decompose(RowBlocks.of(phi), 10, solver=solver, random_state=3) for _ in range(2))
    assert np.array_equal(first.right, second.right) and np.array_equal(first.values, second.values)


@SOLVERS
def test_the_order_of_documents_does_not_matter(solver):
    phi = matrix()
    order = np.random.default_rng(1).permutation(phi.shape[0])
    plain = left_vectors(decompose(RowBlocks.of(phi), 12, solver=solver, tolerance=1e-8), RowBlocks.of(phi))
    mixed = left_vectors(decompose(RowBlocks.of(phi[order]), 12, solver=solver, tolerance=1e-8), RowBlocks.of(phi[order]))
    assert np.allclose(mixed @ mixed.T, (plain @ plain.T)[np.ix_(order, order)], atol=1e-7)


@SOLVERS
def test_fewer_dimensions_where_the_rank_is_smaller(solver):
    rng = np.random.default_rng(0)
    low_rank = sparse.csr_matrix(rng.normal(size=(300, 4)) @ rng.normal(size=(4, 260)))
    result = decompose(RowBlocks.of(low_rank), 40, solver=solver)
    assert len(result.values) == 4 and result.energy == pytest.approx(1)


def test_equal_singular_values_beyond_the_block_size_are_all_found():
    """The identity: every direction is an eigenvector, so the Krylov space stops growing after one block."""
    result = block_krylov(lambda x: x, 90, 50, block=8)
    assert result.values == pytest.approx(np.ones(50))
    assert np.allclose(result.vectors.T @ result.vectors, np.eye(50), atol=1e-10)


def test_restarts_reach_the_tolerance_in_little_space():
    phi = matrix(300, 200, seed=5)
    gram = (phi.T @ phi).toarray()
    result = block_krylov(lambda x: gram @ x, 200, 30, block=5, space=45, tolerance=1e-6)
    assert result.values == pytest.approx(np.linalg.eigvalsh(gram)[::-1][:30], rel=1e-9)
    assert (result.residuals / result.values).max() <= 1e-6
    actual = np.linalg.norm(gram @ result.vectors - result.vectors * result.values, axis=0)
    assert actual == pytest.approx(result.residuals, abs=1e-7 * result.values[0])


def test_arpack_reports_its_products_as_they_come():
    phi = sparse.random(400, 300, density=0.05, format="csr", random_state=1)
    seen: list[int] = []
    result = decompose(RowBlocks.of(phi), 10, solver="arpack", progress=lambda products, residual: seen.append(products))
    assert len(seen) > 10
    assert seen == sorted(seen)
    assert seen[-1] == result.products


def test_single_precision_reports_progress_and_stays_close():
    phi = matrix().astype(np.float32)
    seen = []
    result = decompose(RowBlocks.of(phi), 15, solver="randomised", progress=lambda products, residual: seen.append(residual))
    assert result.right.dtype == np.float32
    assert result.values == pytest.approx(np.linalg.svd(phi.toarray(), compute_uv=False)[:15], rel=1e-3)
    assert seen[-1] <= 1e-2 and result.residual <= 1e-2


def test_refusals():
    with pytest.raises(OptionError, match="'qr' is not one of auto, arpack, randomised"):
        decompose(RowBlocks.of(matrix()), 3, solver="qr")
    with pytest.raises(InputError, match="all features are zero"):
        decompose(RowBlocks.of(sparse.csr_matrix((5, 5))), 3)


def test_nystrom_is_exact_on_landmarks_and_with_all_documents(topical):
    kernel, docs = RBF(gamma=0.7), np.arange(len(topical))
    gram = kernel.documents(topical, docs, docs)
    landmarks = choose_landmarks(topical, 30, random_state=2)
    features = NystromMap(kernel, topical, landmarks).features(docs)
    assert np.allclose((features @ features.T)[:, landmarks], gram[:, landmarks], atol=1e-6)
    all_features = NystromMap(kernel, topical, docs).features(docs)
    assert np.allclose(all_features @ all_features.T, gram, atol=1e-6)


def test_nystrom_comes_closer_with_more_landmarks(topical):
    kernel, docs = Cosine(BM25()) * Cosine(), np.arange(len(topical))
    gram = kernel.documents(topical, docs, docs)
    errors = []
    for count in (10, 40, 100):
        features = NystromMap(kernel, topical, choose_landmarks(topical, count)).features(docs)
        errors.append(np.linalg.norm(features @ features.T - gram))
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize(
    "function, word",
    [
        (lambda x, y: -(x @ y.T).toarray(), "not positive semi-definite"),
        (lambda x, y: np.arange(x.shape[0] * y.shape[0], dtype=float).reshape(x.shape[0], -1), "not symmetric"),
        (lambda x, y: np.full((x.shape[0], y.shape[0]), np.nan), "not finite"),
    ],
)
def test_functions_that_are_no_kernels_are_refused(topical, function, word):
    with pytest.raises(OptionError, match=word):
        NystromMap(Custom(function), topical, np.arange(20))


def test_single_precision_keeps_real_directions_of_a_wide_matrix():
    """Their eigenvalues are 1/100 of the largest: less than size · eps in single precision, far more than its rounding."""
    size, values = 200_000, np.array([10, 1, 1, 1, 1], dtype=np.float32)
    places = np.arange(5) * 39_999
    phi = sparse.csr_matrix((values, (places, places)), shape=(size, size))
    result = decompose(RowBlocks.of(phi), 5, solver="randomised", tolerance=1e-4)
    assert result.values == pytest.approx([10, 1, 1, 1, 1], rel=1e-3)
    assert result.energy == pytest.approx(1, rel=1e-3)


def test_vectors_in_a_mapped_file_are_the_same_and_blocks_can_be_forgotten(tmp_path):
    phi = matrix()
    rows = RowBlocks.of(phi, size=50)

    def mapped(shape, dtype):
        return np.memmap(tmp_path / "space", dtype, "w+", shape=shape)

    plain = decompose(rows, 10, solver="randomised", tolerance=1e-8)
    rows.forget()
    on_disk = decompose(rows, 10, solver="randomised", tolerance=1e-8, allocate=mapped)
    assert np.array_equal(plain.values, on_disk.values)
    assert np.array_equal(plain.right, on_disk.right)
    assert plain.right.shape == (phi.shape[1], 10)


@pytest.mark.parametrize("dense", [False, True])
def test_documents_outside_the_directions_have_no_place(dense):
    """Rounding errors would be a random direction to whoever divides them by their length."""
    # Pairs of documents with a term of their own, the later the heavier, and single documents: 100 dimensions hold 100 pairs.
    features = np.zeros((360, 400))
    for pair in range(150):
        features[2 * pair : 2 * pair + 2, pair] = 1.0 + 0.01 * pair
    features[np.arange(300, 360), np.arange(300, 360)] = 1.0
    rows = RowBlocks.of(features if dense else sparse.csr_matrix(features), size=50)
    basis = decompose(rows, 100, solver="arpack")
    left = np.concatenate([block for _, _, block in basis.left(rows)])
    lengths = np.linalg.norm(left, axis=1)
    inside = (np.arange(360) >= 100) & (np.arange(360) < 300)
    assert (lengths[inside] > 0.5).all() and not lengths[~inside].any()


def test_nystrom_needs_documents_with_terms(topical):
    with pytest.raises(InputError, match="no document has terms"):
        NystromMap(RBF(), topical, np.zeros(0, dtype=np.int64))
