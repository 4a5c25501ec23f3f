"""Parts of Robust BM25 on a few documents, from their formulas: explanations, pairs, similar queries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

import kernelsearch
from kernelsearch.clicks.importing import import_records
from kernelsearch.clicks.records import Impression, Tally
from kernelsearch.clicks.store import ClickLog, Shown
from kernelsearch.core.types import Candidates, Query
from kernelsearch.neighbours import Neighbours
from kernelsearch.neighbours.sparse import LISTS
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.rbm25.evidence import click_evidence, examined
from kernelsearch.rerankers.rbm25.preference_pairs import preference_pairs
from kernelsearch.rerankers.rbm25.query_vectors import SavedQueryVectors
from kernelsearch.rerankers.rbm25.reranker import RobustBM25, _ranks
from kernelsearch.rerankers.rbm25.similar_queries import QueryKernel, Similar, SimilarQueries, validate
from tests.conftest import build_texts
from tests.rerankers.test_rbm25 import CLICK_METHODS

TEXTS = {
    "d0": "pump seal water tap",
    "d1": "pump seal garden",
    "d2": "pump water water hose",
    "d3": "seal gasket worn worn",
    "d4": "garden roof tiles pump",
    "d5": "roof tiles worn",
    "d6": "tap washer drips water",
    "d7": "hose pipe garden water",
}
LISTS_SHOWN = [
    Impression("pump seal", ("d0", "d3", "d4"), (1, 2, 3), (True, False, False)),
    Impression("pump seal", ("d3", "d0", "d1"), (1, 2, 3), (False, True, True)),
    Impression("pump water", ("d2", "d0", "d7"), (1, 2, 3), (True, False, False)),
    Impression("pumps seal", ("d1", "d4", "gone"), (1, 2, 3), (True, False, True)),
    Impression("roof tiles", ("d4", "d5"), (1, 2), (False, True)),
    Impression("garden pump", ("d1", "d4", "d7"), (1, 2, 3), (True, True, False)),
    Impression("pump hose", ("d2", "d7", "d0"), (1, 2, 3), (True, False, False)),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return kernelsearch.open(build_texts(tmp_path_factory.mktemp("parts"), TEXTS))


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    path = tmp_path_factory.mktemp("clicks") / "c.db"
    import_records(LISTS_SHOWN, path)
    return str(path)


def listed(index, text, hits=100):
    query = index.query(text)
    return query, index.lucene.search([query], hits)[0]


def found(reranker, query, candidates):
    """(similar queries, their lists)."""
    similar = reranker.similar.find([query], reranker.settings.similar, [candidates])[0]
    lists = reranker.retrieve([similar], Context())
    return similar, [lists[number] for number in similar.ids.tolist()]


def pairs_of(reranker, similar, retrieved, **options):
    """The preference pairs of similar queries, of clicked documents over shown ones."""
    return preference_pairs(reranker.log, reranker.similar.rows, similar.ids, retrieved, kind="shown", **options)


def lucene_scores(index, text):
    """Lucene's scores of all documents for a query, 0 where it does not list them."""
    _, candidates = listed(index, text)
    scores = np.zeros(len(index.forward))
    scores[candidates.docs] = candidates.scores
    return scores


