"""Robust BM25 on the bundled collection: two stories of the paper, weights, explanations, fallbacks; all methods on a log."""

import json
import logging
import math
import re

import numpy as np
import pytest

import kernelsearch
from kernelsearch import merge, search
from kernelsearch.clicks import __main__ as clicks_verb
from kernelsearch.clicks.importing import import_log, import_records
from kernelsearch.clicks.records import Impression, Tally, normalise_query
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates
from kernelsearch.kernels.documents import Cosine
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Context, TrainingData
from kernelsearch.rerankers.fusion.training import training_topics
from kernelsearch.rerankers.rbm25.evidence import ClickEvidence, support_in_list
from kernelsearch.rerankers.rbm25.reranker import RobustBM25, _scaled
from kernelsearch.rerankers.rbm25.similar_queries import QueryKernel, Similar, SimilarQueries, open_log
from kernelsearch.similarity.groups import groups_from_clicks
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO, build_texts, write_jsonl

QUERIES = ["dripping tap", "toilte runs all night", "cold radiator upstairs", "bleach for mold", "carbonmonoxide", "wasps"]
#: All methods on a click log, those of papers/ included where it is there.
CLICK_METHODS = [name for name, method in registry.methods().items() if method.learns_from == ("clicks",)]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("clicks") / "clicks.db"
    import_log([DEMO / "clicks.jsonl"], path)
    return str(path)


@pytest.fixture(scope="module")
def robust(demo_index, database):
    return RobustBM25(demo_index, clicks=database)


def first_stage(index, texts, hits=1000):
    queries = index.lucene.queries(texts)
    return queries, index.lucene.search(queries, hits)


def docids(index, ranked, depth=1000):
    return index.forward.docids.take(ranked.docs[:depth])


def test_story_of_the_misspelt_query(demo_index, robust):
    """As 'wallmart' in the paper's Table 3: BM25 finds nothing, similar queries of the log put the answer first."""
    queries, lists = first_stage(demo_index, ["carbonmonoxide"])
    assert lists[0].depth == 0
    ranked = robust.apply(queries[0], lists[0])
    topic = next(q for q, text in _topics().items() if "carbon monoxide" in text)
    assert read_qrels(DEMO / "qrels.txt")[topic][docids(demo_index, ranked)[0]] > 0
    reasons = robust.explain(queries[0], lists[0], int(ranked.docs[0]))
    assert any("carbon monoxide" in near["query"] for near in reasons.notes["similar queries"])


def test_story_of_the_tail_query(demo_index, robust):
    """As 'mensmagazines' in the paper's Table 4: no logged query is like it, but a document it finds is like others."""
    queries, lists = first_stage(demo_index, ["herringbone"])
    assert robust.log.query_ids(["herringbone"])[0] == -1 and not len(robust.similar.find(queries, 10)[0].ids)
    ranked = robust.apply(queries[0], lists[0])
    grades = read_qrels(DEMO / "qrels.txt")[next(q for q, text in _topics().items() if text == "scrached wooden floor")]
    before, after = docids(demo_index, lists[0]), docids(demo_index, ranked)
    assert len(before) == 1 and after[0] == before[0]
    assert [grades.get(docid, 0) >= 2 for docid in after[:3]] == [True, True, True]


def _topics():
    from kernelsearch.trec.topics import read_topics

    return read_topics(DEMO / "topics.tsv")


@pytest.mark.parametrize("name", CLICK_METHODS)
def test_batch_equals_one_by_one_and_nothing_is_lost(demo_index, database, name):
    reranker = registry.method(name).make(demo_index, clicks=database)
    queries, lists = first_stage(demo_index, QUERIES, 100)
    together = reranker.apply_batch(queries, lists)
    for query, before, after in zip(queries, lists, together, strict=True):
        alone = registry.method(name).make(demo_index, clicks=database).apply(query, before)
        assert set(before.docs) <= set(after.docs) and len(set(after.docs.tolist())) == after.depth
        assert np.isfinite(after.scores).all() and (np.diff(after.scores) <= 0).all()
        assert alone.docs.tolist() == after.docs.tolist() and alone.scores.tolist() == after.scores.tolist()
        if before.depth:
            scores = reranker.score(query, before)
            assert scores.shape == before.docs.shape


