"""Dense reranking against inner products computed by numpy; dense and run features of fusion."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import kernelsearch
from kernelsearch import explain as explain_verb
from kernelsearch import search as search_verb
from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.core.types import Candidates
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.rerankers.auto.decision import may_decide
from kernelsearch.rerankers.auto.reranker import AutoReranker
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.dense.reranker import KernelDense
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion import recipes
from kernelsearch.rerankers.fusion.features import Features, parse
from kernelsearch.rerankers.fusion.features.reordered import HYBRID_VECTORS
from kernelsearch.rerankers.fusion.recipes import hybrid_weights
from kernelsearch.vectors import store
from kernelsearch.vectors.__main__ import main as vectors_verb

IDS = ["d1", "d2", "d3", "d5", "d6"]  # d4 has no vector
VECTORS = np.random.default_rng(5).standard_normal((5, 8)).astype(np.float32)
QUERY = np.random.default_rng(6).standard_normal(8).astype(np.float32)
PRODUCTS = dict(zip(IDS, (VECTORS.astype(np.float64) @ QUERY.astype(np.float64)).tolist(), strict=True))


@pytest.fixture
def index(tiny_path, tmp_path):
    shutil.copytree(tiny_path, tmp_path / "index")
    np.savez(tmp_path / "v.npz", ids=np.array(IDS), vectors=VECTORS)
    np.savez(tmp_path / "topics.npz", ids=np.array(["1", "3"]), vectors=np.stack([QUERY, -QUERY]))
    vectors_verb(["--index", str(tmp_path / "index"), "--name", "m", "--input", str(tmp_path / "v.npz"), "--dtype", "float32"])
    return kernelsearch.open(tmp_path / "index", vectors={"queries": str(tmp_path / "topics.npz")})


def _candidates(index, docids):
    rows = index.forward.rows_of(docids)
    return Candidates(rows, np.linspace(2, 1, len(rows), dtype=np.float32))


def test_the_order_is_that_of_inner_products_and_documents_without_a_vector_come_last(index):
    ranked = KernelDense(index).apply(index.query("water", "1"), _candidates(index, ["d4", "d1", "d3", "d2"]))
    expected = sorted(["d1", "d2", "d3"], key=lambda docid: -PRODUCTS[docid])
    assert index.forward.docids.take(ranked.docs) == [*expected, "d4"]
    assert np.allclose(ranked.scores[:3], [PRODUCTS[docid] for docid in expected], rtol=1e-6)


def test_retrieval_finds_documents_that_share_no_word_with_the_query(index):
    query = index.query("zzz", "1")
    assert index.lucene.search([query], 10)[0].depth == 0
    empty = Candidates(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))
    expected = sorted(IDS, key=lambda docid: -PRODUCTS[docid])
    ranked = KernelDense(index, retrieve=6).apply(query, empty)
    assert index.forward.docids.take(ranked.docs) == expected
    few = KernelDense(index, retrieve=6).apply(query, empty, Context(hits=2))
    assert index.forward.docids.take(few.docs) == expected[:2]


def test_retrieved_documents_join_the_list_once(index):
    listed = _candidates(index, ["d3", "d4"])
    ranked = KernelDense(index, retrieve=2).apply(index.query("x", "1"), listed)
    best = sorted(IDS, key=lambda docid: -PRODUCTS[docid])[:2]
    assert sorted(index.forward.docids.take(ranked.docs)) == sorted({*best, "d3", "d4"})
    assert index.forward.docids.take(ranked.docs)[-1] == "d4"


def test_a_query_without_a_vector_keeps_its_list(index):
    listed = _candidates(index, ["d3", "d1"])
    for options in ({}, {"retrieve": 3}):
        ranked = KernelDense(index, **options).apply(index.query("water", "2"), listed)
        assert ranked.docs.tolist() == listed.docs.tolist()
        assert ranked.fallbacks == (("dense", "the query has no vector"),)


def test_a_list_without_vectors_is_kept(index):
    ranked = KernelDense(index).apply(index.query("water", "1"), _candidates(index, ["d4"]))
    assert ranked.fallbacks == (("dense", "no document of the list has a vector"),)


def test_the_explanation_adds_up_to_the_score(index):
    query, listed = index.query("water", "1"), _candidates(index, ["d4", "d1", "d3"])
    row = int(index.forward.rows_of(["d1"])[0])
    explanation = KernelDense(index).explain(query, listed, row)
    assert explanation.score == pytest.approx(PRODUCTS["d1"], rel=1e-6)
    assert sum(part.value for part in explanation.contributions) == pytest.approx(explanation.score)
    assert sum(part.value for part in explanation.contributions[0].parts) == pytest.approx(explanation.score)
    without = KernelDense(index).explain(query, listed, int(listed.docs[0]))
    assert without.contributions[0].label == "the document has no vector"
    # A document without a vector follows those that vectors add, too.
    retrieving, listed = KernelDense(index, retrieve=6), _candidates(index, ["d4", max(IDS, key=PRODUCTS.__getitem__)])
    ranked = retrieving.apply(query, listed)
    assert ranked.depth == 6 and ranked.docs[-1] == listed.docs[0]
    assert retrieving.explain(query, listed, int(listed.docs[0])).score == pytest.approx(float(ranked.scores[-1]))


def test_what_is_missing_is_named(index, tiny, tmp_path):
    with pytest.raises(ArtefactError, match=r"has no vectors yet; import some with: python -m kernelsearch.vectors --index"):
        KernelDense(tiny)
    with pytest.raises(ArtefactError, match="no vectors named 'other'; it has m"):
        KernelDense(index, vectors="other")
    with pytest.raises(OptionError, match=r"vectors_queries FILE gives them"):
        KernelDense(kernelsearch.open(index.path))


def test_the_command_line_from_topics_to_a_run(index, tmp_path, capsys):
    (tmp_path / "topics.tsv").write_text("1\twater\n2\twater\n3\tfuse\n")
    flags = ["--index", str(index.path), "--topics", str(tmp_path / "topics.tsv"), "--rerank", "dense"]
    flags += ["--dense.retrieve", "10", "--vectors.queries", str(tmp_path / "topics.npz")]
    search_verb.main([*flags, "--output", str(tmp_path / "run.txt")])
    assert "dense: 1 query keeps the first stage's list: the query has no vector" in capsys.readouterr().err
    lines = [line.split() for line in (tmp_path / "run.txt").read_text().splitlines()]
    for qid, sign in (("1", 1), ("3", -1)):
        docids = [line[2] for line in lines if line[0] == qid and line[2] != "d4"]
        assert docids == sorted(IDS, key=lambda docid: -sign * PRODUCTS[docid])
    # The recipe beside the run makes it again.
    search_verb.main(["--config", str(tmp_path / "run.txt.toml"), "--output", str(tmp_path / "again.txt")])
    assert (tmp_path / "again.txt").read_text() == (tmp_path / "run.txt").read_text()


def test_query_vectors_can_be_named_per_set_of_vectors(index, tmp_path):
    vectors_verb(["--index", str(index.path), "--name", "n", "--input", str(tmp_path / "v.npz")])
    np.savez(tmp_path / "other.npz", ids=np.array(["1"]), vectors=-QUERY[None])
    files = (f"m={tmp_path / 'topics.npz'}", f"n={tmp_path / 'other.npz'}")
    opened = kernelsearch.open(index.path, vectors={"queries": files, "name": "n"})
    query, docs = opened.query("x", "1"), opened.forward.rows_of(IDS)
    assert np.allclose(opened.vectors("m").scores(query, docs), -opened.vectors().scores(query, docs), atol=0.01)
    assert opened.vectors().name == "n"


def test_a_sent_index_keeps_its_vectors(index):
    import pickle

    again = pickle.loads(pickle.dumps(index))
    query = again.query("x", "1")
    assert np.array_equal(again.vectors("m").scores(query, np.arange(3)), index.vectors("m").scores(query, np.arange(3)), True)


def test_the_dense_feature_is_neutral_for_documents_without_a_vector(index):
    queries = [index.query("water", "1"), index.query("water", "2")]
    lists = [_candidates(index, ["d1", "d4", "d2"])] * 2
    tables = Features(index, ["first", "dense:m"]).tables(queries, lists)
    expected = [PRODUCTS["d1"], (PRODUCTS["d1"] + PRODUCTS["d2"]) / 2, PRODUCTS["d2"]]
    assert np.allclose(tables[0][:, 1], expected, rtol=1e-5)
    assert tables[1][:, 1].tolist() == [0, 0, 0]


def test_the_dense_source_brings_its_nearest_documents(index):
    query = index.query("fuse", "1")
    pool = Features(index, ["first"], sources=["dense"]).pool([query], [_candidates(index, ["d3"])], 2)[0]
    best = sorted(IDS, key=lambda docid: -PRODUCTS[docid])[:2]
    assert set(index.forward.docids.take(pool.docs)) == {"d3", *best}


def test_a_run_without_a_topic_is_reported_once(index, tmp_path, capsys):
    (tmp_path / "run.txt").write_text("1 Q0 d5 1 9.5 x\n")
    queries = [index.query("water", qid) for qid in ("1", "7", "8")]
    Features(index, [f"run:{tmp_path / 'run.txt'}"]).tables(queries[:1], [_candidates(index, ["d1"])])
    assert "no list" not in capsys.readouterr().err
    Features(index, [f"run:{tmp_path / 'run.txt'}"]).tables(queries, [_candidates(index, ["d1"])] * 3)
    assert capsys.readouterr().err.count("run.txt: has no list for query 7 (and maybe others)") == 1


def test_a_run_is_evidence(index, tmp_path):
    run = tmp_path / "run,a=b.txt"
    run.write_text("1 Q0 d5 1 9.5 x\n1 Q0 d2 2 7 x\n1 Q0 gone 3 6 x\n1 Q0 d1 4 5 x\n")
    queries = [index.query("water", "1"), index.query("water", "2")]
    lists = [_candidates(index, ["d1", "d3", "d5"])] * 2
    features = Features(index, ["first", f"run:{run}"], sources=[f"run:{run}"])
    tables = features.tables(queries, lists)
    assert tables[0][:, 1].tolist() == [5, 5, 9.5]  # d3 is not in the run: the lowest score of the run's list
    assert tables[1][:, 1].tolist() == [0, 0, 0]
    pools = features.pool(queries, lists, 2)
    assert set(index.forward.docids.take(pools[0].docs)) == {"d1", "d3", "d5", "d2"}
    named_run = Features(index, ["run:splade"], runs={"splade": str(run)})
    assert np.array_equal(named_run.tables(queries, lists)[0][:, 0], tables[0][:, 1])


def test_runs_that_cannot_be_used_are_refused(index, tmp_path):
    (tmp_path / "other.txt").write_text("1 Q0 gone 1 9.5 x\n")
    with pytest.raises(InputError, match=r"other.txt: none of its 1 documents is in"):
        Features(index, [f"run:{tmp_path / 'other.txt'}"])
    with pytest.raises(InputError, match=r"run:splade: no such file; fusion_runs splade=FILE gives one"):
        Features(index, ["run:splade"])
    with pytest.raises(InputError, match=r"missing\.txt: no such file"):
        Features(index, ["run:splade"], runs={"splade": "missing.txt"})
    with pytest.raises(OptionError, match="names no file"):
        Features(index, ["run"])
    assert parse("dense:minilm").settings.to_dict() == {"vectors": "minilm"}


def test_fusion_learns_from_vectors_and_runs_and_takes_another_run_in_search(index, tmp_path):
    """The run says which document is relevant; a model that learned from it follows another run at search time."""
    (tmp_path / "train.txt").write_text("1 Q0 d1 1 9 x\n1 Q0 d5 2 1 x\n3 Q0 d3 1 9 x\n3 Q0 d1 2 1 x\n")
    (tmp_path / "test.txt").write_text("1 Q0 d5 1 9 x\n1 Q0 d1 2 1 x\n")
    options = {"features": "first dense:m run:other", "sources": "run:other", "learner": "net"}
    folder = index.train(
        "fusion",
        topics={"1": "water", "3": "replace"},
        qrels={"1": {"d1": 1}, "3": {"d3": 1}},
        output=tmp_path / "model",
        runs=(f"other={tmp_path / 'train.txt'}",),
        **options,
    )
    pipeline = index.pipeline({"fusion": {"model": str(folder), "runs": f"other={tmp_path / 'test.txt'}"}})
    ranked = pipeline.search([index.query("water", "1")])[0]
    assert index.forward.docids.take(ranked.docs[:1]) == ["d5"]


def test_dense_rm_is_the_inner_product_with_the_posterior_mean(index):
    """Against dense arithmetic: the nearest candidates' vectors, weighted by exp(5 s/s1)."""
    pool = _candidates(index, ["d1", "d2", "d3", "d4", "d5", "d6"])
    table = Features(index, ["dense-rm:m"]).tables([index.query("water", "1")], [pool])[0][:, 0]
    products = VECTORS.astype(np.float64) @ QUERY.astype(np.float64)
    order = np.argsort(-products)
    sorted_products = products[order]
    floor = min(0.0, sorted_products[-1])
    raw = np.exp(5 * (sorted_products - floor) / (sorted_products[0] - floor))
    values = VECTORS.astype(np.float64) @ (raw / raw.sum() @ VECTORS[order].astype(np.float64))
    expected = dict(zip(IDS, values, strict=True)) | {"d4": values.mean()}
    assert table == pytest.approx([expected[docid] for docid in ["d1", "d2", "d3", "d4", "d5", "d6"]], rel=1e-5)


