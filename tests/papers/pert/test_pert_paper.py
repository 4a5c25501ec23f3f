"""The `pert-paper` method: what its options do, that its shortcuts equal the long way, and where it keeps the list."""

from collections import Counter

import numpy as np
import pytest

from kernelsearch import explain
from kernelsearch.api.spec import PipelineSpec
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Query
from kernelsearch.kernels.perturbation import variant_scores
from kernelsearch.kernels.ranking_models import first_stage_term_scores
from kernelsearch.lucene.models import RM3, BM25Model, DirichletModel
from kernelsearch.papers.pert.kernels import perturbations
from kernelsearch.papers.pert.reranker import PaperPerturbationReranker
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.pert.reranker import PerturbationReranker
from kernelsearch.trec import read_qrels, read_topics
from tests.rerankers.test_pert import MODELS, context, first, same


def pert(index, **options):
    """The method with settings fit for six documents, where any word is in more than a tenth of them."""
    return PaperPerturbationReranker(index, **{"max_df": 1.0, "docs": 2, "terms": 4, **options})


@pytest.mark.parametrize("model", MODELS)
def test_additive_variants_equal_separate_retrievals(tiny, model):
    query, candidates = first(tiny, "water water washer panel", model)
    terms = tiny.forward.term_ids(query.terms)
    parts = first_stage_term_scores(tiny.forward, model, terms, query.weights, candidates.docs)
    for strategy in ("loo", "tat", "dirichlet"):
        multipliers = perturbations(strategy, len(query.terms))
        scores = variant_scores(candidates.scores.astype(float), parts, multipliers)
        for row, multiplier in zip(scores, multipliers, strict=True):
            multiplied = [(t, w * m) for t, w, m in zip(query.terms, query.weights, multiplier, strict=True) if m > 0]
            variant = Query("", tuple(t for t, _ in multiplied), tuple(w for _, w in multiplied))
            alone = tiny.lucene.search([variant], 100, model=model)[0]
            expected = dict(zip(alone.docs.tolist(), alone.scores.tolist(), strict=True))
            retrieved = {
                doc: score for doc, score in zip(candidates.docs.tolist(), row.tolist(), strict=True) if np.isfinite(score)
            }
            assert retrieved.keys() == {doc for doc, score in expected.items() if score > 0}
            for doc, score in retrieved.items():
                assert score == pytest.approx(expected[doc], abs=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_rescoring_gives_the_scores_of_the_second_search(tiny, model):
    query, candidates = first(tiny, "water washer", model)
    searching, rescoring = pert(tiny), pert(tiny, rescore=True)
    again, rescored = (reranker.apply(query, candidates, context(model)) for reranker in (searching, rescoring))
    assert sorted(rescored.docs) == sorted(candidates.docs)
    expected = dict(zip(again.docs.tolist(), again.scores.tolist(), strict=True))
    np.testing.assert_allclose(rescored.scores, [expected[doc] for doc in rescored.docs.tolist()], rtol=1e-6)


def test_one_term_queries_compare_with_the_collection(tiny):
    query, candidates = first(tiny, "water")
    left_out = pert(tiny).expansion(query, candidates)
    assert left_out.choice.coordinates.shape[1] == 1 and np.abs(left_out.choice.coordinates).max() > 0.01
    alone = pert(tiny, strategy="tat").expansion(query, candidates)
    np.testing.assert_allclose(alone.choice.coordinates, 0.0, atol=1e-7)  # the only variant is the query itself


def test_two_term_queries_do_not_depend_on_the_strategy(tiny):
    query, candidates = first(tiny, "water washer")
    loo, tat = (pert(tiny, strategy=strategy).expansion(query, candidates) for strategy in ("loo", "tat"))
    np.testing.assert_allclose(loo.choice.coordinates, tat.choice.coordinates[:, ::-1], atol=1e-9)
    np.testing.assert_allclose(loo.weights, tat.weights, atol=1e-9)


def test_infeasible_programs_keep_the_first_stage_and_are_counted(tiny):
    query, candidates = first(tiny, "water tap")
    reranker = pert(tiny, coverage=50.0, budget=0.1)
    after = reranker.apply(query, candidates, context())
    same(after, candidates)
    assert after.fallbacks == (("pert-paper", "the expansion program's constraints contradict each other"),)


def test_rm3_is_the_relevance_model_by_hand(tiny):
    """Σ_d s_d/Σs · tf/(tf of the document's 3 most frequent words), 3 words of it, half of the weight beside the query's."""
    query, candidates = first(tiny, "water tap")
    expanded = pert(tiny, method="rm3", docs=2, terms=3, weighting="score", alpha=0.5).expanded(query, candidates)
    order = {word: number for number, word in enumerate(tiny.forward.terms.take(np.arange(len(tiny.forward.terms))))}
    model = Counter()
    for doc, score in zip(candidates.docs[:2], candidates.scores[:2], strict=True):
        words = Counter(tiny.forward.terms[int(term)] for term in tiny.forward.tokens(int(doc)) if term >= 0)
        top = sorted((word for word in words if len(word) > 1), key=lambda word: (-words[word], order[word]))[:3]
        for word in top:
            model[word] += float(score / candidates.scores[:2].sum()) * words[word] / sum(words[word] for word in top)
    best = sorted(model, key=lambda word: (-round(model[word], 9), order[word]))[:3]
    total = sum(model[word] for word in best)
    expected = Counter({"water": 0.25, "tap": 0.25})
    for word in best:
        expected[word] += 0.5 * model[word] / total
    assert dict(zip(expanded.terms, expanded.weights, strict=True)) == pytest.approx(dict(expected))


def test_rm3_without_rare_words_keeps_the_list(tiny):
    query, candidates = first(tiny, "fuse fault")
    ours = pert(tiny, method="rm3", docs=1, terms=3, weighting="score", max_df=0.1)
    after = ours.apply(query, candidates, context())
    assert after.docs.tolist() == candidates.docs.tolist()
    assert after.fallbacks == (("pert-paper", "the feedback documents have no usable word"),)


def test_rm1_forgets_the_query(tiny):
    query, candidates = first(tiny, "breaker")
    expanded = pert(tiny, method="rm1", docs=1, terms=20).expanded(query, candidates)
    assert dict(zip(expanded.terms, expanded.weights, strict=True))["panel"] == pytest.approx(
        2 / tiny.forward.lengths[candidates.docs[0]]
    )


@pytest.mark.parametrize("name", ["gamma", "kappa", "balance", "coverage", "budget", "temperature"])
def test_infinite_options_are_refused(tiny, name):
    with pytest.raises(OptionError, match=rf"pert.paper_{name}: inf is"):
        pert(tiny, **{name: float("inf")})


def test_term_at_a_time_reads_each_terms_own_best_documents(demo_index):
    """The kernel of Eq. 4 from lists of every term alone over all documents; neither the pool nor the way of asking matters."""
    forward = demo_index.forward
    queries = demo_index.lucene.queries(["dripping tap washer", "cold radiator in the hall"], ["1", "2"])
    lists = demo_index.lucene.search(queries, 300)
    reranker = PaperPerturbationReranker(demo_index, strategy="tat", docs=3, pool=1, smoothing=0.1, denominator="p")
    everything = np.arange(len(forward), dtype=np.int32)
    for query, listed in zip(queries, lists, strict=True):
        candidates = reranker.expansion(query, listed, context())
        counts = forward.term_frequencies(everything, candidates.terms) / np.maximum(forward.lengths, 1)[:, None]
        collection = forward.cf[candidates.terms] / forward.cf.sum()

        def model(scores, counts=counts, collection=collection):
            best = np.lexsort((everything, -scores))[:3]
            weights = np.exp(scores[best] / 5.0)
            return 0.9 * (weights / weights.sum()) @ counts[best] + 0.1 * collection

        parts = first_stage_term_scores(forward, BM25Model(), forward.term_ids(query.terms), query.weights, everything).astype(
            float
        )
        base = model(parts.sum(axis=1))
        variants = np.array([model(part) for part in parts.T])
        phi = (np.sqrt(variants) - np.sqrt(base)) / (np.sqrt(len(variants)) * base)
        expected = ((phi[:, :, None] - phi[:, None, :]) ** 2).sum(axis=0)
        assert candidates.choice.apart == pytest.approx(expected, rel=1e-4, abs=1e-8)
    for query, listed, result in zip(queries, lists, reranker.apply_batch(queries, lists, context()), strict=True):
        same(result, demo_index.lucene.search([reranker.expanded(query, listed, context())], 100)[0])


def test_the_kernel_is_the_perturbation_kernel_and_pool_bounds_it(demo_index):
    query = demo_index.query("dripping tap washer kitchen")
    listed = demo_index.lucene.search([query], 300)[0]
    made = [
        PaperPerturbationReranker(demo_index, **options).expansion(query, listed, context()).choice.apart
        for options in ({}, {"kernel": "jaccard"}, {"pool": 10}, {"kernel": "random"})
    ]
    assert not np.allclose(made[1], made[3], atol=1e-3)
    assert not np.allclose(made[0], made[1], atol=1e-3) and not np.allclose(made[0], made[2], atol=1e-6)


@pytest.mark.collections
@pytest.mark.parametrize("name", ["cran", "cisi"])
def test_rm3_agrees_with_anserini_at_its_defaults(collections, collection_index, name):
    index = collection_index(name)
    topics, qrels = read_topics(collections / name / "topics.tsv"), read_qrels(collections / name / "qrels.txt")
    judged = [qid for qid in topics if qid in qrels]
    queries = index.lucene.queries([topics[qid] for qid in judged], judged)
    lists = index.lucene.search(queries, 1000)
    reranker = PaperPerturbationReranker(index, method="rm3", docs=10, terms=10, alpha=0.5, weighting="score")
    ours = reranker.apply_batch(queries, lists, Context(hits=1000))
    theirs = index.lucene.search(queries, 1000, feedback=RM3())

    def mean_average_precision(listed):
        values = []
        for qid, candidates in zip(judged, listed, strict=True):
            relevant = [docid for docid, grade in qrels[qid].items() if grade > 0]
            places = np.flatnonzero(np.isin(candidates.docs, index.forward.rows_of(relevant)))
            values.append(float((np.arange(1, len(places) + 1) / (places + 1)).sum() / len(relevant)) if relevant else 0.0)
        return np.mean(values)

    assert mean_average_precision(ours) == pytest.approx(mean_average_precision(theirs), abs=0.002)


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_terms_are_explained_in_as_many_groups_as_asked_for(tiny, groups):
    query, candidates = first(tiny, "water tap")
    notes = pert(tiny, terms=10, groups=groups).explain(query, candidates, int(candidates.docs[0])).notes
    assert {record["group"] for record in notes["words"]} == set(range(1, groups + 1))


def test_saved_queries_give_the_same_lists(tiny, tmp_path):
    queries = tiny.lucene.queries(["water tap", "fuse"], ["1", "2"])
    lists = tiny.lucene.search(queries, 100)
    file = tmp_path / "expanded.jsonl"
    saving = pert(tiny, save_queries=str(file))
    made = [
        saving.apply(query, candidates, context()) for query, candidates in zip(queries, lists, strict=True)
    ]  # two batches, one file
    reading = pert(tiny, queries=str(file))
    for expected, result in zip(made, reading.apply_batch(queries, lists, context()), strict=True):
        same(result, expected)
    assert reading.explain(queries[1], lists[1], int(lists[1].docs[0])).score == pytest.approx(
        float(made[1].scores[0]), rel=1e-6
    )
    query, candidates = first(tiny, "washer")
    after = reading.apply(query, candidates, context())
    same(after, candidates)
    assert after.fallbacks == (("pert-paper", "the file of queries has no expanded query for it"),)


@pytest.mark.parametrize("terms", ["{}", '{"tap": 0}'])
def test_an_expanded_query_without_a_term_keeps_the_list(tiny, tmp_path, terms):
    (tmp_path / "q.jsonl").write_text(f'{{"qid": "7", "terms": {terms}}}\n')
    kept = tiny.search_batch({"7": "water tap"}, {"pert-paper": {"queries": str(tmp_path / "q.jsonl")}})["7"]
    assert kept.docids == tiny.search("water tap").docids
    assert "has no term with a weight above 0 for it" in kept.fallbacks[0][1]


def test_queries_are_printed(tiny, capsys):
    query, candidates = first(tiny, "fuse")
    pert(tiny, save_queries="-").apply(query, candidates, context())
    assert capsys.readouterr().out.startswith('{"qid": "q", "query": "fuse", "terms": {"fuse": 0.')


def test_given_perturbations(tiny, tmp_path):
    query, candidates = first(tiny, "water washer")
    file = tmp_path / "perturbations.tsv"
    file.write_text("q\t0 1\nq\t1 0\n")
    own, loo = pert(tiny, perturbations=str(file)).expansion(query, candidates), pert(tiny).expansion(query, candidates)
    np.testing.assert_allclose(
        own.choice.coordinates, loo.choice.coordinates, rtol=1e-4, atol=1e-9
    )  # Lucene sums in single precision
    file.write_text("q\t0 1 1\n")
    with pytest.raises(InputError, match=r"query q has 2 terms \(water washer\), 3 weights were given"):
        pert(tiny, perturbations=str(file)).apply(query, candidates, context())
    file.write_text("q\t0 -1\n")
    with pytest.raises(InputError, match=r"perturbations.tsv:1: not a qid, a tab and weights of zero or more"):
        pert(tiny, perturbations=str(file))
    file.write_text("other\t1 0\n")
    after = pert(tiny, perturbations=str(file)).apply(query, candidates, context())
    same(after, candidates)
    assert after.fallbacks == (("pert-paper", "the file of perturbations has no weights for the query"),)


def test_pictures_need_coordinates(tiny, tmp_path):
    query, candidates = first(tiny, "water")
    with pytest.raises(OptionError, match="has coordinates to draw"):
        pert(tiny, kernel="jaccard").plot(query, candidates, None, tmp_path / "words.png")


def test_the_jaccard_kernel_compares_the_feedback_documents_of_words(tiny):
    """1 - |A ∩ B| / |A ∪ B| of the feedback documents that contain two words."""
    query, candidates = first(tiny, "water tap")
    expansion = pert(tiny, kernel="jaccard", terms=12, docs=2).expansion(query, candidates)
    texts = [
        set(tiny.forward.terms.take(tiny.forward.tokens(int(doc))[tiny.forward.tokens(int(doc)) >= 0]))
        for doc in expansion.docs
    ]
    inside = [{number for number, text in enumerate(texts) if word in text} for word in expansion.words]
    expected = [[1 - len(a & b) / len(a | b) for b in inside] for a in inside]
    assert expansion.choice.apart == pytest.approx(np.array(expected), abs=1e-9) and len(texts) == 2
    assert {0.0, 0.5, 1.0} <= set(np.round(expansion.choice.apart, 9).ravel().tolist())


@pytest.mark.parametrize("method", ["rm3", "rm1", "lca"])
def test_words_of_a_relevance_model_are_none_of_the_querys_own(tiny, method):
    query, candidates = first(tiny, "water tap")
    reranker = pert(tiny, method=method, terms=3)
    expansion = reranker.expansion(query, candidates)
    assert expansion.query_terms == 0 and len(expansion.words) == 3
    records = reranker.explain(query, candidates, int(candidates.docs[0])).notes["words"]
    assert not any(record["query_term"] for record in records)


def test_words_of_expanded_queries_from_a_file_are_one_group(tiny, tmp_path):
    query, candidates = first(tiny, "dripping")
    saving = pert(tiny, terms=10, save_queries=str(tmp_path / "q.jsonl"))
    saving.apply(query, candidates, context())
    explanation = pert(tiny, queries=str(tmp_path / "q.jsonl")).explain(query, candidates, int(candidates.docs[0]))
    assert [part.label for part in explanation.contributions] == ["the query's terms", "added words"]
    assert all(part.detail.startswith("weight 0.") for part in explanation.contributions[1].parts)


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"strategy": "tat"}, ["water", "water tap", "water tap fuse"]),
        ({"strategy": "tat", "kernel": "gram"}, ["water", "water tap", "water tap fuse"]),
        ({"strategy": "loo"}, ["water tap"]),  # without one of two terms there is the other one
        ({"strategy": "dirichlet"}, []),
        ({"strategy": "tat", "kernel": "jaccard"}, []),
        ({"strategy": "tat", "method": "rm3-all"}, []),
    ],
)
def test_lists_of_single_terms_are_made_where_they_are_variants(tiny, options, needed):
    expander = pert(tiny, **options).expander
    texts = ["water", "water tap", "water tap fuse"]
    assert [text for text in texts if expander.needs_single_terms(tiny.query(text))] == needed
    assert [text for text in texts if expander.needs_single_terms(tiny.query(f"{text} unheardof"))] == needed


