import shutil

import numpy as np
import pytest

import kernelsearch
from kernelsearch.api.index import Index
from kernelsearch.core.errors import ArtefactError, IndexProblem, InputError
from kernelsearch.forward import NORM_LENGTHS, ForwardIndex, StringTable
from tests.conftest import rewrite_meta


def row_of(forward, docid):
    return int(forward.rows_of([docid])[0])


def counts(forward, docid):
    row = row_of(forward, docid)
    places = slice(forward.indptr[row], forward.indptr[row + 1])
    return dict(zip(forward.terms.take(forward.indices[places]), forward.frequencies[places].tolist(), strict=True))


def test_frequencies_of_a_document_by_hand(tiny):
    # "A dripping tap wastes water. Turn the water off, then replace the washer of the tap.", stemmed, stop words out
    assert counts(tiny.forward, "d1") == {
        "drip": 1,
        "tap": 2,
        "wast": 1,
        "water": 2,
        "turn": 1,
        "off": 1,
        "replac": 1,
        "washer": 1,
    }
    assert counts(tiny.forward, "d4") == {}


@pytest.mark.parametrize(("count", "dtype"), [(65_535, np.uint16), (65_536, np.int32)])
def test_frequencies_take_two_bytes_unless_a_document_is_long(tmp_path, count, dtype):
    index = kernelsearch.build(tmp_path / "index", [{"id": "a", "contents": "tap " * count}, {"id": "b", "contents": "tap"}])
    assert index.forward.frequencies.dtype == dtype
    assert [counts(index.forward, docid) for docid in ("a", "b")] == [{"tap": count}, {"tap": 1}]


def test_words_are_not_looked_up_again(tiny, monkeypatch):
    forward = ForwardIndex(tiny.forward.path)
    numbers = np.array([3, 0, 5])
    words = forward.words(numbers)
    assert words == forward.terms.take(numbers)
    monkeypatch.setattr(StringTable, "find_sorted", lambda table, text: pytest.fail(f"looked up {text}"))
    assert forward.term_ids(words).tolist() == numbers.tolist()


def test_statistics_are_consistent(tiny):
    forward = tiny.forward
    matrix = forward.matrix()
    np.testing.assert_array_equal(np.asarray(matrix.sum(axis=1)).ravel(), forward.lengths)
    np.testing.assert_array_equal(np.asarray((matrix > 0).sum(axis=0)).ravel(), forward.df)
    np.testing.assert_array_equal(np.asarray(matrix.sum(axis=0)).ravel(), forward.cf)
    assert forward.statistics.tokens == forward.lengths.sum() and forward.statistics.postings == len(forward.indices)
    # the document of stop words has no token, so it doesn't have the field
    assert forward.statistics.documents == 5


def test_rows_are_sorted_by_term(tiny):
    forward = tiny.forward
    for row in range(len(forward)):
        ids = forward.indices[forward.indptr[row] : forward.indptr[row + 1]]
        assert (np.diff(ids) > 0).all()


def test_positions_rebuild_the_text(tiny):
    forward = tiny.forward
    sequence = forward.tokens(row_of(forward, "d1"))
    words = ["" if term < 0 else forward.terms[term] for term in sequence.tolist()]
    assert words == ["", "drip", "tap", "wast", "water", "turn", "", "water", "off", "", "replac", "", "washer", "", "", "tap"]
    assert len(forward.tokens(row_of(forward, "d4"))) == 0


def test_positions_of_several_documents_at_once(tiny):
    forward = tiny.forward
    docs = forward.rows_of(["d3", "d4", "d1"])
    indptr, terms, places = forward.positions(docs)
    for number, doc in enumerate(docs):
        alone = np.full(40, -1)
        alone[places[indptr[number] : indptr[number + 1]]] = terms[indptr[number] : indptr[number + 1]]
        expected = forward.tokens(doc)
        np.testing.assert_array_equal(alone[: len(expected)], expected)
        assert (alone[len(expected) :] == -1).all()


