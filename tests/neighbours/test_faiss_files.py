"""FAISS files whose structure is checked before native code reads them."""

import struct

import numpy as np
import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.neighbours.faiss_files import check_file

KINDS = ["Flat", "SQ8", "SQfp16", "PQ2x4np", "HNSW4,Flat", "HNSW4,SQ8", "IVF2,Flat", "IVF2,SQ8", "IVF60,Flat", "IVF2,PQ3x4fs"]
VECTORS = np.random.default_rng(3).normal(size=(60, 6)).astype(np.float32)


def serialised(kind: str) -> bytes:
    import faiss

    index = faiss.index_factory(6, kind, faiss.METRIC_INNER_PRODUCT)
    index.train(VECTORS)
    index.add(VECTORS)
    return faiss.serialize_index(index).tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_what_faiss_writes_is_accepted_and_a_file_of_another_length_is_not(kind, tmp_path):
    data = serialised(kind)
    file = tmp_path / "index"
    for contents in (True, False):
        file.write_bytes(data)
        check_file(file, contents=contents)
        file.write_bytes(data + b"x")
        with pytest.raises(InputError, match=r"index: damaged, not a valid FAISS index .1 bytes too many"):
            check_file(file, contents=contents)
        for length in {0, 3, 4, 20, *range(0, len(data), 97), len(data) - 1}:
            file.write_bytes(data[:length])
            with pytest.raises(InputError, match="index: damaged, not a valid FAISS index"):
                check_file(file, contents=contents)


def replaced(data: bytes, old: bytes, new: bytes) -> bytes:
    """The data with the only occurrence of `old` replaced."""
    assert data.count(old) == 1 and len(old) == len(new)
    return data.replace(old, new)


@pytest.mark.parametrize(
    ("kind", "old", "new", "reason"),
    [
        ("Flat", struct.pack("<iq", 6, 60), struct.pack("<iq", 6, 61), "360 elements where 366 were expected"),
        ("Flat", struct.pack("<iq", 6, 60), struct.pack("<iq", -6, 60), "60 vectors of -6 dimensions"),
        ("Flat", struct.pack("<iq", 6, 60), struct.pack("<iq", 6, -60), "-60 vectors of 6 dimensions"),
        ("Flat", b"IxFI", b"IxZZ", "kind b'IxZZ' is not one that is read"),
        ("Flat", struct.pack("<Q", 360), struct.pack("<Q", 2**61), "2305843009213693952 elements where 360"),
        ("SQ8", struct.pack("<QQ", 6, 6), struct.pack("<QQ", 6, 7), "a scalar quantiser of other vectors"),
        ("PQ2x4np", struct.pack("<QQQ", 6, 2, 4), struct.pack("<QQQ", 6, 2, 5), "96 elements where 192"),
        ("PQ2x4np", struct.pack("<QQQ", 6, 2, 4), struct.pack("<QQQ", 6, 4, 4), "a product quantiser of other vectors"),
        ("IVF2,Flat", struct.pack("<QQ", 2, 1), struct.pack("<QQ", 3, 1), "centroids of other lists"),
        ("IVF2,Flat", b"ilar" + struct.pack("<QQ", 2, 24), b"ilar" + struct.pack("<QQ", 2, 25), "lists of another kind"),
        ("IVF2,PQ3x4fs", struct.pack("<QiQ", 2, 32, 4), struct.pack("<QiQ", 3, 32, 4), "codes of another size"),
        ("IVF2,PQ3x4fs", struct.pack("<QiQ", 2, 32, 4), struct.pack("<QiQ", 2, 64, 4), "codes in another order"),
        ("IVF2,PQ3x4fs", struct.pack("<QiQ", 2, 32, 4), struct.pack("<QiQ", 2, 32, 6), "codes in another order"),
        ("IVF2,PQ3x4fs", struct.pack("<QiQi", 2, 32, 4, 0), struct.pack("<QiQi", 2, 32, 4, 7), "a search of another kind"),
        ("IVF2,PQ3x4fs", struct.pack("<QQQ", 6, 3, 4), struct.pack("<QQQ", 6, 3, 8), "a product quantiser of other vectors"),
        ("IVF2,PQ3x4fs", b"ilbl" + struct.pack("<Q", 2), b"ilbl" + struct.pack("<Q", 3), "lists of another kind"),
        ("IVF2,PQ3x4fs", struct.pack("<QQ", 32, 64), struct.pack("<QQ", 32, 32), "lists of another kind"),
        ("IVF2,PQ3x4fs", struct.pack("<iq", 6, 60), struct.pack("<iq", 6, 61), "lists that don't hold 61 vectors"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(kind, old, new, reason, tmp_path):
    (tmp_path / "index").write_bytes(replaced(serialised(kind), old, new))
    with pytest.raises(InputError) as problem:
        check_file(tmp_path / "index")
    assert reason in str(problem.value)


@pytest.mark.parametrize("number", [60, -1, 2**62])
@pytest.mark.parametrize("kind", ["IVF1,Flat", "IVF1,PQ3x4fs"])
def test_numbers_in_inverted_lists_out_of_range_are_refused(kind, number, tmp_path):
    import faiss

    index = faiss.index_factory(6, kind)
    index.train(VECTORS)
    index.add_with_ids(VECTORS[:3], np.array([0, number, 2]))
    faiss.write_index(index, str(tmp_path / "index"))
    with pytest.raises(InputError, match="the number of a vector out of range"):
        check_file(tmp_path / "index")
    check_file(tmp_path / "index", contents=False)


@pytest.mark.parametrize(("number", "reason"), [(60, "a link out of range"), (-2, "a link out of range")])
def test_links_out_of_range_are_refused(number, reason, tmp_path):
    import faiss

    index = faiss.IndexHNSWFlat(6, 4)
    index.add(VECTORS)
    links = faiss.vector_to_array(index.hnsw.neighbors)
    data = faiss.serialize_index(index).tobytes()
    changed = links.copy()
    changed[5] = number
    (tmp_path / "index").write_bytes(replaced(data, links.tobytes(), changed.tobytes()))
    with pytest.raises(InputError, match=reason):
        check_file(tmp_path / "index")
    offsets = faiss.vector_to_array(index.hnsw.offsets)
    changed = offsets.copy()
    changed[7] += 1
    (tmp_path / "index").write_bytes(replaced(data, offsets.tobytes(), changed.tobytes()))
    with pytest.raises(InputError, match="links out of order"):
        check_file(tmp_path / "index")
