import json
import shutil
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kernelsearch import index as index_verb
from kernelsearch.api.export import export
from kernelsearch.api.index import Index
from kernelsearch.core.errors import IndexProblem, JavaError, OptionError
from kernelsearch.core.types import Query
from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels import ranking_models
from kernelsearch.lucene import jvm
from kernelsearch.lucene.index import LuceneIndex
from kernelsearch.lucene.models import RM3, BM25Model, DirichletModel, JelinekMercerModel, Rocchio
from kernelsearch.lucene.postings import LucenePostings
from kernelsearch.lucene.shards import index_fingerprint
from kernelsearch.lucene.simple import simple_search, simple_searcher
from tests.conftest import TINY, build_texts, write_jsonl
from tests.lucene.plain_postings import PlainPostings


@pytest.fixture(scope="module")
def worn_path(tmp_path_factory):
    """An index with several segments, deleted and updated documents, a document of stop words, and one very long one."""
    folder = tmp_path_factory.mktemp("worn")
    random = np.random.default_rng(5)
    words = [f"w{n}" for n in range(80)]
    documents = [
        {"id": f"doc{n:03d}", "contents": " ".join(random.choice(words, size=random.integers(1, 60), p=zipf(80)))}
        for n in range(300)
    ]
    documents[7]["contents"] = "the of and"
    documents[8]["contents"] = "w1 " * 5000
    source = write_jsonl(folder / "corpus.jsonl", documents)
    index_verb.main(["--input", str(source), "--index", str(folder / "index"), "--no-optimize", "--no-forward"])
    change(folder / "index", delete=["doc003", "doc150"], add=[{"id": "doc003", "contents": "w1 w2 changed"}])
    change(folder / "index", delete=["doc299"], add=[{"id": "doc300", "contents": "w1 w1 w5"}])
    return folder / "index"


def zipf(size):
    weights = 1 / np.arange(1, size + 1)
    return weights / weights.sum()


def change(path, delete, add, doc_values="BinaryDocValuesField"):
    """Deletes and adds documents with Lucene's own writer, as another program would; every call adds a segment.

    Identifiers have `doc_values` of this class; Anserini's with Lucene 8 had SortedDocValuesField.
    """
    jvm.start()
    from jnius import autoclass, cast

    lucene = "org.apache.lucene"
    names = (
        *(f"{lucene}.index.{name}" for name in ("IndexWriter", "IndexWriterConfig", "NoMergePolicy", "Term", "IndexOptions")),
        *(f"{lucene}.document.{name}" for name in ("Document", "Field", "FieldType", "StringField", doc_values)),
        *(f"{lucene}.store.FSDirectory", "java.nio.file.Paths", f"{lucene}.util.BytesRef"),
        "io.anserini.analysis.DefaultEnglishAnalyzer",
    )
    java = {name.rsplit(".", 1)[1]: autoclass(name) for name in names}
    config = java["IndexWriterConfig"](java["DefaultEnglishAnalyzer"].newDefaultInstance())
    config.setMergePolicy(java["NoMergePolicy"].INSTANCE)
    config.setUseCompoundFile(False)
    writer = java["IndexWriter"](java["FSDirectory"].open(java["Paths"].get(str(path))), config)
    nothing = cast("java.lang.Iterable", autoclass("java.util.ArrayList")())  # else Lucene 10's other overload is taken
    for docid in delete:
        writer.updateDocuments(java["Term"]("id", docid), nothing)
    kind = java["FieldType"]()
    kind.setStored(True)
    kind.setStoreTermVectors(True)
    kind.setIndexOptions(java["IndexOptions"].DOCS_AND_FREQS_AND_POSITIONS)
    for record in add:
        document = java["Document"]()
        document.add(java["StringField"]("id", record["id"], autoclass("org.apache.lucene.document.Field$Store").YES))
        document.add(java[doc_values]("id", java["BytesRef"](record["id"].encode())))
        text = cast("java.lang.CharSequence", autoclass("java.lang.String")(record["contents"]))
        document.add(java["Field"]("contents", text, kind))
        writer.addDocument(document)
    writer.commit()
    writer.close()


