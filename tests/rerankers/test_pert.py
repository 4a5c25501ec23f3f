"""The `pert` method: what it returns, that its shortcuts equal the long way, and that it falls back where it can't act."""

import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from kernelsearch import search as search_verb
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene.models import BM25Model, DirichletModel, JelinekMercerModel
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.pert.explanation import word_records
from kernelsearch.rerankers.pert.plot import place_labels, plane
from kernelsearch.rerankers.pert.reranker import PerturbationReranker
from kernelsearch.trec import read_run

MODELS = [BM25Model(), BM25Model(1.2, 0.75), DirichletModel(100.0), JelinekMercerModel(0.3)]


def pert(index, **options):
    """The method with settings fit for six documents, where any word is in more than a tenth of them."""
    return PerturbationReranker(index, **{"max_df": 1.0, "docs": 2, "terms": 4, **options})


def context(model=BM25Model()):  # noqa: B008
    return Context(model, hits=100)


def first(index, text, model=BM25Model()):  # noqa: B008
    query = index.query(text, "q")
    return query, index.lucene.search([query], 100, model=model)[0]


def same(result: Candidates, expected: Candidates):
    np.testing.assert_array_equal(result.docs, expected.docs)
    np.testing.assert_array_equal(result.scores, expected.scores)


def test_alpha_0_returns_the_first_stage_exactly(tiny):
    query, candidates = first(tiny, "water tap")
    same(pert(tiny, alpha=0.0).apply(query, candidates, context()), candidates)


def test_expanded_query_is_a_distribution_that_keeps_the_query_in_front(tiny):
    query, candidates = first(tiny, "water tap")
    expansion = pert(tiny).expansion(query, candidates)
    assert expansion.words[:2] == ("water", "tap") and expansion.query_terms == 2
    assert expansion.weights.sum() == pytest.approx(1.0)
    assert (expansion.choice.x[:2] >= 0.95).all()
    mixed = expansion.mixed(0.3)
    assert sum(mixed.weights) == pytest.approx(1.0)
    weights = dict(zip(mixed.terms, mixed.weights, strict=True))
    assert weights["water"] == pytest.approx(0.7 * 0.5 + 0.3 * expansion.weights[0])
    assert weights[expansion.words[-1]] == pytest.approx(0.3 * expansion.weights[-1])


def test_expansion_finds_documents_that_the_query_misses(tiny):
    query, candidates = first(tiny, "dripping")
    better = pert(tiny).apply(query, candidates, context())
    names = tiny.forward.docids.take(better.docs)
    assert tiny.forward.docids.take(candidates.docs) == ["d1"] and names[0] == "d1" and {"d3", "d5"} <= set(names)


def test_first_stage_model_is_the_model_of_the_second_search(tiny):
    query, candidates = first(tiny, "water tap", DirichletModel(100.0))
    reranker = pert(tiny, alpha=1e-9)
    again = reranker.apply(query, candidates, context(DirichletModel(100.0)))
    np.testing.assert_array_equal(again.docs[: candidates.depth], candidates.docs)
    np.testing.assert_allclose(again.scores[: candidates.depth], candidates.scores / sum(query.weights), rtol=1e-5)


@pytest.mark.parametrize("text", ["water", "unheardof water", "water tap washer fuse panel breaker"])
def test_queries_of_any_length_expand(tiny, text):
    query, candidates = first(tiny, text)
    reranker = pert(tiny)
    better = reranker.apply(query, candidates, context())
    assert better.depth >= candidates.depth and np.isfinite(better.scores).all() and not better.fallbacks


@pytest.mark.parametrize("text", ["", "the of", "unheardof"])
def test_queries_without_documents_are_kept_and_counted(tiny, text):
    query, candidates = first(tiny, text)
    reranker = pert(tiny)
    after = reranker.apply(query, candidates, context())
    assert after.depth == 0 and after.fallbacks == (("pert", "no document matches the query"),)


def test_no_usable_word_leaves_the_query_terms(tiny):
    query, candidates = first(tiny, "water tap")
    expansion = pert(tiny, max_df=0.0).expansion(query, candidates)
    assert expansion.words == ("water", "tap")


def test_batches_equal_single_queries(tiny):
    texts = ["water tap", "unheardof", "fuse", "new washer"]
    queries = tiny.lucene.queries(texts)
    lists = tiny.lucene.search(queries, 100)
    together = pert(tiny).apply_batch(queries, lists, context())
    for query, candidates, batched in zip(queries, lists, together, strict=True):
        same(pert(tiny).apply(query, candidates, context()), batched)


def test_bad_options_are_named(tiny):
    with pytest.raises(OptionError, match=r"pert_kappa: inf is"):
        pert(tiny, kappa=float("inf"))
    with pytest.raises(OptionError, match=r"pert_alpha: 1.5 is above 1"):
        pert(tiny, alpha=1.5)


