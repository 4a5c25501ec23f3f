"""Robust BM25 as printed, and the baselines: on the bundled collection and, by their formulas, on a few documents."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from kernelsearch.clicks.importing import import_records
from kernelsearch.clicks.records import Impression, Tally
from kernelsearch.core.errors import OptionError
from kernelsearch.kernels.queries import NgramCosine, Queries, TermCosine, click_correlation
from kernelsearch.papers.rbm25.reranker import BM25Cosine, PrintedRobustBM25, union_correlation
from kernelsearch.rerankers import registry
from tests.conftest import DEMO
from tests.rerankers.test_rbm25 import QUERIES, database, docids, first_stage
from tests.rerankers.test_rbm25_parts import (
    LISTS_SHOWN,
    TEXTS,
    check_explanation,
    clicks,
    found,
    index,
    listed,
    lucene_scores,
)

__all__ = ["clicks", "database", "index"]  # fixtures


@pytest.mark.parametrize("form", ["prior", "paper"])
def test_an_explanation_names_what_each_similar_query_and_document_adds(index, clicks, form):
    check_explanation(index, PrintedRobustBM25(index, clicks=clicks, form=form))


def test_documents_lead_to_queries_that_share_no_word(demo_index, database):
    """Without borrowing what the query retrieves, the list stays as it was."""
    alone = PrintedRobustBM25(demo_index, clicks=database, borrowed=0)
    queries, lists = first_stage(demo_index, ["herringbone"])
    after = alone.apply(queries[0], lists[0])
    assert docids(demo_index, after) == docids(demo_index, lists[0])
    assert after.fallbacks == (("rbm25-paper", "no similar query in the click log"),)


@pytest.mark.parametrize("weight", ["click_weight", "ngram_weight", "term_weight", "bm25_weight"])
def test_one_query_kernel_is_enough(tiny, tmp_path, weight):
    import_records([Tally("tap", "d1", 1, 0, 1.0), Tally("fuse", "d3", 1, 0, 1.0)], tmp_path / "c.db")
    none = {"clicks": str(tmp_path / "c.db"), "click_weight": 0, "ngram_weight": 0, "term_weight": 0}
    with pytest.raises(OptionError, match="at least one must be above 0"):
        PrintedRobustBM25(tiny, **none)
    assert len(PrintedRobustBM25(tiny, **{**none, weight: 0.25}).similar.find([tiny.query("tap")], 5)[0].ids) == 1


def test_a_large_prior_gives_bm25_back_and_the_printed_form_does_not(demo_index, database):
    queries, lists = first_stage(demo_index, QUERIES[:4], 20)
    with_prior = PrintedRobustBM25(demo_index, clicks=database, form="prior", prior=1e6)
    printed = PrintedRobustBM25(demo_index, clicks=database, form="paper")
    results = zip(queries, lists, with_prior.apply_batch(queries, lists), printed.apply_batch(queries, lists), strict=True)
    for query, before, after, other in results:
        assert (np.diff(with_prior.bm25_of_all([query], after.docs)[0]) < 1e-3).all()
        assert other.docs[: before.depth].tolist() != before.docs.tolist()


@pytest.mark.parametrize("name", ["clicks", "union", "ngrams", "terms", "bm25"])
def test_each_query_kernel_alone_and_its_weight_in_a_sum(demo_index, database, name):
    """k_Q and its Gram matrix are those of the kernel itself; a sum has every part with its weight."""
    none = {"click_weight": 0.0, "ngram_weight": 0.0, "term_weight": 0.0, "bm25_weight": 0.0, "min_similarity": 0.0}
    option = {"clicks": "click_weight", "union": "click_weight", "ngrams": "ngram_weight", "terms": "term_weight"}
    options = {**none, option.get(name, "bm25_weight"): 2.0, "union_pearson": name == "union", "clicks": database}
    near = PrintedRobustBM25(demo_index, **options).similar
    similar = near.find(demo_index.lucene.queries(["dripping tap"]), 8)[0]
    both = [*demo_index.lucene.queries(["dripping tap"]), *similar.queries]
    ids = np.concatenate([near.log.query_ids(["dripping tap"]), similar.ids])
    batch = Queries.make(both, near.vocabulary, near._clicks(ids))
    if name in ("clicks", "union"):
        expected = 2.0 * {"clicks": click_correlation, "union": union_correlation}[name](batch.clicks, batch.clicks)
    else:
        features = {"ngrams": NgramCosine, "terms": TermCosine, "bm25": BM25Cosine}[name]().features(batch)
        expected = 2.0 * (features @ features.T).toarray()
    assert similar.kernel == pytest.approx(expected[0, 1:]) and similar.gram == pytest.approx(expected[1:, 1:])
    assert len(similar.ids) > 1 and similar.kernel[0] == pytest.approx(2.0)


def test_a_log_of_clicks_alone_is_compared_with_what_was_retrieved(tiny, tmp_path):
    import_records([Tally("dripping faucet", "d2", 5, 0, 1.0), Tally("blown fuse", "d3", 5, 0, 1.0)], tmp_path / "c.db")
    reranker = PrintedRobustBM25(tiny, clicks=str(tmp_path / "c.db"), form="paper")
    queries, lists = first_stage(tiny, ["dripping"])
    assert docids(tiny, lists[0]) == ["d1"]
    assert docids(tiny, reranker.apply(queries[0], lists[0]))[0] == "d2"


def test_ties_do_not_depend_on_the_threads_of_blas(demo_index, database):
    reranker = registry.method("pairwise").make(demo_index, clicks=database)
    texts = [line.split("\t")[1] for line in (DEMO / "variants.tsv").read_text(encoding="utf-8").splitlines()[25:50]]
    runs = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            runs.append([listed.docs.tolist() for listed in reranker.apply_batch(*first_stage(demo_index, texts))])
    assert runs[0] == runs[1]


def test_blanks_do_not_make_another_query(tiny, tmp_path):
    import_records([Impression("dripping tap", ("d1", "d2"), (1, 2), (True, False))], tmp_path / "blanks.db")
    reranker = registry.method("substitution").make(tiny, clicks=str(tmp_path / "blanks.db"))
    for text in ("dripping tap", " Dripping   TAP "):
        query = tiny.query(text)
        ranked = reranker.apply(query, tiny.lucene.search([query], 10)[0])
        assert ranked.fallbacks == (("substitution", "no other query in the click log is similar"),)
    assert reranker.apply_batch([], []) == []


@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("text", ["pump seal", "garden pump roof", "pumpp"])
def test_the_click_prior_is_scaled_bm25_plus_weighted_shares_of_clicks(index, clicks, weight, text):
    """Σ k_Q times the share of a similar query's clicks; documents that the index lacks count in the share."""
    reranker = registry.method("clickprior").make(index, clicks=clicks, weight=weight)
    query, candidates = listed(index, text)
    similar, retrieved = found(reranker, query, candidates)
    counts = {near.text: {} for near in similar.queries}
    for item in LISTS_SHOWN:
        for docid, clicked in zip(item.docids, item.clicked, strict=True):
            if clicked and item.query in counts:
                counts[item.query][docid] = counts[item.query].get(docid, 0) + 1
    scores = lucene_scores(index, text)
    expected = scores / scores.max() if scores.any() else scores
    merged = {*candidates.docs.tolist(), *(doc for lists in retrieved for doc in lists.docs.tolist())}
    for near, kernel in zip(similar.queries, similar.kernel.tolist(), strict=True):
        for docid, number in counts[near.text].items():
            if docid in TEXTS:
                row = int(index.forward.rows_of([docid])[0])
                expected[row] += weight * kernel * number / sum(counts[near.text].values())
                merged.add(row)
    ranked = reranker.apply(query, candidates)
    assert len(similar.ids) and set(ranked.docs.tolist()) == merged
    assert ranked.scores == pytest.approx(expected[ranked.docs], rel=1e-5)


