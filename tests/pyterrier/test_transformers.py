"""Our PyTerrier transformers: columns, validation, pipelines, features, experiments. None of it needs Terrier's jars."""

from __future__ import annotations

import importlib.util
import inspect
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from kernelsearch.core.errors import InputError, KernelSearchError, OptionError
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO

pytestmark = [
    pytest.mark.pyterrier,
    pytest.mark.skipif(importlib.util.find_spec("pyterrier") is None, reason="PyTerrier is not installed: make test-pyterrier"),
]
if importlib.util.find_spec("pyterrier") is not None:
    import pandas as pd
    import pyterrier as pt

    import kernelsearch.integrations.pyterrier as ks


@pytest.fixture(scope="module")
def topics():
    return pd.DataFrame(read_topics(DEMO / "topics.tsv").items(), columns=["qid", "query"])


@pytest.fixture(scope="module")
def qrels():
    judged = read_qrels(DEMO / "qrels.txt")
    rows = [(qid, docno, label) for qid, labels in judged.items() for docno, label in labels.items()]
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


@pytest.fixture(scope="module")
def bm25(demo_index):
    return ks.Retriever(demo_index, num_results=100)


def by_query(frame):
    return {qid: list(group.sort_values("rank")["docno"]) for qid, group in frame.groupby("qid")}


def test_the_retriever_gives_the_indexes_lists(demo_index, topics, bm25):
    found = bm25(topics.head(5))
    assert list(found.columns) == ["qid", "query", "docid", "docno", "score", "rank"]
    for qid, text in topics.head(5).itertuples(index=False):
        assert by_query(found)[qid] == demo_index.search(text, k=100).docids
    assert (found.groupby("qid")["rank"].min() == 0).all()


def test_one_query_by_text(bm25):
    assert bm25.search("dripping tap")["score"].is_monotonic_decreasing
    assert len((bm25 % 5).search("dripping tap")) == len(ks.Retriever(bm25.index, 5).search("dripping tap")) == 5


def test_first_stage_options(demo_index, topics):
    found = ks.Retriever(demo_index, num_results=20, rm3=True)(topics.head(3))
    assert by_query(found) == {
        qid: demo_index.search(text, k=20, rm3=True).docids for qid, text in topics.head(3).itertuples(index=False)
    }
    with pytest.raises(OptionError, match="nonsense: unknown option"):
        ks.Retriever(demo_index, nonsense=1)


def test_a_method_reranks_results(demo_index, topics, bm25):
    klsa = ks.KernelLSA(demo_index)
    found = (bm25 >> klsa)(topics.head(5))
    for qid, text in topics.head(5).itertuples(index=False):
        assert by_query(found)[qid] == demo_index.search(text, rerank="klsa", k=100, hits=100).docids
    assert set(zip(found["qid"], found["docno"], strict=True)) == {
        (qid, docno) for qid, docno in bm25(topics.head(5))[["qid", "docno"]].itertuples(index=False)
    }


def test_other_columns_are_kept(demo_index, topics, bm25):
    given = bm25(topics.head(2)).assign(text=lambda frame: "text of " + frame["docno"], qlabel="x")
    found = ks.KernelLSA(demo_index)(given.sample(frac=1, random_state=1))
    assert (found["text"] == "text of " + found["docno"]).all()
    assert (found["qlabel"] == "x").all()
    assert found.groupby("qid")["score"].apply(lambda scores: scores.is_monotonic_decreasing).all()


def test_expansion_writes_query_toks_that_the_retriever_reads(demo_index, topics, bm25):
    expand = ks.Expansion(demo_index)
    queries = (bm25 >> expand)(topics.head(4))
    assert set(queries.columns) == {"qid", "query", "query_0", "query_toks"}
    assert all(isinstance(toks, dict) and len(toks) > 2 for toks in queries["query_toks"])
    again = (bm25 >> expand >> bm25)(topics.head(4))
    both = (bm25 >> ks.Perturbation(demo_index, hits=100))(topics.head(4))
    assert by_query(again) == by_query(both)
    np.testing.assert_allclose(again["score"], both["score"], rtol=1e-5)