@pytest.mark.parametrize("name", CLICK_METHODS)
def test_runs_do_not_depend_on_the_batch_or_on_the_part_of_the_topics(demo_index, database, tmp_path, name):
    """Byte for byte: in one batch, in batches of four, and in three parts that are merged."""
    topics = tmp_path / "topics.tsv"
    topics.write_text("".join((DEMO / "topics.tsv").read_text().splitlines(keepends=True)[:12]))

    def run(file, *flags):
        arguments = ["--topics", str(topics), "--rerank", name, f"--{name}.clicks", database, *flags]
        search.main(["--index", str(demo_index.path), *arguments, "--output", str(tmp_path / file)])
        return (tmp_path / file).read_bytes()

    whole = run("whole.txt", "--batch-size", "1000")
    assert run("batches.txt", "--batch-size", "4") == whole
    parts = [f"part-{part}.txt" for part in (1, 2, 3)]
    for part, file in enumerate(parts, start=1):
        run(file, "--shard", f"{part}/3")
    merge.main([*(str(tmp_path / file) for file in parts), "--output", str(tmp_path / "merged.txt")])
    assert (tmp_path / "merged.txt").read_bytes() == whole


def test_click_correlation_is_numpys_over_the_documents_of_the_log(tiny, tmp_path):
    """Two queries that clicked one each of two documents are opposites: np.corrcoef gives -1."""
    import_records([Tally("tap", "d1", 1, 0, 1.0), Tally("taps", "d2", 1, 0, 1.0)], tmp_path / "two.db")
    kernel = QueryKernel(ngrams=0.001, terms=0.001)
    near = SimilarQueries(tiny, ClickLog(tmp_path / "two.db"), kernel)
    table = near._clicks(near.log.query_ids(["tap", "taps"])).toarray()
    assert np.corrcoef(table)[0, 1] == pytest.approx(-1)
    rows = [("tap", "d1", 3), ("tap", "d2", 1), ("taps", "d1", 2), ("taps", "d5", 2), ("fuse", "d3", 1), ("fuse", "d1", 1)]
    import_records([Tally(*row, 0, 1.0) for row in rows], tmp_path / "log.db")
    near = SimilarQueries(tiny, ClickLog(tmp_path / "log.db"), kernel)
    similar = near.find([tiny.query("tap")], 5)[0]
    clicks = {"tap": [3, 1, 0, 0], "taps": [2, 0, 2, 0], "fuse": [1, 0, 0, 1]}  # of d1, d2, d5, d3
    expected = np.corrcoef([clicks[query.text] for query in similar.queries])
    assert "taps" in [query.text for query in similar.queries]
    assert similar.by_clicks == pytest.approx(expected[0], abs=1e-12)


def test_the_list_stays_at_the_pipelines_hits(demo_index, robust):
    queries, lists = first_stage(demo_index, QUERIES[:1], 20)
    long = robust.apply(queries[0], lists[0])
    short = robust.apply(queries[0], lists[0], Context(hits=20))
    assert long.depth > 20 == short.depth and short.docs.tolist() == long.docs[:20].tolist()


def test_auto_moves_from_the_printed_form_to_bm25_with_the_evidence(demo_index, robust):
    queries = demo_index.lucene.queries(["dripping tap", "driping taps", "how do i choose curtains for a cold room"])
    similar = robust.similar.find(queries, 20)
    lists = robust.retrieve(similar, Context())
    weights = [robust.weight_of_bm25(near, [lists[number] for number in near.ids.tolist()]) for near in similar]
    assert [near.own >= 0 for near in similar] == [True, False, False]
    assert 0 < weights[0] < weights[2] and 0 < weights[1] < weights[2] == robust.settings.prior


