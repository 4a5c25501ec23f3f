"""Parts of fusion by their definitions: bounds of features, lists and tables, explanations, runs, votes, training rows."""

from __future__ import annotations

import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import kernelsearch
from kernelsearch.core.errors import ArtefactError, Flag, InputError, OptionError
from kernelsearch.core.execution import LocalEngine
from kernelsearch.core.types import Candidates, Query
from kernelsearch.learning.ranking.choose import Best
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.learning.ranking.triplets import SimTripletNet
from kernelsearch.lucene.models import RM3, BM25Model, DirichletModel, Rocchio
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Context, TrainingData
from kernelsearch.rerankers.fusion import inputs as inputs_module
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion.base import extended
from kernelsearch.rerankers.fusion.explanation import decision_note, neighbour_likeness
from kernelsearch.rerankers.fusion.features import Features, identifiers, of_kind, parse
from kernelsearch.rerankers.fusion.features.evidence import read_runs
from kernelsearch.rerankers.fusion.features.reordered import READ
from kernelsearch.rerankers.fusion.features.table import best_ranks
from kernelsearch.rerankers.fusion.learners import ANCHOR_SCALE, PENALTIES, anchored_learner
from kernelsearch.rerankers.fusion.pool import Pool
from kernelsearch.rerankers.fusion.recipes import CERTAINTY
from kernelsearch.rerankers.fusion.reranker import FusionReranker
from kernelsearch.rerankers.fusion.training_queries import TrainingQueries, TrainingVotes, query_key
from kernelsearch.rerankers.fusion.training_table import FeaturePlan, training_table
from tests.conftest import build_texts, rewrite_meta

TEXTS = {
    "a": "apple pump seal",
    "b": "pump pump water hose",
    "c": "seal water tap",
    "d": "apple apple garden",
    "e": "garden hose pump tap tap",
    "f": "roof",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return kernelsearch.open(build_texts(tmp_path_factory.mktemp("parts"), TEXTS))


def listed(index, text, hits=10):
    query = index.query(text, "1")
    return query, index.lucene.search([query], hits)[0]


def values(index, name, query, candidates, **options):
    return Features(index, [name], **options).tables([query], [candidates])[0][:, 0]


@pytest.mark.parametrize(
    ("kind", "option", "allowed", "refused"),
    [
        *((kind, option, (1,), (0,)) for kind in ("rm", "rm3", "rocchio") for option in ("terms", "docs")),
        *((kind, "docs", (1,), (0,)) for kind in ("posterior", "top")),
        *((kind, "k1", (0, 0.5), (-0.1,)) for kind in ("bm25", "rm", "rm3", "rocchio", "parts")),
        *((kind, "b", (0, 0.5, 1), (-0.1, 1.1)) for kind in ("bm25", "rm", "rm3", "rocchio", "parts")),
        *((kind, "weight", (0, 0.5, 1), (-0.1, 1.1)) for kind in ("rm", "rm3")),
        *((kind, "sharpness", (0, 0.5, 1000), (-0.1, 1000.5)) for kind in ("rm", "posterior", "top")),
        ("rocchio", "beta", (0, 0.5), (-0.1,)),
        ("dirichlet", "mu", (1e-9, 0.5), (0,)),
        ("jm", "lam", (1e-9, 1), (0, 1.1)),
        ("votes", "power", (0.1, 0.5), (0, 0.05)),
        ("votes", "fade", (0, 0.5), (-0.1,)),
    ],
)
def test_numbers_that_have_no_meaning_are_refused(index, kind, option, allowed, refused):
    """Numbers of documents and terms from 1 on, shares and b from 0 to 1, sharpness from equal weights to one document."""
    for value in allowed:
        assert getattr(parse(f"{kind}:{option}={value}").settings, option) == value
        assert np.isfinite(values(index, f"{kind}:{option}={value}", *listed(index, "pump seal"))).all()
    for value in refused:
        with pytest.raises(OptionError, match=rf"{kind}_{option}: "):
            parse(f"{kind}:{option}={value}")


def cosines(index):
    """Cosines of tf·idf vectors of all documents."""
    counts = index.forward.matrix().toarray()
    df = (counts > 0).sum(axis=0)
    vectors = counts * np.log(1 + (len(counts) - df + 0.5) / (df + 0.5))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)) @ (
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    ).T


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_top_leaves_a_document_out_of_its_own_mean(index, count):
    """Scores below 1, one of 0: weights in proportion to them. The only document to compare with is as near as can be."""
    docs, scores = np.array([4, 0, 2, 1, 3, 5], dtype=np.int32), np.array([0.6, 0.3, 0.2, 0.1, 0.05, 0.0])
    near, query = cosines(index), index.query("pump")
    result = values(index, f"top:docs={count}", query, Candidates(docs, scores))
    for place, doc in enumerate(docs):
        others = [other for other in range(count) if other != place]
        weights = np.maximum(scores[others], 1e-9)
        expected = 1.0 if count == 1 and place == 0 else near[doc, docs[others]] @ weights / weights.sum()
        assert result[place] == pytest.approx(expected, abs=1e-6)