def test_weighted_terms_alone_are_a_query(bm25):
    found = bm25(pd.DataFrame([{"qid": "1", "query_toks": {"tap": 2.0, "drip": 1.0}}]))
    assert len(found)
    assert "query_toks" in found.columns


def test_columns_are_validated(demo_index, topics, bm25):
    with pytest.raises(pt.validate.InputValidationError):
        ks.KernelLSA(demo_index)(topics)
    with pytest.raises(pt.validate.InputValidationError):
        bm25(topics[["qid"]])
    with pytest.raises(InputError, match=r"results: 1 documents are not in .*, such as elsewhere of topic 1"):
        ks.KernelLSA(demo_index)(pd.DataFrame([{"qid": "1", "query": "tap", "docno": "elsewhere", "score": 1.0}]))
    with pytest.raises(KernelSearchError, match="nonsense"):
        ks.KernelLSA(demo_index, nonsense=3)


def test_pipelines_can_be_inspected(demo_index, bm25):
    outputs = pt.inspect.transformer_outputs(bm25 >> ks.KernelLSA(demo_index), ["qid", "query"])
    assert set(outputs) >= {"qid", "query", "docno", "score", "rank"}
    outputs = pt.inspect.transformer_outputs(bm25 >> ks.Expansion(demo_index), ["qid", "query"])
    assert set(outputs) == {"qid", "query", "query_0", "query_toks"}


def test_features_of_several_methods(demo_index, topics, bm25):
    found = (bm25 >> (ks.KernelLSA(demo_index) ** ks.Perturbation(demo_index, rescore=True)))(topics.head(3))
    assert np.stack(found["features"].to_list()).shape == (len(found), 2)


def test_sums_and_cutoffs(demo_index, topics, bm25):
    found = (bm25 >> (0.5 * ks.KernelLSA(demo_index) + pt.Transformer.identity()) % 10)(topics.head(3))
    assert (found.groupby("qid").size() == 10).all()


def test_an_experiment_compares_pipelines(demo_index, topics, qrels, bm25):
    pipelines = [bm25, bm25 >> ks.KernelLSA(demo_index), bm25 >> ks.MultiScaleLM(demo_index)]
    table = pt.Experiment(pipelines, topics, qrels, ["map", "ndcg_cut_10"], names=["bm25", "klsa", "mslm"], baseline=0)
    assert list(table["name"]) == ["bm25", "klsa", "mslm"]
    assert table["map"].between(0.1, 1).all()
    assert table["map"].nunique() == 3


def test_the_experiment_of_the_first_page(demo_index, topics, qrels, bm25):
    klsa, auto = ks.KernelLSA(demo_index), ks.Auto(demo_index)
    table = pt.Experiment([bm25, bm25 >> klsa, bm25 >> auto], topics, qrels, ["map"])
    assert table["map"].nunique() == 3 and table["map"].iloc[2] > table["map"].iloc[0]


def test_methods_are_fused_as_the_first_page_says(demo_index, topics, qrels, bm25):
    klsa, mslm, fusion = ks.KernelLSA(demo_index), ks.MultiScaleLM(demo_index), ks.Fusion()
    pipeline = bm25 >> (klsa**mslm) >> fusion
    train, test = topics.iloc[::2], topics.iloc[1::2]
    pipeline.fit(train, qrels)
    found = pipeline(test)
    assert set(zip(found["qid"], found["docno"], strict=True)) == set(
        bm25(test)[["qid", "docno"]].itertuples(index=False, name=None)
    )
    assert found.groupby("qid")["score"].apply(lambda scores: scores.is_monotonic_decreasing).all()
    means = pt.Experiment([bm25, bm25 >> klsa, bm25 >> mslm, pipeline], test, qrels, ["map"])["map"]
    assert means[3] > 0.9 * means[:3].max()


