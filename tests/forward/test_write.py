"""Forward indexes of token lists: what is written in blocks is read back, and damaged arrays are refused by name."""

from __future__ import annotations

import weakref
from dataclasses import fields

import numpy as np
import pytest

from kernelsearch.core import artefacts
from kernelsearch.core.errors import IndexProblem
from kernelsearch.forward import ForwardIndex, Statistics
from kernelsearch.forward import index as module
from kernelsearch.forward.format import KIND, STATISTICS, VERSION, validate
from kernelsearch.forward.write import _row_blocks
from tests.forward.token_source import TokenSource, random_texts


def compare(forward: ForwardIndex, source: TokenSource, positions: bool = True) -> None:
    """Everything that the index answers, with the token lists."""
    every, words = np.arange(len(source.texts)), source.words
    table = np.array([[text.count(word) for word in words] for text in source.texts]).reshape(len(every), len(words))
    assert forward.terms.take(np.arange(len(words))) == words
    assert forward.docids.take(every) == source.names
    np.testing.assert_array_equal(forward.matrix().toarray(), table)
    np.testing.assert_array_equal(forward.term_frequencies(every, np.arange(len(words))), table)
    np.testing.assert_array_equal(forward.live, source.live)
    np.testing.assert_array_equal(forward.lengths, [len(text) for text in source.texts])
    live = [name if is_live else None for name, is_live in zip(source.names, source.live, strict=True)]
    assert forward.rows_of(source.names).tolist() == [live.index(name) if name in live else -1 for name in source.names]
    order = sorted(range(len(every)), key=lambda row: source.names[row].encode())
    assert [order[rank] for rank in forward.docid_rank.tolist()] == every.tolist()
    assert forward.has_positions == positions
    if positions:
        assert [forward.terms.take(forward.tokens(row)) for row in every.tolist()] == source.texts


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("block_bytes", [1, 150, 1 << 20])
def test_blocks_of_any_size_give_the_same_index(tmp_path, block_bytes, positions):
    """A block takes eight bytes per posting and four per position, and as many rows as fit, at least one."""
    texts = random_texts(0)
    source, reported = TokenSource(texts, frozenset(list(texts)[3:5])), []
    compare(source.write(tmp_path / "f", positions, block_bytes=block_bytes, progress=reported.append), source, positions)
    assert [start for start, _ in source.asked] == [0, *(end for _, end in source.asked[:-1])]
    assert source.asked[-1][1] == sum(reported) == 30 and reported == [end - start for start, end in source.asked]
    size = [8 * len(set(text)) + (4 * len(text) if positions else 0) for text in source.texts]
    for start, end in source.asked:
        assert sum(size[start:end]) <= block_bytes or end == start + 1
        assert end == 30 or sum(size[start : end + 1]) > block_bytes


def test_a_block_is_released_before_the_next_one_is_read(tmp_path):
    """Rows may be memory of Java, which has a limit."""

    class Watched(TokenSource):
        before: tuple[weakref.ref, ...] = ()

        def rows(self, *args):
            assert [array() for array in self.before if array() is not None] == []
            arrays = super().rows(*args)
            self.before = tuple(weakref.ref(array) for array in arrays)
            return arrays

    source = Watched(random_texts(0))
    source.write(tmp_path / "f", block_bytes=150)
    assert len(source.asked) > 2


@pytest.mark.parametrize("seed", range(3))
def test_row_blocks_are_as_large_as_the_limit_allows(seed):
    weights, limit = np.random.default_rng(seed).integers(0, 9, 40), 13
    blocks, start = [], 0
    while start < 40:
        end = start + 1
        while end < 40 and weights[start : end + 1].sum() <= limit:
            end += 1
        blocks.append((start, end))
        start = end
    assert _row_blocks(weights.astype(np.int64), limit) == blocks
    assert _row_blocks(np.array([99, 99]), limit) == [(0, 1), (1, 2)] and _row_blocks(np.zeros(0, np.int64), limit) == []


def test_an_index_without_documents_or_without_tokens(tmp_path):
    empty, blank = TokenSource({}), TokenSource({"a": [], "b": []})
    for name, source in (("empty", empty), ("blank", blank)):
        forward = source.write(tmp_path / name)
        compare(forward, source)
        assert forward.statistics.average_length == 1 and forward.term_ids(["tap"]).tolist() == [-1]
        assert forward.rows_of(["c"]).tolist() == [-1] and forward.document_keys().shape == (len(source.names),)


def test_the_average_length_counts_documents_with_the_field(tmp_path):
    source = TokenSource({"a": ["x", "y"], "b": [], "c": ["x"] * 5})
    assert source.write(tmp_path / "f").statistics.average_length == np.float32(3.5)
    assert Statistics(3, 10, 5).average_length == np.float32(10 / 3)


