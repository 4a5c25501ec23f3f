"""Similar documents by vectors."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import kernelsearch
from kernelsearch.core.errors import InputError
from kernelsearch.similarity import SimilarDocuments
from kernelsearch.similarity.pair_kernels import PairKernels, default_recipe
from kernelsearch.vectors.__main__ import main as vectors_verb

IDS = ["d1", "d2", "d3", "d6"]  # d4 and d5 have no vector
VECTORS = np.array([[1, 0, 0], [0.1, 1, 0], [0, 0.2, 3], [2, 0.1, 0.1]])


@pytest.fixture
def index(tiny_path, tmp_path):
    shutil.copytree(tiny_path, tmp_path / "index")
    np.savez(tmp_path / "v.npz", ids=np.array(IDS), vectors=VECTORS)
    vectors_verb(["--index", str(tmp_path / "index"), "--name", "m", "--input", str(tmp_path / "v.npz"), "--dtype", "float32"])
    return kernelsearch.open(tmp_path / "index")


def test_values_are_cosines_and_neutral_without_a_vector(index):
    rows = index.forward.rows_of(["d1", "d2", "d6", "d5"])
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    expected = [unit[0] @ unit[1], unit[0] @ unit[3]]
    column = PairKernels(index, ["vectors:m"]).table(int(rows[0]), rows[1:])[:, 0]
    assert np.allclose(column, [*expected, np.mean(expected)], atol=1e-6)
    assert PairKernels(index, ["vectors"]).table(int(rows[3]), rows[:3])[:, 0].tolist() == [0, 0, 0]


def test_a_document_without_a_common_word_is_found(index):
    """d6 is in another language: no word of it is in d1, its vector is the nearest."""
    words = SimilarDocuments(index, kernels=["cosine"])
    words._latent = None
    assert "d6" not in dict(words.find("d1"))
    finder = SimilarDocuments(index, kernels=["vectors:m"])
    finder._latent = None
    assert finder.find("d1", 1)[0][0] == "d6"


def test_a_document_without_a_vector_has_no_similar_ones_by_vectors_alone(index):
    with pytest.raises(InputError, match=r"docid: d5 has no vector, and vectors:m compares vectors only"):
        SimilarDocuments(index, kernels=["vectors:m"]).find("d5")
    assert SimilarDocuments(index, kernels=["cosine", "vectors:m"]).find("d5")


def test_vectors_are_in_the_default_recipe_while_they_are_current(index, tiny):
    assert "vectors:m" in default_recipe(index)
    assert not any(name.startswith("vectors") for name in default_recipe(tiny))
