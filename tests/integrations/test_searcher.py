"""KernelSearcher against Anserini's own SimpleSearcher, which is all that LuceneSearcher wraps, and from many threads."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import os
import pickle
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kernelsearch import index as index_verb
from kernelsearch.api.results import Hit
from kernelsearch.clicks.importing import import_log
from kernelsearch.core.errors import ArtefactError, IndexProblem, InputError, OptionError
from kernelsearch.integrations.pyserini import KernelReranker, KernelSearcher, PyseriniHit, anserini_scores
from kernelsearch.lucene import jvm
from kernelsearch.rerankers import registry
from tests.conftest import DEMO, TINY, build_texts, write_jsonl

SETTINGS = {
    "bm25": lambda searcher: searcher.set_bm25(1.2, 0.75),
    "qld": lambda searcher: searcher.set_qld(500),
    "rm3": lambda searcher: searcher.set_rm3(),
    "rm3, all terms": lambda searcher: searcher.set_rm3(20, 5, 0.3, filter_terms=False),
    "rocchio": lambda searcher: searcher.set_rocchio(),
    "negative rocchio": lambda searcher: searcher.set_rocchio(gamma=0.15, use_negative=True),
}


def plain(hits):
    return [(hit.docid, hit.score, hit.lucene_docid) for hit in hits]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("k", [7, 200])
def test_lists_equal_anserinis_to_the_last_bit(demo_index, topics, setting, k):
    searcher = KernelSearcher(demo_index)
    SETTINGS[setting](searcher)
    texts = list(topics.values())[:12]
    expected = [plain(searcher.object.search(text, k)) for text in texts]
    assert [plain(searcher.search(text, k)) for text in texts] == expected
    batch = searcher.batch_search(texts, [str(number) for number in range(len(texts))], k=k, threads=2)
    assert [plain(hits) for hits in batch.values()] == expected


@pytest.mark.parametrize("feedback", ["RM3", "Rocchio"])
def test_feedback_that_pyserini_refuses_is_refused_in_one_line(demo_index, tmp_path, feedback):
    """Feedback without document vectors is Pyserini's TypeError, a Lucene query without its text its NotImplementedError."""
    from jnius import autoclass

    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "index"), "--no-docvectors"])
    searcher = KernelSearcher(tmp_path / "index")
    with pytest.raises(TypeError, match=f"index: {feedback} needs document vectors, which this index doesn't store") as caught:
        getattr(searcher, f"set_{feedback.lower()}")()
    assert isinstance(caught.value, IndexProblem) and "\n" not in str(caught.value)
    assert searcher.get_feedback_terms("tap") is None  # the setting stays as it was
    searcher = KernelSearcher(tmp_path / "index", **{feedback.lower(): True})  # our own feedback needs no vectors
    assert searcher.search("tap")
    with pytest.raises(TypeError, match=f"{feedback} needs document vectors"):  # Anserini's does
        searcher.search("tap", fields={"contents": 1.0})

    query = autoclass("org.apache.lucene.search.TermQuery")(autoclass("org.apache.lucene.index.Term")("contents", "tap"))
    searcher = KernelSearcher(demo_index)
    getattr(searcher, f"set_{feedback.lower()}")()
    for search in (lambda: searcher.search(query), lambda: searcher.batch_search([query], ["1"], fields={"contents": 1.0})):
        with pytest.raises(NotImplementedError, match=f"^search: {feedback} needs the query's text; a Lucene query") as caught:
            search()
        assert isinstance(caught.value, InputError)
    with pytest.raises(NotImplementedError, match="rerankers need the query's text"):
        KernelSearcher(demo_index, rerank="pert").search(query)
    with pytest.raises(NotImplementedError, match="fields can't be chosen for a Lucene query"):
        KernelSearcher(demo_index).search(query, fields={"contents": 1.0})


def test_searchers_and_hits_pass_for_pyserinis(demo_index, monkeypatch):
    searcher = KernelSearcher(demo_index, rerank="pert")
    hits = searcher.search("dripping tap", 5)
    assert (searcher.__class__, hits[0].__class__) == (KernelSearcher, PyseriniHit)
    theirs = types.ModuleType("pyserini.search.lucene")
    theirs.LuceneSearcher, theirs.JScoredDoc = type("LuceneSearcher", (), {}), type("JScoredDoc", (), {})
    monkeypatch.setitem(sys.modules, theirs.__name__, theirs)
    assert isinstance(searcher, theirs.LuceneSearcher) and isinstance(searcher, KernelSearcher)
    assert all(isinstance(hit, theirs.JScoredDoc) and isinstance(hit, Hit) for hit in hits)
    reranked = KernelReranker(demo_index, "pert").rerank("dripping tap", hits)
    assert isinstance(hits, list) and isinstance(reranked, list) and isinstance(reranked[0], theirs.JScoredDoc)
    again = pickle.loads(pickle.dumps(hits))
    assert plain(again) == plain(hits) == plain(copy.copy(hits)) == plain(hits[:3]) + plain(hits[3:]) == plain(hits.copy())
    assert type(again[0]) is PyseriniHit and plain(copy.copy(searcher).search("dripping tap", 5)) == plain(hits)