def test_auto_uses_vectors_where_queries_have_them(index, tiny, tmp_path):
    reranker = AutoReranker(index)
    assert reranker.recipe[-1] == "dense:m" and reranker.inputs.sources == ("rm", "dense:m")
    assert "dense:m" not in AutoReranker(index, vectors="none").recipe and "dense:m" not in AutoReranker(tiny).recipe
    query = index.query("washer", "1")
    ranked = reranker.apply(query, index.lucene.search([query], 10)[0], Context(hits=10))
    assert set(IDS) <= set(index.forward.docids.take(ranked.docs))  # those that share no word with the query, too
    without = kernelsearch.open(tmp_path / "index")
    words = AutoReranker(without)
    assert "dense:m" not in words.recipe and "where do the queries' vectors come from" in dict(words.parts)["vectors"]
    assert dict(reranker.parts)["vectors m"] is None
    with pytest.raises(OptionError, match="where do the queries' vectors come from"):
        AutoReranker(without, vectors="m")
    with pytest.raises(ArtefactError):
        AutoReranker(index, vectors="other")


def test_the_vectors_that_have_query_vectors_are_used(index, tmp_path):
    """Of several sets, the one that `--vectors.queries NAME=FILE` names."""
    vectors_verb(["--index", str(index.path), "--name", "n", "--input", str(tmp_path / "v.npz")])
    opened = kernelsearch.open(index.path, vectors={"queries": f"n={tmp_path / 'topics.npz'}"})
    assert AutoReranker(opened).vectors == "n" and opened.vectors().name == "n"
    assert AutoReranker(kernelsearch.open(index.path, vectors={"queries": str(tmp_path / "topics.npz")})).vectors is None


