"""How near a query lies to the documents, against numpy over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

import kernelsearch
from kernelsearch.vectors import store
from kernelsearch.vectors.nearness import FEWEST_DOCUMENTS, NEIGHBOURS, Nearness
from kernelsearch.vectors.readers import open_vectors

COUNT = 130


def _documents(tmp_path, vectors):
    """The vectors of an index of COUNT documents, of which the first len(vectors) have one."""
    index = kernelsearch.build(tmp_path / "index", [{"id": f"d{n}", "contents": f"word{n}"} for n in range(COUNT)])
    np.savez(tmp_path / "v.npz", ids=np.array([f"d{n}" for n in range(len(vectors))]), vectors=vectors)
    folder = store.place(index.artefacts, "m")
    store.import_vectors(folder, index.forward, open_vectors(tmp_path / "v.npz"), dtype="float32", normalise=True)
    return store.DocumentVectors(folder)


def test_it_is_the_excess_of_the_nearest_cosines_over_that_of_documents(tmp_path):
    vectors = np.random.default_rng(3).standard_normal((COUNT - 10, 6)) + 0.5
    documents = _documents(tmp_path, vectors)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    excess = [np.sort(np.delete(row, place))[-NEIGHBOURS:].mean() - row.mean() for place, row in enumerate(cosines)]
    measured = Nearness.measure(documents)
    assert measured is not None and measured.usual == pytest.approx(np.median(excess), rel=1e-5)
    query = np.array([3.0, -1, 0, 0.2, 0, 0])
    products = unit @ query / np.linalg.norm(query)
    nearest = np.argsort(-products)[: NEIGHBOURS + 5]
    value = measured.of(query, unit[nearest].astype(np.float32))
    assert value == pytest.approx((products[nearest[:NEIGHBOURS]].mean() - products.mean()) / np.median(excess), rel=1e-4)


def test_too_few_documents_and_equal_ones_have_none(tmp_path):
    (tmp_path / "few").mkdir()
    few = np.random.default_rng(3).standard_normal((FEWEST_DOCUMENTS - 1, 6))
    assert Nearness.measure(_documents(tmp_path / "few", few)) is None
    (tmp_path / "same").mkdir()
    assert Nearness.measure(_documents(tmp_path / "same", np.tile([1.0, 0, 0, 0], (COUNT, 1)))) is None