@pytest.mark.parametrize("feedback", [None, RM3(), Rocchio()])
def test_an_index_of_lucene_8_is_searched_as_anserini_searches_it(tmp_path, feedback):
    """Its ids have sorted doc values; Anserini then breaks ties by the order of indexing, here not that of docids."""
    texts = ["same words", "same words", "other words here", "words and more words", "same tap", "a tap"] * 2
    records = [{"id": f"d{99 - number}", "contents": text} for number, text in enumerate(texts)]
    for part in (records[:5], records[5:]):  # two segments
        change(tmp_path, [], part, "SortedDocValuesField")
    index = Index(tmp_path)
    anserini = simple_searcher(index.lucene, BM25Model(), feedback)
    if not hasattr(anserini, "backwardsCompatibilityLucene8"):
        pytest.skip("this release of Anserini reads no index of Lucene 8")
    assert not anserini.backwardsCompatibilityLucene8
    anserini.backwardsCompatibilityLucene8 = True  # Anserini reads it from the release that wrote the segments
    for text in ("same words", "tap"):
        ours = index.lucene.search([index.query(text)], feedback=feedback)[0]
        assert ours.docs.tolist() == simple_search(anserini, text, 1000).docs.tolist()
        assert len(set(ours.scores.tolist())) < ours.depth  # there are ties
    assert sorted(index.search("same words", rerank="pert").docids) == sorted(index.search("same words").docids)
    assert index.search("same words").docids[:2] == ["d99", "d98"]


def test_analysis_is_anserinis(tiny):
    assert tiny.lucene.analyze(["The dripping taps, the leaking FAUCETS!", "", "of the", "two\nlines\ttab"]) == [
        ["drip", "tap", "leak", "faucet"], [], [], ["two", "line", "tab"],
    ]  # fmt: skip
    assert tiny.lucene.analyze([]) == []


def test_bm25_by_hand(tiny):
    # "fuse" occurs twice in d3 only: idf = ln(1 + (5 - 1 + .5) / (1 + .5)); five documents have the field
    result = tiny.lucene.search([tiny.query("fuse")])[0]
    assert tiny.forward.docids.take(result.docs) == ["d3"]
    length, average = tiny.forward.lengths[result.docs[0]], tiny.forward.statistics.tokens / 5
    expected = np.log(1 + 4.5 / 1.5) * 2 / (2 + 0.9 * (0.6 + 0.4 * length / average))
    assert result.scores[0] == pytest.approx(expected, rel=1e-6)


def test_ties_come_in_docid_order(tmp_path):
    source = write_jsonl(
        tmp_path / "c.jsonl", [{"id": docid, "contents": "same words"} for docid in ("z", "b", "a10", "a9", "B")]
    )
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "index")])
    index = Index(tmp_path / "index")
    result = index.lucene.search([index.query("words")])[0]
    assert index.forward.docids.take(result.docs) == ["B", "a10", "a9", "b", "z"]
    assert index.forward.docids.take(index.lucene.search([index.query("words")], 2)[0].docs) == ["B", "a10"]


@pytest.mark.parametrize("model", [BM25Model(), BM25Model(2.0, 0.75), DirichletModel(), JelinekMercerModel()])
def test_threads_and_batches_change_nothing(tiny, model):
    queries = tiny.lucene.queries(["water tap", "fuse", "", "nonsense", "water water panel", "dangerous"])
    alone = [tiny.lucene.search([query], model=model)[0] for query in queries]
    together = tiny.lucene.search(queries, model=model, threads=4)
    for ranked, expected in zip(alone, together, strict=True):
        np.testing.assert_array_equal(ranked.docs, expected.docs)
        np.testing.assert_array_equal(ranked.scores, expected.scores)
    assert together[2].depth == together[3].depth == 0