@pytest.mark.parametrize(
    ("lists", "wordings", "counted"),
    [
        ([[1, 0, 0]], 1, {"d1": 0.95}),  # one click at position 1, of which .05 may be noise
        ([[1, 0, 0]] * 4, 1, {"d1": 3.8}),  # clicks on one document confirm each other
        ([[1, 0, 0], [0, 0, 1]], 1, {"d1": 0.9, "d5": 1 - 0.1 / 3}),  # on two they don't
        ([[0, 1, 0]], 1, {"d2": 0.975}),  # a document without a word of the query
        ([[0, 1, 0]] * 3, 1, {"d2": 2.925}),  # and with more than one click
        ([[1, 0, 0]] + [[0, 0, 0]] * 99, 1, {}),  # one click in a hundred examinations is noise
        ([[1, 0, 0]], 2, {"d1": 1.9}),  # another wording with the same clicks confirms them
        ([[1, 0, 0]] * 6, 2, {"d1": 11.4}),
    ],
)
def test_the_weight_of_bm25_with_clicks_by_hand(tiny, tmp_path, lists, wordings, counted):
    texts = ["dripping water", "drippings water"][:wordings]
    log = [Impression(text, ("d1", "d2", "d5"), (1, 2, 3), tuple(map(bool, row))) for text in texts for row in lists]
    import_records(log, tmp_path / "c.db")
    reranker = RobustBM25(tiny, clicks=str(tmp_path / "c.db"))
    queries, candidates = first_stage(tiny, texts[:1])
    listed = list(docids(tiny, candidates[0]))
    meant = {docid: clicks if docid in listed else max(clicks - 1, 0) for docid, clicks in counted.items()}
    squares = sum(clicks**2 for clicks in meant.values()) or 1
    forward = tiny.forward
    rows = {docid: int(np.flatnonzero(np.array(forward.docids.take(np.arange(len(forward)))) == docid)[0]) for docid in meant}
    first = repeated = 0.0
    for docid, clicks in meant.items():
        if docid in listed:
            others = [int(doc) for doc in candidates[0].docs[:10] if doc != rows[docid]]
            cosines = Cosine().documents(forward, np.array([rows[docid]]), np.array(others, dtype=int))[0] if others else []
            support = sum(sorted(cosines, reverse=True)[:3]) / 3
            term = 3.5 * math.log(max(listed.index(docid) + 1, 2) / 10) - 5 * (support - 0.25)
        else:
            term = 3.5 * math.log(0.1)
        first += clicks**2 / squares * min(clicks, 1) * term
        repeated += clicks**2 / squares * max(clicks - 1, 0) * math.log(0.05)
    documents = sum(meant.values()) ** 2 / squares
    least = min(140 * math.exp(first), 1 / (sum(meant.values()) * documents)) if documents else 0
    near = reranker.similar.find(queries, 5, candidates)[0]
    weight = reranker.weight_of_bm25(near, [reranker.retrieve([near], Context())[number] for number in near.ids.tolist()])
    assert weight == pytest.approx(1.5 * max(140 * math.exp(first + repeated), least), rel=1e-3)


@pytest.mark.parametrize(
    ("clicks", "rank", "support", "weight"),
    [
        (1, 1, 0.25, 140 * 0.2**3.5),
        (1, 2, 0.25, 140 * 0.2**3.5),  # first or second tells nothing more
        (1, 3, 0.25, 140 * 0.3**3.5),
        (2, 8, 0.25, 140 * 0.8**3.5 * 0.05),  # further clicks confirm it
        (5, 8, 0.25, 1 / 5),  # but tell little of other documents
        (2, 2, 0.35, 140 * 0.2**3.5 * math.exp(-0.5)),  # where the first click alone left less, it stays
        (1, 10, 0.25, 140),
        (1, 10, 0.0, 140 * math.exp(1.25)),  # far from the other documents: rather a mistake
        (1.5, 9, 0.45, 140 * 0.9**3.5 * math.exp(-1) * 0.05**0.5),
        (1, 11, 0.45, 140 * 0.1**3.5),  # BM25 did not put it into the user's list: neither rank nor support tell of the click
        (1, 0, 0.45, 140),  # not retrieved: one click proves nothing
        (2, 0, 0.0, 140 * 0.1**3.5),
    ],
)
def test_the_weight_of_bm25_by_clicks_rank_and_support(clicks, rank, support, weight):
    evidence = ClickEvidence(np.array([4]), np.array([float(clicks)]))
    assert evidence.weight_of_bm25(np.array([rank]), np.array([support])) == pytest.approx(weight)


