"""Our drop-in classes beside the real pyserini: scripts, rerankers, dense and hybrid lists, output writers, trec_eval."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelsearch import index as index_verb
from kernelsearch.core.errors import InputError
from kernelsearch.integrations.pyserini import KernelReranker, KernelSearcher
from kernelsearch.integrations.pyserini_data import pyserini_topics
from kernelsearch.lucene import jvm
from kernelsearch.trec import read_topics
from tests.conftest import DEMO, TINY, write_jsonl
from tests.pyserini.test_same_process import jdk_for_pyserini

pytestmark = [
    pytest.mark.pyserini,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="the full pyserini is not installed: make test-pyserini"
    ),
]

SCRIPT = Path(__file__).parent / "lucene_script.py"
IMPORT = "from pyserini.search.lucene import LuceneSearcher"
OURS = "from kernelsearch.integrations.pyserini import KernelSearcher as LuceneSearcher"
TEXT = "dripping tap"


@pytest.fixture(scope="module")
def lucene(demo_index):
    """Pyserini's own searcher, imported after we started Java."""
    jvm.start()
    from pyserini.search.lucene import LuceneSearcher

    return LuceneSearcher(str(demo_index.path))


@pytest.fixture(scope="module")
def dense(demo_index, tmp_path_factory):
    """A FaissSearcher over vectors that are hashed counts of words: no model to download, real hits."""
    import faiss
    from pyserini.search.faiss import FaissSearcher

    folder = tmp_path_factory.mktemp("faiss")
    forward = demo_index.forward
    docs = forward.live_docs
    projection = np.random.default_rng(7).normal(size=(len(forward.terms), 64)).astype(np.float32)
    vectors = np.asarray(forward.matrix(docs, dtype=np.float32) @ projection, dtype=np.float32)
    faiss.normalize_L2(vectors)
    index = faiss.IndexFlatIP(64)
    index.add(vectors)
    faiss.write_index(index, str(folder / "index"))
    (folder / "docid").write_text("\n".join(forward.docids.take(docs)) + "\n")

    class Encoder:
        def encode(self, text: str, **_) -> np.ndarray:
            terms = forward.term_ids(demo_index.query(text).terms)
            return projection[terms[terms >= 0]].sum(axis=0)

    return FaissSearcher(str(folder), Encoder())


def run_script(folder: Path, line: str, index: Path) -> str:
    """What the script prints with this line in place of its import; Java is one that both libraries can start."""
    home = jdk_for_pyserini()
    if home is None:
        pytest.skip("pyserini can't start Java by itself here (KERNELSEARCH_TEST_JDK names a JDK with jdk.incubator.vector)")
    text = SCRIPT.read_text()
    assert text.count(IMPORT) == 1
    script = folder / "script.py"
    script.write_text(text.replace(IMPORT, line))
    inherited = {name: value for name, value in os.environ.items() if name not in ("JVM_PATH", "CLASSPATH")}
    environment = {**inherited, "JAVA_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, str(script), str(index)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_lucene_searchers_script_prints_the_same_with_another_import(demo_index, tmp_path):
    expected = run_script(tmp_path, IMPORT, demo_index.path)
    assert "documents: 364" in expected
    assert run_script(tmp_path, OURS, demo_index.path) == expected


def test_lists_are_lucene_searchers_to_the_last_bit(demo_index, lucene):
    ours = KernelSearcher(demo_index)
    for text in list(read_topics(DEMO / "topics.tsv").values())[:20]:
        theirs = [(hit.docid, hit.score, hit.lucene_docid) for hit in lucene.search(text, 100)]
        assert [(hit.docid, hit.score, hit.lucene_docid) for hit in ours.search(text, 100)] == theirs


def test_searchers_and_hits_are_instances_of_pyserinis_classes(demo_index, lucene):
    from pyserini.search.lucene import JScoredDoc, LuceneSearcher

    ours = KernelSearcher(demo_index, rerank="pert")
    for searcher in (lucene, ours):
        assert isinstance(searcher, LuceneSearcher)
        assert isinstance(searcher.search(TEXT)[0], JScoredDoc) and isinstance(searcher.search(TEXT), list)
    # each where the other is expected, too
    assert len(KernelReranker(ours, "pert").rerank(TEXT, lucene.search(TEXT))) == 10


def test_feedback_fails_where_pyserinis_does(demo_index, lucene, tmp_path):
    from jnius import autoclass
    from pyserini.search.lucene import LuceneSearcher

    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "index"), "--no-docvectors"])
    query = autoclass("org.apache.lucene.search.TermQuery")(autoclass("org.apache.lucene.index.Term")("contents", "tap"))
    for kind in (LuceneSearcher, KernelSearcher):
        with pytest.raises(TypeError):
            kind(str(tmp_path / "index")).set_rm3()
        searcher = kind(str(demo_index.path))
        searcher.set_rm3()
        with pytest.raises(NotImplementedError):
            searcher.search(query)


def test_java_hits_come_back_as_java_hits(lucene):
    hits = lucene.search(TEXT, 30)
    before = [(hit.docid, hit.score) for hit in hits]
    ranked = KernelReranker(lucene, "pert").rerank(TEXT, hits)
    assert {type(hit) for hit in ranked} == {type(hits[0])}
    assert [hit.score for hit in ranked] == sorted((hit.score for hit in ranked), reverse=True)
    assert sorted(hit.docid for hit in ranked) == sorted(hit.docid for hit in hits)
    assert ranked[0].lucene_document.get("id") == ranked[0].docid
    assert [(hit.docid, hit.score) for hit in hits] == before