def test_the_relevance_model_counts_the_first_term_and_small_weights(index):
    """Half of the weight on the query's terms, whatever their sum is; unknown terms have no share."""
    assert index.forward.terms[0] == "appl"
    query = Query("", ("appl", "unheard", "pump"), (0.1, 5.0, 0.3), "1")
    candidates = index.lucene.search([query], 10)[0]
    feature = Features(index, ["rm:docs=2,terms=2,weight=0.5"]).features[0]
    ((terms, weights),) = feature.expansions([query], [candidates])
    found = dict(zip(index.forward.terms.take(terms), weights.tolist(), strict=True))
    scores = candidates.scores[:2].astype(float)
    posterior = np.exp(5 * scores / scores[0]) / np.exp(5 * scores / scores[0]).sum()
    model = posterior @ (
        index.forward.matrix().toarray()[candidates.docs[:2]] / index.forward.lengths[candidates.docs[:2], None]
    )
    usable = index.forward.df <= 0.1 * 6
    expected = {"appl": 0.5 * 0.25, "pump": 0.5 * 0.75}
    best = [
        term for term in np.argsort(-np.where(usable, model, 0), kind="stable")[:2].tolist() if usable[term] and model[term]
    ]
    for term in best:
        word = index.forward.terms[term]
        expected[word] = expected.get(word, 0.0) + 0.5 * model[term] / model[best].sum()
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("searched", [1, 2, 60])
def test_identifiers_are_searched_by_their_most_frequent_terms(tmp_path, monkeypatch, searched):
    """Weighted by the word's idf over their own; the word itself is one of them."""
    texts = ["read_file", "read_file open_file", "file reader", "open_file file", "read_file", "other words"]
    index = kernelsearch.build(tmp_path / "index", [{"id": str(n), "contents": text} for n, text in enumerate(texts)])
    monkeypatch.setattr(identifiers, "SEARCHED", searched)
    feature = Features(index, ["parts"]).features[0]
    query = Query("", ("file",), (2.0,), "1")
    expanded = feature.expanded(query)
    forward = index.forward
    df = {word: int(forward.df[forward.term_ids([word])[0]]) for word in ("read_fil", "open_fil", "file")}
    assert df == {"read_fil": 3, "open_fil": 2, "file": 2}
    absent = math.prod(1 - count / 7 for count in df.values())
    frequency = 6 * (1 - absent)
    weight = 2 * math.log(1 + (6 - frequency + 0.5) / (frequency + 0.5))
    chosen = sorted(df, key=lambda word: (-df[word], forward.term_ids([word])[0]))[:searched]
    expected = {word: weight / math.log(1 + (6 - df[word] + 0.5) / (df[word] + 0.5)) for word in chosen}
    assert dict(zip(expanded.terms, expanded.weights, strict=True)) == pytest.approx(expected, rel=1e-5)
    many = Query("", (*(f"word{number}" for number in range(1200)), "file"), (1.0,) * 1201, "1")
    assert len(feature.expanded(many).terms) == min(searched, 3)  # unknown words take no terms away
    (found,) = feature.retrieve([query], [Candidates(np.zeros(0, np.int32), np.zeros(0))], 10)
    assert set(forward.docids.take(found)) == {"0", "1", "4"} | ({"2", "3"} if searched > 1 else set())


