"""Our PyTerrier transformers: columns, validation, pipelines, features, experiments. None of it needs Terrier's jars."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

import kernelsearch
from kernelsearch.core.errors import InputError, KernelSearchError, OptionError
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO, build_texts

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


def queries_of(text):
    return pd.DataFrame({"qid": ["1"], "query": [text]})


def by_query(frame):
    return {qid: list(group.sort_values("rank")["docno"]) for qid, group in frame.groupby("qid")}


def test_the_retriever_gives_the_indexes_lists(demo_index, topics, bm25):
    result = bm25(topics.head(5))
    assert list(result.columns) == ["qid", "query", "docid", "docno", "score", "rank"]
    for qid, text in topics.head(5).itertuples(index=False):
        assert by_query(result)[qid] == demo_index.search(text, k=100).docids
    assert (result.groupby("qid")["rank"].min() == 0).all()


def test_ties_are_in_the_order_of_the_ranks_whatever_the_order_of_the_rows(bm25, topics):
    """Scores are rounded so that they tie; a document that the method can't tell from others keeps its place."""
    results = bm25(topics.head(12))
    results["score"] = results["score"].round()
    shuffled = results.sample(frac=1, random_state=0).reset_index(drop=True)
    assert results.duplicated(["qid", "score"]).sum() > 100
    for transformer in (ks.KernelLSA(bm25.index), ks.Perturbation(bm25.index), ks.Auto(bm25.index)):
        expected, found = by_query(transformer(results)), by_query(transformer(shuffled))
        assert found == expected
    weights = [ks.Expansion(bm25.index)(frame).sort_values("qid")["query_toks"].to_list() for frame in (results, shuffled)]
    assert weights[0] == weights[1]


def test_fused_scores_that_tie_are_in_the_order_of_the_ranks(bm25, topics):
    results = bm25(topics.head(4))
    results["features"] = [np.array([score]) for score in results["score"].round()]
    qrels = pd.DataFrame({"qid": results["qid"], "docno": results["docno"], "label": (results["rank"] % 3 == 0).astype(int)})
    fusion = ks.Fusion(learner="combsum")
    fusion.fit(results, qrels)
    assert by_query(fusion.transform(results.sample(frac=1, random_state=0))) == by_query(results)


def test_one_query_by_text(bm25):
    assert bm25.search("dripping tap")["score"].is_monotonic_decreasing
    assert len((bm25 % 5).search("dripping tap")) == len(ks.Retriever(bm25.index, 5).search("dripping tap")) == 5


def test_first_stage_options(demo_index, topics):
    result = ks.Retriever(demo_index, num_results=20, rm3=True)(topics.head(3))
    assert by_query(result) == {
        qid: demo_index.search(text, k=20, rm3=True).docids for qid, text in topics.head(3).itertuples(index=False)
    }
    with pytest.raises(OptionError, match="nonsense: unknown option"):
        ks.Retriever(demo_index, nonsense=1)


def test_a_method_reranks_results(demo_index, topics, bm25):
    klsa = ks.KernelLSA(demo_index, retrieve=0)
    result = (bm25 >> klsa)(topics.head(5))
    for qid, text in topics.head(5).itertuples(index=False):
        assert by_query(result)[qid] == demo_index.search(text, rerank="klsa", k=100, hits=100, klsa_retrieve=0).docids
    assert set(zip(result["qid"], result["docno"], strict=True)) == {
        (qid, docno) for qid, docno in bm25(topics.head(5))[["qid", "docno"]].itertuples(index=False)
    }


def test_a_method_that_retrieves_adds_documents(demo_index, topics, bm25):
    lists = by_query((bm25 >> ks.KernelLSA(demo_index))(topics.head(5)))
    for qid, text in topics.head(5).itertuples(index=False):
        before = demo_index.search(text, k=100).docids
        assert lists[qid][:100] == demo_index.search(text, rerank="klsa", k=100, hits=100).docids
        assert set(before) < set(lists[qid])
        assert len(set(lists[qid])) == len(lists[qid]) <= len(before) + 200


