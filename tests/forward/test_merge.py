"""Merging the vocabularies of shards."""

import numpy as np

from kernelsearch.forward import StringTable, merge_terms


def table(*words: str) -> StringTable:
    raw = [word.encode() for word in words]
    return StringTable(np.frombuffer(b"".join(raw), np.uint8), np.cumsum([len(word) for word in raw], dtype=np.int64))


def test_terms_are_merged_by_their_bytes_and_renumbered():
    merged = merge_terms([table("a", "tap", "zoo"), table("Z", "tap", "ü"), table()])
    assert merged.terms.take(range(5)) == ["Z", "a", "tap", "zoo", "ü"]
    assert [numbers.tolist() for numbers in merged.numbers] == [[1, 2, 3], [0, 2, 4], []]
    assert merged.total([np.array([1, 2, 3]), np.array([10, 20, 30]), np.array([], int)]).tolist() == [10, 1, 22, 3, 30]


def test_nothing_merges_to_nothing():
    merged = merge_terms([table(), table()])
    assert len(merged.terms) == 0 and merged.total([np.array([], int)] * 2).tolist() == []