def test_a_list_is_followed_by_the_others_with_falling_scores():
    best = Candidates(np.array([5, 2], dtype=np.int32), np.array([3.0, 1.0]))
    others = np.array([7, 9, 1], dtype=np.int32)
    for limit, docs in ((10, [5, 2, 7, 9, 1]), (3, [5, 2, 7]), (1, [5])):
        ranked = extended(best, others, limit)
        assert ranked.docs.tolist() == docs and ranked.scores.tolist() == [3.0, 1.0, 0.0, -1.0, -2.0][: len(docs)]


@pytest.fixture(scope="module")
def model(index, tmp_path_factory):
    """Features with equal weights, and candidates of `votes`."""
    data = TrainingData(
        topics={"1": "pump water", "2": "garden apple"},
        qrels={"1": {"b": 1, "e": 1}, "2": {"d": 2, "a": 0}},
        output=tmp_path_factory.mktemp("model") / "m",
    )
    recipe = "first cosine bm25:k1=2,b=0.75 posterior:sharpness=10 votes"
    return str(FusionReranker.method.fit(index, data, features=recipe, sources="votes", learner="combsum", depth=10))


def test_the_length_of_a_list_is_that_of_the_first_stage(index, model):
    reranker = FusionReranker(index, model=model)
    query, candidates = listed(index, "seal water")
    pool, _ = reranker.inputs.table(query, candidates, Context())
    assert pool.depth > candidates.depth  # votes add a document
    for hits, expected in ((None, candidates.depth), (2, candidates.depth), (candidates.depth + 1, candidates.depth + 1)):
        assert reranker.apply(query, candidates, Context(hits=hits)).depth == expected
    empty = Candidates(np.zeros(0, np.int32), np.zeros(0))
    voted = reranker.apply(index.query("water pumping"), empty, Context())
    assert voted.depth == reranker.inputs.table(index.query("water pumping"), empty, Context())[0].depth > 0


def test_documents_that_a_longer_pool_pushes_out_follow_in_the_lists_order(index, model):
    reranker, pushed_out = FusionReranker(index, model=model), 0
    foreign = Candidates(index.forward.rows_of(["f", "c", "a"]), np.array([0.3, 0.2, 0.1]))
    cases = [listed(index, "garden roof seal water"), (index.query("pump water garden apple"), foreign)]
    for query, candidates in cases:
        for depth in range(1, candidates.depth + 1):
            short = candidates.top(depth)
            ranked, scores = reranker.apply(query, short), reranker.score(query, short)
            of = dict(zip(ranked.docs.tolist(), ranked.scores.tolist(), strict=True))
            missing = [doc for doc in short.docs.tolist() if doc not in of]
            of |= {doc: ranked.scores.min() - 1 - place for place, doc in enumerate(missing)}
            assert ranked.depth == depth and scores.tolist() == pytest.approx([of[doc] for doc in short.docs.tolist()])
            pushed_out = max(pushed_out, len(missing))
    assert pushed_out > 1


def test_the_last_tables_are_cached_and_no_others(index, model, monkeypatch):
    monkeypatch.setattr(inputs_module, "CACHED_TABLES", 2)
    inputs = FusionReranker(index, model=model).inputs
    texts = ["pump", "seal", "garden", "tap"]
    queries = [index.query(text) for text in texts]
    lists = index.lucene.search(queries, 10)
    first, second, third, last = zip(queries, lists, strict=True)
    for query, candidates in (first, second, third):
        inputs.table(query, candidates, Context())
    assert [key[0].text for key in inputs._tables] == ["seal", "garden"]
    cached = next(iter(inputs._tables.values()))
    assert inputs.table(*second, Context()) is cached
    inputs.table(*last, Context())
    assert [key[0].text for key in inputs._tables] == ["seal", "tap"]  # the one that was used longest ago is dropped