def test_rows_of_perturbations_have_one_length_per_query(tiny, tmp_path):
    file = tmp_path / "perturbations.tsv"
    file.write_text("q\t0 1\n\nr\t1 0 2\nq\t1 0 1\n")
    with pytest.raises(InputError, match=r"perturbations.tsv:4: 3 weights where query q had 2 before"):
        pert(tiny, perturbations=str(file))
    file.write_text("\n")
    with pytest.raises(InputError, match=r"perturbations.tsv: holds no perturbation"):
        pert(tiny, perturbations=str(file))


def test_one_word_with_many_variants_has_a_place_in_the_plane(tiny):
    """No word of so small a collection is rare enough to be added: one word, eight variants, one component."""
    reranker = PaperPerturbationReranker(tiny, strategy="dirichlet")
    query = tiny.query("tap")
    candidates = tiny.lucene.search([query], 10)[0]
    (word,) = reranker.explain(query, candidates, int(candidates.docs[0])).notes["words"]
    assert word["word"] == "tap" and word["y"] == 0 and np.isfinite(word["x"])


def test_lists_of_single_terms_are_those_of_the_first_stages_model(tiny):
    query, _ = first(tiny, "water tap")
    model = DirichletModel(100.0)
    (lists,) = pert(tiny, strategy="tat", docs=5).single_terms([query], context(model))
    for term, listed in zip(query.terms, lists, strict=True):
        same(listed, tiny.lucene.search([Query(term, (term,), (1.0,))], 5, model=model)[0])


