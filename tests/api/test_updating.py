"""Documents come and go: an index that was changed is the index of the final collection."""

import errno
import fcntl
import os
import pickle

import numpy as np
import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.api import updating
from kernelsearch.api.checking import check_index
from kernelsearch.api.index import Index
from kernelsearch.clicks.importing import import_log
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core import artefacts, replacing
from kernelsearch.core.errors import ArtefactError, DiskFull, IndexProblem, IndexReplaced, InputError, OptionError
from kernelsearch.lucene.index import LuceneIndex
from kernelsearch.rerankers.fusion import model as models
from tests.conftest import DEMO, TINY, write_jsonl

NEW = [
    {"id": "d2", "title": "Leaking faucets", "contents": "A faucet that leaks wastes water, as a tap does."},
    {"id": "d7", "contents": "A panel of fuses, and one more fuse."},
    {"id": "d8", "title": "Radiator", "contents": "Bleed the radiator."},
]
FINAL = [*(document for document in TINY if document["id"] not in ("d2", "d3", "d5")), *NEW]
QUERIES = ["tap water", "fuse panel", "leaking faucet washer", "radiator", "tripped breaker"]


def build(folder, documents, *flags):
    index_verb.main(["--input", str(write_jsonl(folder.with_suffix(".jsonl"), documents)), "--index", str(folder), *flags])
    return folder


def change(folder, documents=(), ids=(), *flags):
    arguments = ["--index", str(folder), *flags]
    if documents:
        arguments += ["--append", str(write_jsonl(folder.with_name("new.jsonl"), documents))]
    if ids:
        folder.with_name("ids.txt").write_text("\n".join(ids) + "\n", encoding="utf-8")
        arguments += ["--delete", str(folder.with_name("ids.txt"))]
    index_verb.main(arguments)


def same_forward(index_path, other_path, field):
    """Whether all arrays of two forward indexes are equal."""
    files, other_files = (
        sorted((path / "kernelsearch" / "forward" / field).glob("*.npy")) for path in (index_path, other_path)
    )
    assert files and [file.name for file in files] == [file.name for file in other_files]
    return all(np.array_equal(np.load(file), np.load(twin)) for file, twin in zip(files, other_files, strict=True))


def same_lists(index_path, other_path):
    lists, other_lists = (kernelsearch.open(path).search_batch(QUERIES) for path in (index_path, other_path))
    return all(lists[qid].docids == other_lists[qid].docids and lists[qid].scores == other_lists[qid].scores for qid in lists)


@pytest.mark.parametrize(
    "flags", [(), ("--language", "whitespace"), ("--no-positions", "--no-docvectors", "--no-contents", "--no-raw")]
)
def test_a_changed_index_is_that_of_the_final_collection(tmp_path, capsys, flags):
    changed, fresh = build(tmp_path / "changed", TINY, *flags), build(tmp_path / "fresh", FINAL, *flags)
    capsys.readouterr()
    change(changed, NEW, ["d3", "d5"])
    assert "6 documents; 2 added, 1 replaced, 2 deleted" in capsys.readouterr().err
    opened, scratch = LuceneIndex(changed), LuceneIndex(fresh)
    assert opened.docids() == scratch.docids() == [document["id"] for document in FINAL]
    assert opened.rows() == opened.documents() == 6 and opened.language == scratch.language
    for field in ("contents", "title"):
        assert opened.field_statistics(field) == scratch.field_statistics(field)
        assert same_forward(changed, fresh, field)
    assert opened.stored(range(6), "raw") == scratch.stored(range(6), "raw")
    assert opened.stored(range(6), "contents") == scratch.stored(range(6), "contents")
    assert same_lists(changed, fresh)


def test_additions_and_deletions_one_after_the_other(tmp_path):
    changed, fresh = build(tmp_path / "changed", TINY[:3]), build(tmp_path / "fresh", FINAL)
    change(changed, TINY[3:])
    change(changed, (), ["d2", "d5"])
    change(changed, NEW)
    change(changed, (), ["d3"])
    assert LuceneIndex(changed).docids() == LuceneIndex(fresh).docids()
    assert same_forward(changed, fresh, "contents") and same_lists(changed, fresh)


