"""Recipes: what a name means, agreement with Lucene and with the forward index, candidates from several sources."""

import inspect

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Candidates
from kernelsearch.kernels import relevance
from kernelsearch.kernels.documents import Cosine
from kernelsearch.learning.ranking.simlistmkl import SimListMKL
from kernelsearch.lucene.models import RM3, BM25Model, DirichletModel
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import CannotAct, Context
from kernelsearch.rerankers.fusion import recipes
from kernelsearch.rerankers.fusion.features import Features, known_features, parse, parse_recipe
from kernelsearch.rerankers.fusion.features.base import FeatureContext
from kernelsearch.rerankers.fusion.features.evidence import DenseFeature
from kernelsearch.rerankers.fusion.learners import make_learner
from kernelsearch.rerankers.fusion.pool import CandidateField, Pool
from kernelsearch.rerankers.fusion.settings import RECIPE, FusionFitSettings
from kernelsearch.rerankers.fusion.training_table import training_table
from kernelsearch.rerankers.klsa.settings import KernelLSASettings


@pytest.fixture(scope="module")
def asked(demo_index):
    queries = demo_index.lucene.queries(["dripping tap", "circuit breaker trips when the dryer runs", "zzzunknown"])
    return queries, demo_index.lucene.search(queries, 50)


def test_names_are_taken_apart_and_checked():
    spec = parse("bm25:k1=2,b=0.75,field=title")
    assert spec.kind == "bm25" and spec.settings.to_dict() == {"k1": 2.0, "b": 0.75, "field": "title"}
    assert parse("klsa:z=10").settings == KernelLSASettings(z=10)
    assert parse_recipe("first; rm3  first") == ("first", "rm3")
    for text, message in (
        ("bm52", r"unknown feature 'bm52'; known: first, rm, rm3"),
        ("fusion", "unknown feature 'fusion'"),
        ("bm25:k1", "'k1' should read NAME=VALUE"),
        ("bm25:k9=1", "bm25_k9: unknown option"),
        ("bm25:b=2", "bm25_b: 2.0 is above 1"),
        ("klsa:z=0", "klsa_z: 0 is below 1"),
    ):
        with pytest.raises(OptionError, match=message):
            parse(text)
    with pytest.raises(OptionError, match="names no feature"):
        parse_recipe(" ")
    names = [*parse_recipe(RECIPE), *recipes.READING_WEIGHTS, "hybrid:m/top:docs=5", "dense:m", "run:a/b.txt"]
    for name in names:
        spec = parse(name)
        assert str(spec) == name and spec == parse(str(spec)) and spec in {spec}
    assert parse("read:mslm:semantic=0/klsa:lambda=1").innermost == parse("klsa:lambda=1")
    assert parse("read:mslm:semantic=0/rm").match == parse("mslm:semantic=0")
    assert "fusion" not in known_features() and "klsa" in known_features()


def test_kernel_features_equal_lucene(demo_index, asked):
    """On the documents that Lucene lists, to Lucene's own precision."""
    queries, _ = asked
    models = {"bm25:k1=1.2,b=0.75": BM25Model(1.2, 0.75), "dirichlet:mu=500": DirichletModel(500.0)}
    for name, model in models.items():
        lists = demo_index.lucene.search(queries, 50, model=model)
        for candidates, table in zip(lists, Features(demo_index, [name]).tables(queries, lists), strict=True):
            assert table[:, 0] == pytest.approx(np.asarray(candidates.scores, dtype=float), rel=1e-5)


def test_feedback_features_equal_lucenes_second_search(demo_index, asked):
    queries = asked[0][:2]
    lists = demo_index.lucene.search(queries, 50, feedback=RM3())
    for candidates, table in zip(lists, Features(demo_index, ["rm3"]).tables(queries, lists), strict=True):
        assert table[:, 0] == pytest.approx(np.asarray(candidates.scores, dtype=float), rel=1e-5)