@pytest.mark.parametrize("learner", ["combsum", "net"])
def test_features_of_weight_0_are_not_computed_and_change_no_score(index, tmp_path, learner):
    """Scores are the weighted sum of all columns of the recipe; a model of zeros ranks all documents alike."""
    recipe = ("first", "cosine", "bm25:k1=2,b=0.75", "posterior:sharpness=10", "rm")
    notes = {"normalise": "z", "sources": ["rm"]}
    query, candidates = listed(index, "pump seal tap")
    whole = Features(index, recipe, sources=("rm",))
    (pool,) = whole.pool([query], [candidates], 10)
    table = whole.normalised_tables([query], [pool], "z")[0]
    for number, weights in enumerate([(0.0, 2.0, 0.0, 0.0, 0.5), (1.0, 0.0, 0.0, 0.25, 0.0), (0.0,) * 5]):
        if learner == "combsum":
            fitted = CombSUM(weights=list(weights), normalise="none")
        else:
            fitted = SimTripletNet(normalise="none", start=np.ones(5))
            fitted.weights_ = np.array(weights)
        path = models.save(tmp_path / str(number), fitted, recipe, notes)
        reranker = FusionReranker(index, model=str(path))
        assert reranker.recipe == (tuple(name for name, weight in zip(recipe, weights, strict=True) if weight) or ("first",))
        ranked = reranker.apply(query, candidates, Context(hits=10))
        expected = dict(zip(pool.docs.tolist(), (table @ np.array(weights)).tolist(), strict=True))
        assert dict(zip(ranked.docs.tolist(), ranked.scores.tolist(), strict=True)) == pytest.approx(expected, abs=1e-12)
        explanation = reranker.explain(query, candidates, int(ranked.docs[0]))
        assert {part.label for part in explanation.contributions} == set(reranker.recipe)
        assert explanation.score == pytest.approx(float(ranked.scores[0]))
        assert models.load(path).recipe == recipe  # the saved model keeps all features


def test_a_run_whose_feature_has_weight_0_is_not_refused(index, tmp_path):
    (tmp_path / "other.run").write_text("1 Q0 a 1 3.0 x\n", encoding="utf-8")
    learner = CombSUM(weights=[1.0, 0.0], normalise="none")
    path = models.save(tmp_path / "m", learner, ("first", "run:other"), {"normalise": "z", "sources": []})
    query, candidates = listed(index, "pump")
    reranker = FusionReranker(index, model=str(path), runs=(f"other={tmp_path / 'other.run'}",))
    assert reranker.apply(query, candidates).docs.tolist() == candidates.docs.tolist()


def test_features_belong_to_the_first_stages_model(index, model):
    inputs = FusionReranker(index, model=model).inputs
    bm25, other = Context(BM25Model(0.9, 0.4)), Context(DirichletModel(10.0))
    first = inputs.features(bm25)
    assert inputs.features(Context(BM25Model(0.9, 0.4))) is first
    assert inputs.features(other) is not first and inputs.features(other).model == DirichletModel(10.0)


def test_parts_of_an_explanation_by_size_with_the_rank_by_each_feature(index, model):
    reranker = FusionReranker(index, model=model)
    query, candidates = listed(index, "pump seal tap")
    features = reranker.inputs.features(Context())
    (pool,) = features.pool([query], [candidates], 10)
    raw = features.tables([query], [pool])[0]
    deviation = raw.std(axis=0)
    parts = np.divide(raw - raw.mean(axis=0), deviation, out=np.zeros_like(raw), where=deviation > 0)
    for row, doc in enumerate(pool.docs.tolist()):
        explanation = reranker.explain(query, candidates, doc)
        order = sorted(range(5), key=lambda column: -abs(parts[row, column]))
        assert [part.value for part in explanation.contributions] == pytest.approx([parts[row, column] for column in order])
        for part in explanation.contributions:
            column = reranker.recipe.index(part.label)
            rank = 1 + int((raw[:, column] > raw[row, column]).sum())
            assert part.detail == f"rank {rank} of {pool.depth} by this feature"
        assert explanation.score == pytest.approx(parts[row].sum())
        assert list(explanation.notes["importance"].values()) == [0.2] * 5
        scores = candidates.scores.astype(float)
        sharp = np.exp(10 * scores / scores[0])
        certainty = explanation.notes["certainty"]
        assert certainty["docid"] == index.forward.docids[int(candidates.docs[0])]
        assert certainty["probability"] == pytest.approx(sharp[0] / sharp.sum(), abs=1e-4)
        soft = np.exp(5 * scores / scores[0])
        feedback = explanation.notes["feedback"]
        assert [entry["weight"] for entry in feedback["documents"]] == pytest.approx(soft / soft.sum(), abs=1e-4)
        assert [entry["words"] for entry in feedback["documents"]] == pytest.approx(
            cosines(index)[doc, candidates.docs], abs=1e-4
        )
        assert explanation.notes["decision"]["parts"]["certainty"] == pytest.approx(parts[row, 3], abs=1e-4)
        assert "evidence" not in explanation.notes
    outside = int(np.setdiff1d(np.arange(6), pool.docs)[0])
    with pytest.raises(OptionError, match=f"is not among the {pool.depth} documents that .* ranks"):
        reranker.explain(query, candidates, outside)