def test_a_larger_collection_by_rm3(tmp_path, demo_index):
    from kernelsearch.trec.documents import read_documents

    documents = [document for _, document in read_documents(str(DEMO / "corpus.jsonl"))]
    half = len(documents) // 2
    changed = build(tmp_path / "changed", [*documents[:half], {"id": "x", "contents": "a tap that drips and a fuse"}])
    change(changed, documents[half:], ["x"])
    for options in ({}, {"rm3": True}, {"qld": True}):
        result, expected = (kernelsearch.open(path).search("dripping tap", **options) for path in (changed, demo_index.path))
        assert result.docids == expected.docids and result.scores == expected.scores


def test_shards_are_changed_and_an_empty_one_goes(tmp_path):
    changed, fresh = build(tmp_path / "changed", TINY, "--shards", "3"), build(tmp_path / "fresh", FINAL)
    change(changed, NEW, ["d3", "d5", "d4"])  # d3 and d4 are the second shard
    change(changed, [TINY[3]])
    assert sorted(folder.name for folder in changed.iterdir()) == ["kernelsearch", "shard-0", "shard-2", "shards.json"]
    index, scratch = kernelsearch.open(changed), kernelsearch.open(fresh)
    for text in QUERIES:
        result, expected = index.search(text), scratch.search(text)
        assert result.docids == expected.docids and result.scores == expected.scores
    index_verb.main(["--index", str(changed)])  # what is there can be exported again


def test_unknown_ids_are_named_and_counted(tmp_path, capsys):
    index = build(tmp_path / "i", TINY)
    change(index, (), ["nobody", "d1", "none", "d1"])
    assert (
        "5 documents; 0 added, 0 replaced, 1 deleted; 2 to delete were not in the index: nobody, none"
        in capsys.readouterr().err
    )
    before = kernelsearch.open(index).fingerprint
    with pytest.raises(InputError, match=r"ids.txt: none of 2 documents is in .*i, such as d1, nobody"):
        change(index, (), ["d1", "nobody"])
    with pytest.raises(InputError, match=r"ids.txt: no document would remain in .*; remove the folder instead"):
        change(index, (), [f"d{number}" for number in range(2, 7)])
    assert kernelsearch.open(index).fingerprint == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["i", "i.jsonl", "ids.txt"]


def test_wrong_input_leaves_the_index_as_it_is(tmp_path):
    index = build(tmp_path / "i", TINY)
    before = kernelsearch.open(index).fingerprint
    with pytest.raises(InputError, match=r"new.jsonl: line 2: document id 'a' appears twice"):
        change(index, [{"id": "a", "contents": "one"}, {"id": "a", "contents": "two"}])
    with pytest.raises(InputError, match=r"new.jsonl: none of the 1 documents has text"):
        change(index, [{"id": "a", "contents": " "}])
    (tmp_path / "ids.txt").write_text("\n")
    with pytest.raises(InputError, match=r"ids.txt: no document ids in it"):
        index_verb.main(["--index", str(index), "--delete", str(tmp_path / "ids.txt")])
    for flag, value in (("--language", "pt"), ("--shards", "2"), ("--input", "x"), ("--fields", "url")):
        with pytest.raises(OptionError, match=f"{flag}: has no effect with --append; the index keeps the settings"):
            change(index, NEW, (), flag, value)
    with pytest.raises(OptionError, match=r"--number-documents: would replace the documents 1, 2, ... of the index"):
        change(index, NEW, (), "--number-documents")
    with pytest.raises(OptionError, match=r"--index: one index is changed at a time"):
        change(index, NEW, (), "--index", str(tmp_path / "other"))
    assert kernelsearch.open(index).fingerprint == before
    with pytest.raises(InputError, match=r"^--delete: d1: no such file; it names a file of document ids, one per line$"):
        index_verb.main(["--index", str(index), "--delete", "d1"])


def test_a_document_that_lost_its_text_is_gone(tmp_path, capsys):
    index = build(tmp_path / "i", TINY)
    change(index, [{"id": "d1", "contents": " "}, {"id": "d9", "contents": "a ladder"}])
    assert "6 documents; 1 added, 0 replaced, 1 deleted; 1 without text left out" in capsys.readouterr().err


