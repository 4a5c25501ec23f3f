"""Vectors in Robust BM25's query kernel: similar queries without a common word, and the kernel's values against numpy."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import kernelsearch
from kernelsearch.clicks.importing import import_log
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates
from kernelsearch.rerankers.rbm25.reranker import RobustBM25
from kernelsearch.rerankers.rbm25.similar_queries import QueryKernel, SimilarQueries
from kernelsearch.vectors.__main__ import main as vectors_verb

#: Logged queries; the first means the same as the query asked for, without a common word or character trigram.
LOGGED = {"leaky faucet": [1.0, 0.2, 0.0], "blown fuse": [0.0, 0.1, 1.0], "panel": [0.0, 1.0, 0.3]}
ASKED = "dripping tap"
DIRECTION = [0.9, 0.3, 0.1]


@pytest.fixture
def index(tiny_path, tmp_path):
    shutil.copytree(tiny_path, tmp_path / "index")
    np.savez(tmp_path / "v.npz", ids=np.array(["d1"]), vectors=np.ones((1, 3)))
    texts = [*LOGGED, ASKED]
    np.savez(tmp_path / "q.npz", ids=np.array(texts), vectors=np.array([*LOGGED.values(), DIRECTION]))
    vectors_verb(["--index", str(tmp_path / "index"), "--name", "m", "--input", str(tmp_path / "v.npz")])
    clicked = {"leaky faucet": "d2", "blown fuse": "d3", "panel": "d5"}
    sessions = [
        {"query": text, "items": [{"docid": docid, "clicked": docid == clicked[text]} for docid in ("d1", "d2", "d3", "d5")]}
        for text in LOGGED
        for _ in range(3)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(session) + "\n" for session in sessions))
    import_log([tmp_path / "log.jsonl"], tmp_path / "clicks.db")
    return kernelsearch.open(tmp_path / "index", vectors={"queries": str(tmp_path / "q.npz")})


def _unit(vector):
    return np.array(vector) / np.linalg.norm(vector)


def test_queries_are_found_by_their_vectors_alone(index, tmp_path):
    log = ClickLog(tmp_path / "clicks.db")
    query = index.query(ASKED)
    words = SimilarQueries(index, log, QueryKernel(clicks=0.0))
    assert words.find([query], 3)[0].queries == ()
    both = SimilarQueries(index, log, QueryKernel(clicks=0.0, vectors=index.vectors("m")))
    near = both.find([query], 3)[0]
    cosines = {text: _unit(vector) @ _unit(DIRECTION) for text, vector in LOGGED.items()}
    assert [logged.text for logged in near.queries] == sorted(LOGGED, key=lambda text: -cosines[text])
    assert np.allclose(near.kernel, sorted(cosines.values(), reverse=True), atol=1e-6)
    rows = np.stack([_unit(LOGGED[logged.text]) for logged in near.queries])
    # Of the text kernels' cosines the diagonal is 1 each: two halves beside the vectors' one.
    gram = rows @ rows.T
    assert np.allclose(np.diag(near.gram), 2.0, atol=1e-6)
    assert np.allclose(near.gram - np.diag(np.diag(near.gram)), gram - np.diag(np.diag(gram)), atol=1e-6)


def test_the_method_takes_vectors_by_name_and_saves_what_it_encoded(index, tmp_path):
    flags = {"clicks": str(tmp_path / "clicks.db"), "queries": "vectors:m", "min_similarity": 0.0}
    listed = index.lucene.search([index.query(ASKED)], 10)
    before = RobustBM25(index, **(flags | {"queries": None})).apply_batch([index.query(ASKED)], listed)[0]
    assert before.fallbacks
    method = RobustBM25(index, **flags)
    ranked = method.apply_batch([index.query(ASKED)], listed)[0]
    assert not ranked.fallbacks
    assert int(index.forward.rows_of(["d2"])[0]) in ranked.docs  # clicked for the logged query that means the same
    saved = list(index.artefacts.glob("similar-queries-*-m"))
    stamps = [path.stat().st_mtime_ns for path in saved]
    RobustBM25(index, **flags)
    assert len(saved) == 1 and [path.stat().st_mtime_ns for path in saved] == stamps


def test_a_file_may_have_queries_as_they_were_typed(index, tmp_path):
    """A log folds case and blanks; the file's texts match all the same."""
    typed = ["Leaky  Faucet", " BLOWN fuse", "Panel "]
    np.savez(tmp_path / "typed.npz", ids=np.array(typed), vectors=np.array(list(LOGGED.values())))
    opened = kernelsearch.open(index.path, vectors={"queries": str(tmp_path / "typed.npz")})
    vectors = opened.vectors("m").queries.texts([*LOGGED, "faucet"])
    assert np.allclose(np.stack([vector for vector in vectors[:3] if vector is not None]), list(LOGGED.values()))
    assert vectors[3] is None
    RobustBM25(opened, queries="vectors", clicks=str(tmp_path / "clicks.db"))