def test_live_documents_of_one_docid_are_reported(tmp_path):
    texts = [("a", ["x"]), ("b", []), ("a", ["y"]), ("c", []), ("gone", []), ("gone", []), ("b", ["z"])]
    found = []
    TokenSource(texts, frozenset({"gone"})).write(tmp_path / "f", on_duplicate=lambda *found_: found.append(found_))
    assert sorted(found) == [("a", 0, 2), ("b", 1, 6)]


def test_documents_are_recognised_by_docid_and_length(tmp_path):
    """In another row, too; deleted ones have no key."""
    states = [
        {"a": ["x"], "b": ["x", "y"], "c": []},
        {"c": [], "b": ["y", "z"], "a": ["x", "y"], "d": ["x"]},
    ]
    keys = [
        TokenSource(state, frozenset({"gone"})).write(tmp_path / str(number)).document_keys()
        for number, state in enumerate([*states, {"gone": ["x"], **states[0]}])
    ]
    assert [len(set(part.tolist())) for part in keys] == [3, 4, 3] and set(keys[0].tolist()) == set(keys[2].tolist())
    assert len(set(keys[0].tolist()) & set(keys[1].tolist())) == 2  # b, whose length is the same, and c


def test_rows_that_were_found_are_not_looked_up_again(tmp_path, monkeypatch):
    forward = TokenSource({"a": ["x"], "b": ["y"], "c": []}).write(tmp_path / "f")
    asked, find = [], ForwardIndex._find
    monkeypatch.setattr(ForwardIndex, "_find", lambda self, docids: asked.extend(docids) or find(self, docids))
    for _ in range(2):
        assert forward.rows_of(["a", "c"]).tolist() == [0, 2]
    assert forward.rows_of(["b", "a", "d"]).tolist() == [1, 0, -1] and asked == ["a", "c", "b", "d"]


def test_caches_are_bounded(tmp_path, monkeypatch):
    """At most as many entries as the limits say, and no entry is dropped before."""
    monkeypatch.setattr(module, "CACHED_TERMS", 3)
    monkeypatch.setattr(module, "CACHED_ROWS", 3)
    monkeypatch.setattr(module, "SELECTED_DOCUMENTS", 2)
    forward = TokenSource({name: [name] for name in "abcdefg"}).write(tmp_path / "f")
    sizes = []
    for name in "abcdefgx":
        forward.term_ids([name])
        sizes.append(len(forward._term_cache))
    assert sizes == [1, 2, 3, 1, 2, 3, 1, 2]
    forward.words(np.array([0]))
    assert set(forward._term_cache) == {"g", "x", "a"}
    forward.words(np.array([1, 2]))
    assert set(forward._term_cache) == {"b", "c"}
    rows = []
    for names in (["a"], ["b", "c"], ["d"], ["a", "b", "c", "d"]):
        forward.rows_of(names)
        rows.append(sorted(forward._row_cache))
    assert rows == [["a"], ["a", "b", "c"], ["d"], ["a", "b", "c"]]
    two, three = np.arange(2), np.arange(3)
    assert forward.select(two) is forward.select(two) and forward.select(three) is not forward.select(three)


def test_one_selection_answers_for_different_terms(tmp_path):
    """The first term, the last, unknown ones, and one that an earlier question had in another column."""
    texts = random_texts(4)
    source = TokenSource(texts)
    forward = source.write(tmp_path / "f")
    table = np.array([[text.count(word) for word in source.words] for text in source.texts])
    docs = np.array([5, 0, 29, 5, 7])
    for terms in ([0], [3, 0, -1, 11], [11, 2], [0, 3], [-1], [1, 1, 0]):
        expected = np.where(np.array(terms) >= 0, table[docs][:, terms], 0)
        np.testing.assert_array_equal(forward.term_frequencies(docs, np.array(terms)), expected)
    rows, columns, frequencies = forward.occurrences(docs, np.array([2, 0]))
    entries = [(row, column) for row in range(5) for column, term in enumerate((2, 0)) if table[docs[row], term]]
    assert sorted(zip(rows.tolist(), columns.tolist(), strict=True)) == entries
    assert frequencies.tolist() == [table[docs[row], (2, 0)[column]] for row, column in zip(rows, columns, strict=True)]


@pytest.fixture()
def saved(tmp_path):
    """The description and the arrays of an index of four documents, one of them deleted."""
    texts = {"d1": ["a", "b", "b"], "d2": ["c"], "d3": [], "d4": ["a", "c"]}
    TokenSource(texts, frozenset({"d3"})).write(tmp_path / "f")
    meta, arrays = artefacts.load(tmp_path / "f", KIND, VERSION)
    return meta, {name: np.array(array) for name, array in arrays.items()}