def test_other_columns_are_kept(demo_index, topics, bm25):
    inputs = bm25(topics.head(2)).assign(text=lambda frame: "text of " + frame["docno"], qlabel="x")
    result = ks.KernelLSA(demo_index)(inputs.sample(frac=1, random_state=1))
    retrieved = set(inputs[["qid", "docno"]].itertuples(index=False, name=None))
    known = np.array([pair in retrieved for pair in result[["qid", "docno"]].itertuples(index=False, name=None)])
    assert known.sum() == len(inputs) < len(result)
    assert (result["text"] == "text of " + result["docno"])[known].all()
    assert result["text"][~known].isna().all(), "added documents have no value in columns that describe documents"
    assert (result["qlabel"] == "x").all()
    assert result.groupby("qid")["score"].apply(lambda scores: scores.is_monotonic_decreasing).all()


def test_an_added_document_has_no_text_of_another(demo_index):
    """With one document per query, or where all have one category, nothing tells a document's column from a query's."""
    best = ks.Retriever(demo_index, num_results=1) >> ks.Text(demo_index, ["title"]) >> ks.KernelLSA(demo_index)
    result = best.search("dripping tap")
    assert len(result) > 1 and result["title"].notna().sum() == 1
    plumbing = ks.Retriever(demo_index, num_results=50)(queries_of("dripping tap")).assign(
        category="plumbing", narrative="about"
    )
    result = ks.KernelLSA(demo_index)(plumbing)
    added = ~result["docno"].isin(plumbing["docno"])
    assert added.any() and result["category"][added].isna().all() and (result["narrative"] == "about").all()


def test_an_empty_frame_has_the_columns_of_others(demo_index, topics, bm25):
    pipeline = bm25 >> ks.Text(demo_index, ["text", "title"]) >> ks.KernelLSA(demo_index)
    columns = list(pipeline(topics.head(1)).columns)
    assert list(pipeline(topics.head(0)).columns) == columns
    assert list(pipeline(queries_of("zzzzqqqq")).columns) == columns
    assert pt.inspect.transformer_outputs(pipeline, ["qid", "query"]) == columns


def test_docnos_may_be_numbers(tmp_path):
    index = build_texts(tmp_path, {"5": "a dripping tap", "7": "a tap", "8": "a blown fuse"})
    results = queries_of("dripping tap").merge(
        pd.DataFrame({"docno": [5, 7], "score": [1.0, 2.0], "rank": [1, 0], "text": ["x", "y"]}), how="cross"
    )
    result = ks.Perturbation(index)(results)
    assert dict(zip(result["docno"], result["text"], strict=True)) == {"5": "x", "7": "y"}


def test_queries_without_a_text_or_with_two_are_refused(bm25):
    with pytest.raises(InputError, match="queries: 1 have no text, such as that of topic 2"):
        bm25(pd.DataFrame({"qid": ["1", "2"], "query": ["tap", None]}))
    with pytest.raises(InputError, match="queries: topic 1 has several texts"):
        bm25(pd.DataFrame({"qid": ["1", "1"], "query": ["tap", "fuse"]}))
    assert len(bm25(pd.concat([queries_of("tap")] * 2))) == len(bm25(queries_of("tap")))


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
    result = bm25(pd.DataFrame([{"qid": "1", "query_toks": {"tap": 2.0, "drip": 1.0}}]))
    assert len(result)
    assert "query_toks" in result.columns


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
    result = (bm25 >> (ks.KernelLSA(demo_index) ** ks.RelevanceClassifier(demo_index)))(topics.head(3))
    assert np.stack(result["features"].to_list()).shape == (len(result), 2)


def test_sums_and_cutoffs(demo_index, topics, bm25):
    result = (bm25 >> (0.5 * ks.KernelLSA(demo_index) + pt.Transformer.identity()) % 10)(topics.head(3))
    assert (result.groupby("qid").size() == 10).all()


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
    klsa, mslm, fusion = ks.KernelLSA(demo_index, retrieve=0), ks.MultiScaleLM(demo_index), ks.Fusion()
    pipeline = bm25 >> (klsa**mslm) >> fusion
    train, test = topics.iloc[::2], topics.iloc[1::2]
    pipeline.fit(train, qrels)
    result = pipeline(test)
    assert set(zip(result["qid"], result["docno"], strict=True)) == set(
        bm25(test)[["qid", "docno"]].itertuples(index=False, name=None)
    )
    assert result.groupby("qid")["score"].apply(lambda scores: scores.is_monotonic_decreasing).all()
    means = pt.Experiment([bm25, bm25 >> klsa, bm25 >> mslm, pipeline], test, qrels, ["map"])["map"]
    assert means[3] > 0.9 * means[:3].max()


