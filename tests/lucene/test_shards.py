"""Shards are one collection: rows, statistics, scores and tie order are those of one index; others are refused."""

import json
import pickle
import shutil
import zlib

import numpy as np
import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.api.export import export, export_by_shards
from kernelsearch.api.index import Index
from kernelsearch.core.errors import IndexProblem, InputError, OptionError
from kernelsearch.core.execution import LocalEngine
from kernelsearch.forward import ForwardIndex
from kernelsearch.lucene.models import RM3, BM25Model, DirichletModel, JelinekMercerModel, Rocchio
from kernelsearch.lucene.shards import find_shards, index_fingerprint
from tests.conftest import TINY, write_jsonl
from tests.lucene.test_lucene_index import change


@pytest.fixture(scope="module")
def three_path(tmp_path_factory):
    """The collection TINY in three shards."""
    folder = tmp_path_factory.mktemp("three")
    source = write_jsonl(folder / "corpus.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(folder / "index"), "--shards", "3", "--no-join-titles"])
    return folder / "index"


@pytest.fixture(scope="module")
def three(three_path):
    return Index(three_path)


def build(path, records, *flags):
    path.parent.mkdir(parents=True, exist_ok=True)
    source = write_jsonl(path.with_suffix(".jsonl"), records)
    index_verb.main(["--input", str(source), "--index", str(path), "--no-join-titles", *flags])
    return path


def test_documents_are_split_in_order(three_path):
    shards = find_shards(three_path)
    assert [path.name for path in shards.paths] == ["shard-0", "shard-1", "shard-2"]
    assert [Index(path).lucene.docids() for path in shards.paths] == [["d1", "d2"], ["d3", "d4"], ["d5", "d6"]]
    assert json.loads((three_path / "shards.json").read_text())["shards"] == ["shard-0", "shard-1", "shard-2"]


def test_the_forward_index_is_that_of_one_index(three, tiny):
    assert three.shards.sharded and not tiny.shards.sharded
    assert three.lucene.starts.tolist() == [0, 2, 4, 6]
    for field in ("contents", "title"):
        ours, theirs = three.field(field), tiny.field(field)
        assert ours.statistics == theirs.statistics
        for name in ("indptr", "indices", "frequencies", "lengths", "norms", "live", "df", "cf", "docid_rank", "_positions"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
        assert ours.terms.all_raw() == theirs.terms.all_raw() and ours.docids.all_raw() == theirs.docids.all_raw()


@pytest.mark.parametrize("feedback", [None, RM3(), Rocchio(), Rocchio(negative=True)])
@pytest.mark.parametrize("model", [BM25Model(), DirichletModel(), JelinekMercerModel()])
def test_lists_are_those_of_one_index(three, tiny, model, feedback):
    texts = ["water tap", "fuse", "replace the washer", "", "nonsense", "water water panel"]
    ours = three.lucene.search(three.lucene.queries(texts), model=model, feedback=feedback, threads=2)
    theirs = tiny.lucene.search(tiny.lucene.queries(texts), model=model, feedback=feedback)
    for ranked, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(ranked.docs, expected.docs)
        np.testing.assert_array_equal(ranked.scores, expected.scores)


def test_texts_come_from_the_right_shard(three, tiny):
    rows = np.array([5, 0, 3, 4])
    assert three.lucene.stored(rows) == tiny.lucene.stored(rows)
    assert [hit.contents for hit in three.search("fuse", k=1)] == [TINY[2]["contents"]]


@pytest.mark.parametrize("block_bytes", [1 << 28, 64])
def test_exported_shard_by_shard_is_exported_in_one_piece(tmp_path, block_bytes):
    """A shard without any title, one with a deleted document, and terms that only some of them have."""
    folder = build(
        tmp_path / "i", [*TINY[:4], {"id": "e", "contents": "fuse"}, {"id": "f", "contents": "tap"}], "--shards", "3"
    )
    change(folder / "shard-0", delete=["d2"], add=[])
    lucene = Index(folder).lucene
    for field in ("contents", "title"):
        whole_folder, merged_folder = (tmp_path / name / field for name in ("whole", "merged"))
        export(lucene, field, path=whole_folder, block_bytes=block_bytes)
        export_by_shards(lucene, field, path=merged_folder, block_bytes=block_bytes)
        assert sorted(path.name for path in merged_folder.parent.iterdir())[-1] == field
        # verified.json records inodes and times.
        written, merged = (
            {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "verified.json"}
            for folder in (whole_folder, merged_folder)
        )
        assert written == merged
        assert ForwardIndex(merged_folder).live.tolist() == [True, False, True, True, True, True]
    with pytest.raises(IndexProblem, match="no document has a field 'url'"):
        export_by_shards(lucene, "url", path=tmp_path / "url")


def test_ties_come_in_docid_order_across_shards(tmp_path):
    build(tmp_path / "i", [{"id": docid, "contents": "same words"} for docid in ("z", "b", "a10", "a9", "B")], "--shards", "3")
    index = Index(tmp_path / "i")
    assert index.search("words", k=5).docids == ["B", "a10", "a9", "b", "z"]
    assert index.search("words", k=2).docids == ["B", "a10"]


def test_indexes_named_one_by_one_are_the_collection_in_that_order(three_path, tiny):
    paths = [three_path / f"shard-{number}" for number in range(3)]
    several = kernelsearch.open(paths)
    assert several.lucene.docids() == [f"d{number}" for number in range(1, 7)]
    assert several.search("water tap").scores == tiny.search("water tap").scores
    assert several.name == " + ".join(map(str, paths)) and several.shards.flags.count("--index ") == 3
    # A collection's artefacts are its own, and don't mix with those of the same shards in another order.
    assert several.artefacts == paths[0] / "kernelsearch" / "shards" / several.fingerprint
    assert (several.artefacts / "forward" / "contents" / "meta.json").is_file()
    turned = kernelsearch.open(paths[::-1])
    assert turned.fingerprint != several.fingerprint
    assert turned.search("water tap").docids == several.search("water tap").docids
    assert turned.lucene.docids() == ["d5", "d6", "d3", "d4", "d1", "d2"]


def test_artefacts_of_a_folder_stand_in_it_and_move_with_the_variable(three_path, three, tmp_path, monkeypatch):
    assert three.artefacts == three_path / "kernelsearch"
    copied = Index(shutil.copytree(three_path, tmp_path / "copied"))
    assert copied.fingerprint == three.fingerprint
    monkeypatch.setenv("KERNELSEARCH_ARTEFACTS", str(tmp_path / "elsewhere"))
    assert copied.artefacts == tmp_path / "elsewhere" / three.fingerprint


def test_a_folder_without_a_record_and_a_collection_of_collections(three_path, tmp_path):
    folder = shutil.copytree(three_path, tmp_path / "bare")
    (folder / "shards.json").unlink()
    shutil.rmtree(folder / "kernelsearch")
    (folder / "README.txt").write_text("ours")
    bare = Index(folder)
    assert bare.fingerprint == Index(three_path).fingerprint and bare.search("fuse").docids == ["d3"]
    more = build(tmp_path / "more", [{"id": "e1", "title": "x", "contents": "another fuse"}])
    assert Index([folder, more]).search("fuse").docids == ["d3", "e1"]


def test_an_opened_collection_survives_pickling_and_says_what_it_is(three):
    assert pickle.loads(pickle.dumps(three)).fingerprint == three.fingerprint
    assert repr(three) == f"Index({str(three.path)!r}: 6 documents, fields contents, title)"


def test_a_changed_shard_changes_the_collection(three_path, tmp_path):
    folder = shutil.copytree(three_path, tmp_path / "index")
    before = Index(folder).fingerprint
    shutil.rmtree(folder / "shard-1")
    build(folder / "shard-1", [{"id": "new", "title": "x", "contents": "a new fuse"}])
    (folder / "shard-1.jsonl").unlink()
    assert Index(folder).fingerprint != before
    assert Index(folder).search("fuse").docids == ["new"]


def test_a_missing_shard_is_named(three_path, tmp_path):
    folder = shutil.copytree(three_path, tmp_path / "index")
    shutil.rmtree(folder / "shard-1")
    with pytest.raises(IndexProblem, match=r"index: shard shard-1 is missing \(shards.json lists 3 shards\)$"):
        Index(folder)
    with pytest.raises(IndexProblem, match="gone: no such index"):
        Index([folder / "shard-0", tmp_path / "gone"])
    (folder / "shard-1").mkdir()
    with pytest.raises(IndexProblem, match=r"shard-1: not a Lucene index .it has no segments file"):
        Index(folder)
    (folder / "shards.json").write_text("{}")
    with pytest.raises(IndexProblem, match=r"shards.json: damaged, not a list of shards"):
        Index(folder)


def test_a_document_in_two_shards_is_named_with_both(tmp_path):
    first = build(tmp_path / "one", [{"id": "a", "contents": "x"}, {"id": "both", "contents": "x"}])
    second = build(tmp_path / "two", [{"id": "c", "contents": "x"}, {"id": "both", "contents": "y"}])
    with pytest.raises(IndexProblem, match=r"document 'both' is in .*one and in .*two; shards of a collection share no"):
        Index([first, second]).search("x")
    assert not (first / "kernelsearch" / "shards").exists() or not list((first / "kernelsearch" / "shards").glob("*/forward/*"))


def test_an_index_can_be_named_once_only(tiny_path, three_path):
    with pytest.raises(OptionError, match=r"index: .* is named twice"):
        Index([tiny_path, tiny_path])
    with pytest.raises(OptionError, match=r"index: .*shard-1 is named twice"):
        Index([three_path, three_path / ".." / "index" / "shard-1"])
    with pytest.raises(OptionError, match="index: no index is named"):
        Index([])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--language", "pt"), r"analysers: en and pt"),
        (("--fields", "title,url"), r"fields: title and title, url"),
        (("--no-positions",), r"field contents: docs and freqs and positions with .* and docs and freqs with "),
        (("--no-docvectors",), r"field contents: .* with document vectors and .* without document vectors"),
    ],
)
def test_shards_that_were_indexed_differently_are_refused(tmp_path, tiny_path, flags, message):
    other = build(tmp_path / "other", [{"id": "o", "title": "t", "url": "u", "contents": "other words"}], *flags)
    with pytest.raises(IndexProblem, match=rf"index and .*other: can't be one collection \({message}") as caught:
        _ = Index([tiny_path, other]).lucene
    assert "\n" not in str(caught.value)