def test_two_clicks_on_a_partly_relevant_document_keep_better_ones(demo_index, tmp_path):
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    log, asked = [], {}
    for (qid, text), results in zip(topics.items(), demo_index.search_batch(list(topics.values()), k=10).values(), strict=True):
        partly = [docid for docid in results.docids if qrels.get(qid, {}).get(docid, 0) == 1]
        if partly:  # one person looks at the same list twice
            places, clicked = tuple(range(1, len(results.docids) + 1)), tuple(docid == partly[-1] for docid in results.docids)
            log += 2 * [Impression(normalise_query(text), tuple(results.docids), places, clicked)]
            asked[qid] = text
    import_records(log, tmp_path / "c.db")
    runs = demo_index.evaluate(asked, qrels, {"before": None, "after": {"rbm25": {"clicks": str(tmp_path / "c.db")}}})
    before, after = (runs.evaluations[name].values["nDCG@10"] for name in ("before", "after"))
    change = np.array([after[qid] - before[qid] for qid in asked])
    assert len(asked) > 30 and change.mean() > -0.02 and change.min() > -0.3
    assert (change > 0.05).sum() > 5  # and they are used


def test_clicks_on_more_documents_leave_bm25_less():
    ranks, support = np.array([2, 2, 2]), np.full(3, 0.25)
    shares = [
        ClickEvidence(np.arange(3), np.array(clicks)).weight_of_bm25(ranks, support)
        for clicks in ([9.0, 0.0, 0.0], [9.0, 9.0, 0.0], [9.0, 9.0, 9.0], [9.0, 3.0, 0.0])
    ]
    assert shares == pytest.approx([1 / 9, 1 / 18 / 2, 1 / 27 / 3, 1 / 12 / (144 / 90)])


def test_support_is_the_mean_cosine_with_the_three_nearest_others_of_the_first_ten(demo_index):
    forward = demo_index.forward
    listed = demo_index.lucene.search([demo_index.query("water tap washer")], 12)[0].docs
    assert len(listed) == 12
    docs = listed[[0, 5, 11]].astype(np.int64)
    cosines = Cosine().documents(forward, docs, listed)
    expected = [
        sum(sorted((cosines[row, place] for place in range(10) if listed[place] != doc), reverse=True)[:3]) / 3
        for row, doc in enumerate(docs)
    ]
    assert support_in_list(forward, docs, listed) == pytest.approx(expected)
    assert support_in_list(forward, docs[:1], listed[:2]) == pytest.approx(cosines[:1, 1] / 3)
    assert support_in_list(forward, docs, listed[:0]).tolist() == [0, 0, 0]


def test_unclicked_documents_count_by_their_examinations_where_the_log_has_them(tiny, tmp_path):
    """e / (e + 1): d2 at position 2 and d5 at position 3; in a log of clicks alone they count fully."""
    for name, log, expected in (
        ("lists", [Impression("water tap", ("d1", "d2", "d5"), (1, 2, 3), (True, False, False))] * 2, {"d2": 1 / 2, "d5": 0.4}),
        ("clicks", [Tally("water tap", "d1", 2, 0, 1.0)], {"d5": 1.0}),
    ):
        import_records(log, tmp_path / f"{name}.db")
        reranker = RobustBM25(tiny, clicks=str(tmp_path / f"{name}.db"))
        queries, lists = first_stage(tiny, ["water tap"])
        near = reranker.similar.find(queries, 5, lists)[0]
        retrieved = [reranker.retrieve([near], Context())[number] for number in near.ids.tolist()]
        learned = reranker.learn(near, retrieved)
        worse = docids(tiny, Candidates(learned.pairs.docs[learned.pairs.worse], learned.theta))
        shrunk = learned.gains[:, 1] / reranker.gains(near, retrieved, learned.pairs, Context())[:, 1]
        assert dict(zip(worse, shrunk.tolist(), strict=True)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "clicks", "agreement", "share"),
    [
        (0.6, 0.0, 0.2, 0.2),  # a near wording whose neighbours agree: BM25 keeps its least share
        (0.45, 0.0, 0.2, 0.5),  # halfway between sure and unsure
        (0.6, 0.0, 0.0, 1.0),  # near by text alone, nothing agrees: half the evidence, BM25 keeps all its weight
        (0.3, 0.6, 0.2, 0.2),  # clicks count half as much as text
        (0.45, -0.4, 0.9, 0.5),  # neither clicks that contradict nor more agreement than enough count
        (0.6, 0.0, -0.5, 1.0),
    ],
)
def test_the_weight_of_bm25_by_hand(robust, text, clicks, agreement, share):
    ones = np.ones(1)
    similar = Similar(np.array([1]), (), ones, ones[:, None], clicks * ones, text * ones, -1, agreement)
    assert robust.weight_of_bm25(similar, []) == pytest.approx(share * robust.settings.prior)