EMPTY = Candidates(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))


def test_auto_finds_documents_where_the_first_stage_finds_none(index):
    """No word of the query is in the index: the order is that of vectors, and the words' features can't disturb it."""
    lists = AutoReranker(index).apply_batch(
        [index.query("zzz", "1"), index.query("zzz", "3"), index.query("zzz", "2")], [EMPTY] * 3
    )
    assert index.forward.docids.take(lists[0].docs[:1]) == [max(IDS, key=lambda docid: PRODUCTS[docid])]
    assert index.forward.docids.take(lists[1].docs[:1]) == [min(IDS, key=lambda docid: PRODUCTS[docid])]
    assert sorted(index.forward.docids.take(lists[0].docs)) == IDS
    assert lists[2].depth == 0  # a query without a vector


def test_fusion_finds_documents_where_the_first_stage_finds_none(index, tmp_path):
    run = tmp_path / "run.txt"
    run.write_text("1 Q0 d5 1 9 x\n1 Q0 d4 2 1 x\n7 Q0 d2 1 9 x\n")
    model = models.save(
        tmp_path / "model",
        CombSUM(weights=[1.0, 3.0], normalise="none"),
        ["first", f"run:{run}"],
        {"normalise": "z", "sources": [f"run:{run}"]},
    )
    pipeline = index.pipeline({"fusion": {"model": str(model)}}, hits=10)
    first, second, third = pipeline.search([index.query("zzz", "1"), index.query("zzz", "7"), index.query("zzz", "8")])
    assert index.forward.docids.take(first.docs) == ["d5", "d4"]
    assert index.forward.docids.take(second.docs) == ["d2"]
    assert third.depth == 0


