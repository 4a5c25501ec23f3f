"""A trained fusion that ranks queries far from its training queries by an input."""

import numpy as np
import pytest

from kernelsearch.core.errors import ArtefactError
from kernelsearch.learning.ranking.far_queries import FarQueries
from kernelsearch.rerankers.auto.reranker import AutoReranker
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, TrainingData
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion import training
from kernelsearch.rerankers.fusion.reranker import FusionReranker
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO, rewrite_meta

NEAR, FAR = "dripping tap in the bathroom", "insects eating timber"
TRAINING = {"1": "dripping tap", "2": "cold radiator"}


@pytest.fixture
def model(demo_index, tmp_path):
    """Learned from two queries, with a note that queries without a training query of cosine .3 are ranked as by `auto`."""
    judged = {"1": {"d1": 1}, "2": {"d2": 1}}
    queries = demo_index.lucene.queries(list(TRAINING.values()), list(TRAINING))
    for query, listed in zip(queries, demo_index.lucene.search(queries, 3), strict=True):
        judged[query.qid] = {str(docid): 1 for docid in demo_index.forward.docids.take(listed.docs)}
    data = TrainingData(topics=TRAINING, qrels=judged, output=tmp_path / "m")
    options = {"features": "first cosine votes", "sources": "votes", "learner": "combsum", "depth": 40}
    return FusionReranker.method.fit(demo_index, data, **options)


def with_note(model, **note):
    rewrite_meta(model, lambda meta: meta["extra"].update(far_queries={"limit": 0.3, "weights": {"first": 1.0}, **note}))
    return str(model)


def ranked(index, reranker, texts):
    queries = index.lucene.queries(texts)
    lists = index.lucene.search(queries, 40)
    return [(out.docs.tolist(), out.scores.tolist()) for out in reranker.apply_batch(queries, lists)]


def test_auto_ranks_far_queries_and_learned_weights_the_others(demo_index, model):
    before = ranked(demo_index, FusionReranker(demo_index, model=str(model)), [NEAR, FAR, NEAR])
    by_auto = ranked(demo_index, AutoReranker(demo_index), [NEAR, FAR])
    divided = FusionReranker(demo_index, model=with_note(model, auto_with_vectors="none"))
    assert ranked(demo_index, divided, [NEAR, FAR, NEAR]) == [before[0], by_auto[1], before[2]]
    assert by_auto[1] != before[1]


def test_the_first_stage_ranks_far_queries_with_its_own_order(demo_index, model):
    """Its score as the only feature, z-scored: its order and sums of parts in explanations."""
    divided = FusionReranker(demo_index, model=with_note(model))
    query = demo_index.query(FAR)
    listed = demo_index.lucene.search([query], 40)[0]
    out = divided.apply(query, listed)
    assert out.docs.tolist() == listed.docs.tolist()
    scores = listed.scores.astype(float)
    assert out.scores == pytest.approx((scores - scores.mean()) / scores.std(), abs=1e-6)
    explanation = divided.explain(query, listed, int(listed.docs[2]), DEFAULT_CONTEXT)
    assert explanation.score == pytest.approx(float(out.scores[2]))
    assert explanation.notes["importance"] == {"first": 1.0}


def test_an_input_ranks_the_candidates_of_all_sources(demo_index, model):
    """A document that only the votes of training queries bring in is in the list, too."""
    divided = FusionReranker(demo_index, model=with_note(model, limit=2.0))
    query, context = demo_index.query("cold tap"), Context(hits=100)
    listed = demo_index.lucene.search([query], 2)[0]
    pool = set(divided.inputs.table(query, listed, context)[0].docs.tolist())
    added = pool - set(listed.docs.tolist())
    out = divided.apply(query, listed, context)
    assert added and set(out.docs.tolist()) == pool


@pytest.mark.parametrize("note", [{}, {"auto_with_vectors": "none"}])
def test_an_explanation_says_why_learned_weights_do_not_rank(demo_index, model, note):
    divided = FusionReranker(demo_index, model=with_note(model, **note))
    for text, expected in ((FAR, True), (NEAR, False)):
        query = demo_index.query(text)
        listed = demo_index.lucene.search([query], 40)[0]
        best = divided.apply(query, listed)
        explanation = divided.explain(query, listed, int(best.docs[0]), DEFAULT_CONTEXT)
        assert explanation.score == pytest.approx(float(best.scores[0]), abs=1e-6)
        reason = "not by learned weights: the most similar training query has a cosine of 0.00, and learned weights rank"
        assert (reason in "\n".join(explanation.lines())) == expected


