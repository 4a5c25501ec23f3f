"""Features in parts that an engine holds: every question has the answer of the whole matrix."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from kernelsearch.core.execution import LocalEngine
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.kernels.documents import RBF
from kernelsearch.kernels.spectral import feature_rows
from kernelsearch.kernels.spectral.feature_rows import FeatureSource, PartedRows, PartRows


def written_out(blocks, shape):
    """Blocks (start, end, rows) as one matrix; rows that no block has are NaN."""
    out = np.full(shape, np.nan)
    for start, end, block in blocks:
        out[start:end] = block
    return out


def dense_features(topical, kernel, landmarks=25):
    docs = np.arange(len(topical))
    if kernel.has_map:
        return kernel.document_features(topical, docs).toarray()
    chosen = np.sort(np.random.default_rng(0).permutation(docs)[:landmarks])  # no document is empty
    values, vectors = np.linalg.eigh(kernel.documents(topical, chosen, chosen))
    return kernel.documents(topical, docs, chosen) @ (vectors / np.sqrt(values))


@pytest.mark.parametrize("parts", [1, 3, 7, 500])
@pytest.mark.parametrize("kernel", [BM25(k1=1.2), RBF(gamma=0.7)], ids=str)
def test_parts_answer_as_the_whole_matrix_does(topical, monkeypatch, kernel, parts):
    monkeypatch.setattr(feature_rows, "SLAB", 2)
    phi = dense_features(topical, kernel)
    with LocalEngine() as engine:
        rows = PartedRows(FeatureSource(topical, kernel, landmarks=25), engine, parts)
        assert rows.shape == phi.shape and rows.dtype == np.float64
        rng = np.random.default_rng(1)
        right, left, scale = rng.normal(size=(phi.shape[1], 5)), rng.normal(size=(len(phi), 3)), rng.uniform(1, 2, 5)
        assert rows.times(right) == pytest.approx(phi @ right)
        assert rows.transposed_times(left) == pytest.approx(phi.T @ left)
        assert rows.gram_times(right) == pytest.approx(phi.T @ (phi @ right))
        assert rows.squared_norm() == pytest.approx((phi**2).sum())
        assert written_out(rows.project(right, scale), (len(phi), 5)) == pytest.approx(phi @ right / scale)


def test_parts_are_as_long_as_each_other_and_share_the_memory(topical):
    rows = PartedRows(FeatureSource(topical, BM25(), memory=900.0), LocalEngine(), 3)
    made = rows._held.map(lambda part, _: (part.start, part.end, part.rows._free_bytes), None, label="")
    assert list(made) == [(0, 40, 300.0), (40, 80, 300.0), (80, 120, 300.0)]


def test_a_part_travels_as_its_description(topical):
    part = PartRows(FeatureSource(topical, BM25()), 30, 50, 1e6)
    again = pickle.loads(pickle.dumps(part))
    phi = dense_features(topical, BM25())
    assert (again.start, again.end) == (30, 50)
    assert again.rows.times(np.eye(phi.shape[1])) == pytest.approx(phi[30:50])
    # Eight bytes for each term of its documents.
    assert part.__sizeof__() == 8 * np.count_nonzero(phi[30:50])


def test_large_collections_are_in_single_precision(topical, monkeypatch):
    source = FeatureSource(topical, BM25())
    for limit, dtype in ((len(topical), np.float64), (len(topical) - 1, np.float32)):
        monkeypatch.setattr(feature_rows, "DOUBLE_LIMIT", limit)
        assert source.rows().dtype == dtype
        assert next(iter(source.rows()))[2].dtype == dtype


def test_landmarks_follow_the_seed(topical):
    landmarks = [FeatureSource(topical, RBF(), landmarks=9, random_state=seed).nystrom.landmarks.tolist() for seed in (0, 0, 1)]
    assert landmarks[0] == landmarks[1] != landmarks[2] and len(landmarks[0]) == 9
