import json

import numpy as np
import pytest

import kernelsearch
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.index import main
from kernelsearch.lucene import jvm
from tests.conftest import run_verb

DOCUMENTS = [
    {"id": 1, "title": "Zebra crossing", "contents": "Replace the washer", "year": 1999},
    {"id": 2, "contents": "A blown fuse"},
]


def test_from_an_iterator_of_dicts(tmp_path):
    index = kernelsearch.build(tmp_path / "i", iter(DOCUMENTS))
    assert index.search("zebra").docids == ["1"] and index.search("fuse").docids == ["2"]
    apart = kernelsearch.build(tmp_path / "i", DOCUMENTS, force=True, join_titles=False)
    assert apart.search("zebra").docids == []


def test_java_is_prepared_for_one_build_by_the_command_alone(tmp_path, monkeypatch, capsys):
    sizes = []
    monkeypatch.setattr(jvm, "expect_build", sizes.append)
    kernelsearch.build(tmp_path / "python", DOCUMENTS)
    assert sizes == []
    (tmp_path / "a.jsonl").write_text('{"id": "1", "contents": "water"}\n')
    run_verb(capsys, main, "--input", tmp_path / "a.jsonl", "--index", tmp_path / "command")
    assert sizes == [len('{"id": "1", "contents": "water"}\n')]


def test_from_a_dataframe_with_empty_cells(tmp_path):
    pandas = pytest.importorskip("pandas")
    index = kernelsearch.build(tmp_path / "i", pandas.DataFrame(DOCUMENTS))
    assert index.search("zebra").docids == ["1"] and index.search("fuse").docids == ["2"]


def test_values_of_pandas_and_numpy_are_stored_as_those_of_python(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "id": [1.0, 2.0],
            "contents": ["a zebra", "a fuse"],
            "when": pandas.to_datetime(["2020-01-01", None]),
            "year": pandas.array([1999, None], dtype="Int64"),
        }
    )
    index = kernelsearch.build(tmp_path / "i", frame)
    stored = [json.loads(hit.raw) for hit in (index.search("zebra")[0], index.search("fuse")[0])]
    assert stored[0] == {"id": "1", "contents": "a zebra", "when": "2020-01-01 00:00:00", "year": 1999}
    assert stored[1] == {"id": "2", "contents": "a fuse"}
    new = {"id": np.int64(3), "contents": "an okapi", "v": np.float32(2.5), "w": np.arange(2), "x": [np.float32("nan")]}
    index = index.add([new])
    assert json.loads(index.search("okapi")[0].raw) == {"id": "3", "contents": "an okapi", "v": 2.5, "w": [0, 1], "x": [None]}
    index = index.delete(frame["id"][:1]).delete([np.int64(3)])
    assert index.search("zebra okapi fuse").docids == ["2"]
    with pytest.raises(InputError, match="ids: document id None is neither text nor a number"):
        index.delete([None])
    with pytest.raises(InputError, match="document 0: keys must be str, int, float, bool or None, not tuple"):
        index.add([{"id": "4", "contents": "x", ("a", 1): 2}])


def test_two_columns_of_one_name_are_refused(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["1", "a zebra", "a fuse"]], columns=["id", "contents", "contents"])
    with pytest.raises(InputError, match=r"documents: 2 columns are called 'contents'"):
        kernelsearch.build(tmp_path / "i", frame)


def test_documents_without_ids_are_numbered(tmp_path):
    documents = [{"contents": "a zebra"}, {"contents": "a fuse"}]
    index = kernelsearch.build(tmp_path / "i", iter(documents), number_documents=True)
    assert index.search("zebra").docids == ["1"] and index.search("fuse").docids == ["2"]


def test_what_is_wrong_is_named(tmp_path):
    with pytest.raises(InputError, match="document 1: a document without an id"):
        kernelsearch.build(tmp_path / "i", [DOCUMENTS[0], {"contents": "x"}])
    with pytest.raises(InputError, match=r"document 0: a dict such as .* was expected, not str"):
        kernelsearch.build(tmp_path / "i", ["text"])
    with pytest.raises(InputError, match="document 1: document id '2' appears twice"):
        kernelsearch.build(tmp_path / "i", [DOCUMENTS[1], DOCUMENTS[1]])
    with pytest.raises(OptionError, match="colour: unknown option; known: shards"):
        kernelsearch.build(tmp_path / "i", DOCUMENTS, colour=1)
    assert list(tmp_path.iterdir()) == []


def test_a_batch_is_as_single_searches(tiny):
    texts = {"q1": "water tap", "q2": "fuse", "q3": "zebra"}
    batch = tiny.search_batch(texts, "pert", k=3)
    assert list(batch) == ["q1", "q2", "q3"] and len(batch["q3"]) == 0
    for qid, text in texts.items():
        single = tiny.search(text, "pert", k=3)
        assert (batch[qid].docids, batch[qid].scores, batch[qid].query.qid) == (single.docids, single.scores, qid)
    assert list(tiny.search_batch(["fuse", "tap"])) == ["0", "1"]
    with pytest.raises(InputError, match="query q has no text"):
        tiny.search_batch({"q": " "})


def test_results_as_a_dataframe(tiny):
    pytest.importorskip("pandas")
    frame = tiny.search_batch({"7": "water tap"}, "pert", k=2)["7"].to_dataframe()
    assert list(frame.columns) == ["qid", "query", "rank", "docid", "score", "moved", "text"]
    assert frame["qid"].tolist() == ["7", "7"] and frame["rank"].tolist() == [1, 2]
    assert frame.loc[0, "docid"] == "d1" and frame.loc[0, "text"].startswith("A dripping tap wastes water")


def test_a_path_is_not_a_field(tmp_path):
    index = kernelsearch.build(tmp_path / "index", [{"id": "1", "contents": "a tap"}])
    for name in ("../../elsewhere", "/etc", "", ".."):
        with pytest.raises(OptionError, match="is not the name of a field"):
            index.field(name)
    assert not list(tmp_path.rglob("elsewhere"))