def test_a_pool_answers_as_the_forward_index_does(demo_index):
    forward, docs = demo_index.forward, np.array([7, 3, 99, 3], dtype=np.int32)
    pool = CandidateField(forward, docs)
    terms = np.array([5, -1, 2, 5, len(forward.terms) - 1, int(forward.indices[forward.indptr[3]])])
    assert (pool.term_frequencies(pool.rows, terms) == forward.term_frequencies(docs, terms)).all()
    assert (pool.term_frequencies(np.array([2, 0]), terms) == forward.term_frequencies(docs[[2, 0]], terms)).all()
    assert (pool.matrix() != forward.matrix(docs)).nnz == 0
    assert Cosine().documents(pool, pool.rows, pool.rows) == pytest.approx(Cosine().documents(forward, docs, docs))


def test_top_is_the_weighted_cosine_to_the_other_best_documents(demo_index, asked):
    query, candidates = asked[0][0], asked[1][0]
    values = Features(demo_index, ["top:docs=3"]).tables([query], [candidates])[0][:, 0]
    cosine = Cosine().documents(demo_index.forward, candidates.docs, candidates.docs[:3])
    weights = candidates.scores[:3].astype(float)
    assert values[4] == pytest.approx(cosine[4] @ weights / weights.sum())
    others = [1, 2]
    assert values[0] == pytest.approx(cosine[0, others] @ weights[others] / weights[others].sum())


def test_a_field_that_the_index_lacks_is_silent(demo_index, asked):
    table = Features(demo_index, ["bm25:field=nosuch", "first"]).tables(asked[0][:1], asked[1][:1])[0]
    assert not table[:, 0].any() and table[:, 1].all()


def test_a_reranker_as_feature_gives_its_scores(demo_index, asked):
    from kernelsearch.rerankers.pert.reranker import PerturbationReranker

    query, candidates = asked[0][1], asked[1][1]
    table = Features(demo_index, ["pert:alpha=0.3"]).tables([query], [candidates])[0]
    assert table[:, 0] == pytest.approx(PerturbationReranker(demo_index, alpha=0.3).score(query, candidates), rel=1e-6)


def test_the_pool_is_a_union_in_the_first_stages_order(demo_index, asked):
    queries, lists = asked[0][:2], [type(candidates)(candidates.docs[:5], candidates.scores[:5]) for candidates in asked[1][:2]]
    features = Features(demo_index, ["first"], sources=["rm3"])
    expanded = demo_index.lucene.search(queries, 5, feedback=RM3())
    for query, own, other, pool in zip(queries, lists, expanded, features.pool(queries, lists, 5), strict=True):
        assert set(pool.docs) == set(own.docs) | set(other.docs) and len(pool.docs) > len(own.docs)
        assert (pool.docs[:5] == own.docs).all() and (np.diff(pool.scores) <= 0).all()
        every = demo_index.lucene.search([query], 1000)[0]
        lucene = dict(zip(every.docs, every.scores, strict=True))
        for doc, score in zip(pool.docs[5:], pool.scores[5:], strict=True):
            assert score == pytest.approx(lucene.get(doc, 0.0), rel=1e-5)


def test_what_brings_no_candidates_is_refused_as_a_source(demo_index):
    with pytest.raises(OptionError, match=r"fusion_sources: 'top' brings no candidates"):
        Features(demo_index, ["first"], sources=["top"])


def test_a_pool_reads_a_field_once(demo_index, asked):
    pool = Pool(demo_index, asked[0][0], asked[1][0])
    assert pool.field("title") is pool.field("title")


