"""What a server has done before it accepts requests."""

from __future__ import annotations

import json
import time
from collections import defaultdict

from kernelsearch import index as index_verb
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.serve import app
from kernelsearch.serve.settings import IndexSpec, RequestLimits, ServiceSettings


def test_every_ready_method_has_answered_before_the_first_request(start, settings, monkeypatch):
    """So that a first request loads nothing, and computes nothing that all queries share."""
    answered = defaultdict(dict)
    search = Pipeline.search

    def record(self, queries, **options):
        lists = search(self, queries, **options)
        for name, _ in self.methods:
            answered[name].update(zip([query.text for query in queries], lists, strict=True))
        return lists

    monkeypatch.setattr(Pipeline, "search", record)
    client = start(settings)
    before = dict(answered)
    made = []
    make = Pipeline.__init__
    monkeypatch.setattr(Pipeline, "__init__", lambda self, *args, **options: made.append(args) or make(self, *args, **options))
    methods = client.get("/v1/indexes").json()["indexes"][0]["methods"]
    ready = {state["name"] for state in methods if state["ready"]}
    assert {"auto", "klsa", "mslm", "pert", "rbm25"} <= ready == before.keys()
    without_clicks = [result for name in ("auto", "klsa", "mslm", "pert") for result in before[name].values()]
    assert all(result.depth > 1 and not result.fallbacks for result in without_clicks)
    assert len(before["auto"]) > 5  # queries of different texts
    made_for_missing = len(made)  # methods that were not ready are tried again: they may have been trained since
    for name in ready:
        assert client.get(f"/v1/demo/search?query=dripping+tap&rerank={name}").status_code == 200
    assert len(made) == made_for_missing == len(methods) - len(ready)


def test_a_method_that_fails_on_its_first_query_does_not_stop_the_server(start, settings, monkeypatch, caplog):
    from kernelsearch.core.errors import ArtefactError

    def fail(self, queries, **options):
        raise ArtefactError(f"{self.index.path}: damaged")

    monkeypatch.setattr(Pipeline, "search", fail)
    with caplog.at_level("INFO", logger="kernelsearch.serve"):
        client = start(settings)
    assert "demo: klsa cannot answer: demo: damaged" in caplog.text
    assert client.get("/v1/indexes").status_code == 200


def test_an_index_whose_documents_have_no_words_is_served(start, tmp_path):
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"id": "1", "contents": "the of"}) + "\n")
    index_verb.main(["--input", str(tmp_path / "corpus.jsonl"), "--index", str(tmp_path / "bare")])
    client = start(ServiceSettings((IndexSpec("bare", str(tmp_path / "bare")),), RequestLimits(threads=1, seconds=60)))
    assert client.get("/v1/bare/search?query=water").json()["candidates"] == []


def test_nothing_is_loaded_in_the_background_once_requests_are_accepted(start, settings, monkeypatch):
    """It would slow down the first requests: Python executes one thread at a time."""
    loaded = []
    monkeypatch.setattr(app, "load_matplotlib", lambda: time.sleep(0.3) or loaded.append(True))
    start(settings, warm=False)
    assert loaded
