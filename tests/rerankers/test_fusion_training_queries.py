"""What fusion remembers: votes by hand, silence about oneself, the file, candidates, other indexes."""

from dataclasses import replace

import numpy as np
import pytest

from kernelsearch.core.errors import ArtefactError, InputError
from kernelsearch.kernels.documents import Cosine
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, TrainingData
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.reranker import FusionReranker
from kernelsearch.rerankers.fusion.training_queries import FILE, TrainingQueries, TrainingVotes
from kernelsearch.rerankers.fusion.training_table import FeaturePlan, FeatureTables

TEXTS = {"a": "dripping tap", "b": "tap washer", "c": "radiator stays cold"}


@pytest.fixture(scope="module")
def queries(demo_index):
    return demo_index.lucene.queries(list(TEXTS.values()), list(TEXTS))


@pytest.fixture(scope="module")
def docids(demo_index):
    return [str(docid) for docid in demo_index.forward.docids.take(np.arange(6))]


@pytest.fixture(scope="module")
def memory(queries, docids):
    judged = {
        "a": {docids[0]: 1, docids[1]: 2, docids[5]: 0},
        "b": {docids[1]: 1, "elsewhere": 1},
        "c": {docids[2]: 1},
        "z": {},
    }
    return TrainingQueries.of(queries, judged)


def cosine(index, first, second):
    return (Cosine().query_features(index.forward, first) @ Cosine().query_features(index.forward, second).T).toarray()[0, 0]


def test_votes_by_hand(demo_index, queries, docids, memory):
    asked = demo_index.query("the tap is dripping again")
    a, b, c = (cosine(demo_index, asked, query) for query in queries)
    assert a > b > c == 0
    votes = TrainingVotes(demo_index, memory, leave_out=False).votes(asked, 2.0)
    assert votes[:6] == pytest.approx([a**2, a**2 + b**2, 0, 0, 0, 0])
    assert votes.shape == (len(demo_index.forward),) and np.count_nonzero(votes) == 2


def test_similarities_are_computed_once_per_query(demo_index, queries, memory, monkeypatch):
    votes = TrainingVotes(demo_index, memory, leave_out=False)
    expected = [votes.votes(query, 2.0) for query in queries]
    monkeypatch.setattr(votes, "_similarities", lambda query: pytest.fail(f"computed again for {query.text}"))
    assert votes.nearness(queries[2]) == pytest.approx(1)
    for query, result in zip(queries, expected, strict=True):
        np.testing.assert_array_equal(votes.votes(query, 2.0), result)
    assert not np.array_equal(expected[0], expected[2])


def test_a_training_query_does_not_hear_itself(demo_index, queries, memory):
    with_itself = TrainingVotes(demo_index, memory, leave_out=False).votes(queries[0], 1.0)
    without_itself = TrainingVotes(demo_index, memory, leave_out=True).votes(queries[0], 1.0)
    other = cosine(demo_index, queries[0], queries[1])
    assert with_itself[:2] == pytest.approx([1, 1 + other]) and without_itself[:2] == pytest.approx([0, other])


def test_the_file(queries, memory, tmp_path):
    (tmp_path / FILE).write_text("".join(memory.lines()), encoding="utf-8")
    again = TrainingQueries.read(tmp_path)
    assert again.relevant == memory.relevant
    assert [query.terms for query in again.queries] == [query.terms for query in queries]
    (tmp_path / FILE).write_text("{}\n")
    with pytest.raises(ArtefactError, match=r"memory\.jsonl: damaged; train the model again"):
        TrainingQueries.read(tmp_path)
    assert TrainingQueries.read(tmp_path / "none") == TrainingQueries()


def test_voted_documents_become_candidates(demo_index, queries, docids, memory):
    query, candidates = queries[2], demo_index.lucene.search([queries[2]], 5)[0]
    features = Features(
        demo_index, ["first", "votes"], sources=["votes"], training_votes=TrainingVotes(demo_index, memory, leave_out=False)
    )
    pool = features.pool([query], [candidates], 5)[0]
    row = demo_index.forward.rows_of([docids[2]])[0]
    assert row in pool.docs and set(candidates.docs) <= set(pool.docs)
    table = features.tables([query], [pool])[0]
    assert table[pool.docs == row, 1] == pytest.approx(1.0) and np.count_nonzero(table[:, 1]) == 1
    silent = Features(demo_index, ["first", "votes"], sources=["votes"])
    assert (silent.pool([query], [candidates], 5)[0].docs == candidates.docs).all()
    assert not silent.tables([query], [candidates])[0][:, 1].any()