def test_rm_is_bm25_of_the_relevance_model(demo_index):
    """Against dense arithmetic from term frequencies: p(w|R) = sum of p(d|q) tf / length, the strongest 12, half and half."""
    query = demo_index.query("water heater leaking")
    candidates = demo_index.lucene.search([query], 200)[0]
    forward = demo_index.forward
    frequencies = forward.matrix(np.arange(len(forward))).toarray()
    scores = candidates.scores[:6].astype(float)
    posterior = np.exp(4 * scores / scores[0]) / np.exp(4 * scores / scores[0]).sum()
    words = posterior @ (frequencies[candidates.docs[:6]] / frequencies[candidates.docs[:6]].sum(axis=1, keepdims=True))
    documents = forward.statistics.documents
    usable = [
        forward.df[number] <= 0.1 * documents and 2 <= len(forward.terms.take([number])[0]) <= 20
        for number in range(len(words))
    ]
    words[~np.array(usable)] = 0
    words[np.argsort(-words, kind="stable")[12:]] = 0
    own = np.zeros_like(words)
    np.add.at(own, forward.term_ids(query.terms), query.weights)
    expanded = 0.3 * own / own.sum() + 0.7 * words / words.sum()
    average = float(forward.statistics.average_length)
    idf = np.log(1 + (documents - forward.df + 0.5) / (forward.df + 0.5))
    lengths = forward.norm_lengths[candidates.docs].astype(float)
    tf = frequencies[candidates.docs]
    expected = (tf / (tf + 1.1 * (1 - 0.6 + 0.6 * lengths / average)[:, None])) @ (idf * expanded)
    recipe = "rm:docs=6,terms=12,sharpness=4,weight=0.3,k1=1.1,b=0.6"
    table = Features(demo_index, [recipe]).tables([query], [candidates])[0]
    assert table[:, 0] == pytest.approx(expected, rel=1e-5)
    for other in ("docs=5", "terms=11", "sharpness=5", "weight=0.4", "k1=1", "b=0.5"):
        changed = recipe.replace(f"{other.split('=')[0]}=" + recipe.split(f"{other.split('=')[0]}=")[1].split(",")[0], other)
        assert Features(demo_index, [changed]).tables([query], [candidates])[0][:, 0] != pytest.approx(expected, rel=1e-5)


def test_rm_brings_the_best_documents_of_the_expanded_query(demo_index):
    """As many as asked, those that score best when all documents of the index are candidates."""
    query = demo_index.query("water heater leaking")
    candidates = demo_index.lucene.search([query], 30)[0]
    features = Features(demo_index, ["rm"], sources=["rm"])
    others = np.setdiff1d(np.arange(len(demo_index.forward), dtype=np.int32), candidates.docs)
    everything = Candidates(
        np.concatenate([candidates.docs, others]), np.concatenate([candidates.scores, np.zeros(len(others))])
    )
    scores = features.tables([query], [everything])[0][:, 0]
    best = everything.docs[np.argsort(-scores, kind="stable")[:60]]
    pool = features.pool([query], [candidates], 60)[0]
    assert set(pool.docs) == set(candidates.docs) | set(best) > set(candidates.docs)


def test_features_computed_together_are_those_computed_alone(demo_index, asked):
    """BM25 of the query, of expanded queries and of documents in another order, beside other features; no match at all, too."""
    queries, lists = asked
    recipe = parse_recipe(
        "bm25:k1=2,b=0.75 cosine rm rm3 rocchio bm25:field=title first pert read:first/rm read:cosine/rm:sharpness=10 "
        "bm25:field=nothing read:cosine/posterior"
    )
    together = Features(demo_index, recipe).tables(queries, lists)
    for number, name in enumerate(recipe):
        feature = Features(demo_index, [name]).features[0]
        for query, listed, table in zip(queries, lists, together, strict=True):
            pool = Pool(demo_index, query, listed)
            alone = feature.values([pool])[0]
            np.testing.assert_array_equal(table[:, number], alone)
    assert [table.shape for table in together] == [(listed.depth, len(recipe)) for listed in lists]
    assert len(np.unique(together[1].std(axis=0))) > 9  # of twelve features two are the same and one is 0


@pytest.mark.parametrize("source", ["rm", "rm3:terms=20", "rocchio", "rm:docs=3,weight=0"])
def test_sources_find_the_same_in_memory_and_in_java(demo_index, asked, source, monkeypatch):
    queries, lists = asked
    found = []
    for limit in (10**9, 0):
        monkeypatch.setattr("kernelsearch.forward.index.IN_MEMORY", limit)
        demo_index.forward.__dict__.pop("by_term", None)
        (feature,) = Features(demo_index, [source]).features
        found.append([docs.tolist() for docs in feature.retrieve(queries, lists, 30)])
        assert (demo_index.forward.by_term is None) == (limit == 0)
    demo_index.forward.__dict__.pop("by_term")
    assert found[0] == found[1] and len(found[0][0]) == 30