def test_documents_without_a_first_stage_score_keep_the_sources_order(index, tmp_path):
    run = tmp_path / "run.txt"
    run.write_text("1 Q0 d6 1 9 x\n1 Q0 d4 2 8 x\n1 Q0 d1 3 7 x\n")
    pool = Features(index, ["first"], sources=[f"run:{run}"]).pool([index.query("zzz", "1")], [EMPTY], 10)[0]
    assert index.forward.docids.take(pool.docs) == ["d6", "d4", "d1"] and pool.scores.tolist() == [0, 0, 0]


def z(columns):
    """Columns with mean 0 and deviation 1, constant ones 0."""
    deviation = columns.std(axis=0)
    return np.divide(columns - columns.mean(axis=0), deviation, out=np.zeros_like(columns), where=deviation > 1e-12)


def test_autos_feedback_comes_from_documents_that_words_and_vectors_rank_best_together(index):
    """Against each feature on its own, computed on the candidates in the order of the weighted sum of z-scores."""
    query = index.query("water tap", "1")
    listed = index.lucene.search([query], 10)[0]
    pool = Features(index, ["first"], sources=["rm", "dense:m"]).pool([query], [listed], 10)[0]
    products = np.array([PRODUCTS.get(docid, np.nan) for docid in index.forward.docids.take(pool.docs)])
    known, first = ~np.isnan(products), pool.scores.astype(np.float64)
    slope, offset = np.polyfit(first[known], products[known], 1)
    products[~known] = offset + slope * first[~known] if slope > 0 else products[known].mean()
    together = (z(first[:, None]) + 1.25 * 5 / 6 * z(products[:, None]))[:, 0]  # five of six documents have a vector
    order = np.argsort(-together)
    assert order.tolist() != list(range(pool.depth))
    agreed = Candidates(pool.docs[order], together[order])
    names = ["rm:sharpness=10", "top:docs=20,sharpness=10", "klsa:lambda=1"]
    feedback = np.empty((pool.depth, len(names)))
    feedback[order] = Features(index, names).tables([query], [agreed])[0]
    match = Features(index, ["mslm"]).tables([query], [pool])[0][:, 0]
    heights = np.exp(10 * (together - together.min()) / (together.max() - together.min()))
    table = np.column_stack([match, pool.scores, feedback, heights / heights.sum(), products])
    scores = z(table) @ np.array([0.75, 0.75, 1, 1, 1, 1, 3 * 5 / 6])
    ranked = AutoReranker(index).apply(query, listed, Context(hits=10))
    assert ranked.docs.tolist() == pool.docs[np.argsort(-scores)].tolist()
    assert ranked.scores == pytest.approx(np.sort(scores)[::-1], abs=1e-4)
    note = AutoReranker(index).explain(query, listed, int(ranked.docs[0]), Context(hits=10)).notes["feedback"]
    low, high = together.min(), together.max()
    raw = np.exp(10 * (np.sort(together)[::-1] - low) / (high - low))
    assert [entry["docid"] for entry in note["documents"]] == index.forward.docids.take(agreed.docs)
    assert [entry["weight"] for entry in note["documents"]] == pytest.approx((raw / raw.sum()).tolist(), abs=1e-4)


