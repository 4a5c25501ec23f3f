"""Folds: even, seeded, by query; the same for a list of queries and for rows that name their query."""

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.learning.folds import assign_folds, query_folds, related_groups, topic_folds


def test_folds_are_even_seeded_and_cover_all():
    result = assign_folds(23, 5, seed=1)
    assert sorted(np.bincount(result)) == [4, 4, 5, 5, 5]
    assert (result == assign_folds(23, 5, seed=1)).all() and (result != assign_folds(23, 5, seed=2)).any()


def test_folds_behind_the_published_figures():
    assert assign_folds(12, 3, seed=0).tolist() == [0, 2, 1, 1, 0, 1, 2, 2, 1, 0, 0, 2]


@pytest.mark.parametrize("ids", [np.arange(11), np.array(sorted(f"q{n}" for n in range(11))), np.arange(11) * 7.5])
def test_shuffled_queries_are_dealt_out_one_by_one(ids):
    qid = np.repeat(ids, 3)
    shuffled = np.random.default_rng(4).permutation(ids)
    for number, held_out in enumerate(query_folds(qid, 4, seed=4)):
        assert (held_out == np.isin(qid, shuffled[number::4])).all()


def test_folds_keep_queries_whole():
    qid = np.random.default_rng(0).permutation(np.repeat(np.arange(11), 3))
    folds = query_folds(qid, 5, seed=1)
    assert (np.sum(folds, axis=0) == 1).all()
    for fold in folds:
        assert not set(qid[fold]) & set(qid[~fold])


def test_more_folds_than_queries_are_refused():
    with pytest.raises(OptionError, match="folds: 5, but there are only 3 judged topics"):
        assign_folds(3, 5, 0)
    with pytest.raises(OptionError, match="folds: 5, but there are only 2"):
        query_folds([1, 2, 1], 5)


def test_a_topic_is_in_the_same_fold_whatever_the_order_of_the_file():
    qids = [str(number) for number in range(1, 41)]
    forwards = dict(zip(qids, topic_folds(qids, 5), strict=True))
    backwards = dict(zip(qids[::-1], topic_folds(qids[::-1], 5), strict=True))
    assert forwards == backwards
    masks = query_folds(np.repeat(qids, 3), 5)
    assert all(masks[forwards[qid]][3 * place] for place, qid in enumerate(qids))


def test_queries_with_common_relevant_documents_are_one_group():
    groups = related_groups([{"a", "b"}, {"c"}, {"b", "d"}, {"d"}, {"c"}, set()], largest=3)
    assert groups[0] == groups[2] == groups[3] and groups[1] == groups[4]
    assert len({groups[0], groups[1], groups[5]}) == 3


def test_a_chain_is_cut_where_the_overlap_is_smallest():
    """0-1 have 2 of 3 documents in common, 2-3 likewise, 1-2 one of five: with groups of two the weak pair is cut."""
    chain = [["a", "b", "c"], ["b", "c"], ["c", "d", "e"], ["d", "e"]]
    assert related_groups(chain, largest=2).tolist() == [0, 0, 1, 1]
    assert related_groups(chain, largest=3).tolist() == [0, 0, 1, 1]
    assert related_groups(chain, largest=4).tolist() == [0, 0, 0, 0]
    assert related_groups([], largest=2).tolist() == []


def test_groups_are_the_connected_components_where_they_fit():
    """Against scipy's connected components, on random judgements."""
    from scipy.sparse.csgraph import connected_components

    rng = np.random.default_rng(3)
    relevant = [set(rng.integers(0, 60, size=rng.integers(1, 4)).astype(str)) for _ in range(40)]
    shared = np.array([[bool(first & second) for second in relevant] for first in relevant])
    expected = connected_components(shared)[1]
    groups = related_groups(relevant, largest=40)
    assert ((groups[:, None] == groups) == (expected[:, None] == expected)).all()
    assert np.bincount(related_groups(relevant, largest=5)).max() <= 5