def test_feedback_terms_equal_anserinis(demo_index, topics):
    searcher = KernelSearcher(demo_index)
    text = next(iter(topics.values()))
    assert searcher.get_feedback_terms(text) is None
    searcher.set_rm3()
    made = searcher.object.get_feedback_terms(text).entrySet().toArray()
    assert searcher.get_feedback_terms(text) == {entry.getKey(): entry.getValue() for entry in made}


def test_scores_are_rounded_and_ties_parted_as_anserini_does():
    raw = np.array([5.92264, 5.92250, 3.0, 3.0, 3.0, 1.0], dtype=np.float32)
    # 5.9225 is within a ten-thousandth of 5.9226, which counts as a tie.
    np.testing.assert_array_equal(
        anserini_scores(raw),
        np.array([5.9226, 5.9225 - 1e-6, 3.0, 3.0 - 1e-6, 3.0 - 2e-6, 1.0], dtype=np.float32),
    )
    assert anserini_scores(np.empty(0, dtype=np.float32)).shape == (0,)


def test_fields_are_boosted_as_anserini_boosts_them(demo_index):
    searcher = KernelSearcher(demo_index)
    result = searcher.search("leaking tap", 20, fields={"title": 2.0, "contents": 1.0})
    assert result[0].score > searcher.search("leaking tap", 1)[0].score
    batch = searcher.batch_search(["leaking tap"], ["q"], 20, fields={"title": 2.0, "contents": 1.0})
    assert plain(batch["q"]) == plain(result)
    reranked = KernelSearcher(demo_index, rerank="pert").search("leaking tap", 5, fields={"title": 2.0, "contents": 1.0})
    assert [hit.score for hit in reranked] == sorted((hit.score for hit in reranked), reverse=True)


def test_a_lucene_query_is_searched_but_not_reranked(demo_index):
    jvm.start()
    from jnius import autoclass

    term = autoclass("org.apache.lucene.index.Term")("contents", "tap")
    query = autoclass("org.apache.lucene.search.TermQuery")(term)
    searcher = KernelSearcher(demo_index)
    assert plain(searcher.search(query, 5)) == plain(searcher.search("tap", 5))
    with pytest.raises(InputError, match="need the query's text"):
        KernelSearcher(demo_index, rerank="pert").search(query, 5)


def test_reranked_lists_are_the_pipelines(ready, topics):
    index, texts = ready("pert"), list(topics.values())[:5]
    searcher = KernelSearcher(index, rerank="pert", pert_alpha=0.7, hits=100)
    expected = [index.search(text, rerank="pert", pert_alpha=0.7, hits=100) for text in texts]
    assert [[hit.docid for hit in searcher.search(text)] for text in texts] == [results.docids for results in expected]
    batch = searcher.batch_search(texts, list("abcde"), k=10, threads=2)
    assert [[hit.score for hit in batch[qid]] for qid in "abcde"] == [results.scores for results in expected]


def test_settings_reach_the_rerankers(ready, topics):
    text = next(iter(topics.values()))
    searcher = KernelSearcher(ready("pert"), rerank="pert")
    searcher.set_qld(300)
    assert [hit.docid for hit in searcher.search(text)] == ready("pert").search(text, rerank="pert", qld=True, mu=300).docids
    searcher.set_bm25(1.4, 0.6)
    assert [hit.docid for hit in searcher.search(text)] == ready("pert").search(text, rerank="pert", k1=1.4, b=0.6).docids


def test_feedback_is_switched_on_and_off(demo_index):
    searcher = KernelSearcher(demo_index)
    searcher.set_rm3()
    assert (searcher.is_using_rm3(), searcher.is_using_rocchio()) == (True, False)
    searcher.unset_rocchio()
    assert searcher.is_using_rm3()
    searcher.unset_rm3()
    searcher.set_rocchio()
    assert (searcher.is_using_rm3(), searcher.is_using_rocchio()) == (False, True)
    searcher.unset_rocchio()
    assert not searcher.is_using_rocchio()
    assert searcher.get_similarity().toString() == "BM25(k1=0.9,b=0.4)"