@pytest.mark.parametrize("name", ["RobustBM25", "PairwiseKernel", "QuerySubstitution", "ClickPrior"])
def test_methods_that_learn_from_clicks(demo_index, topics, bm25, name):
    transformer = getattr(ks, name)(demo_index)
    transformer.fit(clicks=str(DEMO / "clicks.jsonl"))
    found = (bm25 >> transformer)(topics.head(4))
    queries = demo_index.lucene.queries(list(topics.head(4)["query"]), list(topics.head(4)["qid"]))
    expected = demo_index.pipeline(transformer.method).rerank(queries, demo_index.lucene.search(queries, 100))
    assert by_query(found) == {
        query.qid: demo_index.forward.docids.take(one.docs) for query, one in zip(queries, expected, strict=True)
    }
    assert (found.groupby("qid")["rank"].apply(list).apply(lambda ranks: ranks == list(range(len(ranks))))).all()
    before = by_query(bm25(topics.head(4)))
    assert by_query(found) != before, "the log changes something"


def test_relevance_classifiers(demo_index, topics, bm25):
    found = (bm25 >> ks.RelevanceClassifier(demo_index, r=2, n=10))(topics.head(4))
    assert by_query(found) == {
        qid: demo_index.search(text, rerank="prcl", k=100, hits=100, prcl_r=2, prcl_n=10).docids
        for qid, text in topics.head(4).itertuples(index=False)
    }


def test_weighted_terms_reach_the_methods(demo_index, bm25):
    """A method that reads the query's terms reads `query_toks` where a frame has them."""
    text = pd.DataFrame([{"qid": "1", "query": "tap"}])
    weighted = text.assign(query_toks=[{"tap": 1.0, "washer": 3.0}])
    klsa = ks.KernelLSA(demo_index)
    one, other = (bm25 >> klsa)(text), klsa(bm25(weighted))
    assert by_query(one)["1"] != by_query(other)["1"]
    assert next(iter(other["query_toks"])) == {"tap": 1.0, "washer": 3.0}


def test_every_method_has_a_class_and_entry_points_declare_the_module():
    from importlib.metadata import entry_points

    from kernelsearch.rerankers import registry

    classes = {
        "Auto", "ClickPrior", "KernelDense", "KernelLSA", "MultiScaleLM", "PairwiseKernel", "Perturbation", "QuerySubstitution",
        "RelevanceClassifier", "RobustBM25",
    }  # fmt: skip
    assert classes | {"Expansion", "Fusion", "Retriever"} <= set(ks.__all__) <= set(dir(ks))
    assert {getattr(ks, name).method for name in classes} | {"fusion"} == set(registry.names())
    assert all(ks.transformer_class(name).method == name for name in registry.names())
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        _ = ks.Nonsense
    declared = {
        (point.group, point.value)
        for group in ("pyterrier.modules", "pyterrier.java.init")
        for point in entry_points(group=group)
    }
    assert ("pyterrier.modules", "kernelsearch.integrations.pyterrier") in declared
    assert ("pyterrier.java.init", "kernelsearch.integrations.pyterrier:JavaInit") in declared