def test_hybrid_features_that_cannot_be_made_are_refused(index):
    for text, message in (
        ("hybrid", "NAME/FEATURE"),
        ("hybrid:m", "NAME/FEATURE"),
        ("hybrid:m/nothing", "unknown feature 'nothing'"),
    ):
        with pytest.raises(OptionError, match=message):
            Features(index, [text])


@pytest.mark.parametrize("name", ["m", "NAME"])
def test_the_weights_of_auto_name_the_vectors(index, tmp_path, name):
    if name != "m":
        vectors_verb(["--index", str(index.path), "--name", name, "--input", str(tmp_path / "v.npz")])
    weights = hybrid_weights(index, name)
    assert weights[f"dense:{name}"] == pytest.approx(3 * 5 / 6) and f"hybrid:{name}/klsa:lambda=1" in weights


def test_a_trained_fusion_takes_the_vectors_of_the_index(index, tmp_path):
    topics, qrels = {"1": "water", "3": "replace"}, {"1": {"d1": 1}, "3": {"d3": 1}}
    folder = index.train("fusion", topics=topics, qrels=qrels, output=tmp_path / "model")
    model = models.load(folder)
    weights = dict(zip(model.recipe, model.learner.weights, strict=True))
    assert weights["dense:m"] == pytest.approx(3 * 5 / 6) and weights["hybrid:m/klsa:lambda=1"] == 1 and weights["rm"] == 0
    assert model.notes["sources"] == ["rm", "rm3", "votes:power=4,fade=1.5", "dense:m"]
    words = models.load(index.train("fusion", topics=topics, qrels=qrels, output=tmp_path / "words", vectors="none"))
    assert not any("dense" in name for name in words.recipe)
    with pytest.raises(OptionError, match=r"fusion_vectors: is for the default recipe"):
        index.train("fusion", topics=topics, qrels=qrels, output=tmp_path / "x", vectors="m", features="first rm")