def test_on_another_index_all_queries_are_far(demo_index, model):
    """Docids of another index name other documents, so nobody votes, and learned weights that need votes rank nothing."""
    divided = with_note(model, auto_with_vectors="none")
    rewrite_meta(model, lambda meta: meta.update(fingerprint="0" * 32))
    assert ranked(demo_index, FusionReranker(demo_index, model=divided), [NEAR, FAR]) == ranked(
        demo_index, AutoReranker(demo_index), [NEAR, FAR]
    )


@pytest.mark.parametrize(
    "note",
    [
        [],
        {"limit": 0.3},
        {"weights": {"first": 1}},
        {"limit": "0.3", "weights": {"first": 1}},
        {"limit": True, "weights": {"first": 1}},
        {"limit": 0.3, "weights": {}},
        {"limit": 0.3, "weights": ["first"]},
        {"limit": 0.3, "weights": {"first": 1e400}},
        {"limit": 0.3, "weights": {"first": None}},
        {"limit": 0.3, "weights": {"first": 1}, "auto_with_vectors": 1},
    ],
)
def test_a_damaged_note_is_refused(demo_index, model, note):
    rewrite_meta(model, lambda meta: meta["extra"].update(far_queries=note))
    with pytest.raises(ArtefactError, match=f"{model}: damaged"):
        FusionReranker(demo_index, model=str(model))


def test_training_saves_what_ranks_far_queries(demo_index, tmp_path, monkeypatch, caplog):
    """The candidate for near queries is fitted and saved, the input's weights are noted, and both are logged."""
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    seen = []

    def find(cases, nearness, *choice):
        seen.append((cases, nearness, choice))
        return FarQueries(0.35, "auto", "net, penalty 1", (0.4321, 0.3))

    monkeypatch.setattr(training, "find_far_queries", find)
    data = TrainingData(topics=topics, qrels=qrels, output=tmp_path / "m")
    features = "first rm bm25:field=title votes"
    with caplog.at_level("INFO"):
        path = FusionReranker.method.fit(demo_index, data, features=features, sources="votes", depth=30)
    saved, (cases, nearness, (choice, inputs, _)) = models.load(path), seen[0]
    assert saved.learner.get_params()["penalty"] == 1
    assert choice in cases[0] and inputs == ("first", "auto")
    weights = {"rm": 1.0, "bm25:field=title": 1.0}  # those of auto for features of this recipe
    assert saved.notes["far_queries"] == {"limit": 0.35, "weights": weights, "cross_validated": [0.4321, 0.3]}
    assert "chose net, penalty 1 (for queries without a training query of cosine 0.35 or more: auto)" in caplog.text
    assert "both 0.4321" in caplog.text and "expect 0.3000 instead of 0.4321" in caplog.text
    assert nearness.shape == (2, len(cases[0]["first"])) and (nearness[0] >= nearness[1]).all()
    assert np.ptp(nearness[1]) > 0 and (nearness[0] > nearness[1]).any()


@pytest.mark.parametrize(
    ("far", "features", "noted"),
    [
        ("auto", None, {"auto_with_vectors": "none"}),  # the default recipe: `auto` itself ranks
        ("first", None, {}),
        ("auto", "first rm votes", {}),  # another recipe: its weights rank
    ],
)
def test_the_method_auto_ranks_where_its_weights_are_those_of_the_default_recipe(
    demo_index, tmp_path, monkeypatch, far, features, noted
):
    topics, qrels = dict(list(read_topics(DEMO / "topics.tsv").items())[:40]), read_qrels(DEMO / "qrels.txt")
    monkeypatch.setattr(training, "find_far_queries", lambda *_: FarQueries(0.35, far, "net, penalty 1", (0.4, 0.3)))
    data = TrainingData(topics=topics, qrels=qrels, output=tmp_path / "m")
    path = FusionReranker.method.fit(demo_index, data, depth=20, **({"features": features} if features else {}))
    note = models.load(path).notes["far_queries"]
    assert {key: value for key, value in note.items() if key == "auto_with_vectors"} == noted
    assert (note["weights"] == {"first": 1.0}) == (far == "first")
    assert models.AS_AUTO not in models.load(path).notes


def test_learned_weights_that_are_chosen_for_all_queries_rank_them(demo_index, tmp_path):
    """The demo's topics have votes that gain much: a learner is chosen, and no input ranks in its place."""
    data = TrainingData(topics=read_topics(DEMO / "topics.tsv"), qrels=read_qrels(DEMO / "qrels.txt"), output=tmp_path / "m")
    saved = models.load(FusionReranker.method.fit(demo_index, data, depth=20))
    assert saved.learner.name == "net" and not {models.AS_AUTO, models.FAR} & set(saved.notes)
