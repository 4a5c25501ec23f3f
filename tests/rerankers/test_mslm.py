"""`mslm` on real indexes: the contract, trained state, its errors, and what it must not change."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest

import kernelsearch
from kernelsearch import train
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core import artefacts
from kernelsearch.core.errors import ArtefactError, IndexProblem, InputError, OptionError
from kernelsearch.core.progress import silent
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.pyramid.query_rows import Scale
from kernelsearch.kernels.semantic.graph import SemanticGraph
from kernelsearch.rerankers.artefact_kinds import DocumentChange
from kernelsearch.rerankers.base import Context, TrainingData
from kernelsearch.rerankers.mslm import graph as mslm_graph
from kernelsearch.rerankers.mslm import reranker as mslm_reranker
from kernelsearch.rerankers.mslm.artefact import GRAPH
from kernelsearch.rerankers.mslm.graph import KIND, GraphArtefact, validate
from kernelsearch.rerankers.mslm.reranker import MultiScaleLM, level_scales
from tests.conftest import build_texts, rewrite_meta

TEXTS = {
    "near": "the pump leaks because its rubber seal is worn and a seal that is worn lets a pump leak",
    "far": "the pump was painted green and stands in the garden beside a wall; a long way off lies a seal",
    "other": "gardens need water in summer, and walls want paint",
    "short": "pump",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return build_texts(tmp_path_factory.mktemp("mslm"), TEXTS)


@pytest.fixture
def index(path, tmp_path):
    """A copy, so that a test's fitted state is its own."""
    shutil.copytree(path, tmp_path / "index")
    return kernelsearch.open(tmp_path / "index")


def first_stage(index, text):
    query = index.query(text)
    return query, index.lucene.search([query], 10)[0]


def names(index, candidates):
    return index.forward.docids.take(candidates.docs)


def test_keeps_documents_and_gives_finite_scores(index):
    assert_permutes(index, MultiScaleLM(index))


def assert_permutes(index, reranker):
    query, before = first_stage(index, "pump seal")
    after = reranker.apply(query, before)
    assert sorted(after.docs.tolist()) == sorted(before.docs.tolist())
    assert (np.diff(after.scores) <= 0).all() and np.isfinite(after.scores).all()


def test_alone_it_prefers_words_that_stand_together(index):
    query, before = first_stage(index, "pump seal")
    after = MultiScaleLM(index, mix=1.0, scales=(2,)).apply(query, before)
    order = names(index, after)
    assert order.index("near") < order.index("far")


def test_mix_zero_is_the_first_stage(index):
    query, before = first_stage(index, "pump seal garden")
    after = MultiScaleLM(index, mix=0.0).apply(query, before)
    assert after.docs.tolist() == before.docs.tolist()


def test_unknown_words_keep_the_first_stage_and_are_counted(index):
    _, before = first_stage(index, "pump")
    reranker = MultiScaleLM(index)
    after = reranker.apply(index.query("xylophone"), before)
    assert after.docs is before.docs and after.scores is before.scores
    assert after.fallbacks == (("mslm", "no word of the query is in the index"),)
    empty = Candidates(np.zeros(0, np.int32), np.zeros(0))
    assert reranker.apply(index.query("pump"), empty).depth == 0


def test_one_candidate_and_duplicate_free_scores_survive(index):
    query, before = first_stage(index, "pump")
    single = Candidates(before.docs[:1], before.scores[:1])
    assert MultiScaleLM(index).apply(query, single).docs.tolist() == before.docs[:1].tolist()


def test_trained_graph_is_saved_loaded_and_checked(index, tmp_path, capsys):
    train.main(["--index", str(index.path), "--rerank", "mslm", "--mslm.min-count", "1"])
    capsys.readouterr()
    reranker = MultiScaleLM(index)
    assert reranker.graph.edges > 0
    assert "building one in memory" not in capsys.readouterr().err
    saved = index.artefacts / "mslm"
    rewrite_meta(saved, lambda meta: meta.update(fingerprint="0" * 32))
    with pytest.raises(ArtefactError, match="another index"):
        MultiScaleLM(index)