@pytest.mark.parametrize("name", ["RobustBM25", "PairwiseKernel", "QuerySubstitution", "ClickPrior"])
def test_methods_that_learn_from_clicks(demo_index, topics, bm25, name):
    transformer = getattr(ks, name)(demo_index)
    transformer.fit(clicks=str(DEMO / "clicks.jsonl"))
    result = (bm25 >> transformer)(topics.head(4))
    queries = demo_index.lucene.queries(list(topics.head(4)["query"]), list(topics.head(4)["qid"]))
    expected = demo_index.pipeline(transformer.method).rerank(queries, demo_index.lucene.search(queries, 100))
    assert by_query(result) == {
        query.qid: demo_index.forward.docids.take(ranked.docs) for query, ranked in zip(queries, expected, strict=True)
    }
    assert (result.groupby("qid")["rank"].apply(list).apply(lambda ranks: ranks == list(range(len(ranks))))).all()
    before = by_query(bm25(topics.head(4)))
    assert by_query(result) != before, "the log changes something"


def test_a_transformer_uses_the_basis_that_was_fitted_last(demo_index, topics, tmp_path):
    index = kernelsearch.open(shutil.copytree(demo_index.path, tmp_path / "demo"))
    pipeline = ks.Retriever(index, 50) >> ks.KernelLSA(index, retrieve=0)
    before = by_query(pipeline(topics.head(4)))
    index.train("klsa", dims=3)
    after = by_query(pipeline(topics.head(4)))
    opened = kernelsearch.open(index.path)
    assert before != after == by_query((ks.Retriever(opened, 50) >> ks.KernelLSA(opened, retrieve=0))(topics.head(4)))


def test_relevance_classifiers(demo_index, topics, bm25):
    result = (bm25 >> ks.RelevanceClassifier(demo_index, r=2, n=10))(topics.head(4))
    assert by_query(result) == {
        qid: demo_index.search(text, rerank="prcl", k=100, hits=100, prcl_r=2, prcl_n=10).docids
        for qid, text in topics.head(4).itertuples(index=False)
    }


def test_weighted_terms_reach_the_methods(demo_index, bm25):
    """A method that reads the query's terms reads `query_toks` where a frame has them."""
    text = pd.DataFrame([{"qid": "1", "query": "tap"}])
    weighted = text.assign(query_toks=[{"tap": 1.0, "washer": 3.0}])
    klsa = ks.KernelLSA(demo_index)
    plain_result, weighted_result = (bm25 >> klsa)(text), klsa(bm25(weighted))
    assert by_query(plain_result)["1"] != by_query(weighted_result)["1"]
    assert next(iter(weighted_result["query_toks"])) == {"tap": 1.0, "washer": 3.0}


def test_every_method_has_a_class_and_entry_points_declare_the_module():
    from importlib.metadata import entry_points

    from kernelsearch.rerankers import registry

    classes = {
        "Auto", "ClickPrior", "KernelDense", "KernelLSA", "MultiScaleLM", "PairwiseKernel", "Perturbation", "QuerySubstitution",
        "RelevanceClassifier", "RobustBM25",
    }  # fmt: skip
    assert classes | {"Expansion", "Fusion", "Retriever"} <= set(ks.__all__) <= set(dir(ks))
    printed = {name for name in registry.paper_names() if name.endswith("-paper")}
    assert {getattr(ks, name).method for name in classes} | {"fusion"} == set(registry.names()) - printed
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
    result = pipeline(test)
    assert set(result["docno"]) == set(bm25(test)["docno"])
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


