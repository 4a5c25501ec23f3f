"""Shards searched separately with exchanged statistics: the merged lists are equal to one index's, bit for bit."""

import shutil

import numpy as np
import pytest

from kernelsearch import index as index_verb
from kernelsearch.api.exchange import ShardSearcher, WholeStatistics, merge_lists, merge_statistics
from kernelsearch.api.index import Index
from kernelsearch.core.errors import ArtefactError, IndexProblem
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import ranking_models
from kernelsearch.lucene.models import RM3, BM25Model, DirichletModel, JelinekMercerModel, Rocchio
from kernelsearch.trec import read_topics
from tests.conftest import DEMO, TINY, write_jsonl
from tests.lucene.test_lucene_index import change


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    """The bundled collection in four shards."""
    path = tmp_path_factory.mktemp("sharded") / "index"
    index_verb.main(["--input", str(DEMO / "corpus.jsonl"), "--index", str(path), "--shards", "4"])
    return Index(path)


def statistics_of(index):
    return WholeStatistics.of(index.lucene, index.forward)


@pytest.fixture(scope="module")
def whole(sharded):
    return statistics_of(sharded)


@pytest.fixture(scope="module")
def queries(demo_index):
    topics = read_topics(DEMO / "topics.tsv")
    return demo_index.lucene.queries([*topics.values(), "nonsense zzzz", ""])


def same(ours, theirs):
    for ranked, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(ranked.docs, expected.docs)
        np.testing.assert_array_equal(ranked.scores, expected.scores)


@pytest.mark.parametrize("hits", [1000, 7])
@pytest.mark.parametrize("model", [BM25Model(), BM25Model(2.0, 0.75), DirichletModel(), JelinekMercerModel()])
def test_searching_shard_by_shard_is_searching_the_one_index(sharded, whole, demo_index, queries, model, hits):
    parts = [ShardSearcher(path, whole) for path in sharded.shards.paths]
    lists = [part.search(queries, hits, model=model, threads=2) for part in parts]
    merged = [merge_lists(result, sharded.forward.docid_rank, hits) for result in zip(*lists, strict=True)]
    same(merged, demo_index.lucene.search(queries, hits, model=model))
    assert max(ranked.depth for ranked in merged) == hits or hits == 1000


@pytest.mark.parametrize("feedback", [RM3(), Rocchio(), Rocchio(negative=True)])
def test_queries_expanded_on_all_shards_are_searched_on_each(sharded, whole, demo_index, queries, feedback):
    queries = queries[-12:]  # expanding takes a while
    expanded = sharded.lucene.expand(queries, feedback)
    assert expanded == demo_index.lucene.expand(queries, feedback)
    lists = [ShardSearcher(path, whole).search(expanded, 100) for path in sharded.shards.paths]
    merged = [merge_lists(result, sharded.forward.docid_rank, 100) for result in zip(*lists, strict=True)]
    same(merged, demo_index.lucene.search(queries, 100, feedback=feedback))


def test_a_part_may_be_any_shards_in_any_order(sharded, whole, demo_index, queries):
    first, second, third, fourth = sharded.shards.paths
    lists = [part.search(queries) for part in (ShardSearcher([fourth, second], whole), ShardSearcher([third, first], whole))]
    merged = [merge_lists(result, sharded.forward.docid_rank, 1000) for result in zip(*lists, strict=True)]
    same(merged, demo_index.lucene.search(queries))


def test_without_exchange_the_scores_would_differ(sharded, whole, queries):
    path = sharded.shards.paths[0]
    alone, explanation = Index(path).lucene.search(queries[:1])[0], ShardSearcher(path, whole).search(queries[:1])[0]
    assert sorted(alone.docs) == sorted(explanation.docs) and not np.array_equal(alone.scores, explanation.scores)


def test_scores_by_the_formula(tmp_path):
    """df and average length depend on the other shard; compared with BM25 in numpy on the whole collection's forward index."""
    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--shards", "2"])
    index = Index(tmp_path / "i")
    part = ShardSearcher(index.shards.paths[1], statistics_of(index))
    query = index.query("water near the panel")
    result = part.search([query])[0]
    assert index.forward.docids.take(result.docs) == ["d5"]
    ours = ranking_models.bm25_scores(
        index.forward, index.forward.term_ids(query.terms), query.weights, result.docs, k1=0.9, b=0.4
    )
    np.testing.assert_array_equal(result.scores, ours)


def test_statistics_made_apart_merge_to_those_of_the_whole(sharded, whole, tmp_path):
    merged = merge_statistics([statistics_of(Index(path)) for path in sharded.shards.paths])
    for statistics in (merged, whole):
        statistics.save(tmp_path / "record")
        for read in (WholeStatistics.load(tmp_path / "record"), statistics):
            assert read.statistics == sharded.forward.statistics
            assert read.rows == 364 and read.shards == whole.shards and read.fingerprint == sharded.fingerprint
            assert read.terms.all_raw() == sharded.forward.terms.all_raw()
            np.testing.assert_array_equal(read.df, sharded.forward.df)
            np.testing.assert_array_equal(read.cf, sharded.forward.cf)
    with pytest.raises(IndexProblem, match="the same shard are to be merged twice"):
        merge_statistics([whole, whole])


def test_a_loaded_record_serves_like_the_one_that_was_saved(sharded, whole, tmp_path, queries):
    whole.save(tmp_path / "record")
    path = sharded.shards.paths[2]
    same(
        ShardSearcher(path, WholeStatistics.load(tmp_path / "record")).search(queries),
        ShardSearcher(path, whole).search(queries),
    )
    (tmp_path / "record" / "df.npy").unlink()
    with pytest.raises(ArtefactError, match=r"df\.npy: missing; build the collection statistics again"):
        WholeStatistics.load(tmp_path / "record")


def test_deleted_documents_count_as_they_do_for_the_whole(sharded, queries, tmp_path):
    """Lucene's statistics include deleted documents until segments are merged; so do the exchanged ones."""
    index = Index(shutil.copytree(sharded.path, tmp_path / "index"))
    deleted = index.lucene.docids(100, 103)
    change(index.shards.paths[1], delete=deleted, add=[])
    index = Index(tmp_path / "index")
    lists = [ShardSearcher(path, statistics_of(index)).search(queries) for path in index.shards.paths]
    merged = [merge_lists(result, index.forward.docid_rank, 1000) for result in zip(*lists, strict=True)]
    same(merged, index.lucene.search(queries))
    assert index.lucene.documents() == 361 and index.forward.rows_of(deleted).tolist() == [-1] * 3


def test_statistics_of_another_collection_are_refused(whole, tiny_path):
    message = "index: not a shard of the collection that these statistics describe, or changed since"
    with pytest.raises(IndexProblem, match=message):
        ShardSearcher(tiny_path, whole)


def test_merged_lists_by_hand():
    rank = np.array([3, 0, 2, 1])
    first = Candidates(np.array([0, 2], np.int32), np.array([2.0, 1.0], np.float32))
    second = Candidates(np.array([1, 3], np.int32), np.array([1.0, 1.0], np.float32))
    assert merge_lists([first, second], rank, 10).docs.tolist() == [0, 1, 3, 2]
    assert merge_lists([first, second], rank, 2).docs.tolist() == [0, 1]
    assert merge_lists([first, second], rank, 2).scores.tolist() == [2.0, 1.0]


def test_no_queries_and_terms_that_no_shard_has(sharded, whole):
    part = ShardSearcher(sharded.shards.paths[0], whole)
    assert part.search([]) == [] and part.search([Query("x", ("qqqq",), (1.0,))])[0].depth == 0