def test_a_decision_sums_the_parts_of_four_kinds(demo_index):
    parts = {
        "first": 1.0,
        CERTAINTY: 0.25,
        f"read:mslm/{CERTAINTY}": 0.5,
        "rm": -2.0,
        "read:mslm/rm": 0.5,
        "klsa:z=5": 0.125,
        "bm25:k1=2": 4.0,
        "votes": 0.03125,
    }
    features = Features(demo_index, tuple(parts)).features
    roles = [(feature.role, part) for feature, part in zip(features, parts.values(), strict=True)]
    notes = {
        "feedback": {"documents": [{}, {}, {}], "effective": 2.5},
        "certainty": {"docid": "d7", "probability": 0.4567},
    }
    decision = decision_note(roles, notes)
    assert decision["parts"] == {"match": 5.0312, "feedback": -1.375, "certainty": 0.75}
    reasons = [
        "feedback: 3 documents that count as much as 2.5 equal ones",
        "certainty: the first stage gives d7 a probability of 0.46 among its best",
    ]
    assert decision["reasons"] == reasons
    moved = decision_note([*roles, ("bound", 2.0)], notes)
    assert moved["parts"] == {**decision["parts"], "bound": 2.0}
    assert moved["reasons"][:2] == reasons and "moved up" in moved["reasons"][2]


def test_likeness_is_the_cosine_of_words(index):
    near = cosines(index)
    likeness = neighbour_likeness(index, 1, np.array([0, 4, 1], dtype=np.int32), None)
    assert [entry["words"] for entry in likeness] == pytest.approx([near[1, 0], near[1, 4], 1.0], abs=1e-4)
    assert all(set(entry) == {"words"} for entry in likeness)


def test_scores_of_a_run_and_its_lowest_for_what_it_lacks(index, tmp_path, caplog):
    """The first row is known, an unknown docid is passed over; the order of the file is that of the run."""
    path = tmp_path / "run.txt"
    path.write_text("1 Q0 e 1 9 x\n1 Q0 gone 2 8 x\n1 Q0 a 3 7 x\n1 Q0 c 4 -2 x\n2 Q0 gone 1 5 x\n", encoding="utf-8")
    docs = index.forward.rows_of(["a", "b", "c", "e", "f"])
    query = index.query("pump", "1")
    result = values(index, f"run:{path}", query, Candidates(docs, np.ones(5)))
    assert result.tolist() == [7.0, -2.0, -2.0, 9.0, -2.0]
    for qid in ("2", "3"):  # none of its documents is known; it has no list
        assert not values(index, f"run:{path}", index.query("pump", qid), Candidates(docs, np.ones(5))).any()
    feature = Features(index, [f"run:{path}"]).features[0]
    empty = Candidates(np.zeros(0, np.int32), np.zeros(0))
    retrieved = feature.retrieve([query, index.query("pump", "3")], [empty] * 2, 2)
    assert [index.forward.docids.take(docs) for docs in retrieved] == [["e", "a"], []]
    assert read_runs(("x=a.txt", "y=b=c.txt"), Flag("o")) == {"x": "a.txt", "y": "b=c.txt"} and read_runs(None, Flag("o")) == {}
    for text in ("x", "=file", "x="):
        with pytest.raises(OptionError, match=rf"o: '{text}' should read NAME=FILE"):
            read_runs((text,), Flag("o"))
    with pytest.raises(OptionError, match=r"o: x names two files, a\.txt and b\.txt"):
        read_runs(("x=a.txt", "x=b.txt"), Flag("o"))
    runs = {"x": str(path), "y": str(path)}
    for recipe in (["first", "run:x"], ["read:run:x/top"]):
        with pytest.raises(OptionError, match=r"fusion_runs: y: has no effect, because no feature of the model is run:y"):
            Features(index, recipe, runs=runs)
        Features(index, recipe, runs={"x": str(path)})
    assert f"{path}: 2 of its documents are not in {index.name} and are left out" in caplog.messages
    path.write_text("1 Q0 gone 1 9 x\n1 Q0 lost 2 8 x\n", encoding="utf-8")
    with pytest.raises(InputError, match="none of its 2 documents is in"):
        Features(index, [f"run:{path}"])


