"""Documents encoded into stored vectors, and queries by the same declaration."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.core.types import Query
from kernelsearch.encoders import open_encoder
from kernelsearch.vectors import store
from kernelsearch.vectors.__main__ import main
from kernelsearch.vectors.encoding import encode_documents
from kernelsearch.vectors.queries import QueryVectors
from tests.conftest import ROOT, TINY
from tests.encoders.model import mean_vector, write_encoder
from tests.vectors.conftest import write_npz

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
pytest.importorskip("onnx")


@pytest.fixture
def encoder_folder(tmp_path):
    return write_encoder(tmp_path / "encoder")


def test_the_verb_encodes_all_texts(index, encoder_folder, capsys):
    main(["--index", str(index.path), "--name", "m", "--encoder", str(encoder_folder), "--dtype", "float32"])
    assert "m: 6 vectors of 6 dimensions\n" in capsys.readouterr().err
    stored = store.DocumentVectors(store.place(index.artefacts, "m"))
    for document in TINY:
        row = index.forward.rows_of([document["id"]])
        # The stored text begins with the title.
        text = index.lucene.stored(row, "contents")[0]
        expected = open_encoder(str(encoder_folder)).documents([text])[0]
        assert np.allclose(stored.take(row)[0], expected, atol=1e-6)
    assert not list(stored.path.parent.glob(".*"))


def interrupted(index, call):
    """A source of texts whose given call is interrupted, and the list of rows that it was asked for."""
    asked = []

    def texts(rows):
        asked.append(list(rows))
        if len(asked) == call:
            raise KeyboardInterrupt
        return index.lucene.stored(rows, "contents")

    return texts, asked


def test_an_interrupted_encoding_goes_on_where_it_was(index, encoder_folder):
    encoder = open_encoder(str(encoder_folder))
    folder = store.place(index.artefacts, "m")
    texts, asked = interrupted(index, 3)
    with pytest.raises(KeyboardInterrupt):
        encode_documents(folder, index.forward, texts, encoder, dtype="float32", part=2)
    assert store.names(index.artefacts) == []
    done = encode_documents(folder, index.forward, texts, encoder, dtype="float32", part=2)
    assert asked == [[0, 1], [2, 3], [4, 5], [4, 5]]
    assert done.vectors == 6
    whole = store.place(index.artefacts, "whole")
    encode_documents(whole, index.forward, lambda rows: index.lucene.stored(rows, "contents"), encoder, dtype="float32")
    assert np.array_equal(store.DocumentVectors(folder).matrix, store.DocumentVectors(whole).matrix)


def test_an_interrupted_encoding_with_other_settings_starts_again(index, encoder_folder):
    encoder = open_encoder(str(encoder_folder))
    folder = store.place(index.artefacts, "m")
    texts, asked = interrupted(index, 2)
    with pytest.raises(KeyboardInterrupt):
        encode_documents(folder, index.forward, texts, encoder, dtype="float32", part=4)
    encode_documents(folder, index.forward, texts, encoder, dtype="float16", part=4)
    assert asked == [[0, 1, 2, 3], [4, 5], [0, 1, 2, 3], [4, 5]]


@pytest.mark.parametrize("file", ["encoded.npy", "matrix.npy", "state.json"])
def test_an_interrupted_encoding_with_a_damaged_file_starts_again(index, encoder_folder, file):
    folder, encoder = store.place(index.artefacts, "m"), open_encoder(str(encoder_folder))
    texts, asked = interrupted(index, 3)
    with pytest.raises(KeyboardInterrupt):
        encode_documents(folder, index.forward, texts, encoder, part=2)
    damaged = folder.parent / ".m.encoding" / file
    damaged.write_bytes(damaged.read_bytes()[:40])
    assert encode_documents(folder, index.forward, texts, encoder, part=2).vectors == 6
    assert asked == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3], [4, 5]]


def test_a_killed_process_leaves_what_it_did(index, encoder_folder):
    """SIGKILL in the middle, then the same command: only the rest is encoded, and the vectors are complete."""
    code = f"""
import sys, time
import kernelsearch
from kernelsearch.encoders import open_encoder
from kernelsearch.vectors import store
from kernelsearch.vectors.encoding import encode_documents
index = kernelsearch.open({str(index.path)!r})
def texts(rows):
    print(rows, flush=True)
    if rows[0] == 4 and sys.argv[1] == "wait":
        time.sleep(600)
    return ["tap water" for row in rows]
