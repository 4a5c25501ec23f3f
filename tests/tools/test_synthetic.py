"""The synthetic collections that benchmarks share."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).resolve().parents[2] / "tools" / "synthetic.py"


@pytest.fixture(scope="module")
def synthetic():
    spec = importlib.util.spec_from_file_location("synthetic", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_same_seed_gives_the_same_collection_in_both_forms(synthetic):
    one, two = (synthetic.Generator(300, vocabulary=500, topics=9, seed=4) for _ in range(2))
    matrix = one.matrix()
    assert (matrix != two.matrix()).nnz == 0
    assert (matrix != synthetic.Generator(300, vocabulary=500, topics=9, seed=5).matrix()).nnz > 0
    lengths = [len(record["contents"].split()) for record in two.records()]
    assert lengths == np.asarray(matrix.sum(axis=1)).ravel().astype(int).tolist()


def test_words_are_zipfian_and_spelt_apart(synthetic):
    matrix = synthetic.Generator(2000, vocabulary=3000, seed=1).matrix()
    counts = np.sort(np.asarray(matrix.sum(axis=0)).ravel())[::-1]
    assert counts[0] > 20 * counts[500] > 0
    assert len({synthetic._spelt(number) for number in range(3000)}) == 3000