@pytest.mark.parametrize("power", [1, 3.5])
def test_the_power_of_votes_is_that_of_the_recipe(demo_index, queries, docids, memory, power):
    asked = demo_index.query("the tap is dripping again")
    a, b = (cosine(demo_index, asked, query) for query in queries[:2])
    votes = TrainingVotes(demo_index, memory, leave_out=False)
    features = Features(demo_index, ["first", f"votes:power={power}"], sources=["votes"], training_votes=votes)
    pool = features.pool([asked], [demo_index.lucene.search([asked], 5)[0]], 5)[0]
    table = features.tables([asked], [pool])[0]
    rows = demo_index.forward.rows_of(docids[:2])
    assert [table[pool.docs == row, 1].tolist() for row in rows] == [
        pytest.approx([a**power]), pytest.approx([a**power + b**power])
    ]  # fmt: skip


def test_a_model_brings_its_memory_along(demo_index, tiny, tmp_path):
    """Asked in almost the words of training queries, it finds more of their documents; on another index nothing breaks."""
    from kernelsearch.trec import read_qrels, read_topics
    from tests.conftest import DEMO

    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    data = TrainingData(topics=dict(list(topics.items())[:40]), qrels=qrels, output=tmp_path / "m")
    FusionReranker.method.fit(demo_index, data, features="first votes", sources="votes", learner="net", depth=50)
    reranker = FusionReranker(demo_index, model=str(tmp_path / "m"))
    asked = {qid: demo_index.query(f"please {topics[qid]}") for qid in data.topics}
    wanted = {qid: {docid for docid, grade in qrels[qid].items() if grade > 0} for qid in asked}
    first = {qid: demo_index.lucene.search([query], 50)[0] for qid, query in asked.items()}

    def candidates(lists):
        return sum(len(set(demo_index.forward.docids.take(ranked.docs)) & wanted[qid]) for qid, ranked in lists.items())

    fused = {qid: reranker.apply(query, first[qid]) for qid, query in asked.items()}
    assert candidates(fused) > candidates(first)
    other = tiny.query("dripping tap washer")
    candidates = tiny.lucene.search([other], 10)[0]
    assert set(FusionReranker(tiny, model=str(tmp_path / "m")).apply(other, candidates).docs) == set(candidates.docs)


@pytest.mark.parametrize("stored", ["of another index", ""])
def test_a_foreign_models_training_queries_do_not_vote(demo_index, docids, tmp_path, caplog, monkeypatch, stored):
    """Docids collide between collections: only the index that a model was trained on gets its votes, else one notice."""
    caplog.set_level("INFO", "kernelsearch")
    qid, text, document = "1", "dripping tap", docids[3]
    data = TrainingData(topics={qid: text, "2": "cold radiator"}, qrels={qid: {document: 1}, "2": {docids[4]: 1}})
    data = replace(data, output=tmp_path / "m")
    FusionReranker.method.fit(demo_index, data, features="first votes", sources="votes", learner="combsum", depth=20)
    query = demo_index.query(text)
    candidates = demo_index.lucene.search([query], 20)[0]
    row = demo_index.forward.rows_of([document])[0]
    assert row not in candidates.docs
    reranker = FusionReranker(demo_index, model=str(tmp_path / "m"))
    assert row in reranker.inputs.table(query, candidates, DEFAULT_CONTEXT)[0].docs
    assert "don't vote" not in caplog.text

    with monkeypatch.context() as changed:
        changed.setattr(demo_index, "fingerprint", stored)
        FusionReranker.method.fit(demo_index, data, features="first votes", sources="votes", learner="combsum", depth=20)
    reranker = FusionReranker(demo_index, model=str(tmp_path / "m"))
    for _ in range(2):
        pool, table = reranker.inputs.table(query, candidates, DEFAULT_CONTEXT)
        assert row not in pool.docs and not table[:, 1].any()
    assert caplog.text.count("was trained on another index") == 1


