import json

import numpy as np
import pytest

from kernelsearch.core import artefacts
from kernelsearch.core.errors import ArtefactError


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    artefacts.save(
        path,
        "basis",
        3,
        arrays={"u": np.arange(12.0).reshape(3, 4), "none": np.empty(0)},
        parameters={"dims": 4},
        fingerprint="abc",
    )
    return path


def test_round_trip_is_exact_and_memory_mapped(saved):
    meta, arrays = artefacts.load(saved, "basis", 3, fingerprint="abc")
    assert meta["parameters"] == {"dims": 4}
    assert isinstance(arrays["u"], np.memmap)
    np.testing.assert_array_equal(arrays["u"], np.arange(12.0).reshape(3, 4))
    assert arrays["none"].shape == (0,)


def test_other_index_other_kind_other_version_are_refused(saved):
    with pytest.raises(ArtefactError, match="made for another index"):
        artefacts.load(saved, "basis", 3, fingerprint="xyz")
    with pytest.raises(ArtefactError, match="holds a basis, a graph was expected"):
        artefacts.load(saved, "graph", 3)
    with pytest.raises(ArtefactError, match="format 3 of a basis, this version reads format 4"):
        artefacts.load(saved, "basis", 4)


def test_a_file_cut_short_or_missing_is_named(saved):
    data = (saved / "u.npy").read_bytes()
    (saved / "u.npy").write_bytes(data[:-8])
    with pytest.raises(ArtefactError, match=r"u\.npy: \d+ bytes where \d+ were written"):
        artefacts.load(saved, "basis", 3)
    (saved / "u.npy").unlink()
    with pytest.raises(ArtefactError, match=r"u\.npy: missing"):
        artefacts.load(saved, "basis", 3)


def test_damaged_content_of_the_right_size_is_named(saved):
    size = (saved / "u.npy").stat().st_size
    (saved / "u.npy").write_bytes(b"x" * size)
    with pytest.raises(ArtefactError, match=r"u\.npy: damaged"):
        artefacts.load(saved, "basis", 3)


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"kind": "basis"})])
def test_damaged_description_is_named(saved, content):
    (saved / "meta.json").write_text(content)
    with pytest.raises(ArtefactError, match=r"meta\.json: damaged"):
        artefacts.load(saved, "basis", 3)


def test_missing_artefact_is_named(tmp_path):
    with pytest.raises(ArtefactError, match="nothing: no basis here"):
        artefacts.load(tmp_path / "nothing", "basis", 3)


def test_pickled_arrays_are_never_loaded(saved):
    np.save(saved / "u.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    meta = json.loads((saved / "meta.json").read_text())
    meta["files"]["u.npy"] = (saved / "u.npy").stat().st_size
    (saved / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(ArtefactError, match=r"u\.npy: damaged"):
        artefacts.load(saved, "basis", 3)


def test_blocks_make_one_array_and_miscounts_are_noticed(tmp_path):
    with artefacts.BlockWriter(tmp_path / "a.npy", np.float32, (3, 2)) as writer:
        writer.write(np.ones((1, 2)))
        writer.write(np.zeros((2, 2)))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), [[1, 1], [0, 0], [0, 0]])
    with (
        pytest.raises(ArtefactError, match="2 elements written where 6"),
        artefacts.BlockWriter(tmp_path / "b.npy", "f4", (3, 2)) as w,
    ):
        w.write(np.ones(2))