def test_an_index_of_another_program_takes_deletions_only(tmp_path):
    index = build(tmp_path / "i", TINY)
    (index / "kernelsearch" / "index.json").unlink()
    with pytest.raises(IndexProblem, match=r"not built by kernelsearch.index, so how its documents were analysed is not known"):
        change(index, NEW)
    (index / "README.txt").write_text("ours")
    change(index, (), ["d1"])
    assert LuceneIndex(index).docids() == ["d2", "d3", "d4", "d5", "d6"] and (index / "README.txt").read_text() == "ours"


def test_two_changes_at_a_time_are_refused(tmp_path, monkeypatch):
    index = build(tmp_path / "i", TINY)
    descriptor = os.open(index, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(IndexProblem, match=r"another command is changing the index; try again when it is done"):
        change(index, NEW)
    os.close(descriptor)
    follow = updating.follow

    def replaced_meanwhile(old, new, **options):
        build(index, TINY, "--force")
        follow(old, new, **options)

    monkeypatch.setattr(updating, "follow", replaced_meanwhile)
    with pytest.raises(IndexProblem, match=r"another command has changed the index meanwhile; nothing was done"):
        change(index, NEW)
    assert len(LuceneIndex(index).docids()) == 6


def test_an_index_whose_lucene_is_opened_after_a_change_is_refused(tmp_path):
    index = kernelsearch.open(build(tmp_path / "i", TINY))
    assert len(index.forward) == 6  # rows of the old state
    change(tmp_path / "i", (), ["d1"])
    with pytest.raises(IndexReplaced, match=r"i: the index has been replaced since it was opened; open it again"):
        index.search("tap")


def test_a_change_while_a_basis_is_read_is_no_damage(tmp_path, monkeypatch):
    folder = build(tmp_path / "i", TINY)
    kernelsearch.open(folder).train("klsa", dims=2)
    index = kernelsearch.open(folder)
    assert index.search("tap").docids
    opening = artefacts.open_arrays

    def replaced_before(path, meta, mmap):
        monkeypatch.undo()
        change(folder, (), ["d1"])
        return opening(path, meta, mmap)

    monkeypatch.setattr(artefacts, "open_arrays", replaced_before)
    with pytest.raises(IndexReplaced, match=r"i: the index has been replaced since it was opened; open it again"):
        index.pipeline("klsa")


def test_a_change_while_lucene_opens_the_index_is_no_damage(tmp_path, monkeypatch):
    from kernelsearch.lucene import index as lucene_index

    other = build(tmp_path / "other", NEW)
    opening = lucene_index.open_reader

    def replaced_before(path):
        os.rename(path, path.with_name("old"))
        os.rename(other, path)
        return opening(path)

    def damaged_before(path):
        # Lucene has read the old list of segments, and finds the new state's files.
        for file in (path.with_name("old")).glob("segments_*"):
            (path / file.name).write_bytes(file.read_bytes())
        monkeypatch.undo()
        try:
            return opening(path)
        finally:
            for file in [*path.glob("segments_*")]:
                file.unlink()

    folder = build(tmp_path / "i", TINY)
    monkeypatch.setattr(lucene_index, "open_reader", replaced_before)
    with pytest.raises(IndexReplaced, match=r"i: the index has been replaced while it was opened; open it again"):
        LuceneIndex(folder)
    monkeypatch.setattr(lucene_index, "open_reader", damaged_before)
    with pytest.raises(IndexReplaced, match=r"i: the index has been replaced while it was opened; open it again"):
        LuceneIndex(folder)


def test_from_python(tmp_path):
    index = kernelsearch.build(tmp_path / "i", TINY)
    assert index.search("tap").docids[0] == "d1"
    after = index.add(NEW).delete(["d3", "d5"])
    assert after.search("radiator").docids == ["d8"] and len(after.forward) == 6
    with pytest.raises(IndexReplaced, match=r"its documents were changed; search the index that add.. or delete.. returned"):
        index.search("tap")
    with pytest.raises(IndexReplaced, match=r"the index has been replaced since it was opened"):
        index.add(NEW)
    with pytest.raises(InputError, match=r"documents: no documents"):
        after.add([])
    with pytest.raises(InputError, match=r"document 0: .*"):
        after.add([{"id": "z"}])


def test_what_was_derived_follows(tmp_path, capsys):
    folder = build(tmp_path / "i", TINY)
    index = kernelsearch.open(folder)
    added = folder / "kernelsearch"
    index.train("klsa", dims=2)
    index.train("mslm", min_count=1)
    parameters = {"learner": "linear", "settings": {}, "recipe": ["first"]}
    artefacts.save(added / "fusion", models.KIND, models.VERSION, parameters=parameters, fingerprint=index.fingerprint)
    vectors = np.arange(12, dtype=np.float32).reshape(6, 2) + 1
    np.savez(tmp_path / "v.npz", ids=np.array([document["id"] for document in TINY]), vectors=vectors)
    from kernelsearch.vectors.__main__ import main as import_vectors

    import_vectors(["--index", str(folder), "--name", "mini", "--input", str(tmp_path / "v.npz"), "--max-tokens", "99"])
    write_jsonl(tmp_path / "log.jsonl", [{"session": "s", "query": "tap", "items": [{"docid": "d2", "clicked": True}]}])
    import_log([tmp_path / "log.jsonl"], added / "clicks.db")
    clicks = list(ClickLog(added / "clicks.db").all_queries())
    capsys.readouterr()
    change(folder, NEW, ["d3", "d5"])
    messages = capsys.readouterr().err
    after = kernelsearch.open(folder)
    # d1, d4 and d6 keep their vectors; d2 has another text than its vector was made of.
    moved = after.vectors("mini").documents
    assert moved.max_tokens == 99
    assert moved.present.tolist() == [True, True, True, False, False, False]
    assert moved.matrix[:3].tolist() == vectors[[0, 3, 5]].tolist() and not moved.matrix[3:].any()
    assert "vectors/mini has no vector for 3 documents; python -m kernelsearch.vectors --index" in messages
    # Folding in is the projection on the old term directions; the same three documents were not decomposed.
    basis = after.pipeline("klsa").rerankers[0].basis
    assert basis.rows.shape == (6, 2) and basis.meta["extra"]["folded"] == 3
    again = f"; python -m kernelsearch.train --index {folder} --rerank klsa makes it again"
    assert f"klsa keeps its decomposition, new documents are folded in{again}" in messages
    assert after.search("tap", "mslm").docids and after.search("tap", "klsa").docids
    assert artefacts.read_meta(added / "fusion", models.KIND, models.VERSION)["fingerprint"] == after.fingerprint
    assert list(ClickLog(added / "clicks.db").all_queries()) == clicks
    assert [finding for finding in check_index(folder) if finding.problem] == []


def test_what_cannot_follow_is_named_with_its_command(tmp_path, capsys):
    folder = build(tmp_path / "i", TINY)
    index = kernelsearch.open(folder)
    index.train("klsa", dims=2, kernel="rbf")
    capsys.readouterr()
    change(folder, NEW)
    messages = capsys.readouterr().err
    assert "klsa is dropped" in messages and "has no feature map to fold documents in by" in messages
    assert f"python -m kernelsearch.train --index {folder} --rerank klsa" in messages
    assert not (folder / "kernelsearch" / "klsa").exists()


def test_without_space_a_change_fails_and_drops_nothing(tmp_path, monkeypatch):
    build(tmp_path / "i", TINY)
    index = kernelsearch.open(tmp_path / "i")
    index.add_vectors("m", np.eye(6, 4), [document["id"] for document in TINY])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "i").rglob("*")}

    write = artefacts.BlockWriter.write

    def write_until_full(self, block):
        if "vectors" in self.path.parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, block)

    monkeypatch.setattr(artefacts.BlockWriter, "write", write_until_full)
    with pytest.raises(DiskFull) as problem:
        index.add([{"id": "d9", "contents": "a tap"}])
    assert str(problem.value) == f"{tmp_path}/i/kernelsearch/vectors/m: cannot be written (No space left on device)"
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "i").rglob("*")} == before


