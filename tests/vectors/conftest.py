"""An index of six documents that tests may add vectors to, and vectors for them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import kernelsearch


@pytest.fixture
def index(tiny_path, tmp_path):
    """A copy of the tiny index: what a test stores beside it is gone after the test."""
    shutil.copytree(tiny_path, tmp_path / "index")
    return kernelsearch.open(tmp_path / "index")


@pytest.fixture
def table() -> tuple[list[str], np.ndarray]:
    """(ids, vectors) of five of the six documents, not in the index's order; all values are exact in float16."""
    values = np.random.default_rng(7).integers(-64, 65, size=(5, 4)) / 16
    return ["d5", "d1", "d3", "d2", "d6"], values.astype(np.float32)


def write_npz(path, ids, vectors):
    """A file of vectors as numpy writes it."""
    np.savez_compressed(path, ids=np.array(ids), vectors=vectors)
    return path