def test_answers_larger_than_a_kept_buffer_come_whole(demo_index):
    lucene = demo_index.lucene
    text = " ".join(f"word{number}" for number in range(jvm.BUFFER // 8))
    assert lucene.analyze([text, "tap"]) == [text.split(), ["tap"]]
    many = lucene.queries(["tap water pipe"] * (jvm.BUFFER // 400))
    lists = lucene.search(many, 1000)
    assert 8 * sum(result.depth for result in lists) > jvm.BUFFER
    alone = lucene.search(many[:1], 1000)[0]
    assert all(np.array_equal(result.docs, alone.docs) and np.array_equal(result.scores, alone.scores) for result in lists)


def test_weighted_queries_scale_linearly(tiny):
    plain = tiny.lucene.search([Query("x", ("water", "tap"), (1.0, 1.0))])[0]
    double = tiny.lucene.search([Query("x", ("water", "tap"), (2.0, 2.0))])[0]
    np.testing.assert_allclose(double.scores, 2 * plain.scores, rtol=1e-6)
    only = tiny.lucene.search([Query("x", ("water", "tap"), (1.0, 0.0))])[0]
    water = tiny.lucene.search([Query("x", ("water",), (1.0,))])[0]
    np.testing.assert_allclose(only.scores[: water.depth], water.scores)


def test_a_query_is_analysed_as_documents_are(tmp_path):
    """Java's white space is not Python's: a no-break space is a letter for the analyser of tokenised text."""
    words = ["foo\u00a0bar", "foo\x85bar", "foo\u2007bar", "foo\u3000bar", "foo\tbar\r\nfoo"]
    texts = dict(zip("abcde", words, strict=True))
    lucene = Index(build_texts(tmp_path, texts, "--language", "whitespace")).lucene
    for docid, word, terms in zip("abcde", words, lucene.analyze(words), strict=True):
        found = lucene.search(lucene.queries([word]))[0]
        assert docid in {"abcde"[row] for row in found.docs}
        assert terms == ([word] if docid in "abc" else ["foo", "bar"] if docid == "d" else ["foo", "bar", "foo"])


def test_a_query_may_be_as_long_as_a_document(tiny):
    water = tiny.lucene.search([Query("x", ("water",), (1.0,))])[0]
    terms = ("water", *(f"unknown{number}" for number in range(5000)))
    long = tiny.lucene.search([Query("x", terms, (1.0,) * len(terms))])[0]
    assert water.depth and long.docs.tolist() == water.docs.tolist() and long.scores.tolist() == water.scores.tolist()


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_impossible_weights_are_refused(tiny, weight):
    with pytest.raises(OptionError, match=r"weight .* of term 'water' must be finite and not negative"):
        tiny.lucene.search([Query("x", ("water",), (weight,))])


@pytest.mark.parametrize("feedback", [RM3(), Rocchio(), Rocchio(negative=True)])
def test_feedback_keeps_the_query_and_adds_terms(demo_index, feedback):
    queries = demo_index.lucene.queries(["dripping tap", "zzzz"])
    expanded = demo_index.lucene.expand(queries, feedback)
    assert set(queries[0].terms) <= set(expanded[0].terms) and len(expanded[0].terms) > 5
    assert all(weight >= 0 for weight in expanded[0].weights)
    both = demo_index.lucene.search(queries, feedback=feedback, threads=2)
    again = demo_index.lucene.search(expanded)
    np.testing.assert_array_equal(both[0].scores, again[0].scores)
    assert both[1].depth == 0


def test_feedback_needs_document_vectors(tmp_path):
    source = write_jsonl(tmp_path / "c.jsonl", [{"id": "1", "contents": "some words"}])
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--no-docvectors", "--no-positions"])
    index = Index(tmp_path / "i")
    with pytest.raises(IndexProblem, match=r"RM3 needs document vectors.*storeDocvectors"):
        index.lucene.search([index.query("words")], feedback=RM3())
    with pytest.raises(IndexProblem, match=r"without positions.*storePositions"):
        index.forward.tokens(0)
    assert not index.forward.has_positions and index.forward.lengths.tolist() == [2]


def test_stored_texts(tiny):
    rows = tiny.forward.rows_of(["d6", "d3"])
    texts = tiny.lucene.stored(rows, "contents")
    assert texts == ["Señor Müller repariert den Wasserhahn.", "When a fuse blows, find the fault before you replace the fuse."]
    assert json.loads(tiny.lucene.stored(rows, "raw")[1]) == TINY[2]
    assert tiny.lucene.stored(rows, "nothing") == [None, None] and tiny.lucene.stored([], "raw") == []


def test_docids_come_with_and_without_a_forward_index(tiny):
    assert tiny.lucene.docids() == tiny.forward.docids.take(np.arange(len(tiny.forward)))


def test_worn_index_is_what_it_should_be(worn_path):
    index = Index(worn_path)
    assert index.lucene.reader.leaves().size() >= 3
    assert index.lucene.rows() == 302 and index.lucene.documents() == 299
    assert (~index.forward.live).sum() == 3
    rows = index.forward.rows_of(["doc003", "doc150", "doc299", "doc300"])
    assert rows[1] == rows[2] == -1 and index.forward.live[rows[[0, 3]]].all()
    # Lucene's statistics still count what was deleted; the rows don't.
    matrix = index.forward.matrix()
    assert index.forward.statistics.tokens > matrix.sum()
    assert (index.forward.df >= np.asarray((matrix > 0).sum(axis=0)).ravel()).all()


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (2.0, 0.75), (1.2, 0.0), (0.5, 1.0)])
def test_numpy_bm25_is_bit_equal_on_a_worn_index(worn_path, k1, b):
    index = Index(worn_path)
    queries = index.lucene.queries(["w1 w2 w3", "w7", "w1 w1 w1 w60", "changed w5", " ".join(f"w{n}" for n in range(80))])
    for query, result in zip(queries, index.lucene.search(queries, model=BM25Model(k1, b)), strict=True):
        assert result.depth
        ours = ranking_models.bm25_scores(
            index.forward, index.forward.term_ids(query.terms), query.weights, result.docs, k1=k1, b=b
        )
        np.testing.assert_array_equal(ours, result.scores)


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.2, 0.0), (0.0, 0.75)])
def test_a_search_in_memory_is_lucenes(worn_path, k1, b):
    """Documents and scores to the last bit: deleted documents, equal scores, terms of weight 0 and unknown ones, any depth."""
    index = Index(worn_path)
    words = [("w1", "w2", "w3"), ("w7",), ("zzz",), ("changed", "w5", "zzz"), tuple(f"w{n}" for n in range(80))]
    weights = np.random.default_rng(0).uniform(0, 3, 80)
    weights[2] = 0.0
    queries = [Query("", terms, tuple(weights[: len(terms)].tolist())) for terms in words]
    for hits in (1, 10, 150, 1000):
        for query, expected in zip(queries, index.lucene.search(queries, hits, model=BM25Model(k1, b)), strict=True):
            weighted = ranking_models.BM25Query(index.forward.term_ids(query.terms), query.weights, k1, b)
            ours = ranking_models.bm25_search(index.forward, index.forward.by_term, weighted, hits)
            np.testing.assert_array_equal(ours.docs, expected.docs)
            np.testing.assert_array_equal(ours.scores, expected.scores)