def cosines(index):
    """Cosines of tf·idf vectors of all documents."""
    counts = index.forward.matrix().toarray()
    df = (counts > 0).sum(axis=0)
    vectors = counts * np.log(1 + (len(counts) - df + 0.5) / (df + 0.5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


@pytest.mark.parametrize("seed", range(3))
def test_the_nearest_queries_by_clicks_have_the_highest_correlations(index, tmp_path, seed):
    """Of the queries with a clicked document in common, by numpy's correlation over all documents of the log."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, (30, len(TEXTS))) * (rng.random((30, len(TEXTS))) < 0.35)
    records = [
        Impression(f"query {query}", (f"d{doc}",), (1,), (True,))
        for query, doc in zip(*np.nonzero(counts), strict=True)
        for _ in range(counts[query, doc])
    ]
    import_records(records, tmp_path / "c.db")
    similar = SimilarQueries(index, ClickLog(tmp_path / "c.db"))
    columns = [list(TEXTS).index(docid) for docid in index.forward.docids.take(similar.rows[1:])]  # of the log's documents
    own = np.zeros(len(TEXTS))
    own[rng.permutation(len(TEXTS))[:3]] = [1, 4, 9]
    places = rng.permutation(np.flatnonzero(own[columns]))  # in no order
    clicked = sparse.csr_matrix((own[columns][places], places, [0, 3]), shape=(1, len(TEXTS)))
    common = [query for query in range(30) if (counts[query] * own).any()]
    correlations = {query: np.corrcoef(own, counts[query])[0, 1] for query in common}
    best = sorted(correlations, key=lambda query: -correlations[query])[:6]
    assert similar._by_clicks(clicked, 6).tolist() == similar.log.query_ids([f"query {query}" for query in best]).tolist()


def test_an_explanation_names_what_each_similar_query_and_document_adds(index, clicks):
    check_explanation(index, RobustBM25(index, clicks=clicks))


def check_explanation(index, reranker):
    """g(q, d) θ k_Q [g⁺ k_D(d⁺, d) - g⁻ k_D(d⁻, d)], by query and document, largest first."""
    query, candidates = listed(index, "pump seal")
    similar, retrieved = found(reranker, query, candidates)
    learned, near = reranker.learn(similar, retrieved), cosines(index)
    ranked = reranker.apply(query, candidates)
    own = lucene_scores(index, "pump seal")
    for doc in (int(ranked.docs[0]), int(ranked.docs[-1])):
        base = (own[doc] / own.max() + 0.5) / 1.5
        explanation = reranker.explain(query, candidates, doc)
        first, *others = explanation.contributions
        assert first.label == f"BM25, weight {learned.weight:.3g}" and first.detail == f"{base:.3f} of this query's best"
        assert first.value == pytest.approx(learned.weight * base, rel=1e-5, abs=1e-12)
        parts: dict[int, dict[int, float]] = {number: {} for number in range(len(similar.ids))}
        clicked = {number: set() for number in parts}
        pairs = learned.pairs
        for pair, number in enumerate(pairs.owner.tolist()):
            strength = base * learned.theta[pair] * similar.kernel[number]
            for side, sign, gain in ((pairs.better, 1, 0), (pairs.worse, -1, 1)):
                row = int(pairs.docs[side[pair]])
                value = sign * strength * learned.gains[pair, gain] * near[row, doc]
                parts[number][row] = parts[number].get(row, 0.0) + value
            clicked[number].add(int(pairs.docs[pairs.better[pair]]))
        totals = {number: sum(values.values()) for number, values in parts.items()}
        order = sorted(totals, key=lambda number: -abs(totals[number]))
        assert [part.label for part in others] == [f"'{similar.queries[number].text}'" for number in order]
        assert [part.value for part in others] == pytest.approx([totals[number] for number in order], rel=1e-4, abs=1e-9)
        for part, number in zip(others, order, strict=True):
            assert part.detail == (
                f"k_Q {similar.kernel[number]:.3f}, clicks {similar.by_clicks[number]:.3f}, text {similar.by_text[number]:.3f}"
            )
            rows = [row for row in sorted(parts[number], key=lambda row: -abs(parts[number][row])) if parts[number][row]]
            assert [reason.value for reason in part.parts] == pytest.approx([parts[number][row] for row in rows], rel=1e-4)
            details = {
                index.forward.docids[row]: f"{'clicked' if row in clicked[number] else 'not clicked'}, "
                f"similarity {near[row, doc]:.3f}"
                for row in rows
            }
            assert {reason.label: reason.detail for reason in part.parts} == details
        assert explanation.notes["pairs"] == len(pairs.owner) and explanation.notes["weight of BM25"] == learned.weight
        assert [entry["query"] for entry in explanation.notes["similar queries"]] == [near.text for near in similar.queries]
        score = dict(zip(ranked.docs.tolist(), ranked.scores.tolist(), strict=True))[doc]
        assert explanation.score == pytest.approx(score, abs=1e-6)


def test_similar_queries_agree_by_the_mean_correlation_of_the_nearest_with_the_next_three(index, clicks):
    reranker = RobustBM25(index, clicks=clicks, min_similarity=0.0)
    table = {text: np.zeros(9) for text in dict.fromkeys(item.query for item in LISTS_SHOWN)}
    names = [*TEXTS, "gone"]
    for item in LISTS_SHOWN:
        for docid, clicked in zip(item.docids, item.clicked, strict=True):
            table[item.query][names.index(docid)] += clicked
    # Documents that the log never shows are none of its documents.
    used = [place for place, name in enumerate(names) if any(name in item.docids for item in LISTS_SHOWN)]
    for count in (1, 2, 3, 5, 20):
        (near,) = reranker.similar.find([index.query("pump seal")], count)
        correlations = np.corrcoef([table[query.text][used] for query in near.queries]).reshape(len(near.ids), -1)
        assert near.agreement == pytest.approx(correlations[0, 1:4].mean() if len(near.ids) > 1 else 0.0, abs=1e-9)
        assert near.by_clicks == pytest.approx(correlations[0], abs=1e-9)
        assert near.own == near.ids[0] and len(near.ids) == min(count, len(near.ids))
    assert len(near.ids) >= 5


def test_documents_that_a_query_retrieves_stand_for_clicks_the_first_row_included(index, tmp_path):
    """A query that is not logged retrieves row 0 alone; a logged query without a common word clicked it."""
    import_records([Tally("xyz abc", "d0", 3, 0, 1.0), Tally("qqq", "d5", 2, 0, 1.0)], tmp_path / "c.db")
    reranker = RobustBM25(index, clicks=str(tmp_path / "c.db"))
    assert index.forward.docids[0] == "d0"
    borrowed = Candidates(np.array([0], dtype=np.int32), np.array([2.0], dtype=np.float32))
    (near,) = reranker.similar.find([index.query("tap")], 5, [borrowed])
    assert [query.text for query in near.queries] == ["xyz abc"] and near.by_clicks == pytest.approx([1.0]) and near.own == -1
    assert not len(reranker.similar.find([index.query("tap")], 5)[0].ids)


def test_a_log_whose_only_known_document_is_the_first_row_is_used(index, tmp_path):
    import_records([Tally("pump", "d0", 3, 0, 1.0), Tally("pump", "gone", 2, 0, 1.0)], tmp_path / "c.db")
    query, candidates = listed(index, "pump")
    for name in set(CLICK_METHODS) - {"substitution"}:
        ranked = registry.method(name).make(index, clicks=str(tmp_path / "c.db")).apply(query, candidates)
        assert index.forward.docids[int(ranked.docs[0])] == "d0"


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 9])
def test_clicks_alone_are_compared_with_the_first_retrieved_documents(index, tmp_path, limit):
    """Clicked documents in turn, most clicked first, over the first 2 · limit retrieved ones that are not in the log; such a
    pair has a tenth of the weight, divided by λ."""
    rows = [Tally("pump water", docid, count, 0, 1.0) for docid, count in (("d5", 1), ("d0", 4), ("gone", 9), ("d3", 2))]
    import_records(rows, tmp_path / "c.db")
    reranker = RobustBM25(index, clicks=str(tmp_path / "c.db"))
    query, candidates = listed(index, "pump water")
    similar, retrieved = found(reranker, query, candidates)
    pairs = pairs_of(reranker, similar, retrieved, limit=limit, regularisation=4.0)
    clicked = ["d0", "d3", "d5"]
    others = [docid for docid in index.forward.docids.take(retrieved[0].docs[: 2 * limit]) if docid not in clicked]
    expected = [(clicked[k % 3], others[(k % 3 + k // 3) % len(others)]) for k in range(min(limit, 3 * len(others)))]
    names = index.forward.docids.take(pairs.docs)
    assert [(names[a], names[b]) for a, b in zip(pairs.better, pairs.worse, strict=True)] == expected
    assert pairs.bounds == pytest.approx([0.1 / 4] * len(expected))


def test_pairs_of_the_log_come_first_and_are_filled_up_to_the_limit(index, tmp_path):
    """The first row is preferred to one document and not to another one."""
    shown = [
        Impression("pump water", ("d2", "d0"), (1, 2), (True, False)),
        Impression("pump", ("d0", "d4"), (1, 2), (True, False)),
    ]
    import_records(shown, tmp_path / "c.db")
    reranker = RobustBM25(index, clicks=str(tmp_path / "c.db"))
    similar, retrieved = found(reranker, *listed(index, "pump water"))
    for limit in (1, 2, 4):
        pairs = pairs_of(reranker, similar, retrieved, limit=limit, regularisation=10.0, confident=False)
        names = index.forward.docids.take(pairs.docs)
        for number, text in enumerate(near.text for near in similar.queries):
            mine = pairs.owner == number
            made = [(names[a], names[b]) for a, b in zip(pairs.better[mine], pairs.worse[mine], strict=True)]
            first, logged = (
                {"pump water": ("d2", "d0"), "pump": ("d0", "d4")}[text],
                {"d2", "d0"} if text != "pump" else {"d0", "d4"},
            )
            others = [
                name for name in index.forward.docids.take(retrieved[number].docs[: 2 * (limit - 1)]) if name not in logged
            ]
            assert made == [first, *((first[0], other) for other in others)][:limit]
            assert pairs.bounds[mine] == pytest.approx([0.1, *[0.01] * (len(made) - 1)])


def test_ranks_are_counted_from_one_and_0_is_not_in_the_list():
    assert _ranks(np.array([5, 3, 9, 0]), np.array([9, 5, 0])).tolist() == [2, 0, 1, 3]
    assert _ranks(np.array([5, 3]), np.array([], dtype=int)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("rows", [-2, 0]),
        ("rows", [2**31 - 1]),
        ("queries", [-1]),
        ("frequencies", [-1] * LISTS),
        ("frequencies", [2**31] * LISTS),
        ("frequencies", [0] * (LISTS - 1)),
    ],
)
def test_an_index_of_queries_with_numbers_out_of_range_is_refused(name, values):
    arrays = {
        "rows": np.array([-1, 0, 2**31 - 2]), "queries": np.array([0, 2**62]),
        "frequencies": np.array([0, 2**31 - 1] * (LISTS // 2)),
    }  # fmt: skip
    validate({}, arrays)
    with pytest.raises(ValueError, match=f"{name} has"):
        validate({}, {**arrays, name: np.array(values)})


def test_vectors_of_logged_queries_by_number():
    """Numbers of the log are not ascending here; a query without a vector has zeros, as has one that is not in the log."""
    vectors = SavedQueryVectors.__new__(SavedQueryVectors)
    vectors.ids = np.array([7, 2, 9, 4])
    vectors.rows = np.array([[1, 0], [0, 1], [0.6, 0.8], [0, 0]], dtype=np.float32)
    assert vectors.take(np.array([2, 9, 3, 7, 10, 1])).tolist() == pytest.approx(
        np.array([[0, 1], [0.6, 0.8], [0, 0], [1, 0], [0, 0], [0, 0]], dtype=np.float32)
    )
    near = vectors.nearest(np.array([[1, 0], [0, -1], [0, 0]], dtype=np.float32), 3)
    assert [part.tolist() for part in near] == [[7, 9], [], []]
    assert isinstance(vectors._neighbours, Neighbours)


def test_a_query_without_any_score_has_the_constant_alone(index, clicks):
    """g = (0 + ε) / (1 + ε) for every document where BM25 finds none."""
    reranker = RobustBM25(index, clicks=clicks, epsilon=0.25)
    docs = np.arange(8, dtype=np.int32)
    assert reranker.base(Query("zzz", ("zzz",), (1.0,)), docs) == pytest.approx([0.2] * 8)
    scores = lucene_scores(index, "seal")
    assert reranker.base(index.query("seal"), docs) == pytest.approx((scores / scores.max() + 0.25) / 1.25, rel=1e-5)
    assert math.isclose(reranker.base(index.query("seal"), docs).max(), 1.0)


def test_clicks_count_by_the_need_that_queries_share(index):
    """The correlation of the clicks, or the text's similarity between .3 and .6; 1 of 20 examinations may be noise."""
    none = np.zeros((2, 2))
    similar = Similar(np.array([5, 2]), (), np.ones(2), none, np.array([-1.0, 0.25]), np.array([0.45, 0.2]), -1, 0.0)
    columns = np.array([
        # query, document of the log, impressions, clicks, exposure, corrected clicks
        [2, 1, 9, 3, 4.0, 3], [2, 2, 9, 2, 40.0, 2], [2, 4, 9, 1, 1.0, 1], [5, 1, 9, 4, 2.0, 4], [5, 3, 9, 0, 2.0, 0],
    ]).T  # fmt: skip
    shown = Shown(columns[0].astype(int), columns[1].astype(int), *columns[2:])
    evidence = click_evidence(similar, shown, np.array([-1, 7, 0, 3, -1]))
    assert evidence.docs.tolist() == [0, 7]  # the fourth document is not in the index, the third has no click
    assert evidence.clicks == pytest.approx([0.25 * max(2 - 2, 0), 0.25 * (3 - 0.2) + 0.5 * (4 - 0.1)])
    above = Similar(similar.ids, (), np.ones(2), none, np.array([-1.0, -1.0]), np.array([0.9, 0.1]), -1, 0.0)
    assert click_evidence(above, shown, np.array([-1, 7, 0, 3, -1])).clicks == pytest.approx([0.0, 3.9])


def test_unclicked_documents_count_by_their_examinations(index):
    """e / (e + 1); nothing for a document that was not shown, 1 where the log of a query has no impressions."""
    queries, docs, looks = np.array([2, 2, 5, 8]), np.array([1, 2, 1, 3]), np.array([3.0, 0.5, 1.0, 0.0])
    shown = Shown(queries, docs, looks, looks, looks, looks)
    rows = np.array([-1, 0, 6, 4])  # of the log's documents, by number
    asked = [(2, 0), (2, 6), (2, 4), (5, 0), (5, 6), (8, 4), (8, 0)]
    found = examined(shown, np.array([query for query, _ in asked]), np.array([doc for _, doc in asked]), rows)
    assert found == pytest.approx([3 / 4, 0.5 / 1.5, 0.0, 1 / 2, 0.0, 1.0, 1.0])


def test_a_logged_query_is_like_itself_by_text_and_another_by_the_mean_of_both_cosines(index, clicks):
    def similar(**weights):
        kernel = QueryKernel(clicks=0.0, **weights)
        return SimilarQueries(index, ClickLog(clicks), kernel).find([index.query("pump seal")], 10)[0]

    near = similar(ngrams=1.0, terms=3.0)
    assert near.by_text[0] == pytest.approx(1) and near.kernel[0] == pytest.approx(4)
    place = [query.text for query in near.queries].index("pump water")
    ngrams, terms = similar(ngrams=1.0, terms=0.0), similar(ngrams=0.0, terms=1.0)
    cosines_ = [
        dict(zip([query.text for query in part.queries], part.kernel, strict=True))["pump water"] for part in (ngrams, terms)
    ]
    assert near.by_text[place] == pytest.approx(sum(cosines_) / 2) and near.kernel[place] == pytest.approx(
        cosines_[0] + 3 * cosines_[1]
    )