def test_terms_and_docids_are_found(tiny):
    forward = tiny.forward
    result = forward.term_ids(["water", "nonsense", "", "müller"])
    assert [forward.terms[t] if t >= 0 else None for t in result] == ["water", None, None, "müller"]
    rows = forward.rows_of(["d6", "d0", "", "d1"])
    assert forward.docids.take(rows[[0, 3]]) == ["d6", "d1"] and rows[1] == rows[2] == -1
    assert forward.rows_of([]).shape == (0,)


def test_every_docid_is_found_and_ranked(tiny):
    forward = tiny.forward
    docids = forward.docids.take(np.arange(len(forward)))
    np.testing.assert_array_equal(forward.rows_of(docids), np.arange(len(forward)))
    assert [docids[row] for row in np.argsort(forward.docid_rank)] == sorted(docids)


def test_term_frequencies_agree_with_the_matrix(tiny):
    forward = tiny.forward
    docs = np.array([2, 0, 3, 5, 0])
    terms = np.concatenate([forward.term_ids(["water", "tap", "nonsense", "fuse", "water"]), [len(forward.terms) - 1, 0]])
    dense = forward.matrix().toarray()
    expected = np.where(terms >= 0, dense[docs][:, np.maximum(terms, 0)], 0)
    np.testing.assert_array_equal(forward.term_frequencies(docs, terms), expected)
    assert forward.term_frequencies(docs, np.array([-1])).tolist() == [[0]] * 5
    assert forward.term_frequencies(np.array([], dtype=int), terms).shape == (0, 7)


def test_selected_rows_agree_with_the_whole_matrix(tiny):
    docs = np.array([3, 3, 0])
    np.testing.assert_array_equal(tiny.forward.matrix(docs).toarray(), tiny.forward.matrix().toarray()[docs])


def test_title_has_a_forward_index_of_its_own(tiny):
    title = tiny.field("title")
    assert counts(title, "d2") == {"leak": 1, "faucet": 1}
    assert title.field == "title" and len(title) == len(tiny.forward)


def test_norm_table_is_lucenes(tiny):
    from jnius import autoclass

    tiny.lucene.rows()  # Java runs
    small = autoclass("org.apache.lucene.util.SmallFloat")
    lucene = [small.byte4ToInt(byte if byte < 128 else byte - 256) for byte in range(256)]
    np.testing.assert_array_equal(np.array(lucene, dtype=np.float32), NORM_LENGTHS)


def copy(tiny_path, tmp_path):
    shutil.copytree(tiny_path, tmp_path / "index")
    return tmp_path / "index"


def test_truncated_forward_index_is_refused_by_name(tiny_path, tmp_path):
    path = copy(tiny_path, tmp_path)
    file = path / "kernelsearch" / "forward" / "contents" / "indices.npy"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(ArtefactError, match=r"indices\.npy: \d+ bytes where \d+ were written; build the forward index again"):
        _ = Index(path).forward


@pytest.mark.parametrize("value", [{}, [[1]], True, "7", None, -1, 1.5])
def test_statistics_that_are_no_numbers_are_refused(tiny_path, tmp_path, value):
    folder = copy(tiny_path, tmp_path) / "kernelsearch" / "forward" / "contents"
    rewrite_meta(folder, lambda meta: meta["extra"]["statistics"].update(tokens=value))
    with pytest.raises(ArtefactError, match=r"contents: damaged .the number of tokens is"):
        ForwardIndex(folder)


@pytest.mark.parametrize("name", ["term_bytes", "docid_bytes"])
def test_texts_of_another_type_are_refused(tiny_path, tmp_path, name):
    folder = copy(tiny_path, tmp_path) / "kernelsearch" / "forward" / "contents"
    np.save(folder / f"{name}.npy", np.load(folder / f"{name}.npy").astype(np.int16))
    rewrite_meta(folder, lambda meta: meta["files"].update({f"{name}.npy": (folder / f"{name}.npy").stat().st_size}))
    with pytest.raises(ArtefactError, match=f"contents: damaged .{name} has type int16"):
        ForwardIndex(folder)


