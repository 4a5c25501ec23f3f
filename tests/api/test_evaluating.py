import sys

import numpy as np
import pytest

import kernelsearch
from kernelsearch import evaluate, search
from kernelsearch.api import keywords
from kernelsearch.api.judged import as_qrels, as_topics
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.rerankers import registry
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A file with the first 24 topics of the bundled collection."""
    file = tmp_path_factory.mktemp("few") / "topics.tsv"
    file.write_text("".join((DEMO / "topics.tsv").read_text().splitlines(keepends=True)[:24]))
    return file


def test_figures_are_those_of_the_command_line(demo_index, few, tmp_path, capsys):
    topics, qrels = read_topics(few), read_qrels(DEMO / "qrels.txt")
    measured = demo_index.evaluate(topics, qrels, [None, "pert"], threads=2)
    runs = []
    for name, flags in (("bm25", []), ("pert", ["--rerank", "pert"])):
        runs.append(str(tmp_path / f"{name}.txt"))
        flags = ["--index", str(demo_index.path), "--topics", str(few), "--output", runs[-1], *flags]
        search.main(flags)
    capsys.readouterr()
    judged = [line for line in (DEMO / "qrels.txt").read_text().splitlines(keepends=True) if line.split()[0] in topics]
    (tmp_path / "qrels.txt").write_text("".join(judged))  # judged topics that are not in a run count as zero
    evaluate.main(["--qrels", str(tmp_path / "qrels.txt"), "--format", "csv", *runs])
    lines = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    printed = [float(cell) for line in lines for cell in line if cell.replace(".", "", 1).isdigit() and "." in cell]
    frame = measured.to_dataframe()
    assert list(frame.index) == ["first stage", "pert"] and list(frame.columns) == list(
        dict.fromkeys(line[2] for line in lines[1:])
    )
    assert sorted(frame.to_numpy().ravel().round(4)) == pytest.approx(sorted(printed), abs=1e-4)
    assert "pert" in repr(measured) and measured.comparison is not None and measured.comparison.baseline == "first stage"


def test_nothing_to_measure_is_named(demo_index):
    with pytest.raises(InputError, match="topics: none of them is judged"):
        demo_index.evaluate({"1": "tap"}, {"2": {"hr001": 1}})
    with pytest.raises(InputError, match="methods: none is named"):
        demo_index.evaluate({"1": "tap"}, {"1": {"hr001": 1}}, [])


def test_evaluate_is_a_function_and_a_verb(demo_index):
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    from_files = kernelsearch.evaluate(str(demo_index.path), DEMO / "topics.tsv", DEMO / "qrels.txt", [None], measures=["P@5"])
    run = demo_index.search_batch(topics, k=5)
    by_hand = {qid: sum(qrels[qid].get(docid, 0) > 0 for docid in run[qid].docids) / 5 for qid in topics if qid in qrels}
    values = from_files.to_dataframe(per_query=True)
    assert dict(zip(values["qid"], values["value"], strict=True)) == pytest.approx(by_hand)
    assert set(values["method"]) == {"first stage"} and set(values["measure"]) == {"P@5"}
    assert from_files.to_dataframe()["P@5"].tolist() == pytest.approx([np.mean(list(by_hand.values()))])
    assert kernelsearch.evaluate.main is evaluate.main


def test_tuning_from_python_gives_the_figures_of_evaluate(demo_index, few):
    topics, qrels = read_topics(few), read_qrels(DEMO / "qrels.txt")
    tried = {"k1": [0.9, 1.5], "pert_alpha": (0.3, 0.7)}
    tuned = kernelsearch.tune(demo_index, topics, DEMO / "qrels.txt", "pert", tried, folds=3, pert_docs=5)
    frame = tuned.to_dataframe()
    assert list(frame.columns) == ["k1", "pert.alpha", "AP", "folds"] and frame["folds"].sum() == 3
    assert frame["AP"].is_monotonic_decreasing and len(frame) == 4
    for _, row in frame.iterrows():
        options = {"k1": row["k1"], "pert_alpha": row["pert.alpha"], "pert_docs": 5}
        measured = demo_index.evaluate(topics, qrels, ["pert"], measures=["AP"], **options)
        assert measured.to_dataframe()["AP"].iloc[0] == pytest.approx(row["AP"], abs=1e-12)
    assert tuned.options == {"k1": frame["k1"][0], "pert_alpha": frame["pert.alpha"][0]}
    assert demo_index.search("tap", "pert", **tuned.options)
    assert "best of 4 settings" in repr(tuned) and f"{tuned.held_out:.4f}" in repr(tuned)


def test_topics_and_judgements_may_be_data_frames(demo_index, few):
    pandas = pytest.importorskip("pandas")
    topics, qrels = read_topics(few), read_qrels(DEMO / "qrels.txt")
    frame = pandas.DataFrame({"qid": list(topics), "query": list(topics.values())})
    judged = pandas.DataFrame(
        [(qid, docid, grade) for qid, grades in qrels.items() for docid, grade in grades.items()],
        columns=["qid", "docno", "label"],
    )
    expected = demo_index.evaluate(topics, qrels, [None]).to_dataframe()
    assert demo_index.evaluate(frame, judged, [None]).to_dataframe().equals(expected)
    renamed = judged.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    assert kernelsearch.evaluate(demo_index, frame, renamed, [None]).to_dataframe().equals(expected)
    lists = demo_index.search_batch(frame, k=3)
    assert {qid: results.docids for qid, results in lists.items()} == {
        qid: results.docids for qid, results in demo_index.search_batch(topics, k=3).items()
    }
    assert list(demo_index.search_batch(frame["query"][:2], k=1)) == ["0", "1"]
    with pytest.raises(InputError, match=r"topics: a data frame without a column query or text or title \(it has qid\)"):
        demo_index.search_batch(frame[["qid"]])
    with pytest.raises(InputError, match="a list of queries was expected, not one text"):
        demo_index.search_batch("dripping tap")


def test_queries_that_a_method_cannot_act_on_are_counted(demo_index, caplog):
    topics, qrels = {"1": "dripping tap", "2": "mould"}, {"1": {"hr001": 1}, "2": {"hr002": 1}}
    measured = demo_index.evaluate(topics, qrels, "prcl", hits=20)
    assert list(measured.evaluations) == ["prcl"]
    assert "prcl: 2 queries keep the first stage's list: no more than r + n = 110 documents" in caplog.messages


def test_options_of_a_method_whose_name_has_a_hyphen(monkeypatch):
    klsa, pert = registry.method("klsa"), registry.method("pert")
    methods = {"my": pert, "my-own": klsa}
    monkeypatch.setattr(registry, "method", methods.__getitem__)
    monkeypatch.setattr(registry, "names", lambda: list(methods))
    chosen = dict(keywords.read_keywords(["my", "my-own"], {"my_own_z": 3, "my_alpha": 0.25, "k1": 1.0}).options())
    assert chosen["my"]["alpha"] == 0.25 and chosen["my-own"]["z"] == 3
    with pytest.raises(OptionError, match="my_own_z: has no effect without rerank='my-own'"):
        keywords.read_keywords(None, {"my_own_z": 3})


def test_data_frames_are_checked_as_files_are():
    pandas = pytest.importorskip("pandas")

    def frame(*rows, columns=("qid", "docno", "label")):
        return pandas.DataFrame(rows, columns=list(columns))

    assert as_qrels(frame(("1", "a", 2.0), ("1", "a", 2.0), (7, "b", "1"))) == {"1": {"a": 2}, "7": {"b": 1}}
    assert as_qrels({7: {"a": np.int64(1)}, "8": {}}) == {"7": {"a": 1}, "8": {}}
    rows = frame(("1", "a", "tap"), ("1", "b", "tap"), (2, "a", 2020), columns=("qid", "docno", "query"))
    assert as_topics(rows) == {"1": "tap", "2": "2020"} and as_topics({2: "tap"}) == {"2": "tap"}
    for read, data, message in (
        (as_qrels, frame(("1", "a", 1), ("1", "a", 0)), "topic 1, document a is judged twice, with different grades"),
        (as_qrels, frame(("1", "a", float("nan"))), "document a: grade nan is not a whole number"),
        (as_qrels, {"1": {"a": 0.5}}, "document a: grade 0.5 is not a whole number"),
        (as_qrels, {"1": {"a"}}, r"\{qid: \{docid: grade\}\} was expected"),
        (as_topics, frame(("1", "tap"), ("1", "fuse"), columns=("qid", "query")), "topic 1 has two texts, 'tap' and 'fuse'"),
        (as_topics, frame(("1", None), ("2", "tap"), columns=("qid", "query")), "the text of topic 1 is (None|nan), a text"),
        (as_topics, frame(("1", "2", "tap"), columns=("qid", "qid", "query")), "topics: 2 columns are called 'qid'"),
        (as_topics, ["tap"], r"\{qid: text\} was expected"),
    ):
        with pytest.raises(InputError, match=message):
            read(data)


def test_methods_of_an_index_take_files_too(demo_index, few, tmp_path):
    topics, qrels = read_topics(few), read_qrels(DEMO / "qrels.txt")
    by_files = demo_index.evaluate(few, str(DEMO / "qrels.txt"), [None])
    assert by_files.to_dataframe().equals(demo_index.evaluate(topics, qrels, [None]).to_dataframe())
    folders = [
        demo_index.train("mslm", topics=few, qrels=DEMO / "qrels.txt", output=tmp_path / "files", mslm_window=3),
        demo_index.train("mslm", topics=topics, qrels=qrels, output=tmp_path / "dicts", window=3),
        demo_index.train("mslm", topics=topics, qrels=qrels, output=tmp_path / "wide", window=8),
    ]
    files, dicts, wide = (sorted((file.name, file.read_bytes()) for file in folder.rglob("*.npy")) for folder in folders)
    assert files == dicts != wide


def test_tuning_of_training_parameters_needs_a_place_for_them(demo_index, tmp_path):
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    with pytest.raises(OptionError, match="output: not given; what is fitted for each value of klsa_kernel"):
        kernelsearch.tune(demo_index, topics, qrels, "klsa", {"klsa_kernel": ["vsm"]})
    output = tmp_path / "best.toml"
    tuned = kernelsearch.tune(
        demo_index, topics, qrels, "klsa", {"klsa_kernel": ["vsm"], "klsa_z": [3]}, output=output, folds=2
    )
    assert output.is_file() and set(tuned.options) == {"klsa_z", "klsa_basis"}
    assert demo_index.search("tap", "klsa", **tuned.options)
    with pytest.raises(InputError, match="topics: none of them is judged"):
        kernelsearch.tune(demo_index, {"x": "tap"}, qrels, folds=2)


def test_data_frames_name_the_package_that_they_need(demo_index, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(OptionError, match="a DataFrame needs pandas; pip install pandas"):
        demo_index.search("dripping tap", k=1).to_dataframe()
