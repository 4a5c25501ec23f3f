"""Neighbours of sparse rows: recall against exact inner products, saving and loading, limits."""

import numpy as np
import pytest
from scipy import sparse

from kernelsearch.core.errors import ArtefactError
from kernelsearch.kernels.queries import ngrams
from kernelsearch.neighbours import SparseNeighbours
from kernelsearch.neighbours import sparse as room


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghijklmnop"), size=int(rng.integers(3, 9)))) for _ in range(300)]
    return [" ".join(rng.choice(words, size=int(rng.integers(1, 5)))) for _ in range(3000)]


@pytest.fixture(scope="module")
def rows(texts):
    return ngrams(texts)


@pytest.fixture(scope="module")
def built(rows):
    return SparseNeighbours.build(rows[::7], (rows[:1000], rows[1000:]), 3000)


def test_nearly_all_nearest_rows_are_found(built, rows, texts):
    asked = ngrams([text[:2] + text[3:] for text in texts[:100]])  # a letter lost
    products = (asked @ rows.T).toarray()
    expected = np.argsort(-products, axis=1, kind="stable")[:, :10]
    result = built.search(asked, 100)
    assert np.mean([np.isin(best, near).mean() for best, near in zip(expected, result, strict=True)]) > 0.9
    assert np.mean([best[0] in near[:10] for best, near in zip(expected, result, strict=True)]) > 0.95
    assert all(len(set(near.tolist())) == len(near) <= 100 for near in result)


def test_what_shares_nothing_is_not_found(built):
    nothing, other = built.search(ngrams(["", "zzzzzzzz"]), 10)
    assert not len(nothing) and not len(other)
    assert built.search(sparse.csr_matrix((0, ngrams([""]).shape[1])), 10) == []


def test_large_sets_take_half_the_lists(rows, monkeypatch):
    monkeypatch.setattr(room, "MANY", 100)
    small = SparseNeighbours.build(rows, [rows], 3000)
    assert small._index.ntotal <= 3000 * 8 < SparseNeighbours.build(rows, [rows], 100)._index.ntotal


def test_files_come_back_and_others_are_refused(built, rows, tmp_path):
    built.save(tmp_path / "n.faiss")
    again = SparseNeighbours.load(tmp_path / "n.faiss", built.frequencies, 3000)
    for result, expected in zip(built.search(rows[:20], 10), again.search(rows[:20], 10), strict=True):
        assert result.tolist() == expected.tolist()
    (tmp_path / "bad").write_bytes(b"x" * 100)
    with pytest.raises(ArtefactError, match="bad: damaged, not a valid FAISS index"):
        SparseNeighbours.load(tmp_path / "bad", built.frequencies, 3000)
