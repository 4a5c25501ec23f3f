"""Flags of `python -m pyserini.search.lucene`: the run that pyserini makes, and the one that we make of the same flags."""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys

import numpy as np
import pytest

from kernelsearch import index as index_verb
from kernelsearch import search
from kernelsearch.lucene import jvm
from kernelsearch.trec import read_run, read_topics
from tests.conftest import DEMO

pytestmark = [
    pytest.mark.pyserini,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="the full pyserini is not installed: make test-pyserini"
    ),
]

#: As pyserini rounds scores; it parts equal ones by a millionth, which single precision can't always tell apart.
SAME = 2.5e-6


@pytest.fixture(scope="module")
def passages(tmp_path_factory):
    """An index with docids DOCUMENT#PASSAGE, and topics of which two are named as documents."""
    folder = tmp_path_factory.mktemp("passages")
    records = [json.loads(line) for line in (DEMO / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as stream:
        for number, record in enumerate(records):
            stream.write(json.dumps({**record, "id": f"doc{number // 3}#{number % 3}"}) + "\n")
    index_verb.main(["--input", str(folder / "corpus.jsonl"), "--index", str(folder / "index")])
    return folder / "index"


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    """Some topics of the bundled collection, long enough for a list of hundreds of documents; one has a document's id."""
    path = tmp_path_factory.mktemp("topics") / "topics.tsv"
    texts = list(read_topics(DEMO / "topics.tsv").values())
    lines = [f"q{number}\t{text} and how to repair it in the house" for number, text in enumerate(texts[:8])]
    path.write_text("\n".join([*lines, f"hr040\t{texts[9]} water leak"]) + "\n", encoding="utf-8")
    return path


def theirs(flags, output, monkeypatch):
    jvm.start()
    monkeypatch.setattr(sys, "argv", ["pyserini.search.lucene", *flags, "--output", str(output)])
    runpy.run_module("pyserini.search.lucene", run_name="__main__")
    return lists(output)


def ours(flags, output):
    search.main([*flags, "--output", str(output), "--anserini-scores"])
    return lists(output)


def lists(path):
    """{qid: [(docid, score)]} in the file's order, which pyserini doesn't always sort."""
    result: dict[str, list[tuple[str, float]]] = {}
    for line in path.read_text().splitlines():
        qid, _, docid, _, score, _ = line.split()
        result.setdefault(qid, []).append((docid, float(score)))
    return result


FLAGS = {
    "bm25": ["--bm25"],
    "parameters": ["--k1", "1.2", "--b", "0.75", "--hits", "37"],
    "query likelihood": ["--qld"],
    "rm3": ["--rm3"],
    "rocchio": ["--rocchio"],
    "negative rocchio": ["--rocchio", "--rocchio-use-negative"],
    "rm3 and query likelihood": ["--qld", "--rm3"],
    "fields": ["--fields", "title=3.0", "contents=1.0"],
    "dismax": ["--fields", "title=3.0", "contents=1.0", "--dismax"],
    "tiebreaker": ["--fields", "title=3.0", "contents=1.0", "--dismax", "--dismax.tiebreaker", "0.3"],
    "both sides": ["--bm25qs"],
    "both sides, fields": ["--bm25qs", "--fields", "title=3.0", "contents=1.0"],
    "pretokenized": ["--pretokenized"],
    "language": ["--language", "de"],
    "remove query": ["--remove-query"],
    "remove duplicates": ["--remove-duplicates"],
    "threads": ["--threads", "2", "--batch-size", "3"],
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_run_is_pyserinis(demo_index, topics, tmp_path, monkeypatch, name):
    flags = ["--index", str(demo_index.path), "--topics", str(topics), *FLAGS[name]]
    same(ours(flags, tmp_path / "ours"), theirs(flags, tmp_path / "theirs", monkeypatch))


def same(mine, expected):
    assert set(mine) == set(expected) and expected
    for qid, ranked in expected.items():
        assert [docid for docid, _ in mine[qid]] == [docid for docid, _ in ranked], qid
        np.testing.assert_allclose([score for _, score in mine[qid]], [score for _, score in ranked], rtol=0, atol=SAME)


def test_best_passages_are_pyserinis(passages, topics, tmp_path, monkeypatch):
    flags = ["--index", str(passages), "--topics", str(topics), "--max-passage", "--max-passage-hits", "25"]
    mine = ours(flags, tmp_path / "ours")
    assert {len(ranked) for ranked in mine.values()} == {25}
    same(mine, theirs(flags, tmp_path / "theirs", monkeypatch))


def test_stop_words_are_pyserinis(demo_index, topics, tmp_path, monkeypatch):
    (tmp_path / "stop.txt").write_text("repair\nhouse\nhow\n")
    flags = ["--index", str(demo_index.path), "--topics", str(topics), "--stopwords", str(tmp_path / "stop.txt")]
    mine = ours(flags, tmp_path / "ours")
    same(mine, theirs(flags, tmp_path / "theirs", monkeypatch))
    assert mine != ours(flags[:4], tmp_path / "plain")


def test_a_tokenizer_of_hugging_face_cuts_the_topics_as_for_pyserini(demo_index, topics, tmp_path, monkeypatch):
    from transformers import BertTokenizer

    words = sorted({word for text in read_topics(topics).values() for word in text.lower().split()})
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "tokenizer")
    flags = ["--index", str(demo_index.path), "--topics", str(topics), "--tokenizer", str(tmp_path / "tokenizer")]
    same(ours(flags, tmp_path / "ours"), theirs(flags, tmp_path / "theirs", monkeypatch))


def test_msmarcos_form_is_pyserinis(demo_index, topics, tmp_path, monkeypatch):
    flags = ["--index", str(demo_index.path), "--topics", str(topics), "--output-format", "msmarco", "--hits", "20"]
    search.main([*flags, "--output", str(tmp_path / "ours")])
    monkeypatch.setattr(sys, "argv", ["pyserini.search.lucene", *flags, "--output", str(tmp_path / "theirs")])
    runpy.run_module("pyserini.search.lucene", run_name="__main__")
    assert sorted((tmp_path / "ours").read_text().splitlines()) == sorted((tmp_path / "theirs").read_text().splitlines())


@pytest.mark.parametrize("classifiers", [["lr"], ["svm"], ["lr", "svm"]], ids="+".join)
@pytest.mark.parametrize("vectorizer", ["TfidfVectorizer", "BM25Vectorizer"])
def test_classifiers_scores_are_pyserinis(demo_index, topics, tmp_path, monkeypatch, classifiers, vectorizer):
    settings = ["--prcl.vectorizer", vectorizer, "--prcl.r", "5", "--prcl.n", "30", "--prcl.alpha", "0.6", "--hits", "120"]
    flags = ["--index", str(demo_index.path), "--topics", str(topics), "--prcl", *classifiers, *settings]
    expected = theirs(flags, tmp_path / "theirs", monkeypatch)
    mine = ours(flags, tmp_path / "ours")
    assert any(max(score for _, score in ranked) <= 1 for ranked in expected.values()), "some lists are long enough"
    for qid, ranked in expected.items():  # pyserini leaves the list in its old order: documents by score are compared
        scores = dict(mine[qid])
        assert set(scores) == {docid for docid, _ in ranked}
        np.testing.assert_allclose([scores[docid] for docid, _ in ranked], [score for _, score in ranked], rtol=0, atol=2e-5)
    assert read_run(tmp_path / "ours").keys() == expected.keys()