def test_the_retriever_keeps_the_columns_of_queries(demo_index, topics, bm25):
    inputs = topics.head(3).assign(user=["a", "b", "c"], qweight=[1.0, 2.0, 3.0])
    result = bm25(inputs)
    assert list(result.columns) == ["qid", "query", "user", "qweight", "docid", "docno", "score", "rank"]
    assert dict(zip(result["qid"], result["user"], strict=True)) == dict(zip(inputs["qid"], inputs["user"], strict=True))
    # Of results, columns of documents would be wrong for other documents.
    assert "text" not in bm25(result.assign(text="of a document")).columns
    assert "user" in pt.inspect.transformer_outputs(bm25, ["qid", "query", "user"])


def test_columns_of_queries_reach_documents_that_a_method_adds(demo_index, topics):
    few = ks.Retriever(demo_index, num_results=3)
    inputs = topics.head(2).assign(user=["a", "b"])
    result = (few >> ks.Perturbation(demo_index, hits=20))(inputs)
    assert len(result) > 6 and result.groupby("qid")["user"].nunique().eq(1).all() and result["user"].notna().all()
    texts = few(inputs).assign(text=lambda frame: frame["docno"])
    added = ks.Perturbation(demo_index, hits=20)(texts)
    assert added["text"].isna().sum() == len(added) - 6


def test_parameters_can_be_read_and_set(demo_index, topics, bm25):
    retriever, klsa = ks.Retriever(demo_index, k1=1.2), ks.KernelLSA(demo_index)
    assert (retriever.get_parameter("k1"), retriever.get_parameter("b")) == (1.2, 0.4)
    retriever.set_parameter("b", 0.9)
    retriever.set_parameter("num_results", 10)
    assert by_query(retriever(topics.head(2))) == by_query(ks.Retriever(demo_index, 10, k1=1.2, b=0.9)(topics.head(2)))
    klsa.set_parameter("z", 1)
    assert by_query((bm25 >> klsa)(topics.head(3))) == by_query((bm25 >> ks.KernelLSA(demo_index, z=1))(topics.head(3)))
    with pytest.raises(ValueError, match="has no parameter 'c'; known: num_results, threads, bm25, k1, b"):
        retriever.get_parameter("c")
    with pytest.raises(OptionError, match=r"b: 7.0 is above 1"):
        retriever.set_parameter("b", 7)
    assert retriever.get_parameter("b") == 0.9 and retriever.spec.first_stage.model.b == 0.9
    expand = ks.Expansion(demo_index, docs=3)
    expand.set_parameter("docs", 5)
    assert expand.reranker.settings.docs == 5


def test_a_grid_scan_gives_the_figures_of_single_runs(demo_index, topics, qrels, bm25):
    klsa = ks.KernelLSA(demo_index)
    table = pt.GridScan(bm25 >> klsa, {klsa: {"z": [1, 20], "lambda": [0.5]}}, topics, qrels, ["map"])
    single = pt.Experiment([bm25 >> ks.KernelLSA(demo_index, z=z, **{"lambda": 0.5}) for z in (1, 20)], topics, qrels, ["map"])
    assert table["map"].tolist() == pytest.approx(single["map"].tolist(), abs=1e-12) and table["map"].nunique() == 2


def test_transformers_compare_equal(demo_index, tmp_path):
    path = str(demo_index.path)
    makers = [
        lambda index: ks.Retriever(index, 10, k1=1.2),
        lambda index: ks.KernelLSA(index, z=3),
        lambda index: ks.Expansion(index, docs=3),
        lambda index: ks.Text(index),
        lambda index: ks.Fusion(index, learner="combsum"),
        lambda index: ks.Retriever(index) >> ks.KernelLSA(index),
        lambda index: (ks.Retriever(index) >> ks.KernelLSA(index)).compile(),
        lambda index: (ks.KernelLSA(index) ** ks.MultiScaleLM(index)).compile(),
    ]
    for number, make in enumerate(makers):
        transformer = make(path)
        assert transformer == make(demo_index) == pickle.loads(pickle.dumps(transformer)), transformer
        assert hash(transformer) == hash(make(demo_index))
        assert all(transformer != make_other(path) for make_other in makers[:number])
    assert ks.Retriever(path, k1=0.9) == ks.Retriever(path) != ks.Retriever(path, k1=1.0)
    assert ks.KernelLSA(path, z=3) != ks.KernelLSA(path, z=4) and ks.KernelLSA(path) != ks.MultiScaleLM(path)
    assert ks.Indexer(tmp_path / "i") == ks.Indexer(tmp_path / "i") != ks.Indexer(tmp_path / "i", force=True)


