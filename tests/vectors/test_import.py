"""Vectors from files: every format gives the same stored rows, and what can't be used is refused with file and row."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.vectors import store
from kernelsearch.vectors.__main__ import main
from kernelsearch.vectors.readers import ArrayReader, open_vectors
from tests.conftest import ROOT, TINY, write_jsonl
from tests.vectors.conftest import write_npz


def _npz(folder, ids, vectors):
    return write_npz(folder / "v.npz", ids, vectors), None


def _npz_stored(folder, ids, vectors):
    np.savez(folder / "v.npz", embeddings=vectors.astype(np.float64), docids=np.array(ids, dtype="S8").astype("U8"))
    return folder / "v.npz", None


def _npy(folder, ids, vectors):
    np.save(folder / "v.npy", vectors)
    (folder / "ids.txt").write_text("\n".join(ids) + "\n")
    return folder / "v.npy", folder / "ids.txt"


def _npy_with_npy_ids(folder, ids, vectors):
    np.save(folder / "v.npy", vectors)
    np.save(folder / "ids.npy", np.array(ids))
    return folder / "v.npy", folder / "ids.npy"


def _jsonl(folder, ids, vectors):
    records = zip(ids, vectors.tolist(), strict=True)
    lines = [json.dumps({"id": name, "contents": "x", "vector": vector}) + "\n" for name, vector in records]
    (folder / "encoded").mkdir()
    (folder / "encoded" / "embeddings.jsonl").write_text("".join(lines))
    return folder / "encoded", None


def _jsonl_gz(folder, ids, vectors):
    with gzip.open(folder / "v.jsonl.gz", "wt") as stream:
        for name, vector in zip(ids, vectors.tolist(), strict=True):
            stream.write(json.dumps({"id": name, "vector": vector}) + "\n\n")
    return folder / "v.jsonl.gz", None


def _faiss(kind):
    def write(folder, ids, vectors):
        import faiss

        made = faiss.index_factory(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
        made.train(vectors)
        made.add(vectors)
        (folder / "faiss").mkdir()
        faiss.write_index(made, str(folder / "faiss" / "index"))
        (folder / "faiss" / "docid").write_text("\n".join(ids) + "\n")
        return folder / "faiss", None

    return write


def _parquet(folder, ids, vectors):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"docid": ids, "text": ids, "embedding": vectors.tolist()}), folder / "v.parquet")
    return folder / "v.parquet", None


FORMATS = {
    "npz": _npz,
    "npz, not compressed, float64": _npz_stored,
    "npy": _npy,
    "npy with ids.npy": _npy_with_npy_ids,
    "jsonl folder": _jsonl,
    "jsonl.gz": _jsonl_gz,
    "faiss flat": _faiss("Flat"),
    "faiss hnsw": _faiss("HNSW8,Flat"),
    "faiss ivf": _faiss("IVF2,Flat"),
    "parquet": _parquet,
}


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS.keys())
def test_every_format_stores_the_same_rows(write, index, table, tmp_path):
    ids, vectors = table
    path, names = write(tmp_path, ids, vectors)
    folder = store.place(index.artefacts, "test")
    done = store.import_vectors(folder, index.forward, open_vectors(path, names))
    assert (done.vectors, done.dims, done.without, done.unknown) == (5, 4, 1, 0)
    stored = store.DocumentVectors(folder, fingerprint=index.fingerprint)
    assert np.array_equal(np.asarray(stored.matrix, dtype=np.float64), _expected_rows(index, ids, vectors))
    assert stored.present.tolist() == [index.forward.docids[row] in ids for row in range(len(index.forward))]
    assert stored.matrix.dtype == np.float16


def _expected_rows(index, ids, vectors):
    docids = [index.forward.docids[row] for row in range(len(index.forward))]
    return np.array([vectors[ids.index(docid)] if docid in ids else np.zeros(4) for docid in docids])


def test_an_array_from_python_is_stored_as_a_file_is(index, table, tmp_path):
    ids, vectors = table[0], 1 + np.abs(table[1])
    done = index.add_vectors("mine", vectors.astype(np.float64), ids)
    assert (done.vectors, done.dims, done.without, done.unknown) == (5, 4, 1, 0)
    assert np.array_equal(np.asarray(index.vectors("mine").documents.matrix, dtype=float), _expected_rows(index, ids, vectors))
    # Other vectors of the same name are used at once, by a pipeline that was ready, too.
    queries = write_npz(tmp_path / "q.npz", ["q"], np.eye(4, dtype=np.float32)[:1])
    opened = kernelsearch.open(index.path, vectors={"name": "mine", "queries": str(queries)})
    before = opened.search_batch({"q": "nosuchword"}, "dense", k=5, dense_retrieve=5)["q"].scores
    assert np.allclose(np.sort(before), np.sort(vectors[:, 0]))
    opened.add_vectors("mine", write_npz(tmp_path / "v.npz", ids, 2 * vectors), dtype="float32")
    after = opened.search_batch({"q": "nosuchword"}, "dense", k=5, dense_retrieve=5)["q"].scores
    assert np.allclose(np.sort(after), np.sort(2 * vectors[:, 0]))
    assert opened.vectors("mine").documents.matrix.dtype == np.float32


@pytest.mark.parametrize(
    ("vectors", "ids", "message"),
    [
        (np.zeros((2, 3)), ["d1"], "vectors: 2 rows, but 1 ids"),
        (np.zeros(3), ["d1", "d2", "d3"], "vectors: an array of shape (3,); one row per document was expected"),
        (np.array([[1.0, np.nan]]), ["d1"], "vectors: row 1 (id 'd1'): a value that is not a finite number"),
        (np.zeros((0, 3)), [], "vectors: no vectors in it"),
        (np.zeros((1, 0)), ["d1"], "vectors: vectors of 0 dimensions; between 1 and 65536 can be stored"),
        (np.zeros((1, 65537)), ["d1"], "vectors: vectors of 65537 dimensions; between 1 and 65536 can be stored"),
        (np.zeros((1, 3)), None, "ids: an array of vectors needs the docids of its rows"),
        ("v.npz", ["d1"], "ids: a file of vectors needs a file of ids, or has ids of its own"),
        (None, None, "vectors: neither vectors nor an encoder that makes them are given"),
    ],
)
def test_what_python_cannot_add_is_refused_and_nothing_stored(index, vectors, ids, message):
    with pytest.raises((InputError, OptionError)) as problem:
        index.add_vectors("bad", vectors, ids)
    assert str(problem.value) == message
    assert store.names(index.artefacts) == []


@pytest.mark.parametrize("block", [1, 16, 40, 1 << 20])
@pytest.mark.parametrize("write", [_npz, _npy, _jsonl_gz, _faiss("Flat"), _parquet])
def test_blocks_of_any_size_give_the_whole_file(write, block, table, tmp_path):
    ids, vectors = table
    blocks = list(open_vectors(*write(tmp_path, ids, vectors)).blocks(block))
    assert [name for block in blocks for name in block.ids] == ids
    assert len(list(ArrayReader(ids, vectors).blocks(block))) == -(-len(ids) // max(1, block // 16))
    assert np.array_equal(np.concatenate([block.vectors for block in blocks]), vectors)
    assert [block.first for block in blocks] == np.cumsum([1, *(len(block.ids) for block in blocks[:-1])]).tolist()


def test_verb_says_what_is_missing_and_what_is_unknown(index, table, tmp_path, capsys):
    path = write_npz(tmp_path / "v.npz", ["x1", "x2", "d1", "x3", "x4"], table[1])
    main(["--index", str(index.path), "--name", "m", "--input", str(path)])
    messages = capsys.readouterr().err
    assert "1 vectors of 4 dimensions; 5 documents have none; 4 ids are not in the index (x1, x2, x3, ...)" in messages
    main(["--index", str(index.path)])
    assert capsys.readouterr().out.splitlines()[2].split() == ["m", "1", "4", "float16", "100", "%", "yes"]


def test_several_names_and_replacing(index, table, tmp_path):
    ids, vectors = table
    path = write_npz(tmp_path / "v.npz", ids, vectors)
    for name, dtype in (("a", "float16"), ("b", "float32"), ("a", "float32")):
        main(["--index", str(index.path), "--name", name, "--input", str(path), "--dtype", dtype])
    assert store.names(index.artefacts) == ["a", "b"]
    assert store.DocumentVectors(store.place(index.artefacts, "a")).matrix.dtype == np.float32


def test_normalise_gives_unit_length(index, tmp_path):
    path = write_npz(tmp_path / "v.npz", ["d1", "d2"], np.array([[3.0, 4.0], [0.0, 0.0]]))
    folder = store.place(index.artefacts, "n")
    store.import_vectors(folder, index.forward, open_vectors(path), normalise=True, dtype="float32")
    stored = store.DocumentVectors(folder)
    rows = index.forward.rows_of(["d1", "d2"])
    assert np.allclose(stored.take(rows), [[0.6, 0.8], [0, 0]])


def _refused(index, path, ids=None, **options):
    with pytest.raises((InputError, OptionError)) as problem:
        store.import_vectors(store.place(index.artefacts, "bad"), index.forward, open_vectors(path, ids), **options)
    assert not (index.artefacts / "vectors" / "bad").exists()
    folder = index.artefacts / "vectors"
    assert not folder.exists() or list(folder.iterdir()) == []
    return str(problem.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_by_row(index, table, tmp_path, value):
    ids, vectors = table
    vectors[3, 1] = value
    path = write_npz(tmp_path / "v.npz", ids, vectors)
    assert _refused(index, path) == f"{path}: row 4 (id 'd2'): a value that is not a finite number"


def test_dimensions_that_differ_are_refused_by_line(index, tmp_path):
    path = write_jsonl(tmp_path / "v.jsonl", [{"id": "d1", "vector": [1, 2]}, {"id": "d2", "vector": [1, 2, 3]}])
    assert _refused(index, path) == f"{path}: line 2 (id 'd2'): 3 dimensions where 2 were expected"


def test_dimensions_that_differ_between_blocks_are_refused(tmp_path):
    path = write_jsonl(tmp_path / "v.jsonl", [{"id": "d1", "vector": [1, 2]}, {"id": "d2", "vector": [1, 2, 3]}])
    with pytest.raises(InputError, match=r"line 2 \(id 'd2'\): 3 dimensions where 2 were expected"):
        list(open_vectors(path).blocks(1))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": "d1"}, "line 1: id and vector were expected, found id"),
        ({"id": "d1", "vector": 3}, "line 1: the vector is no list of numbers"),
        ({"id": "d1", "vector": ["a"]}, "line 1 (id 'd1'): a value that is not a number"),
        ({"id": "d1", "vector": []}, "line 1 (id 'd1'): 0 dimensions, at least 1 was expected"),
        ({"id": "d1", "vector": [float("nan")]}, "line 1 (id 'd1'): a value that is not a finite number"),
        ({"id": "d1", "vector": [1e300]}, "line 1 (id 'd1'): a value that is not a finite number"),
        ({"id": "d1", "vector": [10**400]}, "line 1 (id 'd1'): a value that is not a finite number"),
    ],
)
def test_bad_json_records_are_refused_by_line(index, tmp_path, record, message):
    path = write_jsonl(tmp_path / "v.jsonl", [record])
    assert _refused(index, path) == f"{path}: {message}"


def test_an_id_that_appears_twice_is_refused(index, tmp_path):
    path = write_npz(tmp_path / "v.npz", ["d1", "d2", "d3", "d1"], np.ones((4, 2)))
    assert _refused(index, path) == f"{path}: row 4: id 'd1' appears twice"


def test_an_id_that_appears_twice_in_different_blocks_is_refused(index, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "BLOCK", 1)
    path = write_npz(tmp_path / "v.npz", ["d1", "d2", "d3", "d2"], np.ones((4, 2)))
    assert _refused(index, path) == f"{path}: row 4: id 'd2' appears twice"


def test_values_beyond_float16_are_refused_or_kept_in_float32(index, tmp_path):
    path = write_npz(tmp_path / "v.npz", ["d1"], np.array([[1e6, 1.0]]))
    assert "id 'd1': a value too large for float16; dtype='float32' holds it" in _refused(index, path)
    store.import_vectors(store.place(index.artefacts, "ok"), index.forward, open_vectors(path), dtype="float32")


def test_files_that_are_no_vectors_are_refused(index, table, tmp_path):
    ids, vectors = table
    assert _refused(index, tmp_path / "none.npz") == f"{tmp_path / 'none.npz'}: no such file"
    (tmp_path / "v.txt").write_text("x")
    assert "not a file of vectors by its name" in _refused(index, tmp_path / "v.txt")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 cut short")
    assert "damaged" in _refused(index, tmp_path / "bad.npz")
    np.savez(tmp_path / "names.npz", a=vectors, ids=np.array(ids))
    assert "none of vectors, vector, embeddings, embedding, emb in it, but a, ids" in _refused(index, tmp_path / "names.npz")
    np.savez(tmp_path / "count.npz", vectors=vectors, ids=np.array(ids[:2]))
    assert "2 ids for 5 vectors" in _refused(index, tmp_path / "count.npz")
    np.savez(tmp_path / "objects.npz", vectors=vectors, ids=np.array(ids, dtype=object))
    assert "Python objects" in _refused(index, tmp_path / "objects.npz")
    np.save(tmp_path / "v.npy", vectors)
    assert "ids names the file" in _refused(index, tmp_path / "v.npy")
    data = (tmp_path / "v.npy").read_bytes()
    (tmp_path / "ids.txt").write_text("\n".join(ids))
    (tmp_path / "v.npy").write_bytes(data[:-20])
    assert "cut short" in _refused(index, tmp_path / "v.npy", tmp_path / "ids.txt")
    write_npz(tmp_path / "other.npz", ["a", "b"], np.ones((2, 3)))
    assert "none of its 2 ids is in the index, such as a, b" in _refused(index, tmp_path / "other.npz")
    path, _ = _faiss("Flat")(tmp_path, ids, vectors)
    (path / "docid").write_text("d1\n")
    assert "1 ids for the 5 vectors" in _refused(index, path)


def test_a_faiss_index_that_may_not_give_its_vectors_back_is_refused(index, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    path, _ = _faiss("IVF1,PQ2x4fs")(tmp_path, [f"d{number}" for number in range(20)], vectors)
    assert "index: IndexIVFPQFastScan is not read; convert it to a flat index" in _refused(index, path)


def test_a_faiss_index_of_an_unknown_kind_is_refused(index, table, tmp_path):
    import faiss

    ids, vectors = table
    (tmp_path / "faiss").mkdir()
    made = faiss.IndexIDMap(faiss.IndexFlatIP(4))
    made.add_with_ids(vectors, np.arange(5))
    faiss.write_index(made, str(tmp_path / "faiss" / "index"))
    (tmp_path / "faiss" / "docid").write_text("\n".join(ids))
    assert "index: damaged, not a valid FAISS index (kind b'IxMp' is not one that is read; convert it" in _refused(
        index, tmp_path / "faiss"
    )


def test_a_failed_import_leaves_the_older_vectors(index, table, tmp_path):
    ids, vectors = table
    folder = store.place(index.artefacts, "m")
    store.import_vectors(folder, index.forward, open_vectors(write_npz(tmp_path / "v.npz", ids, vectors)))
    before = np.array(store.DocumentVectors(folder).matrix)
    vectors[4] = np.nan
    with pytest.raises(InputError):
        store.import_vectors(folder, index.forward, open_vectors(write_npz(tmp_path / "w.npz", ids, vectors)))
    assert np.array_equal(store.DocumentVectors(folder).matrix, before)


def test_vectors_of_an_earlier_state_of_the_index_are_refused(index, table, tmp_path):
    ids, vectors = table
    folder = store.place(index.artefacts, "m")
    store.import_vectors(folder, index.forward, open_vectors(write_npz(tmp_path / "v.npz", ids, vectors)))
    options = {"index": "I", "flags": "--index I"}
    assert store.open_documents(index.artefacts, None, fingerprint=index.fingerprint, **options).dims == 4
    with pytest.raises(ArtefactError, match="before the index changed"):
        store.open_documents(index.artefacts, "m", fingerprint="another", **options)
    with pytest.raises(ArtefactError, match="no vectors named 'other'; it has m; import them with: python -m"):
        store.open_documents(index.artefacts, "other", fingerprint=index.fingerprint, **options)
    store.import_vectors(store.place(index.artefacts, "n"), index.forward, open_vectors(tmp_path / "v.npz"))
    with pytest.raises(OptionError, match="has vectors m, n; choose one"):
        store.open_documents(index.artefacts, None, fingerprint=index.fingerprint, **options)


def test_names_that_would_leave_the_folder_are_refused(index):
    for name in ("../x", "a/b", "", "a+b", "-a", "."):
        with pytest.raises(OptionError, match="letters, digits"):
            store.place(index.artefacts, name)


def test_shards_take_vectors_like_one_index(table, tmp_path):
    source = write_jsonl(tmp_path / "corpus.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "split"), "--shards", "2"])
    ids, vectors = table
    path = write_npz(tmp_path / "v.npz", ids, vectors)
    main(["--index", str(tmp_path / "split"), "--name", "m", "--input", str(path), "--memory-limit", "1G"])
    opened = kernelsearch.open(tmp_path / "split")
    stored = store.DocumentVectors(store.place(opened.artefacts, "m"), fingerprint=opened.fingerprint)
    assert np.array_equal(stored.take(opened.forward.rows_of(ids)), vectors)


def test_memory_stays_bounded_while_a_large_file_is_imported(index, tmp_path):
    """Four hundred megabytes of vectors pass through blocks of a few: the process grows by much less than the file."""
    rows = 100_000
    np.save(tmp_path / "v.npy", np.zeros((rows, 1000), dtype=np.float32))
    (tmp_path / "ids.txt").write_text("".join(f"x{row}\n" for row in range(rows - 1)) + "d1\n")
    code = (
        "import resource, sys; from kernelsearch.vectors.__main__ import main; import kernelsearch.neighbours.faiss_index as n;"
        "n.load_faiss(); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        f"main(['--index', {str(index.path)!r}, '--name', 'm', '--input', {str(tmp_path / 'v.npy')!r},"
        f" '--ids', {str(tmp_path / 'ids.txt')!r}]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert int(done.stdout) < 150_000  # kilobytes


@pytest.mark.parametrize("kind", ["ivf", "hnsw", "ivf-sq8", "ivf-pq4"])
def test_nearest_documents_through_every_kind_of_index(index, tmp_path, kind):
    """With six documents every kind looks at all of them, so each gives the exact order."""
    vectors = np.random.default_rng(3).standard_normal((5, 8)).astype(np.float32)
    ids = ["d1", "d2", "d3", "d5", "d6"]
    path = write_npz(tmp_path / "v.npz", ids, vectors)
    folder = store.place(index.artefacts, "m")
    store.import_vectors(folder, index.forward, open_vectors(path), dtype="float32", neighbours=kind)
    stored = store.DocumentVectors(folder)
    assert stored.neighbours.kind == kind
    query = np.random.default_rng(4).standard_normal(8).astype(np.float32)
    rows, products = stored.nearest(query, 6)[0]
    exact = np.sort(vectors @ query)[::-1]
    order = [ids[place] for place in np.argsort(-(vectors @ query))]
    assert index.forward.docids.take(rows) == order  # d4 has no vector and is not among them
    assert np.allclose(products, exact, atol=1e-5)  # not those of rounded coordinates


def test_the_limit_chooses_smaller_blocks(index, table, tmp_path):
    ids, vectors = table
    path = write_npz(tmp_path / "v.npz", ids, vectors)
    done = store.import_vectors(
        store.place(index.artefacts, "m"), index.forward, open_vectors(path), limit=MemoryLimit.parse("1G")
    )
    assert done.vectors == 5


@pytest.mark.parametrize("kind", ["flat", "ivf", "ivf-fp16", "ivf-sq8", "ivf-pq4", "hnsw"])
def test_documents_without_a_vector_take_no_place_among_the_nearest(index, tmp_path, kind):
    # Their stored row is zero, and its product with the query larger than all others.
    ids, vectors = ["d5", "d1", "d3", "d2"], np.array([[-1.0, 0], [-3, 0], [-2, 0], [-4, 0]])
    index.add_vectors("negative", vectors, ids, dtype="float32", neighbours=kind)
    ((rows, products),) = index.vectors("negative").documents.nearest(np.array([[1.0, 0]]), 3)
    assert [index.forward.docids[row] for row in rows] == ["d5", "d3", "d1"]
    assert np.allclose(products, [-1, -2, -3], atol=1e-5)


@pytest.mark.parametrize("dims", [5, 40])
@pytest.mark.parametrize("switch", ["1", "0"])
def test_products_with_stored_float16_are_those_of_their_values(index, tmp_path, monkeypatch, dims, switch):
    """With and without the compiled loops, for ordinary, subnormal and largest values."""
    monkeypatch.setenv("KERNELSEARCH_COMPILED", switch)
    rng = np.random.default_rng(dims)
    values = np.outer([1, 1e-5, 3e-8, 6e4, -1], np.linspace(-1, 1, dims)) + np.outer([0.1, 0, 0, 0, 0], rng.normal(size=dims))
    values = values.astype(np.float16)
    index.add_vectors("half", values, ["d1", "d2", "d3", "d4", "d5"])
    stored, query = index.vectors("half").documents, rng.normal(size=dims).astype(np.float32)
    rows = index.forward.rows_of(["d4", "d2", "d6", "d1", "d3", "d5", "d2"])
    expected = values[[3, 1, 0, 0, 2, 4, 1]].astype(np.float64) @ query.astype(np.float64)
    expected[2] = np.nan
    assert stored.scores(query, rows) == pytest.approx(expected, rel=1e-4, nan_ok=True)
    near, products = stored.nearest(query, 10)[0]
    order = np.argsort(-expected[[3, 1, 4, 0, 5]])
    assert near.tolist() == index.forward.rows_of(["d1", "d2", "d3", "d4", "d5"])[order].tolist()
    assert products == pytest.approx(expected[[3, 1, 4, 0, 5]][order], rel=1e-4)