def test_small_collections_get_a_graph_once_with_a_notice(index, capsys, monkeypatch):
    built = MultiScaleLM(index).graph
    assert "python -m kernelsearch.train" in capsys.readouterr().err
    saved = MultiScaleLM(index).graph
    assert not capsys.readouterr().err and saved.indices.tolist() == built.indices.tolist()
    shutil.rmtree(index.artefacts / "mslm")
    monkeypatch.setattr("kernelsearch.rerankers.mslm.graph.SMALL", 3)
    with pytest.raises(ArtefactError, match=r"python -m kernelsearch\.train .* --rerank mslm builds it"):
        MultiScaleLM(index)
    assert MultiScaleLM(index, semantic=0).graph.edges == 0  # positions alone need no graph


def test_level_weights_are_learned_and_used_only_where_they_fit(index, capsys):
    data = TrainingData(topics={"1": "pump seal"}, qrels={"1": {"near": 1, "far": 0}})
    options = {"scales": (1.0, 4.0), "min_count": 1}
    MultiScaleLM.method.fit(index, data, **options)
    fitted = MultiScaleLM(index, scales=(1, 4))
    weights = fitted.level_weights
    assert np.linalg.norm(weights) == pytest.approx(1) and not np.allclose(weights, weights[0])
    assert MultiScaleLM(index, scales=(1, 2)).level_weights == pytest.approx([0.5**0.5] * 2)
    assert MultiScaleLM(index, scales=(1, 4), semantic=0.2).level_weights == pytest.approx([0.5**0.5] * 2)


def test_weights_are_uniform_with_a_notice_where_no_level_prefers_the_relevant(index, caplog):
    """The one relevant document is the one whose windows match worst at both levels."""
    caplog.set_level("INFO", "kernelsearch")
    data = TrainingData(topics={"1": "pump seal"}, qrels={"1": {"near": 0, "far": 1, "short": 0}})
    MultiScaleLM.method.fit(index, data, min_count=1, scales=(2.0, 4.0))
    reranker = MultiScaleLM(index, scales=(2.0, 4.0))
    query, before = first_stage(index, "pump seal")
    levels = reranker.level_scores(query, before)[[names(index, before).index(docid) for docid in ("near", "short", "far")]]
    assert (levels[2] < levels[:2].min(axis=0)).all()
    assert reranker.level_weights == pytest.approx([0.5**0.5] * 2)
    assert "no level prefers relevant documents; level weights stay uniform" in caplog.text