def test_explanations_say_what_came_from_words_and_what_from_vectors(index):
    query, context = index.query("water tap", "1"), Context(hits=10)
    listed = index.lucene.search([query], 10)[0]
    reranker = AutoReranker(index)
    row = index.row("d2")
    explanation = reranker.explain(query, listed, row, context)
    parts = {part.label: part.value for part in explanation.contributions}
    evidence = explanation.notes["evidence"]
    assert evidence["vectors"] == pytest.approx(parts["dense:m"], abs=1e-4)
    assert evidence["words"] == pytest.approx(parts["mslm"] + parts["first"], abs=1e-4)
    assert sum(evidence.values()) == pytest.approx(explanation.score, abs=1e-3)
    own = VECTORS[IDS.index("d2")]
    counts = index.forward.matrix(None, np.float64).toarray()
    present = index.forward.df[: counts.shape[1]]
    documents = index.forward.statistics.documents
    counts *= np.log1p((documents - present + 0.5) / (present + 0.5))
    for entry in explanation.notes["feedback"]["documents"]:
        other = index.row(entry["docid"])
        cosine = counts[row] @ counts[other] / (np.linalg.norm(counts[row]) * np.linalg.norm(counts[other]))
        assert entry["words"] == pytest.approx(cosine, abs=1e-3)
        vector = VECTORS[IDS.index(entry["docid"])] if entry["docid"] in IDS else np.zeros(8)
        length = np.linalg.norm(own) * np.linalg.norm(vector)
        assert entry["vectors"] == pytest.approx(own @ vector / length if length else 0.0, abs=1e-3)
    lines = explanation.lines()
    assert any(line.startswith("of the score: ") and "from vectors" in line for line in lines)
    assert "from vectors" not in "\n".join(
        AutoReranker(index, vectors="none").explain(query, listed, listed.docs[0], context).lines()
    )


def test_auto_ranks_queries_without_a_vector_by_words(index):
    """Beside others that have one, as on an index without vectors; explanations too."""
    queries = [index.query("water tap", qid) for qid in ("1", "2", "3")]
    lists = index.lucene.search(queries, 10)
    words, both = AutoReranker(index, vectors="none"), AutoReranker(index)
    ranked, expected = (reranker.apply_batch(queries, lists, Context(hits=10)) for reranker in (both, words))
    assert ranked[1].docs.tolist() == expected[1].docs.tolist() and ranked[1].scores.tolist() == expected[1].scores.tolist()
    assert ranked[0].scores.tolist() != expected[0].scores.tolist()
    explanation = both.explain(queries[1], lists[1], int(lists[1].docs[0]), Context(hits=10))
    assert "evidence" not in explanation.notes and "bm25:field=title" in {part.label for part in explanation.contributions}
    assert explanation.notes["decision"]["reasons"][-1] == "words alone: the query has no vector for m"


def test_the_explained_query_has_the_vector_of_its_topic(index, tmp_path, capsys):
    flags = ["--index", str(index.path), "--query", "water tap", "--rerank", "auto", "--json"]
    flags += ["--vectors.queries", str(tmp_path / "topics.npz")]
    scores = []
    for qid in ("1", "2"):  # the file has a vector of 1
        explain_verb.main([*flags, "--qid", qid])
        answer = json.loads(capsys.readouterr().out)
        assert ("evidence" in answer["explanation"]["notes"]) == (qid == "1")
        scores.append([entry["score"] for entry in answer["list"]])
    query = index.query("water tap", "1")
    ranked = AutoReranker(index).apply(query, index.lucene.search([query], 1000)[0], Context(hits=1000))
    assert scores[0] == pytest.approx(ranked.scores.tolist()) and scores[1] != scores[0]


