"""How near a query lies to the documents, against numpy over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

import kernelsearch
from kernelsearch.api.updating import update_index
from kernelsearch.core import artefacts
from kernelsearch.core.errors import ArtefactError
from kernelsearch.vectors import nearness, store
from kernelsearch.vectors.nearness import FEWEST_DOCUMENTS, NEIGHBOURS
from kernelsearch.vectors.readers import open_vectors

COUNT = 130
VECTORS = np.random.default_rng(3).standard_normal((COUNT - 10, 6)) + 0.5


def _import(tmp_path, vectors, **options):
    """The vectors of an index of COUNT documents, of which the first len(vectors) have one; options are those of the import."""
    tmp_path.mkdir(exist_ok=True)
    index = kernelsearch.build(tmp_path / "index", [{"id": f"d{n}", "contents": f"word{n}"} for n in range(COUNT)])
    np.savez(tmp_path / "v.npz", ids=np.array([f"d{n}" for n in range(len(vectors))]), vectors=vectors)
    folder = store.place(index.artefacts, "m")
    options = {"dtype": "float32", "normalise": True, **options}
    store.import_vectors(folder, index.forward, open_vectors(tmp_path / "v.npz"), **options)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return _import(tmp_path_factory.mktemp("nearness"), VECTORS)


def _excess(vectors, *, by_product=False):
    """By how much each vector's mean cosine with its nearest ones is above that with all; nearest by cosine or product."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines, products = unit @ unit.T, vectors @ vectors.T
    out = []
    for place, row in enumerate(cosines):
        others = np.delete(np.arange(len(vectors)), place)
        nearest = others[np.argsort((products if by_product else cosines)[place, others])[-NEIGHBOURS:]]
        out.append(row[nearest].mean() - row.mean())
    return np.array(out)


def _saved(folder):
    """(mean, usual) of the files."""
    return np.load(folder / "mean.npy"), float(np.load(folder / "usual.npy")[0])


def test_it_is_the_excess_of_the_nearest_cosines_over_that_of_documents(folder):
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    usual = np.median(_excess(VECTORS))
    mean, saved = _saved(folder)
    assert saved == pytest.approx(usual, rel=1e-5) and mean == pytest.approx(unit.mean(axis=0), abs=1e-6)
    query = np.array([3.0, -1, 0, 0.2, 0, 0])
    products = unit @ query / np.linalg.norm(query)
    nearest = np.argsort(-products)[: NEIGHBOURS + 5]
    value = store.DocumentVectors(folder).nearness.of(query, unit[nearest].astype(np.float32))
    assert value == pytest.approx((products[nearest[:NEIGHBOURS]].mean() - products.mean()) / usual, rel=1e-4)


@pytest.mark.parametrize("kind", ["auto", "ivf"])
def test_the_nearest_are_those_by_inner_product_whatever_the_index(tmp_path, kind):
    """Vectors of different lengths, of which some are negative multiples of others, read in blocks of a few rows."""
    vectors = VECTORS * np.random.default_rng(4).uniform(-1, 3, size=(len(VECTORS), 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearness, "ROWS", 17)
        folder = _import(tmp_path, vectors, normalise=False, neighbours=kind)
    exact = np.median(_excess(vectors, by_product=True))
    assert exact != pytest.approx(np.median(_excess(vectors)), rel=1e-2)
    assert _saved(folder)[1] == pytest.approx(exact, rel=1e-5)


def test_it_is_read_and_not_measured_again(folder, monkeypatch):
    monkeypatch.setattr(nearness, "_nearest", lambda *_: pytest.fail("measured"))
    assert store.DocumentVectors(folder).nearness.usual == pytest.approx(np.median(_excess(VECTORS)), rel=1e-5)


def _save_again(folder, target, change):
    """The artefact with changed arrays and valid checksums; None removes an array."""
    meta, arrays = artefacts.load(folder, store.KIND, store.VERSION)
    changed = {name: array for name, array in {**arrays, **change}.items() if array is not None}
    artefacts.save(target, store.KIND, store.VERSION, arrays=changed, parameters=meta["parameters"], extra=meta["extra"])
    (target / "verified.json").unlink()
    return target


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mean": None}, "no 'mean'"),
        ({"usual": None}, "no 'usual'"),
        ({"mean": np.zeros(5, dtype=np.float32)}, "mean has shape"),
        ({"mean": np.full(6, np.nan, dtype=np.float32)}, "not finite"),
        ({"mean": np.full(6, 0.5, dtype=np.float32)}, "not that of cosines"),
        ({"usual": np.array([np.inf])}, "not finite"),
        ({"usual": np.array([-0.1])}, "not that of cosines"),
        ({"usual": np.array([2.1])}, "not that of cosines"),
        ({"usual": np.array([0.1, 0.1])}, "usual has shape"),
        ({"usual": np.array([1])}, "usual has type"),
    ],
)
def test_numbers_that_no_measurement_gives_are_refused(folder, tmp_path, change, reason):
    with pytest.raises(ArtefactError, match=rf"wrong: damaged \(.*{reason}"):
        store.DocumentVectors(_save_again(folder, tmp_path / "wrong", change))


def test_documents_that_are_deleted_do_not_count_any_more(tmp_path):
    folder = _import(tmp_path, VECTORS)
    update_index(tmp_path / "index", None, [f"d{n}" for n in range(15)])
    mean, usual = _saved(folder)
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    assert usual == pytest.approx(np.median(_excess(VECTORS[15:])), rel=1e-5)
    assert usual != pytest.approx(np.median(_excess(VECTORS)), rel=1e-4)
    assert mean == pytest.approx(unit[15:].mean(axis=0), abs=1e-6)


def test_too_few_documents_and_equal_ones_have_none(tmp_path):
    few, same = VECTORS[: FEWEST_DOCUMENTS - 1], np.tile([1.0, 0, 0, 0], (COUNT, 1))
    for name, vectors in (("few", few), ("same", same)):
        documents = store.DocumentVectors(_import(tmp_path / name, vectors))
        assert documents.nearness.of(vectors[0], documents.unit(np.arange(3))) is None