def test_rm_expands_a_query_once_for_candidates_and_scores(demo_index, monkeypatch):
    """And again where the feedback documents or the query differ."""
    queries = [demo_index.query("water heater leaking"), demo_index.query("paint a wall")]
    lists = demo_index.lucene.search(queries, 30)
    made = []
    words = relevance.feedback_words
    monkeypatch.setattr(relevance, "feedback_words", lambda *args, **options: made.append(1) or words(*args, **options))
    features = Features(demo_index, ["rm"], sources=["rm"])
    tables = features.tables(queries, features.pool(queries, lists, 30))
    assert len(made) == 2 and not np.allclose(tables[0][:5], tables[1][:5])
    shorter = [Candidates(candidates.docs[1:], candidates.scores[1:]) for candidates in lists]
    other = features.tables(queries[:1], shorter[:1])[0]
    assert len(made) == 3 and other == pytest.approx(Features(demo_index, ["rm"]).tables(queries[:1], shorter[:1])[0])
    assert len(made) == 4


def test_top_with_a_sharpness_weights_by_the_posterior(demo_index):
    query = demo_index.query("water heater leaking")
    candidates = demo_index.lucene.search([query], 50)[0]
    matrix = Cosine().document_features(demo_index.forward, candidates.docs).toarray()
    raw = np.exp(3 * candidates.scores[:4].astype(float) / float(candidates.scores[0]))
    expected = matrix @ (raw / raw.sum() @ matrix[:4])
    table = Features(demo_index, ["top:docs=4,sharpness=3"]).tables([query], [candidates])[0]
    assert table[:, 0] == pytest.approx(expected)


@pytest.mark.parametrize("recipe", [["cosine", "read:cosine/rm"], ["read:cosine/rm", "cosine"]])
def test_a_feature_of_the_recipe_is_the_match_of_another(demo_index, recipe):
    """In either order they are one object, which computes a query's values once."""
    by_name = dict(zip(recipe, Features(demo_index, recipe).features, strict=True))
    assert by_name["read:cosine/rm"].match is by_name["cosine"]


def test_defaults_of_features_are_those_of_anserini():
    """BM25's .9 and .4, RM3's 10 terms, 10 documents and .5, Rocchio's beta of .75; b is a share."""
    bm25 = {"k1": 0.9, "b": 0.4}
    expected = {
        "bm25": bm25,
        "parts": bm25,
        "rm3": {**bm25, "terms": 10, "docs": 10, "weight": 0.5},
        "rocchio": {**bm25, "terms": 10, "docs": 10, "beta": 0.75},
        "dirichlet": {"mu": 1000.0},
        "jm": {"lam": 0.1},
    }
    for name, values in expected.items():
        settings = parse(name).settings.to_dict()
        assert {key: settings[key] for key in values} == values
    for name in ("bm25", "parts", "rm3", "rocchio"):
        assert parse(f"{name}:b=1").settings.b == 1
        for wrong in ("1.01", "-0.01"):
            with pytest.raises(OptionError, match="b: "):
                parse(f"{name}:b={wrong}")


@pytest.mark.parametrize(
    "feature",
    [
        "rm:terms=40,docs=20,sharpness=5,weight=0.5",
        "posterior:docs=20,sharpness=5",
        "top:docs=5,sharpness=0,field=contents",
        "votes:power=2,fade=0",
    ],
)
def test_defaults_of_features_of_auto_and_fusion(feature):
    """`auto` uses some of them, and docs/reproductions/auto.md chose them: a change has to be measured there."""
    assert parse(feature).settings == parse(feature.partition(":")[0]).settings


def test_weights_of_auto(demo_index):
    """As docs/reproductions/auto.md and vectors.md chose them: a change has to be measured there."""
    assert recipes.auto_weights(demo_index, None) == recipes.READING_WEIGHTS
    assert list(recipes.READING_WEIGHTS.values()) == [2.0, 1.0, *[1.5] * len(recipes.READ_FEEDBACK), 0.25, 0.5]
    assert recipes.PARTS_WEIGHT == 16.0