def test_names_and_files_that_do_not_fit_are_refused(index, tmp_path):
    flags = {"clicks": str(tmp_path / "clicks.db")}
    with pytest.raises(OptionError, match=r"rbm25_queries: 'bm25' is not vectors:NAME"):
        RobustBM25(index, queries="bm25", **flags)
    np.savez(tmp_path / "other.npz", ids=np.array(["x"]), vectors=np.ones((1, 3)))
    opened = kernelsearch.open(index.path, vectors={"queries": str(tmp_path / "other.npz")})
    with pytest.raises(InputError, match=r"none of the 3 queries of .*clicks.db has a vector"):
        RobustBM25(opened, queries="vectors", **flags)


def test_the_document_kernel_takes_vectors(index, tmp_path):
    """Against numpy: cosines of vectors, 0 with a document without one; the ranking follows them."""
    vectors = {"d1": [1.0, 2.0, 2.0], "d2": [0.0, 3.0, 1.0], "d5": [-1.0, 0.5, 0.0]}
    np.savez(tmp_path / "n.npz", ids=np.array(list(vectors)), vectors=np.array(list(vectors.values())))
    vectors_verb(["--index", str(index.path), "--name", "n", "--input", str(tmp_path / "n.npz"), "--dtype", "float32"])
    flags = {"clicks": str(tmp_path / "clicks.db")}
    names = ["d1", "d2", "d3", "d5"]
    features = RobustBM25(index, documents="vectors:n", **flags).features(index.forward.rows_of(names))
    unit = np.stack([_unit(vectors[name]) if name in vectors else np.zeros(3) for name in names])
    assert np.allclose((features @ features.T).toarray(), unit @ unit.T, atol=1e-6)
    both = RobustBM25(index, documents="body,vectors:n", **flags).features(index.forward.rows_of(names))
    body = RobustBM25(index, **flags).features(index.forward.rows_of(names))
    assert np.allclose((both @ both.T).toarray(), ((body @ body.T).toarray() + unit @ unit.T) / 2, atol=1e-6)
    with pytest.raises(OptionError, match=r"rbm25_documents: .*no vectors named 'other'"):
        RobustBM25(index, documents="vectors:other", **flags)


def test_the_ranking_follows_the_document_kernel(index, tmp_path):
    """The clicked document's vector is near that of d4 or of d6: whichever it is, is ranked above the other."""
    query = index.query("leaky faucet")
    listed = Candidates(index.forward.rows_of(["d4", "d6"]), np.array([1.0, 1.0]))
    for near, far in (("d4", "d6"), ("d6", "d4")):
        table = {"d2": [1, 0, 0], near: [1, 0.1, 0], far: [0, 1, 0], "d1": [0, -1, 0], "d3": [0.1, -1, 0], "d5": [0, -1, 1]}
        np.savez(tmp_path / "n.npz", ids=np.array(list(table)), vectors=np.array(list(table.values()), dtype=np.float64))
        vectors_verb(["--index", str(index.path), "--name", near, "--input", str(tmp_path / "n.npz")])
        method = RobustBM25(index, documents=f"vectors:{near}", clicks=str(tmp_path / "clicks.db"))
        ranked = index.forward.docids.take(method.apply(query, listed).docs)
        assert ranked.index(near) < ranked.index(far)