def test_forward_index_of_another_index_is_refused(tiny_path):
    with pytest.raises(ArtefactError, match="made for another index"):
        ForwardIndex(tiny_path / "kernelsearch" / "forward" / "contents", fingerprint="another")


def test_missing_forward_index_is_made_on_first_use(tiny, tiny_path, tmp_path):
    path = copy(tiny_path, tmp_path)
    shutil.rmtree(path / "kernelsearch" / "forward")
    np.testing.assert_array_equal(Index(path).forward.indices, tiny.forward.indices)


def test_artefacts_can_live_elsewhere(tiny_path, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELSEARCH_ARTEFACTS", str(tmp_path / "elsewhere"))
    index = Index(tiny_path)
    assert index.forward.path.is_relative_to(tmp_path / "elsewhere")


def test_a_place_that_cannot_be_written_says_what_to_do(tiny_path, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELSEARCH_ARTEFACTS", str(tmp_path / "file"))
    with pytest.raises(IndexProblem, match=r"cannot be written .*; KERNELSEARCH_ARTEFACTS names another place"):
        _ = Index(tiny_path).forward


def test_unknown_field_is_named(tiny):
    with pytest.raises(IndexProblem, match="no document has a field 'url'"):
        tiny.field("url")


def test_a_line_break_inside_a_string_is_kept():
    raw = [b"a\nb", b"c", b"\xff\n"] * 20
    table = StringTable(np.frombuffer(b"".join(raw), np.uint8), np.cumsum([len(word) for word in raw]))
    assert table.take(range(60)) == ["a\nb", "c", "\ufffd\n"] * 20


def test_rows_are_the_same_when_docids_were_seen_before(tiny, monkeypatch):
    from kernelsearch.forward import index as module

    forward = ForwardIndex(tiny.forward.path)
    wanted = ["d6", "nothing", "d1", "d6"]
    first = forward.rows_of(wanted)
    assert forward.rows_of(wanted).tolist() == first.tolist()
    assert forward.docids.take(first[[0, 2, 3]]) == ["d6", "d1", "d6"] and first[1] == -1
    monkeypatch.setattr(module, "CACHED_ROWS", 2)  # as after very many documents
    assert forward.rows_of(["d2", "d3", "d1", "d6"]).tolist() == tiny.forward.rows_of(["d2", "d3", "d1", "d6"]).tolist()
    assert len(forward._row_cache) <= 4


def test_documents_that_the_index_lacks_are_named(tiny):
    forward = tiny.forward
    assert forward.require_rows(["d6", "d1"], label="run", collection="tiny").tolist() == forward.rows_of(["d6", "d1"]).tolist()
    with pytest.raises(InputError, match=r"^docid: 'd99' is not in tiny$"):
        forward.require_rows(["d99"], label="docid", collection="tiny")
    with pytest.raises(InputError, match=r"^run: 4 of 5 documents are not in tiny, such as a, b, c$"):
        forward.require_rows(["a", "b", "d1", "c", "d"], label="run", collection="tiny")


def test_docids_with_equal_hashes_are_told_apart(tiny_path, monkeypatch):
    forward = Index(tiny_path).forward
    monkeypatch.setattr("kernelsearch.forward.index.hashes", lambda keys: np.zeros(len(keys), dtype=np.uint64))
    forward._hashes, forward._hash_rows = np.zeros(6, dtype=np.uint64), np.arange(6, dtype=np.int32)
    docids = [forward.docids[row] for row in range(6)]
    assert forward.rows_of([*docids, "none"]).tolist() == [0, 1, 2, 3, 4, 5, -1]