def test_votes_bring_the_documents_with_most_of_them(index):
    """Documents without a vote are not brought; equal votes are in the order of rows."""
    queries = index.lucene.queries(["pump water", "pump garden", "roof"], ["1", "2", "3"])
    training = TrainingQueries.of(queries, {"1": {"e": 1, "a": 1}, "2": {"e": 1, "c": -1}, "3": {"f": 1}})
    votes = TrainingVotes(index, training, leave_out=False)
    feature = Features(index, ["votes"], training_votes=votes).features[0]
    (found,) = feature.retrieve([index.query("pump")], [], 10)
    assert index.forward.docids.take(found) == ["e", "a"]
    assert feature.retrieve([index.query("pump")], [], 1)[0].tolist() == found[:1].tolist()
    assert Features(index, ["votes"]).features[0].retrieve([index.query("pump")], [], 5)[0].shape == (0,)


def test_best_ranks_among_several_lists():
    lists = [np.array([7, 2, 9]), np.array([9, 4])]
    assert best_ranks(np.array([2, 4, 7, 9]), lists).tolist() == [1, 1, 0, 0]


def make_table(index, judged, **options):
    """The training table of three queries with the features `first` and `cosine`."""
    queries = index.lucene.queries(["pump seal", "garden tap", "water roof"], ["1", "2", "3"])
    plan = FeaturePlan(index, ("first", "cosine"), (), BM25Model(), TrainingQueries(), 10, "none")
    return queries, training_table(LocalEngine(), plan, queries, judged, **options)


def test_rows_to_learn_from_are_the_relevant_candidates_and_a_draw_of_others(index):
    """Grades are kept; what is judged not relevant, or not judged, is 0. A query without a relevant candidate has no rows."""
    judged = {"1": {"b": 2, "e": 0, "a": -1, "gone": 1}, "2": {"e": 1, "f": 1}, "3": {"gone": 1}}
    queries, every = make_table(index, judged)
    for number, query in enumerate(queries[:2]):
        candidates = index.lucene.search([query], 10)[0]
        docids = index.forward.docids.take(candidates.docs)
        rows = every.qid == number
        assert every.y[rows].tolist() == [max(0, judged[query.qid].get(docid, 0)) for docid in docids]
        assert every.X[rows, 0] == pytest.approx(candidates.scores, rel=1e-6)
    assert set(every.qid.tolist()) == {0, 1}
    # Whole rankings: of the queries with a relevant document in the index; all that are judged relevant are counted.
    assert [(entry[0], entry[3]) for entry in every.complete] == [(0, 2), (1, 2)]
    for number, features, relevant, *_ in every.complete:
        rows = every.qid == number
        assert relevant.tolist() == (every.y[rows] > 0).tolist()
        np.testing.assert_allclose(features, every.X[rows], rtol=1e-6)
    _, drawn = make_table(index, judged, negatives=1)
    for number in (0, 1):
        assert (drawn.y[drawn.qid == number] > 0).sum() == (every.y[every.qid == number] > 0).sum()
        assert (drawn.y[drawn.qid == number] == 0).sum() == 1
    assert len(drawn.complete[0][1]) == (every.qid == 0).sum()
    assert [len(make_table(index, judged, complete=count)[1].complete) <= count for count in (0, 1, 2)] == [True] * 3
    assert len(make_table(index, judged, complete=3)[1].complete) == 2


