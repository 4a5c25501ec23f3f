"""`fusion` from end to end: training, applying, another index, clicks, explanations, refusals."""

import subprocess
import sys

import numpy as np
import pytest

import kernelsearch
from kernelsearch.api.pipeline import FirstStage, Pipeline
from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.core.types import Candidates
from kernelsearch.evaluation.measures import evaluate, parse_measures
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.rerankers.auto.reranker import AutoReranker
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion.recipes import READING_WEIGHTS
from kernelsearch.rerankers.fusion.reranker import FusionReranker
from kernelsearch.rerankers.fusion.training import training_topics
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO, rewrite_meta

SMALL = "first bm25:k1=2,b=0.75 cosine:field=title rm3 top:docs=3"


@pytest.fixture(scope="module")
def judged():
    return read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")


@pytest.fixture(scope="module")
def model(demo_index, judged, tmp_path_factory):
    """Learned from every second topic."""
    topics, qrels = judged
    half = dict(list(topics.items())[::2])
    data = TrainingData(topics=half, qrels=qrels, output=tmp_path_factory.mktemp("fusion") / "model")
    return FusionReranker.method.fit(demo_index, data, features=SMALL, sources="rm3", learner="net", depth=100)


def lists_of(index, model, topics, hits=100, **options):
    pipeline = Pipeline(index, FirstStage(hits=hits), [("fusion", {"model": str(model), **options})])
    queries = index.lucene.queries(list(topics.values()), list(topics))
    return pipeline, queries, pipeline.search(queries)


def test_learned_fusion_beats_the_first_stage_on_topics_it_did_not_see(demo_index, judged, model):
    topics, qrels = judged
    rest = dict(list(topics.items())[1::2])
    _, queries, fused = lists_of(demo_index, model, rest)
    first = demo_index.lucene.search(queries, 100)

    def worth(lists):
        run = {
            query.qid: list(zip(demo_index.forward.docids.take(candidates.docs), candidates.scores, strict=True))
            for query, candidates in zip(queries, lists, strict=True)
        }
        return evaluate({qid: qrels[qid] for qid in rest if qid in qrels}, run, parse_measures(["AP"])).mean("AP")

    assert worth(fused) > worth(first)


def test_lists_keep_the_contract(demo_index, judged, model):
    """No document twice, no more than asked for, scores fall, nothing of the first stage's top is lost."""
    topics = dict(list(judged[0].items())[:5])
    _, queries, fused = lists_of(demo_index, model, topics, hits=60)
    for candidates in fused:
        assert len(set(candidates.docs)) == candidates.depth <= 60
        assert (np.diff(candidates.scores) <= 0).all() and np.isfinite(candidates.scores).all()
    _, _, shallow = lists_of(demo_index, model, topics, hits=60, depth=10)
    first = demo_index.lucene.search(queries, 60)
    for candidates, plain in zip(shallow, first, strict=True):
        assert set(plain.docs[:10]) <= set(candidates.docs[:20])
        place = {doc: rank for rank, doc in enumerate(plain.docs.tolist())}
        beneath = [place[doc] for doc in candidates.docs[20:].tolist()]  # the pool has at most 20
        assert beneath == sorted(beneath)


def test_score_and_apply_agree(demo_index, judged, model):
    reranker = FusionReranker(demo_index, model=str(model))
    query = demo_index.query(next(iter(judged[0].values())))
    candidates = demo_index.lucene.search([query], 40)[0]
    scores, ranked = reranker.score(query, candidates), reranker.apply(query, candidates)
    of = dict(zip(ranked.docs.tolist(), ranked.scores.tolist(), strict=True))
    assert [of[doc] for doc in candidates.docs.tolist()] == pytest.approx(scores.tolist())


def test_an_empty_list_stays_empty(demo_index, model):
    nothing = Candidates(np.empty(0, dtype=np.int32), np.empty(0))
    assert FusionReranker(demo_index, model=str(model)).apply(demo_index.query("zzz"), nothing).depth == 0


