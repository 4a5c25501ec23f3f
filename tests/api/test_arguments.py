"""Wrong arguments and keywords of the public functions are one line each, with a suggestion where there is one."""

from __future__ import annotations

import pytest

import kernelsearch
from kernelsearch.core import installed
from kernelsearch.core.errors import KernelSearchError
from kernelsearch.integrations.pyserini import KernelSearcher

TOPICS, QRELS = {"1": "tap"}, {"1": {"d1": 1}}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: i.search(5), "text: a text was expected, not 5; did you mean '5'?"),
        (lambda i: i.search(None), "text: a text was expected, not None"),
        (lambda i: i.search("tap", rerank=3), "rerank: the name of a method, a list of names, or {name: options} was expected"),
        (lambda i: i.search("tap", rerank=["klsa", 3]), "rerank: the name of a method, a list of names, or"),
        (lambda i: i.search("tap", rerank={"pert": 3}), "rerank: options of pert by name were expected, not 3"),
        (lambda i: i.search("tap", reranker="auto"), "reranker: unknown option; did you mean rerank?"),
        (lambda i: i.search("tap", top=5), "top: unknown option; did you mean k?"),
        (lambda i: i.search("tap", K1=5), "K1: unknown option; did you mean k1?"),
        (lambda i: i.search("tap", k="5"), "k: a whole number was expected, not '5'; did you mean 5?"),
        (lambda i: i.search("tap", k=True), "k: a whole number was expected, not True"),
        (lambda i: i.search(), "search: missing a required argument: 'text'"),
        (lambda i: i.search_batch(5), "texts: a collection was expected, not 5"),
        (lambda i: i.search_batch(["tap"], threads="x"), "threads: a whole number was expected, not 'x'"),
        (lambda i: i.explain("tap", docid=5), "docid: a text was expected, not 5; did you mean '5'?"),
        (lambda i: i.similar(5), "docid: a text was expected, not 5; did you mean '5'?"),
        (lambda i: i.similar("d1", top=5), "top: unknown option; did you mean k?"),
        (lambda i: i.similar("d1", kernel=["cosine"]), "kernel: unknown option; did you mean kernels?"),
        (lambda i: i.train(5), "method: a text was expected, not 5"),
        (lambda i: i.train("rbm25", clicks=5), "clicks: a path was expected, not 5"),
        (lambda i: i.evaluate(TOPICS, QRELS, methods=3), "methods: a collection was expected, not 3"),
        (lambda i: i.evaluate(TOPICS, QRELS, measures="AP"), "measures: a list of texts was expected, not 'AP'; did you"),
        (lambda i: i.evaluate(TOPICS, QRELS, top=5), "top: unknown option; did you mean hits?"),
        (lambda i: i.delete(5), "ids: a collection was expected, not 5"),
        (lambda i: kernelsearch.evaluate(5, TOPICS, QRELS), "index: a folder, or several, was expected, not 5"),
        (lambda i: kernelsearch.tune(i, TOPICS, QRELS, tried=5), "tried: a dict was expected, not 5"),
        (lambda i: kernelsearch.open(i.path, language=5), "language: a text was expected, not 5"),
        (lambda i: kernelsearch.open(i.path, vectors=5), "vectors: a name, or options by name, was expected, not 5"),
        (lambda i: kernelsearch.Index(5), "index: a folder, or several, was expected, not 5"),
        (lambda i: kernelsearch.Index(i.path, java_heap=5), "Java heap: 5 is not a size"),
        (lambda i: kernelsearch.Index(i.path, artefacts=5), "artefacts: a path was expected, not 5"),
        (lambda i: kernelsearch.build(5, []), "path: a path was expected, not 5"),
        (lambda i: KernelSearcher(i, reranker="auto"), "reranker: unknown option; did you mean rerank?"),
        (lambda i: KernelSearcher(i).search(5), "q: a text or a Lucene query was expected, not 5"),
        (lambda i: KernelSearcher(i).batch_search("tap", ["1"]), "queries: a list of texts was expected, not 'tap'"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_one_clear_line(tiny, call, message):
    with pytest.raises(KernelSearchError) as caught:
        call(tiny)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


class Distribution:
    requires = ('matplotlib>=3.8; extra == "plots"', 'fastapi; extra == "serve"', "numpy")

    def __init__(self, origin: str | None) -> None:
        self.origin = origin

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.origin


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'kernelsearch[plots]'"),
        ('{"url": "file://%s", "dir_info": {"editable": true}}', "pip install -e '%s[plots]'"),
        ('{"url": "file://%s", "dir_info": {}}', "pip install '%s[plots]'"),
        ('{"url": "file://%s/k.whl", "archive_info": {}}', "pip install 'kernelsearch[plots] @ file://%s/k.whl'"),
        ('{"url": "file://%s/gone.whl", "archive_info": {}}', "pip install 'matplotlib>=3.8'"),
        (
            '{"url": "https://example.org/k.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}}',
            "pip install 'kernelsearch[plots] @ git+https://example.org/k.git@ab12'",
        ),
    ],
)
def test_an_extra_is_installed_from_where_this_copy_came(origin, command, tmp_path, monkeypatch):
    (tmp_path / "k.whl").write_bytes(b"")
    text = origin and origin.replace("%s", str(tmp_path))
    monkeypatch.setattr(installed.metadata, "distribution", lambda name: Distribution(text))
    assert installed.install_command("plots") == command.replace("%s", str(tmp_path))