def test_without_anything_in_the_log_the_first_stage_stays_and_is_counted(demo_index, database):
    reranker = RobustBM25(demo_index, clicks=database)
    queries, lists = first_stage(demo_index, ["zzzz qqqq", "screw"], 10)
    strict = RobustBM25(demo_index, clicks=database, min_similarity=5.0)
    reranked = strict.apply_batch(queries, lists)
    assert [after.docs.tolist() for after in reranked] == [before.docs.tolist() for before in lists]
    assert [after.fallbacks for after in reranked] == [(("rbm25", "no similar query in the click log"),)] * 2
    assert reranker.apply(queries[0], lists[0]).depth == 0


def test_shown_documents_are_not_among_the_retrieved_ones_that_fill_up_the_pairs(tiny, tmp_path):
    """d1 was clicked and d5 shown: a click is compared with d5 by the log, and with no shown document as a retrieved one."""
    shown = Impression("water", ("d1", "d5"), (1, 2), (True, False))
    import_records([shown], tmp_path / "c.db")
    reranker = RobustBM25(tiny, clicks=str(tmp_path / "c.db"), min_similarity=0.0)
    queries, lists = first_stage(tiny, ["water"])
    assert sorted(docids(tiny, lists[0])) == ["d1", "d5"]
    near = reranker.similar.find(queries, 5, lists)[0]
    pairs = reranker.learn(near, [reranker.retrieve([near], Context())[number] for number in near.ids.tolist()]).pairs
    rows = tiny.forward.docids.take(pairs.docs)
    assert [(rows[a], rows[b]) for a, b in zip(pairs.better, pairs.worse, strict=True)] == [("d1", "d5")]


def test_without_hits_documents_that_similar_queries_retrieve_are_not_added(tiny, tmp_path):
    """The best document for "replace panel" is d5, which is neither clicked nor a candidate."""
    import_records([Tally("replace panel", "d2", 3, 0, 1.0)], tmp_path / "c.db")
    queries, lists = first_stage(tiny, ["replace"], 1)
    listed = docids(tiny, lists[0])
    assert docids(tiny, tiny.lucene.search(tiny.lucene.queries(["replace panel"]), 1)[0]) == ["d5"] != listed
    for name in CLICK_METHODS:
        for hits, added in ((0, []), (1, ["d5"])):
            after = registry.method(name).make(tiny, clicks=str(tmp_path / "c.db"), hits=hits).apply(queries[0], lists[0])
            clicked = [] if name == "substitution" else ["d2"]
            assert sorted(docids(tiny, after)) == sorted({*listed, *clicked, *added})


def test_documents_that_the_index_lacks_are_passed_over(tiny, tmp_path):
    shown = Impression("dripping tap", ("gone", "d5", "d1"), (1, 2, 3), (True, False, True))
    import_records([shown], tmp_path / "c.db")
    queries, lists = first_stage(tiny, ["dripping tap"])
    for name in set(CLICK_METHODS) - {"substitution"}:
        after = registry.method(name).make(tiny, clicks=str(tmp_path / "c.db")).apply(queries[0], lists[0])
        assert docids(tiny, after)[0] == "d1"


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ("url", r"rbm25_documents: .*url"),
        ("body,", "not a list of different fields"),
        ("body,body", "not a list of different fields"),
    ],
)
def test_fields_of_the_document_kernel_that_cannot_be_used(demo_index, database, documents, message):
    with pytest.raises(OptionError, match=message):
        RobustBM25(demo_index, clicks=database, documents=documents)