@pytest.mark.parametrize(
    ("postings", "block_bytes"),
    [
        (LucenePostings, 1),
        (LucenePostings, 500),
        (LucenePostings, 1 << 28),
        (PlainPostings, 20_000),
        (PlainPostings, 1 << 28),
    ],
)
def test_block_size_and_helper_change_nothing(worn_path, tmp_path, monkeypatch, postings, block_bytes):
    index = Index(worn_path)
    index.forward  # noqa: B018  exported through the helper before it is replaced
    monkeypatch.setattr("kernelsearch.api.export.LucenePostings", postings)
    other = ForwardIndex(export(index.lucene, path=tmp_path / "forward", block_bytes=block_bytes))
    for name in ("indptr", "indices", "frequencies", "lengths", "norms", "live", "df", "cf", "docid_rank", "_positions"):
        np.testing.assert_array_equal(getattr(other, name), getattr(index.forward, name), err_msg=name)
    assert other.terms.take(np.arange(len(other.terms))) == index.forward.terms.take(np.arange(len(other.terms)))


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("at_once", [0, 1 << 20])
def test_rows_of_one_pass_and_of_two_are_those_of_lucenes_iterators(worn_path, at_once, positions):
    reader = Index(worn_path).lucene.reader
    source = LucenePostings(reader, "contents", at_once=at_once, positions=positions)
    plain = PlainPostings(reader, "contents")
    scan = source.scan()
    for start, end in ((0, 302), (0, 1), (100, 200), (302, 302)):
        result, expected = source.rows(start, end, scan, positions), plain.rows(start, end, plain.scan(), positions)
        for ours, theirs in zip(result, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_small_heap_is_not_filled_with_rows(worn_path, monkeypatch):
    monkeypatch.setattr("kernelsearch.lucene.postings._heap", lambda: 1 << 10)
    source = LucenePostings(Index(worn_path).lucene.reader, "contents", at_once=1 << 30)
    source.scan()
    assert source._cached is None


def test_a_changed_index_gets_a_new_fingerprint_and_a_new_forward_index(tiny_path, tmp_path):
    path = shutil.copytree(tiny_path, tmp_path / "index")
    before = index_fingerprint(path)
    assert before == index_fingerprint(tiny_path)
    change(path, delete=["d1"], add=[])
    assert index_fingerprint(path) != before
    assert Index(path).forward.rows_of(["d1"]).tolist() == [-1]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: shutil.rmtree(path), "no such index"),
        (lambda path: [file.unlink() for file in path.glob("segments_*")], "not a Lucene index .it has no segments file"),
        (lambda path: [file.unlink() for file in path.glob("_0*")], "a damaged Lucene index"),
        (lambda path: patch_version(path), "written by a newer Lucene"),
        (lambda path: patch_release(path), "written by a newer Lucene"),
        (lambda path: (shutil.rmtree(path), path.write_text("x")), "not a Lucene index .a folder was expected"),
    ],
)
def test_unusable_indexes_are_named(tiny_path, tmp_path, damage, message):
    path = shutil.copytree(tiny_path, tmp_path / "index")
    damage(path)
    with pytest.raises(IndexProblem, match=f"index: {message}"):
        LuceneIndex(path)


