"""Pyserini's flags without pyserini: what is refused and how, and what becomes of a list's entries."""

from __future__ import annotations

import re

import pytest

from kernelsearch import explain, search, tune
from kernelsearch.cli import pyserini_flags
from kernelsearch.cli.search_settings import SearchSettings
from kernelsearch.core.errors import Flag, IndexProblem, InputError, OptionError
from kernelsearch.trec import read_run, read_topics
from tests.conftest import DEMO


def settings(**options):
    return SearchSettings.of(options)


@pytest.fixture
def flags(demo_index, tmp_path):
    return ["--index", str(demo_index.path), "--topics", str(DEMO / "topics.tsv"), "--output", str(tmp_path / "run.txt")]


@pytest.mark.parametrize("flag", [["--dense"], ["--impact"], ["--hnsw"], ["--encoder", "castorini/any"], ["--min-idf", "1"]])
def test_what_searches_something_else_says_what_to_do(flags, flag):
    with pytest.raises(OptionError, match=rf"^{flag[0]}: .* pyserini.search.lucene, then rerank it: .* --run THAT"):
        search.main([*flags, *flag])


@pytest.mark.parametrize(
    ("more", "problem", "message"),
    [
        (["--fields", "title"], OptionError, "--fields: 'title' should read FIELD=WEIGHT"),
        (["--fields", "title=x"], OptionError, "--fields: 'title=x' should read FIELD=WEIGHT"),
        (["--fields", "title=nan"], OptionError, "--fields: 'title=nan' should read FIELD=WEIGHT"),
        (["--fields", "title=-1"], OptionError, "--fields: 'title=-1' should read FIELD=WEIGHT"),
        (["--max-passage", "--max-passage-delimiter", ""], OptionError, "--max-passage-delimiter: an empty text"),
        (["--dismax"], OptionError, "--dismax: has no effect without --fields"),
        (["--dismax", "--bm25qs", "--fields", "title=1"], OptionError, "--dismax and --bm25qs exclude each other"),
        (["--bm25qs", "--qld"], InputError, "--bm25qs: ranks with BM25"),
        (["--stopwords", "nowhere.txt"], InputError, "--stopwords: nowhere.txt: no such file"),
        (["--pretokenized", "--tokenizer", "a"], OptionError, "--pretokenized and --tokenizer exclude each other"),
        (["--topics-format", "kilt"], OptionError, "--topics-format: kilt: not read here; write the topics as TSV"),
        (["--output-format", "kilt"], OptionError, "--output-format: kilt: not written here; write trec"),
        (["--prcl", "forest"], OptionError, "'forest' is not one of lr, svm"),
        (["--prcl.r", "5"], OptionError, "--prcl.r: has no effect without --rerank prcl"),
    ],
)
def test_bad_flags_are_named_and_nothing_is_written(flags, tmp_path, more, problem, message):
    with pytest.raises(problem) as caught:
        search.main([*flags, *more])
    assert re.search(message, caught.value.message(Flag.on_command_line))
    assert not (tmp_path / "run.txt").exists()


def test_a_name_that_is_no_folder_is_asked_of_pyserini_where_it_is_installed(flags, tmp_path, monkeypatch):
    from kernelsearch.integrations import pyserini_data

    def download(name):
        if name != "ours":
            raise InputError("Unrecognized index name")
        return flags[1]

    monkeypatch.setattr(pyserini_data, "download_prebuilt", download)
    monkeypatch.setattr(pyserini_flags, "find_spec", lambda name: name)
    search.main(["--index", "ours", *flags[2:], "--topics-format", "default"])
    assert 'index = "ours"' in (tmp_path / "run.txt.toml").read_text()
    with pytest.raises(IndexProblem, match="theirs: no such index"):
        search.main(["--index", "theirs", *flags[2:]])
    monkeypatch.setattr(pyserini_flags, "find_spec", lambda name: None)
    with pytest.raises(IndexProblem, match="ours: no such index"):
        search.main(["--index", "ours", *flags[2:]])


def test_bm25_of_msmarcos_prebuilt_indexes_is_pyserinis_unless_flags_say_otherwise(flags, tmp_path, monkeypatch, capsys):
    from kernelsearch.integrations import pyserini_data

    monkeypatch.setattr(pyserini_data, "download_prebuilt", lambda name: flags[1])
    monkeypatch.setattr(pyserini_flags, "find_spec", lambda name: name)
    for name, more, k1, b in (
        ("msmarco-v1-passage", [], 0.82, 0.68),
        ("msmarco-v1-doc-segmented", [], 2.16, 0.61),
        ("msmarco-v1-passage", ["--k1", "2"], 2.0, 0.4),
        ("msmarco-v1-passage", ["--qld"], 0.9, 0.4),
        ("robust04", [], 0.9, 0.4),
    ):
        search.main(["--index", name, *flags[2:], *more])
        recipe = (tmp_path / "run.txt.toml").read_text()
        assert f"k1 = {k1}\n" in recipe and f"b = {b}\n" in recipe, (name, more)
        assert ("as Pyserini sets them" in capsys.readouterr().err) == (not more and name != "robust04")