def test_a_searchers_settings_are_taken_over(lucene):
    from kernelsearch.lucene.models import BM25Model, DirichletModel

    try:
        lucene.set_qld(321)
        assert KernelReranker(lucene, "pert").pipeline.first.model == DirichletModel(321.0)
    finally:
        lucene.set_bm25()
    assert KernelReranker(lucene, "pert").pipeline.first.model == BM25Model(0.9, 0.4)


def test_pyserinis_reranker_is_replaced_in_place(demo_index, lucene):
    from pyserini.search.lucene.reranker import ClassifierType, PseudoRelevanceClassifierReranker

    hits = lucene.search("how do I repair a leaking kitchen tap in the house", 300)
    docids, scores = [hit.docid for hit in hits], [hit.score for hit in hits]
    theirs = PseudoRelevanceClassifierReranker(str(demo_index.path), "TfidfVectorizer", [ClassifierType.LR], r=10, n=100)
    ours = KernelReranker(str(demo_index.path), "klsa")
    for new_scores, new_docids in (theirs.rerank(docids, scores), ours.rerank(docids, scores, query=TEXT)):
        assert sorted(new_docids) == sorted(docids)
        assert list(new_scores) == sorted(new_scores, reverse=True)
    # The loop of pyserini.search.lucene's own main, with our reranker in it.
    new_scores, new_docids = ours.rerank(docids, scores, query=TEXT)
    for hit in hits:
        hit.score = dict(zip(new_docids, new_scores, strict=True))[hit.docid.strip()]
    assert np.allclose(sorted((hit.score for hit in hits), reverse=True), new_scores, rtol=1e-6)


def test_dense_and_hybrid_lists_are_reranked(demo_index, lucene, dense):
    from pyserini.search.hybrid import HybridSearcher

    reranker = KernelReranker(demo_index, "klsa")
    for hits in (dense.search(TEXT, 40), HybridSearcher(dense, lucene).search(TEXT, k0=40, k=40)):
        ranked = reranker.rerank(TEXT, hits)
        assert {type(hit) for hit in ranked} == {type(hits[0])}
        assert sorted(hit.docid for hit in ranked) == sorted(hit.docid for hit in hits)
        assert [hit.docid for hit in ranked] != [hit.docid for hit in hits]


def test_output_writer_and_trec_eval_take_the_result(demo_index, lucene, dense, tmp_path, monkeypatch):
    from pyserini.output_writer import OutputFormat, get_output_writer

    topics = read_topics(DEMO / "topics.tsv")
    searcher, reranker = KernelSearcher(demo_index, rerank="klsa"), KernelReranker(demo_index, "klsa")
    lists = {
        "searcher": searcher.batch_search(list(topics.values()), list(topics), k=50),
        "reranker": {qid: reranker.rerank(text, lucene.search(text, 50)) for qid, text in topics.items()},
        "dense": {qid: reranker.rerank(text, dense.search(text, 50)) for qid, text in topics.items()},
    }
    from pyserini.eval.trec_eval import trec_eval

    # trec_eval runs the `java` on the path, which may be older than the jar wants.
    monkeypatch.setenv("PATH", f"{jvm.find_java() / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name, result in lists.items():
        for kind in OutputFormat.TREC, OutputFormat.MSMARCO:
            with get_output_writer(
                str(tmp_path / f"{name}.{kind.value}"), kind, "w", max_hits=50, tag="t", topics=topics
            ) as out:
                for qid, hits in result.items():
                    out.write(qid, hits)
        value = trec_eval(["", "-c", "-m", "map", str(DEMO / "qrels.txt"), str(tmp_path / f"{name}.trec")])
        assert 0.02 < float(value) <= 1, name


def test_topics_are_asked_of_pyserini_by_name(monkeypatch):
    jvm.start()
    import pyserini.search

    assert pyserini_topics("no-such-topics") is None
    monkeypatch.setattr(pyserini.search, "get_topics", lambda name: {1: {"title": name}})
    assert pyserini_topics("robust04") == {1: {"title": "robust04"}}


def test_prebuilt_names_are_passed_to_pyserini(demo_index, monkeypatch, capsys):
    jvm.start()
    import pyserini.util

    asked = []
    monkeypatch.setattr(
        pyserini.util, "download_prebuilt_index", lambda name, verbose: asked.append(name) or str(demo_index.path)
    )
    searcher = KernelSearcher.from_prebuilt_index("demo-of-ours", rerank="pert")
    assert asked == ["demo-of-ours"]
    assert searcher.prebuilt_index_name == "demo-of-ours"
    assert searcher.search(TEXT)
    monkeypatch.undo()
    with pytest.raises(InputError, match="prebuilt index 'no-such-index': Unrecognized index name"):
        KernelSearcher.from_prebuilt_index("no-such-index")


def test_the_index_reader_is_pyserinis(demo_index, lucene):
    reader = KernelSearcher(demo_index).index_reader
    assert type(reader).__module__.startswith("pyserini.")
    assert reader.stats()["documents"] == 364