def with_value(value, place=0):
    def change(array):
        array = array.astype(np.int64)
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("indptr", lambda array: array[:-1], "indptr"),
        ("indptr", lambda array: np.append(array, array[-1]), "indptr"),
        ("indptr", with_value(9, 2), "indptr is not ascending"),
        ("indices", with_value(-1), r"indices has a number outside 0\.\.2"),
        ("indices", with_value(3), r"indices has a number outside 0\.\.2"),
        ("indices", lambda array: array[:-1], "indptr"),
        ("frequencies", with_value(0), r"frequencies has a number outside 1\.\.2147483647"),
        ("frequencies", with_value(2**31), r"frequencies has a number outside 1\.\.2147483647"),
        ("frequencies", with_value(5), "the frequencies don't add up to the 6 tokens"),
        ("frequencies", lambda array: array[:-1], "frequencies has shape"),
        ("lengths", with_value(-1), r"lengths has a number outside 0\.\.2147483647"),
        ("lengths", with_value(2**31), r"lengths has a number outside 0\.\.2147483647"),
        ("lengths", with_value(4), "the frequencies don't add up to the 7 tokens"),
        ("positions", with_value(-1), r"positions has a number outside 0\.\.2147483647"),
        ("positions", with_value(2**31), r"positions has a number outside 0\.\.2147483647"),
        ("positions", lambda array: array[:-1], "positions has shape"),
        ("norms", lambda array: array.astype(np.int16), "norms has type int16"),
        ("norms", lambda array: array[:-1], "norms has shape"),
        ("live", lambda array: array.astype(np.uint8), "live has type uint8"),
        ("df", with_value(-1), r"df has a number outside 0\.\.9223372036854775807"),
        ("df", lambda array: array[:-1], "df has shape"),
        ("cf", with_value(-1), r"cf has a number outside 0\.\.9223372036854775807"),
        ("term_ends", lambda array: array[::-1], "term_ends is not ascending"),
        ("term_bytes", lambda array: array[:-1], "term_ends is not ascending"),
        ("docid_ends", lambda array: array + 1, "docid_ends is not ascending"),
        ("docid_ends", lambda array: array[1:], "docid_ends has shape"),
        ("docid_rank", with_value(-1), r"docid_rank has a number outside 0\.\.3"),
        ("docid_rank", with_value(4), r"docid_rank has a number outside 0\.\.3"),
        ("docid_hashes", lambda array: array[1:], r"docid_hashes has shape .2,., .3,. was expected"),
        ("docid_hash_rows", with_value(-1), r"docid_hash_rows has a number outside 0\.\.3"),
        ("docid_hash_rows", with_value(4), r"docid_hash_rows has a number outside 0\.\.3"),
    ],
)
def test_arrays_with_numbers_out_of_range_are_refused_by_name(saved, name, change, message):
    meta, arrays = saved
    validate(meta, arrays)
    with pytest.raises(ValueError, match=message):
        validate(meta, {**arrays, name: change(arrays[name].copy())})


@pytest.mark.parametrize(
    ("statistics", "problem", "message"),
    [
        ({"documents": 4, "tokens": 6, "postings": -5}, ValueError, "the number of postings is -5"),
        ({"documents": 4, "tokens": 6.0, "postings": 5}, ValueError, r"the number of tokens is 6\.0"),
        ({"documents": 4, "tokens": 6}, KeyError, "postings"),
        ({"documents": 4, "tokens": 6, "postings": 5, "b": 1, "a": 1}, ValueError, "unknown statistics: a, b"),
    ],
)
def test_statistics_are_three_counts(saved, statistics, problem, message):
    meta, arrays = saved
    assert tuple(field.name for field in fields(Statistics)) == STATISTICS
    with pytest.raises(problem, match=message):
        validate({**meta, "extra": {"statistics": statistics}}, arrays)


def test_an_index_without_positions_stores_none(tmp_path):
    TokenSource({"a": ["x", "y"]}).write(tmp_path / "f", positions=False)
    meta, arrays = artefacts.load(tmp_path / "f", KIND, VERSION)
    assert arrays["positions"].shape == (0,)
    with pytest.raises(ValueError, match="positions has shape"):
        validate(meta, {**arrays, "positions": np.zeros(2, dtype=np.int32)})
    with pytest.raises(IndexProblem, match="indexed without positions"):
        ForwardIndex(tmp_path / "f").tokens(0)


def test_indexes_of_the_published_format_are_read(tmp_path):
    """The number belongs to the saved format: indexes of format 1 are read, others refused."""
    TokenSource({"a": ["x"]}).write(tmp_path / "f")
    assert artefacts.load(tmp_path / "f", KIND, 1)[0]["version"] == 1