def test_topics_by_pyserinis_name(flags, tmp_path, monkeypatch):
    from kernelsearch.integrations import pyserini_data

    known = {"house": {7: {"title": "dripping tap", "description": "water drips"}, "q2": {"title": "blown fuse"}}}
    monkeypatch.setattr(pyserini_data, "pyserini_topics", known.get)
    monkeypatch.setattr(pyserini_flags, "find_spec", lambda name: name)
    run = ["--index", flags[1], "--output", str(tmp_path / "run.txt")]
    search.main([*run, "--topics", "house"])
    assert list(read_run(tmp_path / "run.txt")) == ["7", "q2"]
    with pytest.raises(InputError, match="--topics-field: house has no 'description'"):
        search.main([*run, "--topics", "house", "--topics-field", "title+description"])
    with pytest.raises(InputError, match="garden: no such file"):
        search.main([*run, "--topics", "garden"])
    monkeypatch.setattr(pyserini_flags, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"house: no such file; .*pip install .*\[pyserini\]"):
        search.main([*run, "--topics", "house"])


def test_entries_are_removed_in_pyserinis_order():
    docids, scores = ["a#1", "b#1", "a#2", "a#1", "c"], [5.0, 4.0, 3.0, 2.0, 1.0]
    assert pyserini_flags.filter_list(docids, scores, "q", settings()) == (docids, scores)
    once = pyserini_flags.filter_list(docids, scores, "c", settings(remove_duplicates=True, remove_query=True))
    assert once == (["a#1", "b#1", "a#2"], [5.0, 4.0, 3.0])
    best = settings(max_passage=True, max_passage_hits=2)
    assert pyserini_flags.filter_list(docids, scores, "q", best) == (["a", "b"], [5.0, 4.0])
    other = settings(max_passage=True, max_passage_delimiter="b")
    assert pyserini_flags.filter_list(docids, scores, "q", other)[0] == ["a#1", "", "a#2", "c"]


def test_fields_are_words_or_parts_between_commas(flags, tmp_path):
    search.main([*flags, "--fields", "title=2", "contents=1", "--hits", "10"])
    words = read_run(tmp_path / "run.txt")
    search.main([*flags, "--fields", "title=2,contents=1", "--hits", "10"])
    assert read_run(tmp_path / "run.txt") == words
    search.main([*flags, "--hits", "10"])
    assert read_run(tmp_path / "run.txt") != words


def test_query_side_bm25_of_fields_is_the_weighted_sum_of_the_fields(flags, tmp_path):
    search.main([*flags, "--bm25qs", "--fields", "title=3", "contents=2", "--hits", "5"])
    both = read_run(tmp_path / "run.txt")
    parts = {}
    for field in ("title", "contents"):
        search.main([*flags, "--bm25qs", "--fields", f"{field}=1"])
        parts[field] = {qid: dict(ranked) for qid, ranked in read_run(tmp_path / "run.txt").items()}
    assert len(both) > 50
    for qid, ranked in both.items():
        for docid, score in ranked:
            title, contents = (parts[field].get(qid, {}).get(docid, 0.0) for field in ("title", "contents"))
            assert score == pytest.approx(3 * title + 2 * contents, abs=1e-3)  # Anserini rounds to four decimals
    search.main([*flags, "--fields", "title=3", "contents=2", "--hits", "5"])
    assert read_run(tmp_path / "run.txt") != both


def test_a_recipe_with_these_flags_makes_the_run_again(flags, tmp_path):
    run = tmp_path / "run.txt"
    search.main([*flags, "--fields", "title=2", "contents=1", "--dismax", "--dismax.tiebreaker", "0.5", "--prcl", "lr"])
    before = run.read_bytes()
    run.unlink()
    search.main(["--config", f"{run}.toml"])
    assert run.read_bytes() == before


def test_a_recipe_with_these_flags_makes_the_list_of_a_query_or_is_refused(flags, tmp_path, capsys):
    search.main([*flags, "--fields", "title=4", "contents=1", "--hits", "3"])
    config = f"{tmp_path / 'run.txt'}.toml"
    topics = read_topics(DEMO / "topics.tsv")
    for qid in list(topics)[:5]:
        capsys.readouterr()
        search.main(["--config", config, "--query", topics[qid]])
        printed = [line.split()[1:3] for line in capsys.readouterr().out.splitlines()[2:]]
        expected = read_run(tmp_path / "run.txt").get(qid, [])
        assert [docid for docid, _ in printed] == [docid for docid, _ in expected]
        assert [float(score) for _, score in printed] == pytest.approx([score for _, score in expected], abs=1e-4)
    message = r"run\.txt\.toml: fields: taken by search only"
    with pytest.raises(InputError, match=message):
        explain.main(["--config", config, "--query", "dripping tap"])
    with pytest.raises(InputError, match=message):
        tune.main(["--config", config, "--qrels", str(DEMO / "qrels.txt"), "--output", str(tmp_path / "tuned.toml")])
    assert not (tmp_path / "tuned.toml").exists()