def zscored(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


def test_level_weights_are_equation_13_by_hand(index):
    scales = (1.0, 8.0, float("inf"))
    assert_equation_13(
        index, lambda data: MultiScaleLM.method.fit(index, data, min_count=1, scales=scales), zscored,
        lambda: MultiScaleLM(index, mix=0.7, scales=scales),
    )  # fmt: skip


def assert_equation_13(index, fit, scaled, make):
    """Margins of `scaled` levels summed over pairs of one query, negative ones cut off, unit norm."""
    data = TrainingData(topics={"1": "pump seal worn"}, qrels={"1": {"near": 1, "far": 0, "short": 0}})
    fit(data)
    reranker = make()
    query, before = first_stage(index, "pump seal worn")
    raw = reranker.level_scores(query, before)
    levels = scaled(raw)
    near, far, short = (names(index, before).index(docid) for docid in ("near", "far", "short"))
    margins = np.maximum(2 * levels[near] - levels[far] - levels[short], 0)
    assert reranker.level_weights == pytest.approx(margins / np.linalg.norm(margins))
    expected = 0.7 * zscored(levels @ reranker.level_weights) + 0.3 * zscored(before.scores.astype(float))
    assert reranker.score(query, before) == pytest.approx(expected)
    explanation = reranker.explain(query, before, int(before.docs[near]))
    assert sum(part.value for part in explanation.contributions) == pytest.approx(expected[near], abs=1e-4)


def test_the_order_of_a_short_querys_words_changes_nothing(index):
    """At scale 8 a query of up to eight words is one column around its middle, read from either end."""
    for text in ("pump seal", "pump leak rubber seal", "worn seal pump"):
        query, before = first_stage(index, text)
        backwards = index.query(" ".join(reversed(text.split())))
        reranker = MultiScaleLM(index, mix=1.0)
        assert reranker.level_scores(backwards, before) == pytest.approx(reranker.level_scores(query, before), abs=1e-6)
        assert reranker.rows(query).query_level(reranker.scales[0]).weights.shape == (1,)


def test_the_step_is_used(index):
    query, before = first_stage(index, "pump seal worn garden")
    sparse, dense = (MultiScaleLM(index, step=step, scales=(4,)) for step in (0, 1))
    assert sparse.rows(query).query_level(sparse.scales[0], step=4).weights.shape == (1,)
    # Every window of step 4 begins at a column that step 1 looks at, too, but is compared at other columns.
    assert not np.allclose(sparse.level_scores(query, before), dense.level_scores(query, before), atol=1e-3)


def test_an_index_of_stop_words_has_no_terms_instead_of_no_positions(tmp_path):
    opened = kernelsearch.open(build_texts(tmp_path, {"a": "the and of", "b": "to be or not"}))
    for attempt in (lambda: opened.search("tap", "mslm"), lambda: opened.train("mslm")):
        with pytest.raises(IndexProblem, match="field 'contents' has no terms: its texts are stop words and signs only"):
            attempt()
    with pytest.raises(InputError, match="the field has no terms, because its texts are stop words and signs only, or"):
        opened.search("tap", "klsa")


def test_training_errors_are_plain(index):
    with pytest.raises(OptionError, match="both topics and qrels"):
        MultiScaleLM.method.fit(index, TrainingData(topics={"1": "pump"}))
    with pytest.raises(InputError, match="nothing to learn from"):
        MultiScaleLM.method.fit(index, TrainingData(topics={"1": "pump"}, qrels={"1": {"nobody": 1}}), min_count=1)
    assert not (index.artefacts / "mslm").exists()  # what could not be learned was not saved


def test_option_errors_name_the_option(index):
    with pytest.raises(OptionError, match=r"mslm_semantic: 2 values for 3 scales"):
        MultiScaleLM(index, scales=(1, 2, 3), semantic=(1, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scales": (1e9,)}, r"mslm_scales: a scale above 1000; inf takes the whole text"),
        ({"scales": tuple(range(1, 20))}, r"mslm_scales: 19 scales; at most 16"),
    ],
)
def test_options_that_would_need_too_much_memory_are_refused(index, options, message):
    with pytest.raises(OptionError, match=message):
        MultiScaleLM(index, **options)


def test_index_without_positions_is_refused_by_name(index):
    index.forward.has_positions = False
    with pytest.raises(IndexProblem, match="without positions"):
        MultiScaleLM(index)


def average_precision(ranked, relevant):
    hits = np.array([docid in relevant for docid in ranked])
    return float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].sum() / len(relevant))


@pytest.mark.collections
def test_cranfield_gains_over_bm25(collection_index, collections):
    index = collection_index("cran")
    topics = load_topics(str(collections / "cran" / "topics.tsv"))
    qrels = load_qrels(str(collections / "cran" / "qrels.txt"))
    queries = index.lucene.queries(list(topics.values()), list(topics))
    lists = index.lucene.search(queries, 100)
    after = MultiScaleLM(index).apply_batch(queries, lists)
    figures = [
        np.mean([
            average_precision(names(index, candidates), {docid for docid, grade in qrels[query.qid].items() if grade > 0})
            for query, candidates in zip(queries, stage, strict=True)
        ])
        for stage in (lists, after)
    ]  # fmt: skip
    assert figures[1] > figures[0] + 0.015


