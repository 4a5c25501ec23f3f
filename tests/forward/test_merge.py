"""Merging the vocabularies of shards."""

import numpy as np
import pytest

from kernelsearch.forward import ForwardIndex, MergedSource, StringTable, write_forward
from kernelsearch.forward.merge import merge_terms
from tests.forward.test_write import compare
from tests.forward.token_source import TokenSource, random_texts


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


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("block_bytes", [1, 200, 1 << 20])
def test_shards_merge_to_the_index_of_all_their_documents(tmp_path, positions, block_bytes):
    """Blocks that lie within a shard, end with one, or span several of them, one without documents."""
    texts = list(random_texts(1).items())
    parts = [dict(texts[:7]), dict(texts[7:8]), {}, dict(texts[8:])]
    deleted = frozenset(docid for docid, _ in texts[5:10:2])
    shards = [TokenSource(part, deleted).write(tmp_path / str(number), positions) for number, part in enumerate(parts)]
    whole = TokenSource(dict(texts), deleted)
    expected = whole.write(tmp_path / "whole", positions)
    write_forward(
        tmp_path / "merged", MergedSource(shards), field="contents", statistics=whole.statistics(), positions=positions,
        fingerprint="f", block_bytes=block_bytes,
    )  # fmt: skip
    merged = ForwardIndex(tmp_path / "merged")
    compare(merged, whole, positions)
    for name in ("indptr", "indices", "frequencies", "lengths", "norms", "live", "df", "cf", "docid_rank"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(expected, name), err_msg=name)
        assert getattr(merged, name).dtype == getattr(expected, name).dtype


def test_rows_of_shards_with_positions_are_merged_without_them(tmp_path):
    shards = [TokenSource({name: [name, "x"]}).write(tmp_path / name) for name in "ab"]
    source = MergedSource(shards)
    terms, frequencies, places = source.rows(0, 2, source.scan(), False)
    assert (terms.tolist(), frequencies.tolist(), places.tolist()) == ([0, 2, 1, 2], [1, 1, 1, 1], [])
    assert source.rows(1, 2, source.scan(), True)[2].tolist() == [0, 1]