def test_search_verb_returns_as_many_documents_as_were_asked_for(tiny_path, tmp_path):
    topics, run = tmp_path / "topics.tsv", tmp_path / "run.txt"
    topics.write_text("1\tdripping\n2\tunheardof\n")
    flags = ["--index", str(tiny_path), "--topics", str(topics), "--output", str(run), "--rerank", "pert", "--pert.max-df", "1"]
    search_verb.main([*flags, "--hits", "2"])
    assert len(read_run(run)["1"]) == 2  # the first stage finds one
    search_verb.main(flags)
    assert len(read_run(run)["1"]) > 2


def test_explanation_sums_to_the_score_of_the_list(tiny):
    query, candidates = first(tiny, "water tap")
    reranker = pert(tiny)
    better = reranker.apply(query, candidates, context())
    for doc, score in zip(better.docs.tolist(), better.scores.tolist(), strict=True):
        explanation = reranker.explain(query, candidates, doc)
        assert explanation.score == pytest.approx(score, rel=1e-6)
        assert sum(part.value for part in explanation.contributions) == pytest.approx(explanation.score)
        for block in explanation.contributions:
            assert sum(part.value for part in block.parts) == pytest.approx(block.value)


def test_explanation_says_where_a_word_comes_from(tiny):
    query, candidates = first(tiny, "dripping")
    explanation = pert(tiny, terms=10).explain(query, candidates, int(candidates.docs[0]))
    records = {record["word"]: record for record in explanation.notes["words"]}
    assert records["washer"]["documents"] == ["d1"] and not records["washer"]["query_term"]
    assert records["drip"]["query_term"] and records["drip"]["choice"] >= 0.95
    assert 0 < records["washer"]["relevance"] <= 1 and records["washer"]["risk"] > 0
    assert explanation.notes["expanded_query"]["drip"] > 0.5
    assert any("from d1" in line and "washer" in line for line in explanation.lines())


def test_sources_of_a_word_are_ordered_by_its_share_of_their_text(tiny):
    """Equal weights and counts: the word is a larger share of the shorter document."""
    forward = tiny.forward
    for term in range(len(forward.terms)):
        counts = forward.term_frequencies(np.arange(len(forward)), np.array([term]))[:, 0]
        docs = np.flatnonzero(counts == 1)
        if len(docs) > 1 and len(set(forward.lengths[docs].tolist())) == len(docs):
            break
    else:
        raise AssertionError("no word is in documents of different lengths")
    ones = np.ones(1)
    for order in (docs, docs[::-1]):
        expansion = SimpleNamespace(docs=order, terms=np.array([term]), document_weights=np.full(len(docs), 1 / len(docs)),
                                    words=[forward.terms[term]], query_terms=0, p=ones, gain=ones, weights=ones,
                                    choice=SimpleNamespace(x=ones, risk=ones))  # fmt: skip
        record = word_records(forward, expansion, np.zeros(1, dtype=np.int64))[0]
        shortest = docs[np.argsort(forward.lengths[docs])]
        expected = [forward.docids[int(doc)] for doc in shortest]
        assert record.documents == expected[: len(record.documents)] and len(record.documents) > 1


def test_explanation_tells_the_coordinates_that_are_drawn(tiny):
    query, candidates = first(tiny, "water tap")
    reranker = pert(tiny)
    explanation = reranker.explain(query, candidates, int(candidates.docs[0])).notes
    points, axes = plane(reranker.expansion(query, candidates))
    assert explanation["axes"] == list(axes) == ["change without 'water'", "change without 'tap'"]
    assert [[word["x"], word["y"]] for word in explanation["words"]] == points.tolist()