def test_a_log_file_is_imported_once_and_training_keeps_one(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELSEARCH_ARTEFACTS", str(tmp_path / "artefacts"))
    log = tmp_path / "log.tsv"
    log.write_text("query\tdocid\tclicks\nleaking faucet\td2\t3\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no click log belongs.*kernelsearch\.train --index .* --rerank rbm25 --clicks LOG"):
        RobustBM25(tiny)
    first, second = RobustBM25(tiny, clicks=str(log)), RobustBM25(tiny, clicks=str(log))
    assert first.log.path == second.log.path and first.log.path.parent == tiny.artefacts
    log_path = RobustBM25.method.fit(tiny, TrainingData(clicks=log))
    assert log_path == tiny.artefacts / "clicks.db" and RobustBM25(tiny).log.path == log_path
    with pytest.raises(OptionError, match="needs clicks"):
        RobustBM25.method.fit(tiny, TrainingData())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("leaking faucet\td2\t0", "no query of this log was ever clicked"),
        ("leaking faucet\tnowhere\t3", r"none of its 1 documents is in .*\(docids such as 'nowhere'\)"),
    ],
)
def test_a_log_that_cannot_be_used_leaves_the_previous_one(tiny, tmp_path, monkeypatch, line, message):
    monkeypatch.setenv("KERNELSEARCH_ARTEFACTS", str(tmp_path / "artefacts"))
    log = tmp_path / "log.tsv"
    log.write_text("query\tdocid\tclicks\nleaking faucet\td2\t3\n", encoding="utf-8")
    path = RobustBM25.method.fit(tiny, TrainingData(clicks=log))
    before = path.read_bytes()
    log.write_text(f"query\tdocid\tclicks\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        RobustBM25.method.fit(tiny, TrainingData(clicks=log))
    assert path.read_bytes() == before and not list(path.parent.glob("*.partial"))
    assert len(RobustBM25(tiny).similar.find([tiny.query("leaking faucet")], 5)[0].ids) == 1


def test_a_log_that_training_replaces_is_kept_once(tiny, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("KERNELSEARCH_ARTEFACTS", str(tmp_path / "artefacts"))
    logs = []
    for number, query in enumerate(["water tap", "leaking tap"]):
        clicked = [{"docid": "d1", "clicked": False}, {"docid": "d2", "clicked": True}]
        logs.append(write_jsonl(tmp_path / f"{number}.jsonl", [{"session": "s", "query": query, "items": clicked}] * 3))
    path = RobustBM25.method.fit(tiny, TrainingData(clicks=logs[0]))
    RobustBM25.method.fit(tiny, TrainingData(clicks=logs[0]))
    assert [file.name for file in path.parent.rglob("clicks*.db")] == ["clicks.db"]
    for _ in range(2):
        RobustBM25.method.fit(tiny, TrainingData(clicks=logs[1]))
        RobustBM25.method.fit(tiny, TrainingData(clicks=logs[0]))
    files = sorted(path.parent.rglob("clicks*.db"))
    assert [file.relative_to(path.parent).as_posix() for file in files] == [
        "clicks.db", "replaced/clicks-1.db", "replaced/clicks-2.db"
    ]  # fmt: skip
    queries = [[text for _, text in ClickLog(file).all_queries()] for file in files]
    assert queries == [["water tap"], ["water tap"], ["leaking tap"]]
    assert "another click log belonged to the index; it is kept as replaced/clicks-1.db" in caplog.text


def test_training_says_how_many_documents_of_the_log_the_index_has(tiny, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("KERNELSEARCH_ARTEFACTS", str(tmp_path / "artefacts"))
    log = tmp_path / "log.tsv"
    log.write_text("query\tdocid\tclicks\nleaking faucet\td2\t3\nfaucet\tnowhere\t1\n", encoding="utf-8")
    with caplog.at_level("INFO"):
        RobustBM25.method.fit(tiny, TrainingData(clicks=log))
    assert "rbm25: 1 of the log's 2 documents are in the index" in caplog.text


def test_the_neighbours_follow_a_log_that_grows(tiny, tmp_path):
    path = tmp_path / "c.db"
    import_records([Tally("leaking faucet", "d2", 3, 0, 1.0)], path)
    query = tiny.query("blown fuses")
    assert not len(RobustBM25(tiny, clicks=str(path)).similar.find([query], 5)[0].ids)
    import_records([Tally("blown fuse", "d3", 3, 0, 1.0)], path, append=True)
    assert RobustBM25(tiny, clicks=str(path)).similar.find([query], 5)[0].queries[0].text == "blown fuse"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": "best"}, "rbm25_pairs: 'best' is not one of shown, skipped, rate"),
        ({"clicks": "/nowhere/log"}, "rbm25_clicks: /nowhere/log: no such file"),
    ],
)
def test_bad_options_are_named(tiny, options, message):
    with pytest.raises((OptionError, InputError), match=message):
        RobustBM25(tiny, **options)


def test_an_option_of_the_papers_says_where_it_is(demo_index):
    for name, value, line in (
        ("form", "paper", "rbm25_form: rbm25 is the form auto; paper and prior are forms of rbm25-paper"),
        ("union_pearson", True, "rbm25_union_pearson: an option of rbm25-paper"),
        ("k1", 2, "rbm25_k1: say it in the kernel: --rbm25-paper.relevance 'bm25"),
    ):
        with pytest.raises(OptionError, match=re.escape(line)):
            demo_index.pipeline({"rbm25": {name: value}})


def test_no_candidates_and_no_log_entry_give_an_empty_list(demo_index, robust):
    query = demo_index.query("zzzz")
    empty = Candidates(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))
    assert robust.apply(query, empty).depth == 0