def test_the_learner_of_a_fusion_chooses_among_known_weights_and_nets_pulled_towards_them():
    recipe = ("first", "mslm", "rm", "cosine")
    best = anchored_learner(recipe, {"mslm": 2.0, "rm": 1.0}, folds=3, random_state=7)
    assert list(best.candidates)[:3] == ["first", "auto", "mslm"] == list(best.inputs)
    assert [list(best.candidates[name].weights) for name in ("first", "auto", "mslm")] == [
        [1, 0, 0, 0], [0, 2, 1, 0], [0, 1, 0, 0]
    ]  # fmt: skip
    nets = [best.candidates[f"net, penalty {penalty:g}"] for penalty in PENALTIES]
    assert len(best.candidates) == 3 + len(nets) and [net.penalty for net in nets] == sorted(PENALTIES, reverse=True)
    assert all(net.start == pytest.approx([0, 2 * ANCHOR_SCALE, ANCHOR_SCALE, 0]) and net.random_state == 7 for net in nets)
    assert (best.folds, best.random_state) == (3, 7) and 0 < best.caution < 1
    plain = anchored_learner(("cosine", "rm"), {})
    assert plain.inputs == () and all(learner.start is None for learner in plain.candidates.values())


def test_queries_are_recognised_by_terms_and_weights():
    one = Query("x", ("a", "b"), (1.0, 2.0))
    assert query_key(one) == query_key(Query("y", ("b", "a"), (2.0, 1.0), "9")) and len(query_key(one)) == 12
    others = [Query("x", ("a", "b"), (2.0, 1.0)), Query("x", ("a",), (1.0,)), Query("x", ("ab",), (1.0,)), Query("x", (), ())]
    assert len({query_key(query) for query in (one, *others)}) == 5
    assert of_kind("bm25", ("bm25:k1=2", "first", "votes:power=2", "bm25")) == ("bm25:k1=2", "bm25")


def test_an_earlier_batch_of_feedback_is_used_again_for_the_same_queries_only(index):
    feature = Features(index, ["rm3:docs=2,terms=3"]).features[0]
    asked = []
    search = feature.search
    feature.search = SimpleNamespace(lists=lambda queries, depth: asked.append(len(queries)) or search.lists(queries, depth))
    queries = [index.query("pump"), index.query("garden")]
    first = feature.expansions(queries)
    assert feature.expansions(queries) is first and asked == [2]
    assert len(feature.expansions(queries[:1])) == 1 and asked == [2, 1]


def test_a_method_that_cannot_act_is_silent(index):
    docs = np.arange(4, dtype=np.int32)
    assert not values(index, "mslm", Query("", ("unheard",), (1.0,)), Candidates(docs, np.ones(4))).any()


def test_documents_of_sources_score_at_most_as_the_lists_last(index):
    """A list from elsewhere has scores that BM25 doesn't explain."""
    query, every = index.query("pump", "1"), index.lucene.search([index.query("pump")], 10)[0]
    foreign = Candidates(every.docs[-1:], np.array([1e-3]))
    (pool,) = Features(index, ["first"], sources=["rm3"]).pool([query], [foreign], 5)
    assert pool.depth > 1 and pool.docs[0] == foreign.docs[0] and pool.scores.tolist() == [1e-3] * pool.depth
    ranks = index.forward.docid_rank[pool.docs[1:]]
    assert (np.diff(ranks) > 0).all()  # equal scores in the order of docids


@pytest.mark.parametrize(
    ("name", "feedback"),
    [
        ("rm3:weight=0.2", RM3(10, 10, 0.2)),
        ("rm3:docs=2,terms=3", RM3(3, 2)),
        ("rocchio:beta=0.3", Rocchio(top_terms=10, top_docs=10, beta=0.3)),
        ("rocchio:docs=2,terms=3", Rocchio(top_terms=3, top_docs=2)),
    ],
)
def test_parameters_of_feedback_are_anserinis(demo_index, name, feedback):
    query = demo_index.query("dripping tap washer")
    (listed_,) = demo_index.lucene.search([query], 50, feedback=feedback)
    table = Features(demo_index, [name]).tables([query], [listed_])[0]
    assert table[:, 0] == pytest.approx(np.asarray(listed_.scores, dtype=float), rel=1e-5)


def test_draws_follow_the_seed(index):
    judged = {"1": {"b": 1}, "2": {"e": 1}, "3": {}}
    drawn = [make_table(index, judged, negatives=1, random_state=seed)[1].X.tolist() for seed in range(6)]
    assert len({str(rows) for rows in drawn}) > 1
    assert drawn[2] == make_table(index, judged, negatives=1, random_state=2)[1].X.tolist()