encoder = open_encoder({str(encoder_folder)!r})
encode_documents(store.place(index.artefacts, "m"), index.forward, texts, encoder, part=2)
"""
    first = subprocess.Popen([sys.executable, "-c", code, "wait"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert first.stdout is not None
    assert "[4, 5]\n" in first.stdout  # read line by line: the process waits after this one
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    second = subprocess.run([sys.executable, "-c", code, "go"], capture_output=True, text=True, cwd=ROOT, check=True)
    assert second.stdout == "[4, 5]\n"
    stored = store.DocumentVectors(store.place(index.artefacts, "m"))
    assert np.allclose(stored.take(np.arange(6)), np.repeat(mean_vector("tap water")[None], 6, axis=0), atol=1e-3)


def test_documents_without_text_get_no_vector(index, encoder_folder):
    def texts(rows):
        return [None if row == 1 else "  " if row == 2 else "tap" for row in rows]

    folder = store.place(index.artefacts, "m")
    done = encode_documents(folder, index.forward, texts, open_encoder(str(encoder_folder)))
    assert (done.vectors, done.without) == (4, 2)
    assert store.DocumentVectors(folder).present.tolist() == [True, False, False, True, True, True]
    with pytest.raises(InputError, match="no document has a text stored as 'body'"):
        main(["--index", str(index.path), "--name", "n", "--encoder", str(encoder_folder), "--field", "body"])


def _stored(index, tmp_path, **options):
    path = write_npz(tmp_path / "v.npz", ["d1", "d2"], np.eye(2, 6))
    from kernelsearch.vectors.readers import open_vectors

    store.import_vectors(store.place(index.artefacts, "m"), index.forward, open_vectors(path), **options)
    return store.DocumentVectors(store.place(index.artefacts, "m"))


def test_query_vectors_from_a_file_by_topic_id_then_by_text(index, tmp_path):
    documents = _stored(index, tmp_path)
    vectors = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
    file = write_npz(tmp_path / "topics.npz", ["1", "dripping tap"], vectors)
    queries = QueryVectors(documents, file=str(file))
    result = queries.find([Query("any text", qid="1"), Query("dripping tap", qid="9"), Query("other", qid="2")])
    assert np.array_equal(result[0], vectors[0])
    assert np.array_equal(result[1], vectors[1])
    assert result[2] is None


def test_query_vectors_of_normalised_documents_have_unit_length(index, tmp_path):
    documents = _stored(index, tmp_path, normalise=True)
    file = write_npz(tmp_path / "topics.npz", ["1"], np.full((1, 6), 2.0))
    assert np.allclose(QueryVectors(documents, file=str(file)).find([Query("x", qid="1")])[0], 1 / np.sqrt(6))


def test_query_vectors_of_another_length_are_refused(index, tmp_path):
    documents = _stored(index, tmp_path)
    file = write_npz(tmp_path / "topics.npz", ["1"], np.ones((1, 5)))
    with pytest.raises(InputError, match=r"vectors_queries: .*topics.npz: row 1 \(id '1'\): 5 dimensions where 6"):
        QueryVectors(documents, file=str(file))


def test_without_file_and_encoder_the_options_are_named(index, tmp_path):
    with pytest.raises(OptionError, match=r"vectors_queries FILE gives them by topic id, vectors_encoder FOLDER"):
        QueryVectors(_stored(index, tmp_path)).find([Query("x")])


def test_queries_are_encoded_by_the_declared_encoder_once(index, tmp_path, monkeypatch):
    folder = write_encoder(tmp_path / "encoder", 'query-prefix = "query : "')
    documents = _stored(index, tmp_path, encoder=open_encoder(str(folder)).declaration())
    queries = QueryVectors(documents)
    result = queries.find([Query("tap", qid="1"), Query("water"), Query("tap")])
    assert np.allclose(result[0], mean_vector("query : tap"), atol=1e-6)
    assert np.allclose(result[1], mean_vector("query : water"), atol=1e-6)
    monkeypatch.setattr(type(queries._encoder), "encode", None)  # the cache answers
    again = queries.find([Query("water"), Query("tap", qid="3")])
    assert np.array_equal(again[0], result[1]) and np.array_equal(again[1], result[0])


def test_the_encoder_may_have_moved_but_must_be_the_same(index, tmp_path):
    folder = write_encoder(tmp_path / "encoder")
    documents = _stored(index, tmp_path, encoder=open_encoder(str(folder)).declaration())
    folder.rename(tmp_path / "moved")
    assert QueryVectors(documents, encoder=str(tmp_path / "moved")).find([Query("tap")])[0] is not None
    other = write_encoder(tmp_path / "other", 'pooling = "cls"')
    with pytest.raises(ArtefactError, match=r"not the encoder that made the vectors 'm' \(its pooling differs\)"):
        QueryVectors(documents, encoder=str(other)).find([Query("tap")])
    with pytest.raises(InputError, match="no such folder"):
        QueryVectors(documents).find([Query("tap")])
