"""Documents that clients add and delete while an index is served."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelsearch import index as index_verb
from kernelsearch.serve.settings import IndexSpec
from tests.conftest import write_jsonl

PATH = "/v1/own/documents"
DOCUMENTS = [{"id": name, "contents": text} for name, text in (("a", "a dripping tap"), ("b", "a blown fuse"), ("c", "a tap"))]


@pytest.fixture
def own(start, settings, tmp_path):
    """A function that serves a new index of three documents with other settings."""
    index_verb.main(["--input", str(write_jsonl(tmp_path / "own.jsonl", DOCUMENTS)), "--index", str(tmp_path / "own")])

    def serve(**changes):
        return start(replace(settings, indexes=(IndexSpec("own", str(tmp_path / "own")),), **changes))

    return serve


def result(client, query: str) -> list[str]:
    answer = client.get("/v1/own/search", params={"query": query}).json()
    return [entry["docid"] for entry in answer["candidates"]]


def test_added_and_deleted_documents_are_served_at_once(own):
    client = own(allow_updates=True)
    assert result(client, "tap") == ["c", "a"]
    change = {"add": [{"id": "d", "contents": "a tap and a tap"}, {"id": "b", "contents": "a tap"}], "delete": ["a", "nothing"]}
    answer = client.post(PATH, json=change)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"documents": 3, "added": 1, "replaced": 1, "deleted": 1, "empty": 0, "unknown": ["nothing"]}
    assert set(result(client, "tap")) == {"b", "c", "d"} and result(client, "fuse") == []
    large = {"id": "large", "contents": "valve " * 20_000}
    assert client.post(PATH, json={"add": [large]}).json()["added"] == 1
    assert result(client, "valve") == ["large"]


def test_nothing_is_changed_unless_the_server_allows_it(own):
    client = own()
    answer = client.post(PATH, json={"delete": ["a"]})
    assert answer.status_code == 403 and "--allow-updates" in answer.json()["error"]
    locked = own(allow_updates=True, api_key="key")
    assert locked.post(PATH, json={"delete": ["a"]}).status_code == 401
    assert result(client, "dripping") == ["a"]
    assert locked.post(PATH, json={"delete": ["a"]}, headers={"x-api-key": "key"}).json()["deleted"] == 1


def test_bad_changes_are_refused_and_change_nothing(own):
    client = own(allow_updates=True)
    for body, status, message in (
        ({}, 400, "nothing to add or to delete"),
        ({"add": "a"}, 400, "add: "),
        ({"delete": [1]}, 400, "delete.0: "),
        ({"remove": ["a"]}, 400, "remove: unknown; known: add, delete"),
        ({"add": [{"contents": "without an id"}]}, 400, "document 0: "),
        ({"delete": ["nothing"]}, 400, "none of 1 documents is in own"),
        ({"delete": ["a", "b", "c"]}, 400, "no document would remain"),
        ({"delete": ["a"] * 10_001}, 413, "more than 10000 documents"),
    ):
        answer = client.post(PATH, json=body)
        assert answer.status_code == status and message in answer.json()["error"], (body, answer.text)
        assert "/" not in answer.json()["error"]
    for content in (
        b'{"delete": ["a"], "delete": ["b"]}',
        b'{"add": [{"id": "d", "contents": "%s", "id": "e"}]}' % (b"x" * 70_000),
    ):
        answer = client.post(PATH, content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 400 and "occurs twice in one object" in answer.json()["error"]
    assert client.post(PATH, content=b"x" * (16 << 20) + b"x").status_code == 413
    assert client.post("/v1/none/documents", json={"delete": ["a"]}).status_code == 404
    assert result(client, "tap") == ["c", "a"]


def test_one_change_at_a_time(own):
    client = own(allow_updates=True)
    service = client.app.app.app.state.service
    with service._updating["own"]:
        answer = client.post(PATH, json={"delete": ["a"]})
    assert answer.status_code == 409 and "another change" in answer.json()["error"]