def test_vectors_are_the_same_before_and_after_the_nearest_were_searched(index, tmp_path):
    """Then the exact index of FAISS has them in memory, in single precision."""
    vectors_verb(["--index", str(index.path), "--name", "half", "--input", str(tmp_path / "v.npz")])
    documents = store.DocumentVectors(store.place(index.artefacts, "half"))
    rows = np.array([2, 0, 2, 1])
    before, scores = documents.take(rows), documents.scores(np.ones(documents.dims), rows)
    assert documents.matrix.dtype == np.float16 and "neighbours" not in documents.__dict__
    documents.nearest(np.ones((1, documents.dims)), 2)
    after = documents.take(rows)
    assert after.tobytes() == before.tobytes() and after.dtype == before.dtype
    assert documents.scores(np.ones(documents.dims), rows).tobytes() == scores.tobytes()
    after[:] = 7.0  # a copy, not FAISS's memory
    assert documents.take(rows).tobytes() == before.tobytes()


def test_features_of_the_same_vectors_share_their_products(index, monkeypatch):
    counted = []
    plain = store.DocumentVectors.scores
    monkeypatch.setattr(store.DocumentVectors, "scores", lambda self, *rest: counted.append(1) or plain(self, *rest))
    query = index.query("copper kettle", "1")
    pool = Candidates(np.arange(len(index.forward), dtype=np.int32), np.arange(len(index.forward), 0.0, -1.0))
    together = Features(index, ("dense", "hybrid:m/rm", "dense")).tables([query], [pool])[0]
    assert len(counted) == 1
    alone = np.column_stack([Features(index, (name,)).tables([query], [pool])[0] for name in ("dense", "hybrid:m/rm", "dense")])
    assert together.tolist() == alone.tolist() and len(counted) == 4


def test_auto_searches_for_the_nearest_documents_once_per_query(index, monkeypatch):
    """The decision whether words alone rank needs a few of them, the pool many."""
    counted = []
    plain = store.DocumentVectors.nearest

    def count(self, vectors, *rest, **options):
        counted.extend(vectors)
        return plain(self, vectors, *rest, **options)

    monkeypatch.setattr(store.DocumentVectors, "nearest", count)
    query = index.query("water", "1")
    lists = index.lucene.search([query], 1000)
    assert may_decide(index.forward, query, lists[0].docs)
    AutoReranker(index).apply_batch([query], lists, Context(hits=1000))
    assert len(counted) == 1 and counted[0].tolist() == QUERY.tolist()


def test_fewer_and_more_of_the_nearest_documents_are_those_of_numpy(index):
    """Documents without a vector don't take the places of those with negative products."""
    vectors = index.vectors("m")
    queries = [index.query("water", "1"), index.query("copper", "3"), index.query("pipe", "none")]
    order = sorted(IDS, key=lambda docid: -PRODUCTS[docid])
    assert min(PRODUCTS.values()) < 0 < max(PRODUCTS.values())
    expected = [order, order[::-1], []]
    for count, asked in ((2, [0]), (4, [1, 0, 2, 1]), (1, [0, 1]), (3, [2, 1]), (6, [0, 0]), (5, [1, 0])):
        near = vectors.nearest([queries[place] for place in asked], count)
        assert [index.forward.docids.take(rows) for rows, _ in near] == [expected[place][:count] for place in asked]
        for place, (rows, products) in zip(asked, near, strict=True):
            sign = -1 if place else 1
            exact = [sign * PRODUCTS[docid] for docid in index.forward.docids.take(rows)]
            assert products.tolist() == pytest.approx(exact, rel=1e-5)


def test_dimensions_are_explained_by_the_size_of_their_products(index):
    """The five largest of eight, numbered from 1, then the rest; the cosine beside them."""
    query, listed = index.query("water", "1"), _candidates(index, ["d1", "d3"])
    for place, docid in enumerate(("d1", "d3")):
        explanation = KernelDense(index).explain(query, listed, int(listed.docs[place]))
        products = VECTORS[IDS.index(docid)].astype(float) * QUERY
        order = sorted(range(8), key=lambda dimension: -abs(products[dimension]))
        *shown, rest = explanation.contributions[0].parts
        assert [part.label for part in shown] == [f"dimension {dimension + 1}" for dimension in order[:5]]
        assert [part.value for part in shown] == pytest.approx(products[order[:5]], rel=1e-5)
        assert rest.label == "3 other dimensions" and rest.value == pytest.approx(products[order[5:]].sum(), abs=1e-5)
        cosine = PRODUCTS[docid] / np.linalg.norm(VECTORS[IDS.index(docid)]) / np.linalg.norm(QUERY)
        assert explanation.notes["cosine"] == pytest.approx(cosine, rel=1e-5) and explanation.notes["dimensions"] == 8
        assert explanation.contributions[0].detail == f"cosine {cosine:.4f}"


