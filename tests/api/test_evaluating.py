import pytest

from kernelsearch import evaluate, search
from kernelsearch.core.errors import InputError
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO


def test_figures_are_those_of_the_command_line(demo_index, tmp_path, capsys):
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    measured = demo_index.evaluate(topics, qrels, [None, "pert"], threads=2)
    runs = []
    for name, flags in (("bm25", []), ("pert", ["--rerank", "pert"])):
        runs.append(str(tmp_path / f"{name}.txt"))
        flags = ["--index", str(demo_index.path), "--topics", str(DEMO / "topics.tsv"), "--output", runs[-1], *flags]
        search.main(flags)
    capsys.readouterr()
    evaluate.main(["--qrels", str(DEMO / "qrels.txt"), "--measures", "AP,nDCG@10", "--format", "csv", *runs])
    lines = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    printed = [float(cell) for line in lines for cell in line if cell.replace(".", "", 1).isdigit() and "." in cell]
    frame = measured.to_dataframe()
    assert list(frame.index) == ["first stage", "pert"] and list(frame.columns) == ["AP", "nDCG@10"]
    assert sorted(frame.to_numpy().ravel().round(4)) == pytest.approx(sorted(printed), abs=1e-4)
    assert "pert" in repr(measured) and measured.comparison is not None and measured.comparison.baseline == "first stage"


def test_nothing_to_measure_is_named(demo_index):
    with pytest.raises(InputError, match="topics: none of them is judged"):
        demo_index.evaluate({"1": "tap"}, {"2": {"hr001": 1}})
    with pytest.raises(InputError, match="methods: none is named"):
        demo_index.evaluate({"1": "tap"}, {"1": {"hr001": 1}}, [])