def test_documents_by_docid_number_and_field(tiny):
    searcher = KernelSearcher(tiny)
    document = searcher.doc("d2")
    assert (document.docid(), document.id(), document.contents()[:7]) == ("d2", "d2", "Leaking")
    assert document.get("id") == document.lucene_document().get("id") == "d2"
    assert document.raw().startswith("{")
    assert searcher.doc(tiny.forward.rows_of(["d2"])[0].item()).docid() == "d2"
    assert [searcher.doc(unknown) for unknown in ("d99", 99, -1)] == [None, None, None]
    assert list(searcher.batch_doc(["d1", "d99", "d3"], threads=2)) == ["d1", "d3"]
    assert searcher.doc_by_field("id", "d3").docid() == "d3"
    assert searcher.doc_by_field("id", "d99") is None
    assert searcher.num_docs == 6


def test_segments_are_stripped_and_duplicates_removed(tmp_path):
    texts = {
        "a.1": "tap tap tap",
        "b.1": "tap tap of a door",
        "a.2": "one tap in a long text",
        "c.1": "a tap in a much longer text",
    }
    searcher = KernelSearcher(build_texts(tmp_path, texts))
    assert [hit.docid for hit in searcher.search("tap")] == list(texts)
    assert [hit.docid for hit in searcher.search("tap", strip_segment_id=True)] == ["a", "b", "a", "c"]
    hits = searcher.search("tap", strip_segment_id=True, remove_dups=True)
    assert [hit.docid for hit in hits] == ["a", "b", "c"]  # each where its first segment is
    assert [hit.score for hit in hits] == [searcher.search("tap")[place].score for place in (0, 1, 3)]
    assert [hit.docid for hit in searcher.search("tap", remove_dups=True)] == list(texts)


def test_language_and_analyser_change_the_queries_analysis(demo_index):
    searcher = KernelSearcher(demo_index)
    assert searcher.search("taps")
    searcher.set_language("whitespace")
    assert not searcher.search("taps")  # the index holds stems
    searcher.set_language("en")
    assert searcher.search("taps")
    jvm.start()
    from jnius import autoclass

    searcher.set_analyzer(autoclass("org.apache.lucene.analysis.core.WhitespaceAnalyzer")())
    assert not searcher.search("taps")
    with pytest.raises(OptionError, match="'klingon' is not one of"):
        searcher.set_language("klingon")


def test_an_empty_query_finds_nothing(tiny):
    assert KernelSearcher(tiny).search("") == []
    assert KernelSearcher(tiny, rerank="pert").search("the of") == []
    assert KernelSearcher(tiny).batch_search([], [], 10) == {}


def test_what_cannot_be_done_is_said(tiny, tmp_path):
    with pytest.raises(IndexProblem, match="no such index"):
        KernelSearcher(tmp_path / "nothing")
    with pytest.raises(OptionError, match="'nonsense' is not one of"):
        KernelSearcher(tiny, rerank="nonsense")
    with pytest.raises(InputError, match="k=0 is below 1"):
        KernelSearcher(tiny).search("tap", 0)
    with pytest.raises(InputError, match="a folder, an opened index or a Lucene searcher was expected, not int"):
        KernelSearcher(3)


def test_signatures_are_lucene_searchers():
    """Parameter names and order of LuceneSearcher in pyserini 1.6; ours may add keyword-only ones."""
    expected = {
        "__init__": ["index_dir", "prebuilt_index_name", "index_reader"],
        "from_prebuilt_index": ["prebuilt_index_name", "verbose"],
        "search": ["q", "k", "query_generator", "fields", "strip_segment_id", "remove_dups"],
        "batch_search": ["queries", "qids", "k", "threads", "query_generator", "fields"],
        "get_feedback_terms": ["q"],
        "set_analyzer": ["analyzer"],
        "set_language": ["language"],
        "set_rm3": ["fb_terms", "fb_docs", "original_query_weight", "debug", "filter_terms"],
        "set_rocchio": [
            "top_fb_terms", "top_fb_docs", "bottom_fb_terms", "bottom_fb_docs", "alpha", "beta", "gamma", "debug",
            "use_negative",
        ],
        "set_qld": ["mu"],
        "set_bm25": ["k1", "b"],
        "doc": ["docid"],
        "batch_doc": ["docids", "threads"],
        "doc_by_field": ["field", "q"],
    }  # fmt: skip
    for name, names in expected.items():
        parameters = inspect.signature(getattr(KernelSearcher, name)).parameters.values()
        positional = [
            parameter.name
            for parameter in parameters
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name != "self"
        ]
        assert positional == names, name