def test_artefacts_in_another_place_follow_too(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELSEARCH_ARTEFACTS", str(tmp_path / "elsewhere"))
    index = kernelsearch.build(tmp_path / "i", TINY)
    assert len(index.forward) == 6
    index.train("klsa", dims=2)
    after = index.add(NEW)
    assert (tmp_path / "elsewhere" / after.fingerprint / "klsa" / "meta.json").is_file()
    assert len(after.forward) == 8 and after.search("tap", "klsa").docids


@pytest.mark.parametrize("exchanges", [True, False])
def test_artefacts_in_a_chosen_folder_follow_and_the_rest_of_it_stays(tmp_path, monkeypatch, caplog, exchanges):
    if not exchanges:  # as on systems that can't exchange two folders in one step
        monkeypatch.setattr(replacing, "exchange", lambda first, second: False)
    kernelsearch.build(tmp_path / "other", NEW).train("klsa", dims=2, output=tmp_path / "chosen" / "other")
    kernelsearch.build(tmp_path / "i", TINY)
    index = Index(tmp_path / "i", artefacts=tmp_path / "chosen")
    index.train("klsa", dims=2)
    index.train("klsa", dims=2, kernel="rbf", output=tmp_path / "chosen" / "rbf")
    (tmp_path / "chosen" / "notes.txt").write_text("mine")
    listed = sorted(entry.name for entry in (tmp_path / "chosen").iterdir())
    foreign = (tmp_path / "chosen" / "other" / "meta.json").read_bytes()
    after = index.add(NEW)
    basis = after.pipeline("klsa").rerankers[0].basis
    assert after.artefacts == tmp_path / "chosen" and basis.rows.shape == (8, 2) and basis.meta["extra"]["folded"] == 3
    assert len(after.forward) == 8
    assert sorted(entry.name for entry in (tmp_path / "chosen").iterdir()) == listed
    assert (tmp_path / "chosen" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "chosen" / "other" / "meta.json").read_bytes() == foreign
    assert "rbf can't be used any more" in caplog.text and "other can't" not in caplog.text
    with pytest.raises(ArtefactError, match="before this one changed"):
        after.search("tap", "klsa", klsa_basis=str(tmp_path / "chosen" / "rbf"))
    with pytest.raises(InputError):  # a change that fails leaves it as it was
        after.delete(["nobody"])
    assert after.pipeline("klsa").rerankers[0].basis.rows.shape == (8, 2)
    assert sorted(entry.name for entry in (tmp_path / "chosen").iterdir()) == listed


def test_an_index_from_another_process_is_changed_in_its_own_place(tmp_path):
    index = kernelsearch.build(tmp_path / "i", TINY)
    index.train("klsa", dims=2)
    after = pickle.loads(pickle.dumps(index)).add(NEW)
    assert after.pipeline("klsa").rerankers[0].basis.rows.shape == (8, 2)
    assert after.shards.chosen_artefacts is None


def test_models_of_a_collection_with_other_indexes_are_kept_apart(tmp_path, capsys):
    folder, other = build(tmp_path / "i", TINY), build(tmp_path / "other", NEW[1:])
    together = kernelsearch.open([folder, other])
    together.train("klsa", dims=2)
    parameters = {"learner": "linear", "settings": {}, "recipe": ["first"]}
    artefacts.save(together.artefacts / "fusion", models.KIND, models.VERSION, parameters=parameters)
    place = together.artefacts.relative_to(folder / "kernelsearch")
    capsys.readouterr()
    change(folder, ids=["d3"])
    messages = capsys.readouterr().err
    assert (folder / "kernelsearch" / "replaced" / place / "fusion" / "meta.json").is_file()
    assert f"the trained model {place / 'fusion'} is kept in kernelsearch/replaced" in messages
    assert f"{place / 'klsa'}, of a collection with other indexes, is dropped" in messages
    change(folder, ids=["d5"])
    assert (folder / "kernelsearch" / "replaced" / place / "fusion" / "meta.json").is_file()
