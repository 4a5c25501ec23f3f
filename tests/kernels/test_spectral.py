"""Truncated SVD of feature matrices: against dense linear algebra, over blocks, by seed; Nyström."""

from importlib import import_module

import numpy as np
import pytest
from scipy import sparse

from kernelsearch.core import compiled
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.rows import unit_products
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


# What the solvers promise: residuals, products, space


def decaying(size=60, seed=3, ratio=0.8):
    """A symmetric positive definite matrix with eigenvalues ratio^i."""
    vectors = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]
    values = ratio ** np.arange(size)
    return (vectors * values) @ vectors.T, values


class Counted:
    """A matrix that counts the vectors it is multiplied with."""

    def __init__(self, matrix):
        self.matrix, self.widths = matrix, []

    def __call__(self, x):
        self.widths.append(x.shape[1])
        return self.matrix @ x


@pytest.mark.parametrize(("k", "block", "space"), [(10, 4, None), (10, 4, 18), (3, 16, None), (1, 1, None), (25, 7, 39)])
def test_krylov_finds_the_largest_pairs_in_the_space_that_it_asks_for(k, block, space):
    matrix, values = decaying()
    apply, asked = Counted(matrix), []

    def allocate(shape, dtype):
        asked.append(shape)
        return np.zeros(shape, dtype)

    result = block_krylov(apply, 60, k, block=block, space=space, tolerance=1e-8, allocate=allocate)
    # The documented default: one and a half times k, and two blocks.
    assert asked == [(space or k + k // 2 + 2 * block, 60)]
    assert result.values == pytest.approx(values[:k], rel=1e-8)
    assert result.vectors.shape == (60, k)
    assert result.vectors.T @ result.vectors == pytest.approx(np.eye(k), abs=1e-10)
    actual = np.linalg.norm(matrix @ result.vectors - result.vectors * result.values, axis=0)
    assert result.residuals == pytest.approx(actual, abs=1e-11) and (actual <= 1.01e-8 * result.values).all()
    assert result.products == sum(apply.widths) and max(apply.widths) <= block


def test_krylov_stops_as_soon_as_every_pair_is_within_the_tolerance():
    matrix, _ = decaying()
    seen = []
    loose = block_krylov(lambda x: matrix @ x, 60, 8, block=4, tolerance=0.05, progress=lambda *step: seen.append(step))
    tight = block_krylov(lambda x: matrix @ x, 60, 8, block=4, tolerance=1e-6)
    assert loose.products < tight.products
    products, residuals = zip(*seen, strict=True)
    assert residuals[-1] == pytest.approx((loose.residuals / loose.values).max()) and residuals[-1] <= 0.05
    assert all(residual > 0.05 for residual in residuals[:-1])
    assert products[-1] == loose.products and products == tuple(range(products[0], products[-1] + 1, 4))


def test_krylov_stops_at_its_limit_of_products():
    matrix, _ = decaying(ratio=0.999)
    result = block_krylov(lambda x: matrix @ x, 60, 5, block=2, space=9, tolerance=0.0, limit=6)
    assert 6 * 5 <= result.products < 6 * 5 + 2 and result.residuals.max() > 0


@pytest.mark.parametrize("k", [6, 20, 25])
def test_krylov_of_a_small_or_singular_matrix(k):
    """Fewer dimensions than asked for, a space that becomes invariant, and the matrix of zeros."""
    root = np.random.default_rng(4).normal(size=(20, 5))
    values = np.linalg.eigvalsh(root @ root.T)[::-1]
    for matrix, expected in (
        (root @ root.T, np.maximum(values, 0)),
        (np.zeros((20, 20)), np.zeros(20)),
        (np.eye(20), np.ones(20)),
    ):
        result = block_krylov(lambda x, matrix=matrix: matrix @ x, 20, k, block=3, tolerance=1e-10)
        count = min(k, 20)
        assert result.values == pytest.approx(expected[:count], abs=1e-9) and (result.values >= 0).all()
        assert result.vectors.T @ result.vectors == pytest.approx(np.eye(count), abs=1e-9)
        assert matrix @ result.vectors == pytest.approx(result.vectors * result.values, abs=1e-8)


@SOLVERS
@pytest.mark.parametrize("shape", [(400, 250), (250, 400), (90, 60)])
def test_residuals_products_and_signs_are_what_they_say(solver, shape):
    phi = matrix(*shape)
    calls = []

    class Rows(RowBlocks):
        def gram_times(self, right):
            calls.append(right.shape[1])
            return super().gram_times(right)

        def times(self, right):
            calls.append(right.shape[1])
            return super().times(right)

    rows = Rows.of(phi, size=64)
    result = decompose(rows, 12, solver=solver, tolerance=1e-3)
    gram = (phi.T @ phi).toarray()
    actual = np.linalg.norm(gram @ result.right - result.right * result.values**2, axis=0) / result.values**2
    assert result.residual <= 1e-3 and actual.max() <= (1.1e-3 if solver == "randomised" else 1e-10)
    if shape[1] <= shape[0]:  # the residuals are those of this matrix, not of its transpose
        assert result.residual == pytest.approx(actual.max(), abs=1e-12)
    checked = 12 if solver == "arpack" else 0  # ARPACK's residuals take a product more, which isn't counted
    assert result.products == sum(calls) - checked
    assert (result.right[np.abs(result.right).argmax(axis=0), np.arange(12)] > 0).all()
    assert result.solver == solver


def test_the_solver_is_chosen_by_the_smaller_side(monkeypatch):
    for limit, solver in ((60, "arpack"), (59, "randomised")):
        monkeypatch.setattr(import_module("kernelsearch.kernels.spectral.decompose"), "ARPACK_LIMIT", limit)
        assert decompose(RowBlocks.of(matrix(90, 60)), 5).solver == solver


def test_nystrom_leaves_out_directions_of_repeated_landmarks(topical):
    """Twenty landmarks, ten of them twice: ten features, whose products are those of ten landmarks."""
    kernel, docs = RBF(gamma=0.7), np.arange(len(topical))
    once = NystromMap(kernel, topical, docs[:10])
    twice = NystromMap(kernel, topical, np.repeat(docs[:10], 2))
    assert once.rank == twice.rank == 10
    products = [features @ features.T for features in (once.features(docs), twice.features(docs))]
    assert products[0] == pytest.approx(products[1], abs=1e-7)
    gram, cross = kernel.documents(topical, docs[:10], docs[:10]), kernel.documents(topical, docs, docs[:10])
    assert products[0] == pytest.approx(cross @ np.linalg.inv(gram) @ cross.T)


@pytest.mark.parametrize(("least", "accepted"), [(-1e-8, True), (-1e-5, False)])
def test_nystrom_takes_small_negative_eigenvalues_for_rounding(topical, least, accepted):
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    gram = (vectors * [2.0, 1.5, 1.0, 0.5, 0.1, 2 * least]) @ vectors.T
    custom = Custom(lambda x, y: gram)
    if accepted:
        assert NystromMap(custom, topical, np.arange(6)).rank == 5
    else:
        with pytest.raises(OptionError, match="not positive semi-definite"):
            NystromMap(custom, topical, np.arange(6))


def test_landmarks_are_rows_with_terms_in_order(make_collection):
    collection = make_collection([["a"], [], ["b"], ["a", "b"], [], ["c"]])
    assert choose_landmarks(collection, 10).tolist() == [0, 2, 3, 5]
    drawn = {tuple(choose_landmarks(collection, 2, seed).tolist()) for seed in range(60)}
    assert drawn == {(0, 2), (0, 3), (0, 5), (2, 3), (2, 5), (3, 5)}


@pytest.mark.parametrize("contiguous", [True, False])
def test_unit_products_are_cosines_with_scaled_rows(contiguous, monkeypatch):
    rng = np.random.default_rng(2)
    table = rng.normal(size=(9, 6)).astype(np.float32)
    table[4] = 0
    stored = table if contiguous else np.asfortranarray(table)
    scale, vector, docs = rng.uniform(1, 2, 4).astype(np.float32), rng.normal(size=4).astype(np.float32), np.array([8, 4, 0, 8])
    scaled = table[docs, :4] * scale
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    expected = (scaled / np.where(lengths > 0, lengths, 1)) @ vector
    for switch in ("1", "0"):
        monkeypatch.setenv(compiled.SWITCH, switch)
        assert unit_products(stored, scale, vector, docs) == pytest.approx(expected, rel=1e-5, abs=1e-6)


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