def patch_version(path):
    """Raises the format version in the segments file's header: magic, the name `segments`, then the version."""
    file = next(path.glob("segments_*"))
    data = bytearray(file.read_bytes())
    place = data.index(b"segments") + len(b"segments")
    data[place : place + 4] = (99).to_bytes(4, "big")
    file.write_bytes(data)


def patch_release(path):
    """Changes the segments file as if Lucene 99 had created and written the index; the format is otherwise readable."""
    file = next(path.glob("segments_*"))
    data = bytearray(file.read_bytes())
    place = data.index(b"segments") + len(b"segments") + 4 + 16  # version, id, then the length of a suffix and the suffix
    place += 1 + data[place]
    data[place] = data[place + 3] = 99  # major release of the writer (minor and patch follow), and of the creator
    data[-8:] = zlib.crc32(data[:-8]).to_bytes(8, "big")  # the file ends with its checksum
    file.write_bytes(data)


def test_language_is_remembered(tmp_path):
    source = write_jsonl(tmp_path / "c.jsonl", [{"id": "1", "contents": "os jogadores correram rapidamente"}])
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "pt"), "--language", "pt"])
    index = Index(tmp_path / "pt")
    assert index.lucene.search([index.query("jogador correr")])[0].depth == 1
    assert Index(tmp_path / "pt", language="whitespace").lucene.analyze(["Os jogadores"]) == [["Os", "jogadores"]]
    with pytest.raises(OptionError, match="language: 'xx' is not one of ar, bn"):
        _ = Index(tmp_path / "pt", language="xx").lucene


def test_searchers_of_many_models_are_not_all_kept(tiny_path):
    lucene = LuceneIndex(tiny_path)
    query = lucene.queries(["water"])
    scores = [lucene.search(query, model=BM25Model(0.5 + number / 1000, 0.4))[0].scores[0] for number in range(200)]
    assert len(lucene._searchers) < 100
    assert len(set(scores)) == 200 and scores[0] == lucene.search(query, model=BM25Model(0.5, 0.4))[0].scores[0]


def test_threads_that_end_leave_no_java_thread_behind(tiny):
    from jnius import autoclass

    count = autoclass("java.lang.Thread").activeCount
    query = tiny.query("water")
    before, results = count(), []
    for _ in range(20):
        worker = threading.Thread(target=lambda: results.append(tiny.lucene.search([query])[0].depth))
        worker.start()
        worker.join()
    assert results == [results[0]] * 20 and results[0] > 0
    assert count() <= before + 1


def test_the_first_documents_of_a_list_just_retrieved_are_not_searched_for_again(demo_index, monkeypatch):
    fresh, index = (LuceneIndex(demo_index.shards) for _ in range(2))
    (query, other), calls = demo_index.lucene.queries(["leaking tap", "roof tiles"]), []
    search_with = index._search_with
    monkeypatch.setattr(index, "_search_with", lambda *arguments: calls.append(arguments) or search_with(*arguments))
    index.search([query], 20)
    index.search([other], 20)  # as that of an expanded query
    (first,) = index.search([query], 5)
    (expected,) = fresh.search([query], 5)
    assert len(calls) == 2
    assert first.docs.tolist() == expected.docs.tolist()
    assert first.scores.tolist() == expected.scores.tolist()
    with pytest.raises(ValueError, match="read-only"):
        first.scores[0] = 0
    index.search([query], 21)
    index.search([query], 5, model=BM25Model(1.2, 0.75))
    index.search([query, other], 5)
    assert len(calls) == 5
    with ThreadPoolExecutor(1) as pool:
        pool.submit(index.search, [query], 5).result()
    assert len(calls) == 6


def test_a_closed_index_has_no_lists(demo_index):
    index = LuceneIndex(demo_index.shards)
    (query,) = index.queries(["leaking tap"])
    index.search([query], 5)
    index.close()
    with pytest.raises(JavaError):
        index.search([query], 5)
