import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kernelsearch.core import artefacts, checksums
from kernelsearch.core.errors import ArtefactError, InputError
from tests.conftest import rewrite_meta


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
    rewrite_meta(saved, lambda meta: meta["files"].update({"u.npy": (saved / "u.npy").stat().st_size}))
    with pytest.raises(ArtefactError, match=r"u\.npy: damaged"):
        artefacts.load(saved, "basis", 3)


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "m8[s]", "V8"])
def test_arrays_of_types_that_no_artefact_has_are_refused(saved, dtype):
    np.save(saved / "u.npy", np.zeros(12).view(dtype) if dtype != "c16" else np.zeros(12, dtype))
    rewrite_meta(saved, lambda meta: meta["files"].update({"u.npy": (saved / "u.npy").stat().st_size}))
    with pytest.raises(ArtefactError, match=r"u\.npy: damaged .an array of type"):
        artefacts.load(saved, "basis", 3)


@pytest.mark.parametrize("name", ["parameters", "extra"])
def test_parameters_that_are_no_object_are_refused(saved, name):
    rewrite_meta(saved, lambda meta: meta.update({name: 3}))
    with pytest.raises(ArtefactError, match=r"meta\.json: damaged"):
        artefacts.load(saved, "basis", 3)


def test_what_is_no_artefact_is_not_replaced(tmp_path, saved):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text").write_text("kept")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.json").write_text('{"title": "kept"}')
    (tmp_path / "file").write_text("kept")
    (saved / "notes.txt").write_text("kept")
    reasons = {"thesis": "holds text", "data": "holds meta.json", "file": "cannot be written", "model": "holds notes.txt"}
    for name, reason in reasons.items():
        with pytest.raises(InputError, match=f"{name}: {reason}"):
            artefacts.save(tmp_path / name, "basis", 3)
    assert (tmp_path / "thesis" / "text").read_text() == (saved / "notes.txt").read_text() == "kept"
    assert (tmp_path / "data" / "meta.json").is_file() and (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("damaged", ["meta.json", checksums.NOTE])
def test_a_damaged_artefact_is_replaced(saved, damaged):
    (saved / damaged).write_bytes(b"\xff")
    (saved / "u.npy").unlink()
    artefacts.save(saved, "basis", 3, arrays={"v": np.zeros(2)})
    assert list(artefacts.load(saved, "basis", 3)[1]) == ["v"]


def test_an_empty_folder_is_replaced(tmp_path):
    (tmp_path / "new").mkdir()
    artefacts.save(tmp_path / "new", "basis", 3)
    assert artefacts.load(tmp_path / "new", "basis", 3)[1] == {}


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


def damage(file, place=-1):
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("count", [10, 1 << 19], ids=["small", "large"])
def test_one_flipped_bit_is_refused_by_name(tmp_path, count):
    path = tmp_path / "model"
    artefacts.save(path, "basis", 3, arrays={"u": np.arange(count, dtype=np.float64)})
    artefacts.load(path, "basis", 3)
    damage(path / "u.npy")
    with pytest.raises(ArtefactError, match=r"u\.npy: damaged \(its checksum is not the one that was written\); build"):
        artefacts.load(path, "basis", 3)
    damage(path / "u.npy")
    artefacts.load(path, "basis", 3)


def test_every_bit_of_the_description_counts(saved):
    data = (saved / "meta.json").read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        (saved / "meta.json").write_bytes(changed)
        try:
            meta, _ = artefacts.load(saved, "basis", 3, fingerprint="abc")
        except ArtefactError:
            continue
        assert meta["parameters"] == {"dims": 4}  # white space, or the base of a hexadecimal digit


def test_large_files_are_hashed_only_after_a_change(tmp_path, monkeypatch):
    path = tmp_path / "model"
    artefacts.save(path, "basis", 3, arrays={"u": np.zeros(1 << 19), "v": np.zeros(3)})
    artefacts.load(path, "basis", 3)  # the clock's tick in which the files were written is over
    hashed = []
    real = checksums.file_checksum
    monkeypatch.setattr(checksums, "file_checksum", lambda file: hashed.append(file.name) or real(file))
    artefacts.load(path, "basis", 3)
    assert hashed == ["v.npy"]
    shutil.copytree(path, tmp_path / "copy")
    hashed.clear()
    for _ in range(2):
        artefacts.load(tmp_path / "copy", "basis", 3)
    assert sorted(hashed) == ["u.npy", "v.npy", "v.npy"]


def test_a_description_that_was_changed_and_signed_again_is_validated_again(saved):
    """The arrays are unchanged and have been verified, but not with these parameters."""
    time.sleep(0.02)  # the clock's tick in which the files were written is over
    artefacts.load(saved, "basis", 3)
    seen = []

    def validate(meta, arrays):
        seen.append(meta["parameters"]["dims"])
        if meta["parameters"]["dims"] > 4:
            raise ValueError("5 dimensions of 4")

    artefacts.load(saved, "basis", 3, validate=validate)
    assert seen == []
    rewrite_meta(saved, lambda meta: meta["parameters"].update(dims=3))
    for _ in range(2):
        artefacts.load(saved, "basis", 3, validate=validate)
    assert seen == [3]
    rewrite_meta(saved, lambda meta: meta["parameters"].update(dims=5))
    for _ in range(2):
        with pytest.raises(ArtefactError, match=r"damaged \(5 dimensions of 4\)"):
            artefacts.load(saved, "basis", 3, validate=validate)


@pytest.mark.parametrize("key", ["checksum", "checksums"])
def test_a_description_without_checksums_is_refused(saved, key):
    meta = json.loads((saved / "meta.json").read_text())
    del meta[key]
    (saved / "meta.json").write_text(json.dumps(meta if key == "checksum" else checksums.signed(meta)))
    with pytest.raises(ArtefactError, match=r"meta\.json: damaged, not a basis's description"):
        artefacts.load(saved, "basis", 3)


@pytest.mark.parametrize(
    "note",
    [b"", b"\xff\xfe", b"[" * 100_000, b"[1, 2]", b'"x"', b"null", b"{}", b'{"description": 1, "files": []}', None],
    ids=["empty", "bytes", "deep", "list", "text", "null", "no files", "odd files", "cut"],
)
def test_a_damaged_note_has_no_effect_and_hides_no_damage(saved, note):
    place = saved / "verified.json"
    damaged = place.read_bytes()[:-20] if note is None else note
    place.write_bytes(damaged)
    assert artefacts.load(saved, "basis", 3)[1]["u"].sum() == 66
    content = bytearray((saved / "u.npy").read_bytes())
    content[-1] ^= 1
    (saved / "u.npy").write_bytes(content)
    place.write_bytes(damaged)
    with pytest.raises(ArtefactError, match=r"u\.npy: damaged"):
        artefacts.load(saved, "basis", 3)


def test_names_that_lead_out_of_the_folder_are_refused(saved):
    meta = json.loads((saved / "meta.json").read_text())
    for key in ("files", "checksums"):
        meta[key]["../model/u.npy"] = meta[key].pop("u.npy")
    del meta["checksum"]
    (saved / "meta.json").write_text(json.dumps(checksums.signed(meta)))
    with pytest.raises(ArtefactError, match="is not a file's name"):
        artefacts.load(saved, "basis", 3)


def test_one_thread_at_a_time_parses_headers(saved, monkeypatch):
    inside, together, load = threading.Semaphore(), [], np.load

    def slow(*args, **options):
        together.append(not inside.acquire(blocking=False))
        time.sleep(0.01)
        if not together[-1]:
            inside.release()
        return load(*args, **options)

    monkeypatch.setattr(np, "load", slow)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(artefacts.load, saved, "basis", 3) for _ in range(4)]
    assert all(future.result() for future in futures) and len(together) >= 4 and not any(together)


def test_files_that_cannot_be_noted_beside_them_are_verified_each_time_and_noted_nowhere(saved, monkeypatch, tmp_path):
    def read_only(path):
        raise PermissionError

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(checksums, "temporary_folder", read_only)
    (saved / "verified.json").unlink()
    validated = []
    for number in (1, 2):
        artefacts.load(saved, "basis", 3, validate=lambda *_: validated.append(True))
        assert len(validated) == number
    assert not (tmp_path / "cache").exists()