def test_fields_of_indexes_that_somebody_else_built_are_compared_too(tmp_path, tiny_path):
    first = shutil.copytree(tiny_path, tmp_path / "one")
    other = build(tmp_path / "other", [{"id": "o", "contents": "other words"}])
    for path in (first, other):
        (path / "kernelsearch" / "index.json").unlink()
    with pytest.raises(IndexProblem, match=r"can't be one collection \(fields: contents, id, title and contents, id\)"):
        _ = Index([first, other]).lucene


def test_a_shard_may_lack_a_field_that_none_of_its_documents_has(tmp_path):
    records = [{"id": "1", "title": "tap", "contents": "x"}, {"id": "2", "contents": "x"}]
    index = Index(build(tmp_path / "i", records, "--shards", "2"))
    assert index.search("x", k=5).docids == ["1", "2"] and index.field("title").lengths.tolist() == [1, 0]


def test_shards_of_different_lucenes_are_refused(tmp_path, tiny_path):
    from jnius import autoclass

    older = build(tmp_path / "older", [{"id": "o", "title": "t", "contents": "words"}])
    major = autoclass("org.apache.lucene.util.Version").LATEST.major
    file = next(older.glob("segments_*"))
    data = bytearray(file.read_bytes())
    place = data.index(b"segments") + len(b"segments") + 4 + 16  # version, id, then the length of a suffix and the suffix
    place += 1 + data[place] + 3  # the writer's release, then the creator's
    assert data[place] == major
    data[place] = major - 1
    data[-8:] = zlib.crc32(data[:-8]).to_bytes(8, "big")  # the file ends with its checksum
    file.write_bytes(data)
    with pytest.raises(IndexProblem, match=rf"can't be one collection \(created by Lucene {major} and Lucene {major - 1}\)"):
        _ = Index([tiny_path, older]).lucene