@pytest.mark.parametrize("name", CLICK_METHODS)
def test_a_query_of_stop_words_has_no_similar_query_but_itself(tiny, tmp_path, name):
    """Characters of stop words say nothing; its own clicks do, and those of a logged one count for no other query."""
    log = tmp_path / "clicks.db"
    impressions = [("then with the", "d1"), ("the there", "d3"), ("fuse then", "d3")]
    import_records([Impression(text, (doc, "d5"), (1, 2), (True, False)) for text, doc in impressions], log)
    reranker = registry.method(name).make(tiny, clicks=str(log))
    queries, lists = first_stage(tiny, ["then the with", "into the then", "with the fuse"])
    assert [query.terms for query in queries[:2]] == [(), ()]
    empty = reranker.apply_batch(queries[:2], lists[:2])
    assert [listed.depth for listed in empty] == [0, 0] and all(listed.fallbacks for listed in empty)
    (near,) = reranker.similar.find(queries[2:], 5)
    assert [query.text for query in near.queries] == ["fuse then"]
    own, own_list = first_stage(tiny, ["the there"])
    assert [query.text for query in reranker.similar.find(own, 5, own_list)[0].queries] == ["the there", "fuse then"]


def test_documents_that_the_index_lacks_make_no_pairs(tmp_path):
    """Neither as clicked nor as other documents, nor over retrieved documents that were not shown."""
    texts = {f"d{number}": f"pump seal {' '.join(['pipe'] * number)}" for number in range(1, 8)}
    index = kernelsearch.open(build_texts(tmp_path, texts))
    shown = ("d1", "gone1", "d2", "gone2", "d3")
    import_records([Impression("pump seal", shown, (1, 2, 3, 4, 5), (True, True, False, False, False))], tmp_path / "c.db")
    reranker = RobustBM25(index, clicks=str(tmp_path / "c.db"))
    query = index.lucene.queries(["pump seal"])
    candidates = index.lucene.search(query, 10)[0]
    similar = reranker.similar.find(query, 5, [candidates])[0]
    retrieved = reranker.retrieve([similar], Context())
    pairs = reranker.learn(similar, [retrieved[number] for number in similar.ids.tolist()]).pairs
    docids = index.forward.docids.take(pairs.docs)
    found = {(docids[better], docids[worse]) for better, worse in zip(pairs.better, pairs.worse, strict=True)}
    assert (pairs.docs >= 0).all()
    assert found == {("d1", worse) for worse in ("d2", "d3", "d4", "d5", "d6", "d7")}


def test_documents_with_a_score_of_zero_or_less_are_not_borrowed(demo_index, robust):
    """A run file may have negative scores: they are no clicks, and none taken back."""
    queries, lists = first_stage(demo_index, ["herringbone oak", "wooden floor"], 6)
    query, floor = queries[0], lists[1]
    assert robust.log.query_ids([query.text])[0] == -1 and floor.depth == 6
    scores = np.array([3.0, 2.0, 1.0, -1.0, -2.0, -3.0], dtype=np.float32)
    all_six = robust.similar.find([query], 10, [Candidates(floor.docs, scores)])[0]
    first_three = robust.similar.find([query], 10, [Candidates(floor.docs[:3], scores[:3])])[0]
    assert len(all_six.ids) and all_six.ids.tolist() == first_three.ids.tolist()
    assert all_six.kernel == pytest.approx(first_three.kernel) and all_six.by_clicks.max() > 0.1


