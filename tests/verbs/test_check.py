import shutil

import numpy as np
import pytest

import kernelsearch
from kernelsearch import check as check_verb
from kernelsearch import train as train_verb
from kernelsearch.core.errors import IndexProblem


@pytest.fixture
def index(tiny_path, tmp_path):
    path = shutil.copytree(tiny_path, tmp_path / "index")
    for folder in (path / "kernelsearch").iterdir():  # what other tests have derived from the shared index
        if folder.is_dir() and folder.name != "forward":
            shutil.rmtree(folder)
    train_verb.main(["--index", str(path), "--rerank", "klsa", "--klsa.dims", "2"])
    return path


def flip(file):
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)


def lines(capsys):
    """What was printed of the files; the line about the parts of auto is checked by itself."""
    return [line for line in capsys.readouterr().out.splitlines() if not line.startswith("auto: ")]


def test_a_whole_index_is_ok(index, capsys):
    check_verb.main([str(index)])
    result = capsys.readouterr().out.splitlines()
    assert result.pop() == "auto: in use: mslm, related words, klsa; not in use: vectors (the index has none)"
    assert all(line.endswith(": ok") for line in result)
    assert [line.split(str(index))[1] for line in result] == [
        " (Lucene): ok",
        "/kernelsearch/forward/contents: ok",
        "/kernelsearch/forward/title: ok",
        "/kernelsearch/klsa: ok",
    ]


def test_every_damage_is_named_with_the_command_that_repairs_it(index, capsys):
    added = index / "kernelsearch"
    flip(added / "klsa" / "rows.npy")
    flip(added / "forward" / "contents" / "df.npy")
    (term_vectors,) = index.glob("*.tvd")
    data = bytearray(term_vectors.read_bytes())
    data[len(data) // 2] ^= 1
    term_vectors.write_bytes(data)
    with pytest.raises(IndexProblem, match="3 of 4 parts are damaged"):
        check_verb.main(["--index", str(index)])
    lucene, contents, title, klsa = lines(capsys)
    assert f"(Lucene): DAMAGED: {term_vectors.name}: " in lucene and "kernelsearch.index --input DOCUMENTS" in lucene
    assert "df.npy: damaged" in contents and f"python -m kernelsearch.index --index {index} --fields contents" in contents
    assert title.endswith("ok")
    assert "rows.npy: damaged" in klsa and f"python -m kernelsearch.train --index {index} --rerank klsa" in klsa


def test_repair_writes_a_forward_index_again(index, capsys):
    folder = index / "kernelsearch" / "forward" / "contents"
    whole = np.load(folder / "df.npy").tolist()
    flip(folder / "df.npy")
    (index / "kernelsearch" / "forward" / "title" / "meta.json").write_text("{")
    check_verb.main([str(index), "--repair"])
    assert [line.split(": ")[1] for line in lines(capsys)] == ["ok", "REPAIRED", "REPAIRED", "ok"]
    check_verb.main([str(index)])
    assert np.load(folder / "df.npy").tolist() == whole
    assert len(kernelsearch.open(index).field("title")) == 6


def test_what_belongs_to_a_collection_with_other_indexes_is_checked_with_them(index, tmp_path, capsys):
    other = kernelsearch.build(tmp_path / "other", [{"id": "o", "title": "Tap", "contents": "Another tap."}])
    together = kernelsearch.open([index, other.path])
    together.train("klsa", dims=2)
    basis = together.artefacts / "klsa"
    assert basis.is_relative_to(index)
    check_verb.main([str(index), "--repair"])
    assert all(line.endswith(": ok") for line in lines(capsys)) and basis.is_dir()
    check_verb.main([str(index), str(other.path)])
    assert f"{basis}: ok" in lines(capsys)
    flip(basis / "rows.npy")
    with pytest.raises(IndexProblem, match="1 of 4 parts"):
        check_verb.main([str(index), str(other.path)])


def test_a_damaged_click_database_is_named(index, capsys):
    (index / "kernelsearch" / "clicks.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(IndexProblem, match="1 of 5 parts are damaged"):
        check_verb.main([str(index)])
    assert "clicks.db: DAMAGED: " in lines(capsys)[-1]