class Cluster(LocalEngine):
    """An engine that passes for a cluster; starting one takes seconds."""

    name = "dask"


def test_splitting_is_refused_where_it_makes_no_sense(tmp_path, tiny_path, monkeypatch):
    monkeypatch.setattr(index_verb, "make_engine", lambda settings: Cluster() if settings.engine == "dask" else LocalEngine())
    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    with pytest.raises(InputError, match=r"shards: 7, but .*c.jsonl has only 6 documents"):
        index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--shards", "7"])
    with pytest.raises(OptionError, match="shards: 0 is below 1"):
        index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--shards", "0"])
    with pytest.raises(OptionError, match="shards: only a new index can be split"):
        index_verb.main(["--index", str(tiny_path), "--shards", "2"])
    with pytest.raises(OptionError, match="engine: a cluster builds shards; set their number with shards"):
        index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--engine", "dask"])
    with pytest.raises(OptionError, match=r"engine: .* is one index, which is exported in one piece"):
        index_verb.main(["--index", str(tiny_path), "--engine", "dask"])
    with pytest.raises(OptionError, match="index: one folder is made at a time, 2 are named"):
        index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--index", str(tmp_path / "j")])
    assert [path.name for path in tmp_path.iterdir()] == ["c.jsonl"]


def test_force_replaces_a_folder_of_shards(tmp_path):
    build(tmp_path / "i", TINY, "--shards", "2")
    with pytest.raises(InputError, match=r"exists already; force=True replaces it"):
        build(tmp_path / "i", TINY)
    build(tmp_path / "i", TINY[:3], "--force")
    assert not Index(tmp_path / "i").shards.sharded and Index(tmp_path / "i").lucene.documents() == 3


def test_one_shard_is_a_collection_too(tmp_path, tiny):
    index = Index(build(tmp_path / "i", TINY, "--shards", "1"))
    assert index.fingerprint != index_fingerprint(tmp_path / "i" / "shard-0")
    assert index.search("water tap").scores == tiny.search("water tap").scores


def test_what_needs_anserinis_own_searcher_is_refused_by_name(three):
    from kernelsearch.integrations.pyserini import KernelSearcher

    searcher = KernelSearcher(three)
    assert [hit.docid for hit in searcher.search("fuse")] == ["d3"]
    with pytest.raises(InputError, match="opens one index, not shards"):
        searcher.search("fuse", fields={"title": 2.0})