@pytest.mark.parametrize("options", [{"rescore": True}, {"method": "rm3"}, {"method": "rm3-all"}])
def test_alpha_0_returns_the_first_stage_exactly(tiny, options):
    query, candidates = first(tiny, "water tap")
    same(pert(tiny, alpha=0.0, **options).apply(query, candidates, context()), candidates)


@pytest.mark.parametrize("kernel", ["gram", "jaccard", "random"])
@pytest.mark.parametrize("text", ["water", "unheardof water", "water tap washer fuse panel breaker"])
def test_queries_of_any_length_expand_with_every_kernel(tiny, text, kernel):
    query, candidates = first(tiny, text)
    better = pert(tiny, kernel=kernel).apply(query, candidates, context())
    assert better.depth >= candidates.depth and np.isfinite(better.scores).all() and not better.fallbacks


def test_the_defaults_are_those_of_the_product(demo_index):
    queries = demo_index.lucene.queries(["dripping tap washer", "cold radiator", "tap", "leaking roof over the hall"])
    lists = demo_index.lucene.search(queries, 100)
    ours = PaperPerturbationReranker(demo_index).apply_batch(queries, lists, context())
    for result, expected in zip(ours, PerturbationReranker(demo_index).apply_batch(queries, lists, context()), strict=True):
        same(result, expected)


def test_without_a_solution_of_the_program_there_is_nothing_to_plot(demo_index, capsys, tmp_path):
    flags = ["--index", str(demo_index.path), "--rerank", "pert-paper", "--query", "dripping tap"]
    infeasible = ["--pert-paper.coverage", "50", "--pert-paper.budget", "0.1"]
    explain.main([*flags, *infeasible])
    assert "contradict each other" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"plot: pert-paper has nothing to plot for 'dripping tap': .*contradict each other"):
        explain.main([*flags, *infeasible, "--plot", str(tmp_path / "plot.svg")])


def test_the_product_says_where_its_other_options_are():
    ours, product = (registry.method(name) for name in ("pert-paper", "pert"))
    others = {option.name for option in ours.options} - {option.name for option in product.options}
    assert set(product.moved) == others and len(others) == 20
    with pytest.raises(OptionError, match=r"pert_save_queries: an option of pert-paper"):
        PipelineSpec.of(["pert"], [(("pert", "save-queries"), "-")])
