"""The README's examples: queries of the bundled collection on which methods visibly help, hurt, or can't act."""

from kernelsearch.demo.steps import SHOWCASE, showcase_table
from kernelsearch.evaluation.measures import Evaluation
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO


def test_the_readme_says_what_the_methods_do(demo_index):
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    texts = {qid: topics[qid] for qid in SHOWCASE}
    clicks = {"rbm25": {"clicks": str(DEMO / "clicks.jsonl")}}
    methods = {"bm25": None, "klsa": "klsa", "pert": "pert", "auto": "auto", "rbm25": clicks}
    measured = demo_index.evaluate(texts, qrels, methods)
    values = {name: evaluation.values["nDCG@10"] for name, evaluation in measured.evaluations.items()}
    assert all(values[name]["d39"] > values["bm25"]["d39"] + 0.1 for name in ("klsa", "pert", "auto"))
    assert min(values["pert"]["d76"], values["auto"]["d76"]) > values["bm25"]["d76"] + 0.3
    assert values["klsa"]["d95"] > values["bm25"]["d95"] + 0.1
    assert values["pert"]["d54"] < values["bm25"]["d54"] - 0.1 and values["klsa"]["d54"] >= values["bm25"]["d54"]
    assert {values[name]["d90"] for name in values} == {0.0}
    assert values["rbm25"]["d83"] > 0.8 and {values[name]["d83"] for name in values if name != "rbm25"} == {0.0}


def test_the_demonstration_prints_them():
    evaluation = Evaluation({"nDCG@10": dict.fromkeys(SHOWCASE, 0.25)}, list(SHOWCASE), [], [])
    table = showcase_table({"bm25": evaluation, "auto": evaluation}, dict.fromkeys(SHOWCASE, "text")).splitlines()
    assert table[0].split()[-2:] == ["bm25", "auto"] and len(table) == 2 + len(SHOWCASE)
    assert table[2].split() == ["text", "0.250", "0.250"]