def test_a_fitted_fusion_is_equal_to_its_copy_only(topics, qrels, bm25):
    results = bm25(topics).assign(features=lambda frame: [np.array([score, 1 / score]) for score in frame["score"]])
    fitted, unfitted = ks.Fusion(learner="combsum"), ks.Fusion(learner="combsum")
    fitted.fit(results, qrels)
    assert fitted != unfitted and pickle.loads(pickle.dumps(fitted)) == fitted
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(fitted))(results), fitted(results))


def test_fusion_reads_judgements_as_files_are_read(topics, qrels, bm25):
    results = bm25(topics).assign(features=lambda frame: [np.array([score, 1 / score]) for score in frame["score"]])
    expected, fitted = ks.Fusion(learner="net"), ks.Fusion(learner="net")
    expected.fit(results, qrels)
    repeated = pd.concat([qrels, qrels.head(3)]).assign(label=lambda frame: frame["label"].astype(float))
    fitted.fit(results.assign(label=7), repeated)
    pd.testing.assert_frame_equal(fitted(results), expected(results))
    with pytest.raises(InputError, match="is judged twice, with different grades"):
        fitted.fit(results, pd.concat([qrels, qrels.head(1).assign(label=9)]))


def test_stored_texts_are_added(demo_index, topics, bm25):
    import json

    corpus = {record["id"]: record for record in map(json.loads, (DEMO / "corpus.jsonl").open(encoding="utf-8"))}
    result = (bm25 % 5 >> ks.Text(demo_index, ["text", "title"]))(topics.head(3))
    for row in result.itertuples():
        assert row.title == corpus[row.docno]["title"] and row.text.endswith(corpus[row.docno]["contents"])
    by_pyterrier = (bm25 % 5 >> pt.text.get_text(bm25, "text"))(topics.head(3))
    assert by_pyterrier["text"].tolist() == result["text"].tolist() and "title" not in by_pyterrier.columns
    assert {"text", "title"} <= set(pt.text.get_text(bm25)(result[["docno"]]).columns)
    with pytest.raises(InputError, match=r"docno: 1 documents are not in .*, such as elsewhere"):
        ks.Text(demo_index)(pd.DataFrame({"docno": ["elsewhere"]}))
    compiled = (bm25 >> ks.Text(demo_index) % 5).compile()
    assert compiled == ks.Retriever(demo_index, 5) >> ks.Text(demo_index)


def test_an_index_without_texts_says_so(tmp_path):
    ks.Indexer(tmp_path / "i", contents=False, raw=False).index([{"docno": "1", "text": "a tap"}])
    with pytest.raises(KernelSearchError, match="stores no texts; index the collection again with them"):
        ks.Text(tmp_path / "i")


def test_an_indexer_of_iterators_and_pipelines(tmp_path):
    documents = [{"docno": "a", "text": "A dripping tap", "title": "Plumbing", "url": "x"}, {"docno": "b", "text": "A fuse"}]
    index = ks.Indexer(tmp_path / "i").index(iter(documents))
    retriever = ks.Retriever(index)
    assert retriever.search("tap")["docno"].tolist() == ["a"] == retriever.search("plumbing")["docno"].tolist()
    texts = ks.Text(index, "*")(pd.DataFrame({"docno": ["b", "a"]}))
    assert texts["url"].tolist() == ["", "x"] and texts["text"].tolist() == ["A fuse", "Plumbing\nA dripping tap"]
    upper = pt.apply.text(lambda row: row["text"] + " washer")
    assert ks.Retriever((upper >> ks.Indexer(tmp_path / "j")).index(documents)).search("washer").shape[0] == 2
    both = ks.Indexer(tmp_path / "k", text_attrs=["text", "url"], join_titles=False).index(documents)
    assert ks.Retriever(both).search("x")["docno"].tolist() == ["a"] and not len(ks.Retriever(both).search("plumbing"))
    assert pt.inspect.indexer_inputs(ks.Indexer(tmp_path / "l")) == [["docno", "text"]]
    with pytest.raises(InputError, match="i: exists already"):
        ks.Indexer(tmp_path / "i").index(documents)
    with pytest.raises(InputError, match="document 0: no field body; it has docno, text, title, url"):
        ks.Indexer(tmp_path / "l", text_attrs="body").index(documents)
    with pytest.raises(InputError, match=r"document 2: document id 'a' appears twice \(first at document 0\)"):
        ks.Indexer(tmp_path / "l").index(iter([*documents, documents[0]]))


