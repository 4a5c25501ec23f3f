"""Selections of documents answer as the whole matrix of term frequencies does."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from kernelsearch.forward import index as forward_index

DOCS = np.array([7, 3, 99, 3], dtype=np.int32)


@pytest.fixture()
def terms(demo_index):
    forward = demo_index.forward
    row = forward.indices[forward.indptr[3] : forward.indptr[4]]
    return np.array([int(row[2]), -1, 2, int(row[0]), len(forward.terms) - 1])


def test_occurrences_are_the_entries_of_the_matrix(demo_index, terms):
    rows, columns, frequencies = demo_index.forward.occurrences(DOCS, terms)
    table = np.zeros((4, 5))
    table[rows, columns] = frequencies
    expected = demo_index.forward.matrix(DOCS).toarray()[:, terms] * (terms >= 0)
    np.testing.assert_array_equal(table, expected)
    assert table[1, 0] > 0 and (np.diff(rows) >= 0).all()


def test_the_same_documents_are_read_once(demo_index):
    forward = demo_index.forward
    first = forward.select(DOCS)
    assert forward.select(DOCS.copy()) is first
    for number in range(forward_index.CACHED_SELECTIONS):
        forward.select(np.array([number]))
    assert forward.select(DOCS) is not first


def test_threads_have_selections_of_their_own(demo_index):
    selection, selections_of_worker = demo_index.forward.select(DOCS), []
    worker = threading.Thread(target=lambda: selections_of_worker.append(demo_index.forward.select(DOCS)))
    worker.start()
    worker.join()
    assert selections_of_worker[0] is not selection
    np.testing.assert_array_equal(selections_of_worker[0].terms, selection.terms)


def test_a_caller_that_changes_its_documents_gets_the_new_ones(demo_index):
    docs = DOCS.copy()
    demo_index.forward.select(docs)
    docs[0] = 8
    np.testing.assert_array_equal(demo_index.forward.select(docs).matrix().toarray(), demo_index.forward.matrix(docs).toarray())


def test_an_index_too_large_for_32_bit_offsets_reads_the_same(demo_index, terms, monkeypatch):
    forward = demo_index.forward
    expected = forward.term_frequencies(DOCS, terms)
    monkeypatch.setitem(forward.__dict__, "_postings", None)
    forward._selections.recent.clear()
    np.testing.assert_array_equal(forward.term_frequencies(DOCS, terms), expected)


def test_terms_are_found_again_after_the_cache_was_full(demo_index, monkeypatch):
    forward = demo_index.forward
    words = ["tap", "zzzz", "drip", "water"]
    expected = [forward.terms.find_sorted(word) for word in words]
    monkeypatch.setattr(forward_index, "CACHED_TERMS", 2)
    for _ in range(2):
        assert forward.term_ids(words).tolist() == expected
