"""The synthetic collections that benchmarks share."""

import numpy as np
import pytest

from tools.data import synthetic


def test_the_same_seed_gives_the_same_collection_in_both_forms():
    first, second = (synthetic.Generator(300, vocabulary=500, topics=9, seed=4) for _ in range(2))
    matrix = first.matrix()
    assert (matrix != second.matrix()).nnz == 0
    assert (matrix != synthetic.Generator(300, vocabulary=500, topics=9, seed=5).matrix()).nnz > 0
    lengths = [len(record["contents"].split()) for record in second.records()]
    assert lengths == np.asarray(matrix.sum(axis=1)).ravel().astype(int).tolist()


def test_words_are_zipfian_and_spelt_apart():
    matrix = synthetic.Generator(2000, vocabulary=3000, seed=1).matrix()
    counts = np.sort(np.asarray(matrix.sum(axis=0)).ravel())[::-1]
    assert counts[0] > 20 * counts[500] > 0
    assert len({synthetic._spelt(number) for number in range(3000)}) == 3000


def test_a_growing_vocabulary_follows_heaps_and_topics_share_the_law():
    sizes = np.array([2000, 4000, 8000])
    matrices = [synthetic.GrowingGenerator(size, mean_length=80, topics=50).matrix() for size in sizes]
    words = [int((np.diff(matrix.tocsc().indptr) > 0).sum()) for matrix in matrices]
    slope = np.polyfit(np.log(sizes), np.log(words), 1)[0]
    assert 0.5 < slope < 0.75  # towards 1/1.77 = 0.56 as the collection grows
    counts = np.sort(np.asarray(matrices[-1].sum(axis=0)).ravel())[::-1]
    ranks = np.array([100, 200, 400, 800])
    assert np.polyfit(np.log(ranks), np.log(counts[ranks]), 1)[0] == pytest.approx(-1, abs=0.2)
    lengths = np.log(np.asarray(matrices[-1].sum(axis=1)).ravel())
    assert lengths.std() == pytest.approx(0.6, abs=0.05)


def test_topics_have_words_of_their_own():
    generator = synthetic.GrowingGenerator(100, topics=2)
    rank = np.arange(2000)
    first, second = (set(generator._in_topic(rank, np.full(2000, topic)).tolist()) for topic in (0, 1))
    assert len(first & second) < 0.5 * len(first)
    queries = dict(generator.queries(5))
    assert queries == dict(synthetic.GrowingGenerator(100, topics=2).queries(5))
    assert all(1 <= len(text.split()) <= 6 for text in queries.values())