@pytest.mark.parametrize("depth", [5, 100])
def test_fused_pipelines_give_the_same_results(demo_index, topics, depth):
    queries = pd.concat([topics.head(4), pd.DataFrame([{"qid": "none", "query": "xyzzy"}])]).assign(user="u")
    for methods in ([ks.KernelLSA], [ks.Perturbation, ks.KernelLSA], [ks.MultiScaleLM]):
        pipeline = ks.Retriever(demo_index, depth)
        for method in methods:
            pipeline = pipeline >> method(demo_index)
        fused = pipeline.compile()
        assert isinstance(fused, ks.FusedRetriever) and len(fused.rerankers) == len(methods)
        expected = pipeline(queries)
        pd.testing.assert_frame_equal(fused(queries)[expected.columns], expected)
        pd.testing.assert_frame_equal((pipeline % 3).compile()(queries)[expected.columns], (pipeline % 3)(queries))
    weighted = topics.head(1).assign(query_toks=[{"tap": 1.0, "washer": 3.0}])
    pd.testing.assert_frame_equal(fused(weighted)[pipeline(weighted).columns], pipeline(weighted))


def test_fused_features_are_those_of_the_union(demo_index, topics, bm25):
    klsa, mslm, pert = ks.KernelLSA(demo_index), ks.MultiScaleLM(demo_index), ks.Perturbation(demo_index)
    results = bm25(topics.head(3)).sample(frac=1, random_state=3)
    for union in (klsa**mslm, klsa**mslm**pert, (mslm**klsa) ** (klsa**mslm)):
        fused = union.compile()
        assert isinstance(fused, ks.FusedFeatures)
        for inputs in (results, results[["qid", "query", "docno", "score"]]):
            expected, result = union(inputs), fused(inputs)
            np.testing.assert_array_equal(np.stack(expected["features"]), np.stack(result["features"]))
            rest = [name for name in expected.columns if name != "features"]
            assert set(expected.columns) == set(result.columns)
            pd.testing.assert_frame_equal(expected[rest], result[rest])
    mixed = (pt.Transformer.identity() ** klsa**mslm).compile()
    np.testing.assert_array_equal(
        np.stack(mixed(results)["features"]), np.stack((pt.Transformer.identity() ** klsa**mslm)(results)["features"])
    )
    empty = results.head(0)
    assert "features" in fused(empty).columns and not len(fused(empty))
    with pytest.raises(ValueError, match="results have features already"):
        fused(fused(results))


def test_other_pipelines_are_not_fused(demo_index, tmp_path):
    other = ks.Indexer(tmp_path / "i").index([{"docno": "a", "text": "tap"}])
    for pipeline in (ks.Retriever(other) >> ks.KernelLSA(demo_index), ks.Retriever(demo_index) % 5 >> ks.Expansion(demo_index)):
        assert not isinstance(pipeline.compile(), ks.FusedRetriever)


def test_queries_whose_list_a_method_leaves_unchanged_are_reported(demo_index, topics, bm25, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("kernelsearch"), "propagate", True)
    first, (short, long) = bm25(topics.head(2)), topics["qid"][:2]
    classifier = ks.transformer_class("prcl")(demo_index, r=3, n=10)
    classifier(first)
    assert not caplog.messages
    few = pd.concat([first[first["qid"] == short].head(5), first[first["qid"] == long]])
    reranked = classifier(few)
    reason = "no more than r + n = 13 documents"
    assert set(caplog.messages) == {f"prcl: 1 query keeps the first stage's list: {reason}"}
    assert by_query(reranked)[short] == by_query(few)[short] and by_query(reranked)[long] != by_query(few)[long]