def test_while_learning_no_query_gets_votes_from_itself(demo_index, docids):
    """Two queries without a common word: neither's own documents are voted for in the table that is learned from."""
    queries = demo_index.lucene.queries(["dripping tap", "cold radiator"], ["1", "2"])
    candidates = demo_index.lucene.search(queries, 5)
    judged = {
        query.qid: {str(docid): 1 for docid in demo_index.forward.docids.take(listed.docs[:2])}
        for query, listed in zip(queries, candidates, strict=True)
    }
    training = TrainingQueries.of(queries, judged)
    plan = FeaturePlan(demo_index, ("first", "votes"), ("votes",), BM25Model(), training, 20, "none")
    votes = [table.features[:, 1] for table in FeatureTables(plan).make(queries)]
    assert not np.concatenate(votes).any()
    with_itself = Features(
        demo_index, ["votes"], sources=[], training_votes=TrainingVotes(demo_index, training, leave_out=False)
    ).tables(queries, candidates)
    assert all(table.any() for table in with_itself)


def test_votes_fade_with_the_distance_of_the_nearest_training_query(demo_index, docids, memory, queries):
    """Normalised votes are of one size for every query; `fade` multiplies them by the nearest query's cosine to a power."""
    votes = TrainingVotes(demo_index, memory, leave_out=False)
    loud, fading = (
        Features(demo_index, ["first", f"votes:power=4,fade={fade}"], training_votes=votes, sources=["votes"])
        for fade in (0, 1.5)
    )
    for text in ("dripping tap", "a tap in the kitchen of a cold house", "unheard words only"):
        query = demo_index.query(text)
        nearest = max(cosine(demo_index, query, other) for other in queries)
        assert votes.nearness(query) == pytest.approx(nearest)
        pool = loud.pool([query], [demo_index.lucene.search([query], 20)[0]], 20)
        before, after = (features.normalised_tables([query], pool, "z")[0] for features in (loud, fading))
        assert after[:, 0] == pytest.approx(before[:, 0])
        assert after[:, 1] == pytest.approx(before[:, 1] * nearest**1.5)
    assert TrainingVotes(demo_index, TrainingQueries(), leave_out=False).nearness(queries[0]) == 0


def test_a_training_query_as_a_new_topic_gets_no_vote_of_related_ones(demo_index, queries, docids):
    """a and b have a relevant document in common, c has none with either: as new topics, a and b hear c alone."""
    texts = {"a": "dripping tap", "b": "tap washer", "c": "cold tap"}
    asked = demo_index.lucene.queries(list(texts.values()), list(texts))
    judged = {"a": {docids[0]: 1, docids[1]: 1}, "b": {docids[1]: 1, docids[2]: 1}, "c": {docids[3]: 1}}
    training = TrainingQueries.of(asked, judged)
    votes = TrainingVotes(demo_index, training, leave_out=True, related=False)
    others = cosine(demo_index, asked[0], asked[2]), cosine(demo_index, asked[2], asked[0]), cosine(demo_index, *asked[1:])
    assert votes.votes(asked[0], 1.0)[:4] == pytest.approx([0, 0, 0, others[0]])
    both = [others[1], others[1] + others[2], others[2], 0]
    assert votes.votes(asked[2], 1.0)[:4] == pytest.approx(both)
    plan = FeaturePlan(demo_index, ("votes", "first"), ("votes",), BM25Model(), training, 20, "none")
    made = FeatureTables(plan)
    table = made.make(asked)[0]
    unrelated = made.unrelated(table)
    assert unrelated[:, 1] == pytest.approx(table.features[:, 1], rel=1e-6)
    rows = demo_index.forward.rows_of(docids[:4])
    shown = {
        int(row): (loud, quiet) for row, loud, quiet in zip(table.docs, table.features[:, 0], unrelated[:, 0], strict=True)
    }
    assert shown[rows[2]] == pytest.approx((cosine(demo_index, *asked[:2]) ** 2, 0))
    assert shown[rows[3]] == pytest.approx((others[0] ** 2, others[0] ** 2))


@pytest.mark.parametrize(
    ("grade", "message"), [(1, "all documents that queries find are relevant"), (0, "no query finds a relevant document")]
)
def test_nothing_to_learn_is_told_apart(tiny, grade, message, tmp_path):
    """Every document relevant, or none of those found: other reasons, other messages."""
    docids = [str(docid) for docid in tiny.forward.docids.take(np.arange(len(tiny.forward)))]
    judged = {docid: grade for docid in docids} | {"elsewhere": 1}
    data = TrainingData(topics={"1": "water tap"}, qrels={"1": judged}, output=tmp_path / "m")
    with pytest.raises(InputError, match=message):
        FusionReranker.method.fit(tiny, data, features="first", sources="none", learner="net", depth=5)
    assert not (tmp_path / "m").exists()