def test_batches_and_single_queries_agree(demo_index, judged, model):
    topics = dict(list(judged[0].items())[:4])
    pipeline, queries, together = lists_of(demo_index, model, topics)
    for query, candidates in zip(queries, together, strict=True):
        alone = pipeline.search([query])[0]
        assert (alone.docs == candidates.docs).all() and alone.scores == pytest.approx(candidates.scores)


def test_a_model_works_on_another_index(tiny, model):
    query = tiny.query("dripping tap washer")
    candidates = tiny.lucene.search([query], 10)[0]
    ranked = FusionReranker(tiny, model=str(model)).apply(query, candidates)
    assert set(candidates.docs) <= set(ranked.docs)


def test_explanation_sums_to_the_score_and_is_drawn(demo_index, judged, model, tmp_path):
    reranker = FusionReranker(demo_index, model=str(model))
    query = demo_index.query(next(iter(judged[0].values())))
    candidates = demo_index.lucene.search([query], 40)[0]
    ranked = reranker.apply(query, candidates)
    explanation = reranker.explain(query, candidates, int(ranked.docs[0]))
    assert explanation.score == pytest.approx(float(ranked.scores[0]))
    assert sum(part.value for part in explanation.contributions) == pytest.approx(explanation.score)
    assert {part.label for part in explanation.contributions} == set(SMALL.split())
    assert sum(explanation.notes["importance"].values()) == pytest.approx(1, abs=1e-3)
    for name in ("p.svg", "p.png"):
        reranker.plot(query, candidates, None, tmp_path / name)
    drawn = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in drawn for name in SMALL.split())
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    reranker.plot(query, candidates, None, tmp_path / "again.svg")
    assert (tmp_path / "p.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_trees_are_explained_exactly(demo_index, judged, tmp_path):
    topics, qrels = judged
    data = TrainingData(topics=dict(list(topics.items())[:8]), qrels=qrels, output=tmp_path / "m")
    FusionReranker.method.fit(demo_index, data, features=SMALL, sources="none", learner="simlistmkl", depth=50)
    reranker = FusionReranker(demo_index, model=str(tmp_path / "m"))
    query = demo_index.query("dripping tap")
    candidates = demo_index.lucene.search([query], 30)[0]
    ranked = reranker.apply(query, candidates)
    for place in (0, 7):
        explanation = reranker.explain(query, candidates, int(ranked.docs[place]))
        assert sum(part.value for part in explanation.contributions) == pytest.approx(float(ranked.scores[place]), abs=1e-4)


def test_learning_from_a_click_log(demo_index, tmp_path):
    from kernelsearch.clicks.__main__ import main as clicks_verb

    lines = (DEMO / "clicks.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "some.jsonl").write_text("".join(lines[:200]), encoding="utf-8")
    clicks_verb(["import", "--input", str(tmp_path / "some.jsonl"), "--output", str(tmp_path / "log.db")])
    data = TrainingData(clicks=tmp_path / "log.db", output=tmp_path / "m")
    FusionReranker.method.fit(demo_index, data, features="first rm3", sources="none", learner="net", depth=50)
    assert models.load(tmp_path / "m").notes["queries"] > 10


def test_a_recipe_with_an_unknown_feature_is_refused(demo_index, model, tmp_path):
    import shutil

    shutil.copytree(model, tmp_path / "m")
    rewrite_meta(tmp_path / "m", lambda meta: meta["parameters"]["recipe"].__setitem__(0, "telepathy:range=3"))
    with pytest.raises(OptionError, match=r"fusion_model: unknown feature 'telepathy'"):
        FusionReranker(demo_index, model=str(tmp_path / "m"))


def test_clear_words_for_what_is_missing(demo_index, tmp_path):
    with pytest.raises(ArtefactError, match="no fusion model here"):
        FusionReranker(demo_index, model=str(tmp_path / "none"))
    with pytest.raises(OptionError, match="learns from topics and qrels, or from clicks"):
        FusionReranker.method.fit(demo_index, TrainingData())
    with pytest.raises(InputError, match="no training topic has a relevant document"):
        FusionReranker.method.fit(demo_index, TrainingData(topics={"1": "tap"}, qrels={"2": {"d": 1}}))


def test_a_feature_files_model_is_not_a_reranker(demo_index, tmp_path):
    models.save(tmp_path / "m", CombSUM().fit(np.ones((2, 1)), [1, 0]), ["column:1"])
    with pytest.raises(OptionError, match="learned from a feature file"):
        FusionReranker(demo_index, model=str(tmp_path / "m"))


def test_an_unknown_learner_is_refused_before_the_work(demo_index, tmp_path):
    data = TrainingData(topics={"1": "tap"}, qrels={"1": {"no such document": 1}}, output=tmp_path / "m")
    with pytest.raises(OptionError, match="fusion_learner: 'forest' is not one of best, combsum, net, simlistmkl"):
        FusionReranker.method.fit(demo_index, data, learner="forest")


@pytest.mark.parametrize("name", ["trees", "leaves", "learning_rate", "C", "signed", "normalise"])
def test_options_that_moved_say_where(demo_index, name):
    with pytest.raises(OptionError, match=f"fusion_{name}: .*python -m kernelsearch.ltr"):
        FusionReranker.method.fit(demo_index, TrainingData(), **{name: 1})


def test_importing_the_package_does_not_load_xgboost():
    code = "import sys, kernelsearch, kernelsearch.rerankers.fusion.reranker; assert 'xgboost' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert kernelsearch.__version__


def fitted(demo_index, topics, qrels, output, **options):
    data = TrainingData(topics=topics, qrels=qrels, output=output)
    return FusionReranker.method.fit(demo_index, data, depth=50, **options)


def test_few_training_queries_give_autos_weights(demo_index, judged, tmp_path, capsys):
    topics, qrels = judged
    path = fitted(demo_index, dict(list(topics.items())[:12]), qrels, tmp_path / "m")
    assert "11 training queries with a relevant candidate are too few to learn from (20 are needed)" in capsys.readouterr().err
    model = models.load(path)
    weights = dict(zip(model.recipe, model.learner.weights, strict=True))
    assert {name: weight for name, weight in weights.items() if weight} == READING_WEIGHTS
    # A model that has chosen auto's weights ranks and explains as auto does, which scales its features among fewer documents.
    queries = demo_index.lucene.queries(["lawnmower wont strat", "insects eating timber"])
    lists = demo_index.lucene.search(queries, 60)
    chosen, auto = FusionReranker(demo_index, model=str(path)), AutoReranker(demo_index)
    for query, listed, ranked, expected in zip(
        queries, lists, chosen.apply_batch(queries, lists), auto.apply_batch(queries, lists), strict=True
    ):
        assert (ranked.docs.tolist(), ranked.scores.tolist()) == (expected.docs.tolist(), expected.scores.tolist())
        best = int(ranked.docs[0])
        assert chosen.explain(query, listed, best).score == pytest.approx(float(ranked.scores[0]), abs=1e-6)


def test_autos_weights_without_its_sources_add_no_documents(demo_index, judged, tmp_path):
    topics, qrels = judged
    path = fitted(demo_index, dict(list(topics.items())[:12]), qrels, tmp_path / "m", sources="none")
    (query,) = demo_index.lucene.queries(["lawnmower wont strat"])
    (listed,) = demo_index.lucene.search([query], 10)
    ranked = FusionReranker(demo_index, model=str(path)).apply(query, listed)
    assert sorted(ranked.docs.tolist()) == sorted(listed.docs.tolist())


def test_the_default_learner_is_measured_on_whole_rankings(demo_index, judged, tmp_path, capsys):
    """The printed figure of the first stage is the AP of its list with ties against relevance and all judged documents counted,
    although only three candidates per query that aren't relevant are learned from."""
    topics, qrels = judged
    features = "first rm bm25:field=title"
    fitted(demo_index, topics, qrels, tmp_path / "m", features=features, sources="none", negatives=3)
    queries = demo_index.lucene.queries(list(topics.values()), list(topics))
    values = []
    for query, candidates in zip(queries, demo_index.lucene.search(queries, 50), strict=True):
        relevant = {docid for docid, grade in qrels.get(query.qid, {}).items() if grade > 0}
        if relevant:
            docids = demo_index.forward.docids.take(candidates.docs)
            order = sorted(zip(-candidates.scores.astype(float), [docid in relevant for docid in docids], strict=True))
            hits = [rank for rank, (_, hit) in enumerate(order, 1) if hit]
            values.append(sum(number / rank for number, rank in enumerate(hits, 1)) / len(relevant))
    scores = models.load(tmp_path / "m").notes["cross_validated"]
    assert scores["first"] == pytest.approx(np.mean(values), abs=1e-4)
    assert f"first {scores['first']:.4f}" in capsys.readouterr().err
    assert list(scores)[:2] == ["first", "auto"] and "net, penalty 0.01" in scores


def test_what_can_only_hurt_is_not_learned(demo_index, judged, tmp_path):
    """Judgements that are the first stage's own order: nothing is better than the first stage, which is chosen."""
    topics = dict(list(judged[0].items())[:60])
    queries = demo_index.lucene.queries(list(topics.values()), list(topics))
    lists = demo_index.lucene.search(queries, 1)
    best = {query.qid: candidates.docs for query, candidates in zip(queries, lists, strict=True) if candidates.depth}
    qrels = {qid: {demo_index.forward.docids.take(docs)[0]: 1} for qid, docs in best.items()}
    path = fitted(demo_index, topics, qrels, tmp_path / "m", features="first rm top:docs=5 cosine", sources="rm")
    model = models.load(path)
    assert dict(zip(model.recipe, model.learner.weights, strict=True))["first"] == 1.0
    assert sum(np.abs(model.learner.weights)) == 1.0


def test_ranking_training_queries_is_said(demo_index, judged, model, capsys):
    topics = judged[0]
    reranker = FusionReranker(demo_index, model=str(model))
    for text, expected in (("an entirely different question", False), (next(iter(topics.values())), True)):
        query = demo_index.query(text)
        reranker.apply(query, demo_index.lucene.search([query], 20)[0])
        assert ("not a held-out figure" in capsys.readouterr().err) == expected


def test_topics_without_judgements_teach_nothing():
    for half, message in (
        ({"topics": {"1": "tap"}}, "qrels: is needed with topics: rerank='fusion' learns from both together"),
        ({"qrels": {"1": {"d": 1}}}, "topics: is needed with qrels: rerank='fusion' learns from both together"),
        ({}, "rerank='fusion': learns from topics and qrels, or from clicks; none was given"),
    ):
        with pytest.raises(OptionError, match=f"^{message}$"):
            training_topics(TrainingData(**half))


def test_clicks_beside_judgements_are_refused_and_not_ignored(demo_index, tmp_path):
    judged = {"topics": {"1": "tap"}, "qrels": {"1": {"d": 1}}}
    for data in (judged, {"topics": judged["topics"]}, {"qrels": judged["qrels"]}):
        with pytest.raises(OptionError, match="clicks: has no effect with topics and qrels"):
            demo_index.train("fusion", clicks=DEMO / "clicks.jsonl", output=tmp_path / "m", **data)
    for method, data in (("klsa", judged), ("mslm", {"clicks": DEMO / "clicks.jsonl"}), ("rbm25", judged)):
        with pytest.raises(OptionError, match=f"(topics|clicks): has no effect on rerank='{method}'"):
            demo_index.train(method, output=tmp_path / "m", **data)
    assert not (tmp_path / "m").exists()