def test_threads_share_the_queries_and_change_nothing(index):
    texts = ["pump seal", "rubber", "garden wall", "worn pump", "nothing of this is there zzz", "water paint", "seal"] * 3
    queries = [index.query(text) for text in texts]
    lists = index.lucene.search(queries, 10)
    reranker = MultiScaleLM(index)
    single_threaded = reranker.apply_batch(queries, lists, Context(threads=1))
    threaded = reranker.apply_batch(queries, lists, Context(threads=3))
    alone = [MultiScaleLM(index).apply(query, candidates) for query, candidates in zip(queries, lists, strict=True)]
    for expected, candidates, single in zip(single_threaded, threaded, alone, strict=True):
        assert expected.docs.tobytes() == candidates.docs.tobytes() == single.docs.tobytes()
        assert expected.scores.tobytes() == candidates.scores.tobytes() == single.scores.tobytes()
        assert expected.fallbacks == candidates.fallbacks


def test_similarities_of_a_query_are_cached_for_other_candidates(index, monkeypatch):
    """A second list of the same query computes what the first lacked alone, and gets the same as without the first."""
    query, before = first_stage(index, "pump seal")
    reranker, asked = MultiScaleLM(index), []
    ranges = reranker.word_ranges
    monkeypatch.setattr(reranker, "word_ranges", lambda docs: asked.append(len(docs)) or ranges(docs))
    head = reranker.level_scores(query, before.top(1))
    whole = reranker.level_scores(query, before)
    assert asked == [1, before.depth - 1] and before.depth > 1
    np.testing.assert_array_equal(whole, MultiScaleLM(index).level_scores(query, before))
    np.testing.assert_array_equal(whole[:1], head)
    other, candidates = first_stage(index, "garden")
    np.testing.assert_array_equal(reranker.level_scores(other, candidates), MultiScaleLM(index).level_scores(other, candidates))


def test_a_collection_that_does_not_fit_in_memory_gets_the_same_scores(index, monkeypatch):
    query, before = first_stage(index, "pump seal")
    expected = MultiScaleLM(index, mix=1.0).apply(query, before)
    monkeypatch.setattr(mslm_reranker, "IN_MEMORY", 0)
    monkeypatch.setattr(mslm_reranker, "_reading_order", None)  # not called
    after = MultiScaleLM(index, mix=1.0).apply(query, before)
    assert after.docs.tolist() == expected.docs.tolist() and after.scores.tolist() == expected.scores.tolist()


def test_words_of_the_query_are_weighted_by_idf_and_unknown_or_weightless_ones_are_left_out(tmp_path):
    """The first term of the vocabulary counts, too."""
    index = kernelsearch.open(build_texts(tmp_path, {"a": "apple pump", "b": "apple seal", "c": "pear"}))
    assert index.forward.terms[0] == "appl"
    query = Query("", ("appl", "unheard", "pump", "seal"), (2.0, 1.0, 0.5, 0.0))
    words, weights = MultiScaleLM(index).query_words(query)
    assert index.forward.terms.take(words) == ["appl", "pump"]
    common, rare = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    assert weights == pytest.approx([2 * common, 0.5 * rare], rel=1e-5)


def test_judgements_below_zero_count_as_not_relevant(index):
    """Grades of TREC may be -2: the level weights are those of grade 0, and a topic with such grades only teaches nothing."""
    judged = {"near": 1, "far": 0, "short": 0}
    below = {docid: grade or -2 for docid, grade in judged.items()}
    fit = MultiScaleLM.method.fit
    options = {"scales": (1.0, 4.0)}
    weights = [
        MultiScaleLM(
            index,
            model=str(fit(index, TrainingData({"1": "pump seal"}, {"1": grades}, output=index.path / name), **options)),
            scales=(1.0, 4.0),
        ).level_weights
        for name, grades in (("zero", judged), ("below", below))
    ]
    assert weights[0].tolist() == weights[1].tolist()
    data = TrainingData({"1": "pump seal"}, {"1": {"near": -1, "far": -2}}, output=index.path / "none")
    with pytest.raises(InputError, match="no topic has both relevant and other documents"):
        fit(index, data, **options)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("indptr", lambda array: array[:-1], "indptr"),
        ("indptr", lambda array: np.append(array, array[-1]), "indptr"),
        ("indices", lambda array: array - array.min() - 1, r"indices has a number outside 0\.\."),
        ("indices", lambda array: array + 10**6, r"indices has a number outside 0\.\."),
        ("distances", lambda array: array[:-1], "distances has shape"),
        ("distances", lambda array: array * np.float32(np.nan), "distances has a value that is not finite"),
        ("weights", lambda array: array * np.nan, "weights has a value that is not finite"),
    ],
)
def test_arrays_of_a_graph_that_do_not_fit_are_refused_by_name(index, name, change, message):
    data = TrainingData({"1": "pump seal"}, {"1": {"near": 1}}, output=index.path / "m")
    path = MultiScaleLM.method.fit(index, data, min_count=1)
    meta, arrays = artefacts.load(path, KIND, 1)  # format 1 is the published one
    assert meta["extra"]["edges"] > 0 and 0 in arrays["indices"]
    validate(meta, dict(arrays))
    with pytest.raises(ValueError, match=message):
        validate(meta, {**arrays, name: change(np.array(arrays[name]))})