def test_of_equally_similar_queries_the_first_of_the_log_is_taken(tmp_path):
    index = kernelsearch.open(build_texts(tmp_path, {"a": "pump seal water", "b": "pump roof garden"}))
    logged = [Impression(text, ("a", "b"), (1, 2), (True, False)) for text in ("pump seal", "pump roof")]
    import_records(logged, tmp_path / "c.db")
    similar = RobustBM25(index, clicks=str(tmp_path / "c.db"), click_weight=0.0).similar
    both, one = (similar.find(index.lucene.queries(["pump"]), count)[0] for count in (2, 1))
    assert both.kernel[0] == both.kernel[1] and both.ids.tolist() == [1, 2]
    assert one.ids.tolist() == [1]


def test_a_logged_query_without_a_click_counts_as_one_that_is_not_logged(tmp_path):
    index = kernelsearch.open(build_texts(tmp_path, {"a": "pump seal water", "b": "pump roof garden"}))
    shown = [Impression(text, ("a", "b"), (1, 2), (clicked, False)) for text, clicked in (("pump", False), ("pump seal", True))]
    import_records(shown, tmp_path / "c.db")
    similar = RobustBM25(index, clicks=str(tmp_path / "c.db")).similar
    found = similar.find(index.lucene.queries(["pump", "pump seal", "roof"]), 5)
    assert similar.log.query_ids(["pump", "pump seal", "roof"]).tolist() == [1, 2, -1]
    assert [near.own for near in found] == [-1, 2, -1]


@pytest.mark.parametrize("best", [0.25, 1.0, 8.0])
def test_scores_are_shares_of_the_best_plus_epsilon(best):
    scores = np.array([0.0, best / 2, best, 2 * best])
    assert _scaled(scores, np.array(best), 0.5) == pytest.approx(np.array([0.5, 1.0, 1.5, 1.5]) / 1.5)
    assert _scaled(scores, np.array(0.0), 0.5) == pytest.approx([1 / 3] * 4)  # nothing has a score


def test_further_clicks_never_raise_the_weight_of_bm25():
    """A click on a lonely document at the end of the list is rather a mistake; a thousand of them are not a thousand times."""
    for rank, support in ((10, 0.0), (9, 0.1), (2, 0.3), (40, 0.0), (0, 0.0)):
        weights = [
            ClickEvidence(np.array([4]), np.array([float(clicks)])).weight_of_bm25(np.array([rank]), np.array([support]))
            for clicks in (1, 2, 20, 1000)
        ]
        assert np.isfinite(weights).all() and (np.diff(weights) <= 1e-9 * weights[0]).all()


@pytest.mark.parametrize("door", ["train", "search", "fusion", "similar", "import"])
def test_every_door_reads_logs_and_databases_and_names_skipped_lines(tmp_path, caplog, door):
    """A log with two bad lines, then the database made of it: the same clicks through whatever takes a click log."""
    index = kernelsearch.open(build_texts(tmp_path, {"d0": "a dripping tap", "d1": "a blown fuse"}))
    log, database = tmp_path / "log.jsonl", tmp_path / "log.db"
    shown = [{"docid": "d0", "clicked": True}, {"docid": "d1", "clicked": True}]
    log.write_text(json.dumps({"query": "tap", "items": shown}) + '\nno JSON\n{"query": "fuse"}\n')
    import_log([log], database, eta=0.5)
    caplog.set_level(logging.INFO)
    caplog.clear()

    def clicks(source):
        if door == "similar":
            return groups_from_clicks(source)
        if door == "fusion":
            return training_topics(TrainingData(clicks=source))
        if door == "search":
            opened = open_log(index, str(source))
        elif door == "train":
            opened = ClickLog(index.train("rbm25", clicks=source, output=tmp_path / source.suffix[1:]))
        else:
            clicks_verb.main(["import", "--input", str(source), "--output", str(tmp_path / "out" / f"{source.name}.db")])
            opened = ClickLog(tmp_path / "out" / f"{source.name}.db")
        assert opened.eta == (0.5 if source == database else 1.0)
        return list(opened.records())

    found = clicks(log)
    messages = [record.getMessage() for record in caplog.records]
    assert found and f"{log}: 1 impressions imported, 2 lines skipped" in messages
    reasons = [f"  skipped 1 not JSON (first: {log}:2)", f"  skipped 1 no items (first: {log}:3)"]
    assert reasons == [message for message in messages if "(first" in message]
    assert clicks(database) == found