def test_without_a_basis_only_klsa_is_left_out(demo_index, monkeypatch):
    recipe = ("first", "klsa", "klsa:lambda=1", "cosine", "read:first/klsa:lambda=1", "read:first/rm")
    assert tuple(recipes.available(recipe, demo_index)[0]) == recipe
    monkeypatch.setattr(recipes, "has_basis", lambda index: False)  # a large index
    offered, ((name, missing),) = recipes.available(recipe, demo_index)
    assert list(offered) == ["first", "cosine", "read:first/rm"]
    assert name == "klsa" and missing is not None and "kernelsearch.train" in missing


def test_without_sources_the_pool_is_the_list(demo_index, asked):
    queries, lists = asked
    features = Features(demo_index, ["first", "cosine"], sources=[])
    for before, pool in zip(lists, features.pool(queries, lists, 20), strict=True):
        assert pool.docs.tolist() == before.docs[:20].tolist() and pool.scores.tolist() == before.scores[:20].tolist()


def test_defaults_of_training_are_those_of_the_options():
    """What is called without options in Python learns as train does without flags."""
    options, best = FusionFitSettings().to_dict(), make_learner("best", normalise="z")
    table = inspect.signature(training_table).parameters
    assert (table["negatives"].default, table["random_state"].default) == (options["negatives"], options["random_state"])
    assert (best.folds, best.random_state) == (options["folds"], options["random_state"])
    assert make_learner("net", normalise="z").random_state == options["random_state"] == 0
    assert inspect.signature(FeatureContext).parameters["threads"].default == 1
    # XGBoost's own defaults of min_child_weight and lambda.
    assert (SimListMKL().min_weight, SimListMKL().penalty) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("products", "first", "expected"),
    [
        ([np.nan, 1.0, 3.0], [5.0, 5.0, 5.0], [2.0, 1.0, 3.0]),
        ([np.nan, 1.0, 3.0, np.nan], [7.0, 4.0, 5.0, 3.0], [7.0, 1.0, 3.0, -1.0]),
        ([np.nan, 3.0, 1.0], [7.0, 4.0, 5.0], [2.0, 3.0, 1.0]),  # the line would fall
        ([np.nan, np.nan], [2.0, 1.0], [0.0, 0.0]),
        ([2.0, 1.0], [1.0, 2.0], [2.0, 1.0]),
    ],
)
def test_a_candidate_without_a_vector_gets_what_its_score_lets_expect(products, first, expected):
    """The value at its first-stage score of the line through the others; by hand."""
    pool = Pool(None, None, Candidates(np.arange(len(first), dtype=np.int32), np.array(first)))
    assert DenseFeature._known_or_expected(np.array(products), pool) == pytest.approx(expected)


@pytest.mark.parametrize("model", [BM25Model(), BM25Model(2.0, 0.1), DirichletModel()])
@pytest.mark.parametrize("name", ["pert", "klsa", "mslm"])
def test_a_method_as_a_feature_has_the_methods_scores(demo_index, asked, name, model):
    """In a table with other features, under any first stage."""
    queries, lists = asked
    reranker = registry.method(name).make(demo_index)
    tables = Features(demo_index, ["bm25:k1=2,b=0.75", name], model=model).tables(queries[:2], lists[:2])
    for query, listed, table in zip(queries, lists, tables, strict=False):
        expected = reranker.score(query, listed, Context(model))
        assert np.ptp(expected) > 0
        np.testing.assert_array_equal(table[:, 1], expected.astype(np.float64))


@pytest.mark.parametrize("name", ["pert", "klsa"])
def test_a_method_that_cannot_act_scores_0(demo_index, asked, name, monkeypatch):
    (query, *_), (listed, *_) = asked

    def refuse(*_):
        raise CannotAct("nothing to do")

    features = Features(demo_index, ["first", name])
    for attribute in ("score", "expanded"):
        monkeypatch.setattr(features.features[1].reranker, attribute, refuse, raising=False)
    (table,) = features.tables([query], [listed])
    assert not table[:, 1].any() and table[:, 0].all()