@pytest.mark.parametrize("text", ["pump seal", "PUMP seal roof", "seal gasket drips tiles"])
def test_substitution_is_the_other_querys_list_then_the_own_documents_in_their_order(index, clicks, text):
    reranker = registry.method("substitution").make(index, clicks=clicks)
    query, candidates = listed(index, text)
    similar, retrieved = found(reranker, query, candidates)
    number = next(number for number, near in enumerate(similar.queries) if near.text != text.lower())
    assert (number == 1) == (text == "pump seal")
    other, own = lucene_scores(index, similar.queries[number].text), lucene_scores(index, text)
    docs = sorted({*candidates.docs.tolist(), *retrieved[number].docs.tolist()})
    expected = {doc: other[doc] if other[doc] > 0 else own[doc] / (1 + own[docs].max()) - 1 for doc in docs}
    ranked = reranker.apply(query, candidates)
    assert dict(zip(ranked.docs.tolist(), ranked.scores.tolist(), strict=True)) == pytest.approx(expected, rel=1e-5)
    assert (min(expected.values()) < 0) == (text != "pump seal") and max(expected.values()) > 0


def test_the_prior_form_weights_bm25_by_its_option_and_the_printed_one_not_at_all(index, clicks):
    query, candidates = listed(index, "pump seal")
    for form, prior, expected in (("paper", 3.0, 0.0), ("prior", 3.0, 3.0), ("prior", 0.25, 0.25)):
        reranker = PrintedRobustBM25(index, clicks=clicks, form=form, prior=prior)
        assert reranker.learn(*found(reranker, query, candidates)).weight == expected