def test_a_methods_class_has_its_name_options_and_description():
    assert (ks.KernelLSA.__name__, ks.KernelLSA.__module__) == ("KernelLSA", "kernelsearch.integrations.pyterrier")
    assert "`klsa`" in ks.KernelLSA.__doc__ and "kernel latent semantic analysis" in ks.KernelLSA.__doc__
    parameters = inspect.signature(ks.KernelLSA).parameters
    assert next(iter(parameters)) == "index" and parameters["z"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "lambda" not in parameters and "lambda : " in ks.KernelLSA.__doc__, "a keyword of Python can't be a parameter"


PLUGIN = """
from kernelsearch.core.options import Settings
from kernelsearch.rerankers.base import Reranker
from kernelsearch.rerankers.registry import Method

METHOD = Method("reversed", "the list from its end", Settings, "reversed_list:ReversedListReranker")


class ReversedListReranker(Reranker):
    method = METHOD

    def score(self, query, candidates, context):
        return -candidates.scores
"""


def test_a_plugins_method_is_a_transformer_that_can_be_pickled(demo_index, tmp_path):
    info = tmp_path / "reversed_list-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: reversed-list\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kernelsearch.rerankers]\nreversed = reversed_list:METHOD\n")
    (tmp_path / "reversed_list.py").write_text(PLUGIN)
    code = (
        "import pickle, pandas as pd, kernelsearch.integrations.pyterrier as ks\n"
        f"transformer = pickle.loads(pickle.dumps(ks.ReversedList({str(demo_index.path)!r})))\n"
        "assert type(transformer) is ks.ReversedList is ks.transformer_class('reversed')\n"
        "rows = [('1', 'tap', 'hr001', 2.0), ('1', 'tap', 'hr002', 1.0)]\n"
        "print(*transformer(pd.DataFrame(rows, columns=['qid', 'query', 'docno', 'score']))['docno'])\n"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr[-1500:]
    assert done.stdout.split() == ["hr002", "hr001"]


def test_an_experiment_with_auto(demo_index, topics, qrels, bm25):
    table = pt.Experiment([bm25, bm25 >> ks.Auto(demo_index)], topics, qrels, ["map"], names=["bm25", "auto"])
    assert table["map"].between(0.1, 1).all()


def test_fusion_learns_from_features_of_methods(demo_index, topics, qrels, bm25):
    pipeline = bm25 >> (ks.KernelLSA(demo_index) ** ks.MultiScaleLM(demo_index) ** pt.Transformer.identity()) >> ks.Fusion()
    with pytest.raises(InputError, match="Fusion: fit it on training topics"):
        pipeline(topics.head(2))
    train, test = topics.iloc[::2], topics.iloc[1::2]
    pipeline.fit(train, qrels)
    found = pipeline(test)
    assert set(found["docno"]) == set(bm25(test)["docno"])
    table = pt.Experiment([bm25, pipeline], test, qrels, ["map"], names=["bm25", "fusion"])
    assert table["map"].iloc[1] > 0.8 * table["map"].iloc[0]


def test_fit_keeps_what_was_fitted_beside_the_index(demo_index, topics, bm25):
    klsa = ks.KernelLSA(demo_index)
    before = by_query((bm25 >> klsa)(topics.head(3)))
    klsa.fit(dims=5)
    assert by_query((bm25 >> klsa)(topics.head(3))) != before
    klsa.fit()
    assert by_query((bm25 >> klsa)(topics.head(3))) == before


def test_transformers_can_be_sent_to_workers(demo_index, topics, bm25):
    pipeline = bm25 >> ks.KernelLSA(demo_index)
    again = pickle.loads(pickle.dumps(pipeline))
    assert by_query(again(topics.head(2))) == by_query(pipeline(topics.head(2)))
    assert repr(pipeline).startswith("(Retriever(")


def test_pyterrier_knows_the_module():
    assert pt.kernelsearch.KernelLSA is ks.KernelLSA


def test_java_that_we_started_is_not_terriers(demo_index):
    """One clear line instead of Terrier's classes missing; in a fresh process, because a process has one Java."""
    code = f"import pyterrier as pt\npt.kernelsearch.Retriever({str(demo_index.path)!r}).search('tap')\npt.java.init()\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "call pt.java.init() before the first use of a kernelsearch index" in done.stderr


def test_anserinis_jar_joins_the_java_that_pyterrier_starts(demo_index):
    """PyTerrier's start with its own initialisers except Terrier's, whose jars would have to be downloaded."""
    code = (
        "import pyterrier as pt, jnius_config\n"
        "ours = pt.kernelsearch.JavaInit()\n"
        "ours.pre_init(jnius_config)\n"
        "import jnius\n"
        "assert any('anserini' in jar for jar in jnius_config.get_classpath())\n"
        f"found = pt.kernelsearch.Retriever({str(demo_index.path)!r}).search('dripping tap')\n"
        "print(len(found))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-1500:]
    assert int(done.stdout) > 5