def test_a_collection_of_as_many_tokens_as_the_limit_gets_a_graph_and_is_kept_in_memory(index, monkeypatch):
    tokens, whole = index.forward.statistics.tokens, mslm_reranker._reading_order
    in_memory = []
    monkeypatch.setattr(mslm_reranker, "_reading_order", lambda forward: in_memory.append(limit) or whole(forward))
    for limit, expected in ((tokens, True), (tokens - 1, False)):
        monkeypatch.setattr(mslm_graph, "SMALL", limit)
        assert mslm_graph.has_graph(index) == expected
        monkeypatch.setattr(mslm_reranker, "IN_MEMORY", limit)
        MultiScaleLM(index, semantic=0).word_ranges(np.array([0]))
        assert (limit in in_memory) == expected


def test_bounds_of_the_scales_are_allowed():
    """Sixteen scales, a scale of 1000; one more or a wider one is refused."""
    assert level_scales([1000.0], [0.7], "mslm") == (Scale(1000.0, 0.7),)
    assert len(level_scales(range(16), [0.7], "mslm")) == 16
    with pytest.raises(OptionError, match="17 scales; at most 16"):
        level_scales(range(17), [0.7], "mslm")
    with pytest.raises(OptionError, match="a scale above 1000"):
        level_scales([1000.5], [0.7], "mslm")


def test_equal_documents_have_equal_scores_beside_any_others(tmp_path):
    assert_equal_scores(tmp_path, MultiScaleLM)


def assert_equal_scores(tmp_path, make):
    texts = {f"d{number}": "tap water pipe tap" for number in range(7)} | {"other": "water pipe washer"}
    opened = kernelsearch.open(build_texts(tmp_path, texts))
    query = opened.query("pipe pipe water")
    method = make(opened)
    for depth in (8, 3):
        candidates = opened.lucene.search([query], depth)[0]
        scores = make(opened).score(query, candidates)
        alike = np.array([name != "other" for name in opened.forward.docids.take(candidates.docs)])
        assert scores[alike] == pytest.approx(np.full(int(alike.sum()), scores[alike][0]), abs=1e-9)
        if alike.all():
            assert not scores.any()
        for doc, score in zip(candidates.docs.tolist(), scores, strict=True):
            assert method.explain(query, candidates, doc).score == pytest.approx(score, abs=1e-6)


def test_levels_that_cancel_up_to_rounding_order_nothing(index):
    windows = MultiScaleLM(index, scales="1,2")
    assert not windows.combined_levels(np.array([[0.1 + 0.2, -0.3], [-0.3, 0.3]])).any()


def test_a_graph_from_elsewhere_does_not_follow_a_change_of_documents(index, tmp_path):
    """Nothing of the product can make it again."""
    GraphArtefact(SemanticGraph.empty(len(index.forward.terms))).save(tmp_path / "g", {"graph": "vectors"}, index.fingerprint)
    with pytest.raises(ArtefactError, match="made from vectors"):
        GRAPH.follow(DocumentChange(tmp_path / "g", tmp_path / "new", index, index, (), silent))