@pytest.mark.parametrize("name", [None, *registry.names()])
def test_eight_threads_find_what_one_finds(ready, topics, name):
    searcher = KernelSearcher(ready(name) if name else ready("pert"), rerank=name, hits=100)
    texts = list(topics.values())[:16]
    expected = [plain(searcher.search(text, 20)) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        result = list(pool.map(lambda text: plain(searcher.search(text, 20)), texts * 2))
    assert result == expected * 2


def test_many_queries_leave_no_java_threads_and_little_memory(ready, topics):
    """The full 10,000 queries are run by tools/bench/dropin.py; here as many as a test can afford."""
    searcher = KernelSearcher(ready("pert"), rerank="pert", hits=50)
    texts = list(topics.values())

    def work(number: int) -> None:
        for place in range(25):
            searcher.search(texts[(number + place) % len(texts)])

    def java_threads() -> int:
        from jnius import autoclass

        return autoclass("java.lang.Thread").activeCount()

    def run_threads() -> None:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    run_threads()
    before, memory = java_threads(), resident()
    run_threads()
    assert java_threads() == before
    assert resident() - memory < 64e6


def resident() -> float:
    """This process's memory, in bytes."""
    with open("/proc/self/statm") as stream:
        return float(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def search_in_worker(searcher: KernelSearcher) -> list[str]:
    return [hit.docid for hit in searcher.search("dripping tap")]


def test_spawned_workers_open_the_index_again(demo_index):
    searcher = KernelSearcher(demo_index, rerank="pert")
    searcher.set_qld(700)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(search_in_worker, (searcher,)) == search_in_worker(searcher)
    assert pickle.loads(pickle.dumps(searcher)).get_similarity().toString() == searcher.get_similarity().toString()


def test_a_forked_worker_is_told_to_spawn(tiny):
    KernelSearcher(tiny).search("tap")
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            KernelSearcher(tiny).search("tap")
            message = "nothing"
        except BaseException as problem:
            message = str(problem)
        os.write(sender, message.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(receiver, 1000).decode().startswith("Java does not survive a fork")


def test_vectors_are_chosen_when_the_searcher_is_made(demo_index, topics):
    """The list of the searcher is that of the inner products, computed from the file; changing the language keeps them."""
    folder = demo_index.path.parent
    searcher = KernelSearcher(
        str(demo_index.path), rerank="dense", vectors={"queries": str(folder / "queries.npz")}, dense_retrieve=50
    )
    documents, queries = np.load(folder / "vectors.npz"), np.load(folder / "queries.npz")
    text = next(iter(topics.values()))
    products = documents["vectors"] @ queries["vectors"][queries["ids"].tolist().index(text)]
    best = documents["ids"][np.argsort(-products)[:10]].tolist()
    assert [hit.docid for hit in searcher.search(text, k=10)] == best
    searcher.set_language("en")
    assert [hit.docid for hit in searcher.search(text, k=10)] == best
    with pytest.raises(ArtefactError, match="no vectors named 'other'"):
        KernelSearcher(demo_index, rerank="dense", vectors="other")


def test_named_vectors_must_be_usable(demo_index):
    """`auto` goes without vectors that nobody named, and never without those that the searcher was made with."""
    with pytest.raises(OptionError, match="vectors 'random': where do the queries' vectors come from"):
        KernelSearcher(demo_index, rerank="auto", vectors="random")
    with pytest.raises(ArtefactError, match="no vectors named 'other'"):
        KernelSearcher(demo_index, rerank="auto", vectors="other")
    unnamed = KernelSearcher(str(demo_index.path), rerank="auto").search("dripping tap", k=5)
    words = KernelSearcher(demo_index, rerank="auto", vectors="random", auto_vectors="none").search("dripping tap", k=5)
    assert [hit.docid for hit in unnamed] == [hit.docid for hit in words]


def test_unchanged_lists_are_reported_with_the_reason(demo_index, tmp_path):
    import_log([DEMO / "clicks.jsonl"], tmp_path / "clicks.db")
    options = {"clicks": str(tmp_path / "clicks.db"), "min_similarity": 100}
    searcher = KernelSearcher(demo_index, rerank={"rbm25": options})
    assert searcher.fallbacks() == []
    first = KernelSearcher(demo_index).search("dripping tap")
    assert [hit.docid for hit in searcher.search("dripping tap")] == [hit.docid for hit in first]
    [line] = searcher.fallbacks()
    assert "rbm25" in line and "no similar query in the click log" in line
