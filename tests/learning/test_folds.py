"""Folds: even, seeded, by query; the same for a list of queries and for rows that name their query."""

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.learning.folds import assign_folds, query_folds, topic_folds


def test_folds_are_even_seeded_and_cover_all():
    found = assign_folds(23, 5, seed=1)
    assert sorted(np.bincount(found)) == [4, 4, 5, 5, 5]
    assert (found == assign_folds(23, 5, seed=1)).all() and (found != assign_folds(23, 5, seed=2)).any()


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
    with pytest.raises(OptionError, match="--folds: 5, but there are only 3 judged topics"):
        assign_folds(3, 5, 0)
    with pytest.raises(OptionError, match="--folds: 5, but there are only 2"):
        query_folds([1, 2, 1], 5)


def test_a_topic_is_in_the_same_fold_whatever_the_order_of_the_file():
    qids = [str(number) for number in range(1, 41)]
    forwards = dict(zip(qids, topic_folds(qids, 5), strict=True))
    backwards = dict(zip(qids[::-1], topic_folds(qids[::-1], 5), strict=True))
    assert forwards == backwards
    masks = query_folds(np.repeat(qids, 3), 5)
    assert all(masks[forwards[qid]][3 * place] for place, qid in enumerate(qids))