@pytest.mark.parametrize(("text", "suffix"), [("water", "svg"), ("water washer", "png"), ("water tap washer fuse", "svg")])
def test_pictures_are_drawn(tiny, tmp_path, text, suffix):
    query, candidates = first(tiny, text)
    path = tmp_path / f"words.{suffix}"
    reranker = pert(tiny, terms=12)
    reranker.plot(query, candidates, None, path)
    if suffix == "svg":
        drawn = set(re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8")))
        assert set(reranker.expansion(query, candidates).words) <= drawn
    else:
        assert path.read_bytes().startswith(b"\x89PNG")


def test_labels_do_not_overlap():
    from matplotlib.figure import Figure

    rng = np.random.default_rng(0)
    points = np.vstack([rng.normal(size=(20, 2)), np.zeros((10, 2))])  # ten words on one spot
    axis = Figure(figsize=(7, 5), dpi=100).subplots()
    axis.scatter(*points.T)
    labels = [f"word{number}" for number in range(30)]
    boxes = place_labels(axis, points, np.full(30, 4.0), labels, bold=np.zeros(30, dtype=bool), order=np.arange(30))
    overlapping = [(i, j) for i in range(30) for j in range(i) if boxes[i].overlaps(boxes[j])]
    assert not overlapping


def test_the_query_is_mixed_by_its_own_weights(tiny):
    """(1 - α) w / Σw of the query's terms, a repeated one counts twice, plus α times the expansion."""
    query, candidates = first(tiny, "water water tap")
    assert query.weights == (2.0, 1.0)
    expansion = pert(tiny).expansion(query, candidates)
    own = dict(zip(expansion.words, expansion.weights.tolist(), strict=True))
    for alpha in (0.0, 0.25, 1.0):
        mixed = expansion.mixed(alpha)
        expected = {word: alpha * weight for word, weight in own.items()}
        expected["water"] += (1 - alpha) * 2 / 3
        expected["tap"] += (1 - alpha) / 3
        assert dict(zip(mixed.terms, mixed.weights, strict=True)) == pytest.approx(
            {word: weight for word, weight in expected.items() if weight > 0}
        )


def test_weights_are_the_choice_times_the_relevance_model_and_risks_sum_to_the_programs(demo_index):
    query = demo_index.query("dripping tap washer")
    listed = demo_index.lucene.search([query], 100)[0]
    expansion = PerturbationReranker(demo_index, kappa=0.3).expansion(query, listed, context())
    choice, p, quadratic = expansion.choice.x, expansion.p, expansion.choice.quadratic
    assert choice.min() < 0.999  # the program takes a part of some terms
    assert expansion.weights == pytest.approx(choice * p / (choice * p).sum())
    assert expansion.choice.risk == pytest.approx([x * (row @ choice) / 2 for x, row in zip(choice, quadratic, strict=True)])
    assert expansion.choice.risk.sum() == pytest.approx(choice @ quadratic @ choice / 2)
    largest = p[expansion.query_terms :].max()
    assert expansion.gain == pytest.approx([min(1.0, value / largest) for value in p]) and p.max() > largest


def test_records_and_groups_of_an_explanation(demo_index):
    """Documents of a word by their weight times its share of their text, three at most; groups are named by their heaviest
    word; terms of the query and added words by what they add."""
    forward = demo_index.forward
    query = demo_index.query("dripping tap washer")
    listed = demo_index.lucene.search([query], 100)[0]
    reranker = PerturbationReranker(demo_index, docs=6)
    expansion = reranker.expansion(query, listed, context())
    explanation = reranker.explain(query, listed, int(listed.docs[1]), context())
    records = explanation.notes["words"]
    assert [record["word"] for record in records] == list(expansion.words)
    assert [record["query_term"] for record in records] == [number < 3 for number in range(len(records))]
    scores = listed.scores[:6].astype(float)
    weights = np.exp(scores / 5.0) / np.exp(scores / 5.0).sum()
    counts = [Counter(forward.tokens(int(doc)).tolist()) for doc in listed.docs[:6]]
    for record, term in zip(records, expansion.terms.tolist(), strict=True):
        shares = [weights[row] * counts[row][term] / forward.lengths[listed.docs[row]] for row in range(6)]
        best = [row for row in sorted(range(6), key=lambda row: -shares[row]) if counts[row][term]][:3]
        assert record["documents"] == forward.docids.take(listed.docs[best])
    assert max(len(record["documents"]) for record in records) == 3
    own, *added = explanation.contributions
    assert own.label == "the query's terms" and {part.label for part in own.parts} == set(query.terms)
    for block in explanation.contributions:
        values = [part.value for part in block.parts]
        assert values == sorted(values, reverse=True)
    by_word = {record["word"]: record for record in records}
    for block in added:
        group = by_word[block.parts[0].label]["group"]
        assert {by_word[part.label]["group"] for part in block.parts} == {group}
        heaviest = max((record for record in records if record["group"] == group), key=lambda record: record["weight"])
        assert block.label == f"added words of group {group} ({heaviest['word']})"
    assert len(added) > 1 and all(part.value > 0 for block in added for part in block.parts)


def test_the_first_term_of_the_vocabulary_is_a_term(tiny):
    word = tiny.forward.terms[0]
    query = Query("", (word, "unheardof", "water"), (1.0, 1.0, 1.0), "q")
    candidates = tiny.lucene.search([query], 100)[0]
    reranker = pert(tiny)
    expansion = reranker.expansion(query, candidates)
    assert expansion.words[:2] == (word, "water") and expansion.query_terms == 2 and expansion.choice.coordinates.shape[1] == 2
    assert reranker.expander.needs_single_terms(query)


def test_a_query_of_weightless_terms_is_kept(tiny):
    query, candidates = first(tiny, "water tap")
    weightless = Query("", query.terms, (0.0, 0.0), "q")
    after = pert(tiny).apply(weightless, candidates, context())
    same(after, candidates)
    assert after.fallbacks == (("pert", "no document matches the query"),)


def test_without_a_weight_of_the_expansion_there_is_nothing_to_explain(tiny):
    """The list is the first stage's, whose scores are not those of the scaled query."""
    with pytest.raises(InputError, match=r"keeps the first stage's list.*alpha is 0"):
        tiny.explain("tap water tap", rerank="pert", pert_alpha=0.0)
