"""Documents that clients add and delete while an index is served."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from dataclasses import replace

import pytest

from kernelsearch import index as index_verb
from kernelsearch.core.replacing import lock_folder
from kernelsearch.serve.settings import IndexSpec
from tests.conftest import write_jsonl

PATH = "/v1/own/documents"
KIND = {"content-type": "application/json"}
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
        ({"add": [{"id": "d", "contents": "\n"}]}, 400, "documents: none of the 1 documents has text"),
        ({"delete": ["a"] * 10_001}, 413, "more than 10000 documents"),
    ):
        answer = client.post(PATH, json=body)
        assert answer.status_code == status and message in answer.json()["error"], (body, answer.text)
        assert "/" not in answer.json()["error"]
    for content in (
        b'{"delete": ["a"], "delete": ["b"]}',
        b'{"add": [{"id": "d", "contents": "%s", "id": "e"}]}' % (b"x" * 70_000),
    ):
        answer = client.post(PATH, content=content, headers=KIND)
        assert answer.status_code == 400 and "occurs twice in one object" in answer.json()["error"]
    answer = client.post(PATH, content=b'{"add": [{"id": "d", "contents": "tap", "price": 1e999}]}', headers=KIND)
    assert answer.status_code == 400 and "1e999 is not a finite number" in answer.json()["error"]
    assert client.post(PATH, content=b"x" * (16 << 20) + b"x").status_code == 413
    assert client.post("/v1/none/documents", json={"delete": ["a"]}).status_code == 404
    assert result(client, "tap") == ["c", "a"]


def test_one_change_at_a_time(own):
    client = own(allow_updates=True)
    service = client.app.app.app.state.service
    with service._updating["own"]:
        answer = client.post(PATH, json={"delete": ["a"]})
    assert answer.status_code == 409 and "another change" in answer.json()["error"]


@pytest.mark.parametrize(
    ("piece", "status", "message"),
    [
        (b'{"a":', 413, "the body has more than 1000000 brackets and braces"),
        (b"[],", 413, "the body has more than 1000000 brackets and braces"),
        (b'{"twenty characters":', 400, "body: JSON nested deeper than 100"),
    ],
)
def test_a_body_that_would_occupy_the_parser_is_refused_at_its_beginning(own, piece, status, message):
    client = own(allow_updates=True)
    body = piece * ((16 << 20) // len(piece))
    begun = time.monotonic()
    answer = client.post(PATH, content=body, headers=KIND)
    assert answer.status_code == status and answer.json() == {"error": message}
    assert time.monotonic() - begun < 2


def test_of_two_servers_that_change_an_index_one_is_told_to_try_again(own, tmp_path):
    client = own(allow_updates=True)
    with lock_folder(tmp_path / "own", 0):  # as the other server does while it changes the index
        answer = client.post(PATH, json={"delete": ["a"]})
    assert answer.status_code == 409 and answer.json()["error"].startswith("own: another command is changing the index")
    assert client.post(PATH, json={"delete": ["a"]}).status_code == 200


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True).returncode
    ):
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("full", ["index", "a file beside the index", "a folder beside the index", "clicks"])
def test_a_full_disk_is_507_and_names_what_is_full(start, settings, small_disk, full):
    place = small_disk / "own"
    index_verb.main(["--input", str(write_jsonl(small_disk / "own.jsonl", DOCUMENTS)), "--index", str(place)])
    if "beside" in full:
        file = place / "notes" if "file" in full else place / "folder" / "inner" / "notes"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(1_500_000))
    served = replace(settings, indexes=(IndexSpec("own", str(place)),), allow_updates=True, record_clicks=True)
    client = start(served, warm=False)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file() and path.name != "verified.json"}
    shown = client.get("/v1/own/search", params={"query": "tap"}).json()
    docids = [entry["docid"] for entry in shown["candidates"]]
    if "beside" not in full:
        with open(small_disk / "filling", "wb", buffering=0) as stream, contextlib.suppress(OSError):
            while True:
                stream.write(bytes(4096))
    if full == "clicks":
        click = {"query": "tap", "docids": docids, "clicked": docids[0], "impression": shown["impression"]}
        answer = client.post("/v1/own/click", json=click)
    else:
        answer = client.post(PATH, json={"add": [{"id": "d", "contents": "a tap"}]})
    error = answer.json()["error"]
    assert answer.status_code == 507, error
    assert error.startswith("own") and error.count("cannot be written") == 1 and ".partial" not in error
    assert "No space left on device" in error or "disk is full" in error
    after = {path: path.read_bytes() for path in place.rglob("*") if path.is_file() and path.name != "verified.json"}
    assert after == before and [path.name for path in small_disk.iterdir() if path.name.startswith(".")] == []