def test_queries_with_a_common_relevant_document_are_in_one_fold(index, tmp_path, monkeypatch):
    """24 queries, the first and the last share a document, the others nothing."""
    groups = {}

    class Seen(Exception):
        pass

    def fit(learner, X, y, qid, **options):
        groups.update(options["groups"])
        raise Seen

    monkeypatch.setattr(Best, "fit", fit)
    texts = {f"d{number:02d}": f"word{number} common" for number in range(24)}
    built = kernelsearch.open(build_texts(tmp_path, texts))
    topics = {str(number): f"word{number} common" for number in range(24)}
    qrels = {str(number): {f"d{number:02d}": 1} for number in range(24)}
    qrels["23"]["d00"] = 1
    data = TrainingData(topics=topics, qrels=qrels, output=tmp_path / "m")
    with pytest.raises(Seen):
        FusionReranker.method.fit(built, data, features="first cosine", sources="none")
    assert groups[0] == groups[23] and len(set(groups.values())) == 23 and len(groups) == 24


def test_a_model_with_autos_weights_ranks_as_auto_of_that_depth(index, model, tmp_path):
    shutil.copytree(model, tmp_path / "m")
    rewrite_meta(tmp_path / "m", lambda meta: meta["extra"].update(auto_with_vectors="none"))
    own = next(option.default for option in registry.method("auto").options if option.key == "depth")
    for depth, expected in ((7, 7), (own + 1, own)):
        assert FusionReranker(index, model=str(tmp_path / "m"), depth=depth)._input.settings.depth == expected


def test_the_model_beside_the_index_is_used_unless_another_is_named(tmp_path, model):
    built = kernelsearch.open(build_texts(tmp_path, TEXTS))
    with pytest.raises(ArtefactError, match="no fusion is trained for it"):
        FusionReranker(built)
    data = TrainingData(topics={"1": "pump water"}, qrels={"1": {"b": 1}})
    FusionReranker.method.fit(built, data, features="first cosine", sources="none", learner="combsum", depth=5)
    assert FusionReranker(built).recipe == ("first", "cosine")
    assert FusionReranker(built, model=model).recipe[-1] == "votes"


@pytest.mark.parametrize("normalise", ["z", "minmax", "none"])
def test_features_are_normalised_as_the_model_says(index, tmp_path, normalise):
    data = TrainingData(topics={"1": "pump water"}, qrels={"1": {"b": 1}}, output=tmp_path / "m")
    fitted = {"features": "first cosine", "sources": "none", "learner": "combsum", "depth": 5}
    FusionReranker.method.fit(index, data, **fitted)
    rewrite_meta(tmp_path / "m", lambda meta: meta["extra"].update(normalise=normalise))
    query, candidates = listed(index, "pump seal tap")
    reranker = FusionReranker(index, model=str(tmp_path / "m"), depth=3)
    pool, table = reranker.inputs.table(query, candidates, Context())
    raw = Features(index, ["first", "cosine"]).tables([query], [candidates.top(3)])[0]
    expected = {
        "none": raw,
        "minmax": (raw - raw.min(axis=0)) / np.ptp(raw, axis=0),
        "z": (raw - raw.mean(axis=0)) / raw.std(axis=0),
    }
    assert pool.depth == 3 < candidates.depth
    np.testing.assert_allclose(table, expected[normalise], atol=1e-9)


def test_a_match_reorders_the_first_documents_on_the_first_stages_scale(demo_index):
    """Its scores get the mean and the deviation of the first stage's; those of the others are at most the lowest of them."""
    query = demo_index.query("how do I repair a leaking tap in the house")
    candidates = demo_index.lucene.search([query], 80)[0]
    feature = Features(demo_index, ["read:cosine/top"]).features[0]
    match = values(demo_index, "cosine", query, candidates.top(READ))
    first = candidates.scores.astype(float)
    head = first[:READ].mean() + first[:READ].std() * (match - match.mean()) / match.std()
    expected = np.concatenate([head, np.minimum(first[READ:], head.min())])
    ranked, order = feature.ranked(Pool(demo_index, query, candidates))
    assert candidates.depth == 80 > READ and (expected[READ:] == head.min()).any()
    assert order.tolist() == np.argsort(-expected, kind="stable").tolist()
    assert (
        ranked.candidates.scores == pytest.approx(expected[order]) and (ranked.candidates.docs == candidates.docs[order]).all()
    )