def test_documents_without_a_vector_keep_their_order_below_the_others(index, tmp_path):
    """They get the lowest product less 1, and less again by a share of the list's length each."""
    ids = ["d2", "d5"]
    vectors = VECTORS[:2] * np.sign(VECTORS[:2] @ QUERY)[:, None]
    np.savez(tmp_path / "few.npz", ids=np.array(ids), vectors=vectors)
    vectors_verb(["--index", str(index.path), "--name", "few", "--input", str(tmp_path / "few.npz"), "--dtype", "float32"])
    opened = kernelsearch.open(index.path, vectors={"queries": str(tmp_path / "topics.npz")})
    reranker = KernelDense(opened, vectors="few")
    listed = _candidates(opened, ["d6", "d2", "d1", "d5", "d3"])
    products = vectors.astype(float) @ QUERY.astype(float)
    expected = [products.min() - 1, products[0], products.min() - 1 - 1 / 5, products[1], products.min() - 1 - 2 / 5]
    scores = reranker.score(opened.query("water", "1"), listed)
    assert scores == pytest.approx(expected, rel=1e-5)
    explanation = reranker.explain(opened.query("water", "1"), listed, int(listed.docs[2]))
    assert explanation.score == pytest.approx(expected[2], rel=1e-5)
    # Added documents have vectors; those of the list without one follow them.
    ranked = KernelDense(opened, vectors="few", retrieve=2).apply(opened.query("water", "1"), _candidates(opened, ["d6", "d1"]))
    order = sorted(ids, key=lambda docid: -products[ids.index(docid)])
    assert opened.forward.docids.take(ranked.docs) == [*order, "d6", "d1"]


def test_deleted_documents_are_not_added(index, monkeypatch):
    """Their vectors are still stored where another program deleted them."""
    query, listed = index.query("water", "1"), _candidates(index, ["d4"])
    best = max(IDS, key=lambda docid: PRODUCTS[docid])
    live = np.array(index.forward.live)
    assert best in index.forward.docids.take(KernelDense(index, retrieve=6).apply(query, listed).docs)
    live[index.forward.rows_of([best])] = False
    monkeypatch.setattr(index.forward, "live", live)
    assert best not in index.forward.docids.take(KernelDense(index, retrieve=6).apply(query, listed).docs)


def test_vectors_of_truncated_texts_weigh_less(index, monkeypatch):
    """By their reliability, in the order of feedback documents and in auto's sum; the source leaves out deleted documents."""
    for module in ("features.base", "recipes"):
        monkeypatch.setattr(f"kernelsearch.rerankers.fusion.{module}.reliability", lambda *documents: 0.4)
    hybrid = Features(index, ["hybrid:m/top"]).features[0]
    assert hybrid.weight == pytest.approx(0.4 * HYBRID_VECTORS)
    assert recipes.hybrid_weights(index, "m")["dense:m"] == pytest.approx(0.4 * 3.0)
    live = np.array(index.forward.live)
    source, query = Features(index, ["dense:m"]).features[0], index.query("water", "1")
    (found,) = source.retrieve([query], [], 6)
    live[found[0]] = False
    monkeypatch.setattr(index.forward, "live", live)
    assert source.retrieve([query], [], 6)[0].tolist() == found[1:].tolist()


def test_auto_without_positions_adds_the_weights_of_the_match_to_the_first_stages(index, monkeypatch):
    monkeypatch.setattr(index.forward, "has_positions", False)
    reranker = AutoReranker(index)
    weights = dict(zip(reranker.recipe, reranker.weights.tolist(), strict=True))
    assert weights["first"] == 0.75 + 0.75 and "mslm" not in weights
    assert reranker.importance() == pytest.approx(reranker.weights / sum(weights.values()))


@pytest.mark.parametrize(("count", "used"), [(2, False), (3, True)])
def test_auto_takes_vectors_that_half_of_the_documents_have(index, tmp_path, count, used):
    index.add_vectors("m", np.eye(8)[:count], IDS[:count])
    opened = kernelsearch.open(index.path, vectors={"queries": str(tmp_path / "topics.npz")})
    reranker = AutoReranker(opened)
    assert reranker.vectors == ("m" if used else None)
    reason = f"not in use: vectors ({count} of 6 documents have a vector; --auto.vectors m uses them)"
    assert (reason in reranker.parts_in_use) != used
    assert AutoReranker(opened, vectors="m").vectors == "m"
