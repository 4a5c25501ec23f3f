"""Clicks on the page reach the click log, and Robust BM25 learns from them."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from dataclasses import replace

import pytest

from kernelsearch.clicks.store import ClickLog
from kernelsearch.serve.settings import IndexSpec, Limits, ServiceSettings


@pytest.fixture
def recording(start, settings, fitted, tmp_path):
    """A server that records into a log of its own."""
    shutil.copy(fitted / "clicks.db", tmp_path / "clicks.db")
    source = replace(settings.indexes[0], clicks=str(tmp_path / "clicks.db"))
    return start(replace(settings, indexes=(source,), record_clicks=True))


def click(client, clicked: str | None, docids: list[str], query: str = "dripping tap", impression: str = "showing-1"):
    body = {"impression": impression, "query": query, "docids": docids, "clicked": clicked}
    return client.post("/v1/demo/click", json=body)


def shown(client, query: str, **more) -> list[str]:
    found = client.get("/v1/demo/search", params={"query": query, **more})
    assert found.status_code == 200, found.text
    return [one["docid"] for one in found.json()["candidates"]]


def test_a_click_is_one_impression_and_its_list(recording, tmp_path):
    before = ClickLog(tmp_path / "clicks.db").totals()
    docids = shown(recording, "Dripping  TAP")
    answer = click(recording, docids[2], docids, "Dripping  TAP")
    assert answer.status_code == 200 and answer.json()["recorded"] is True
    log = ClickLog(tmp_path / "clicks.db")
    after = log.totals()
    assert (after.impressions, after.clicks) == (before.impressions + 1, before.clicks + 1)
    docs, positions, clicked = log.impressions(int(log.query_ids(["dripping tap"])[0]), limit=1)[0]
    assert log.docids(docs) == docids
    assert positions.tolist() == list(range(1, 11))
    assert clicked.tolist() == [place == 2 for place in range(10)]
    assert answer.json()["clicks"] == {"queries": after.queries, "impressions": after.impressions, "clicks": after.clicks}


def test_further_clicks_on_a_list_are_clicks_alone_and_count_once(recording, tmp_path):
    docids = shown(recording, "dripping tap")
    before = ClickLog(tmp_path / "clicks.db").totals()
    assert click(recording, None, docids).json()["recorded"]
    assert click(recording, docids[0], docids).json()["recorded"]
    assert click(recording, docids[4], docids).json()["recorded"]
    assert not click(recording, docids[4], docids).json()["recorded"]
    assert not click(recording, None, docids).json()["recorded"]
    after = ClickLog(tmp_path / "clicks.db").totals()
    assert (after.impressions - before.impressions, after.clicks - before.clicks) == (1, 2)
    assert after.tallies - before.tallies == 2


def test_robust_bm25_learns_from_the_clicks(recording):
    """A document far down the list, clicked by several people, rises to the top for the same words and for similar ones."""
    query = "brass knob polish"
    first = shown(recording, query, hits=50)
    wanted = first[-1]
    assert wanted not in shown(recording, query, rerank="rbm25", hits=5)
    listed = [*first[:9], wanted]
    for number in range(8):
        assert click(recording, wanted, listed, query, f"showing-{number}").status_code == 200
    assert shown(recording, query, rerank="rbm25", hits=1) == [wanted]
    assert wanted in shown(recording, "polish brass knobs", rerank="rbm25", hits=5)
    assert shown(recording, query, hits=50) == first
    assert {"query": query, "clicks": 8, "impressions": 8} in recording.get("/v1/demo/suggest?prefix=brass").json()[
        "suggestions"
    ]


def test_a_log_begins_with_the_first_click(start, fitted, tmp_path):
    shutil.copytree(fitted / "demo", tmp_path / "demo")
    client = start(
        ServiceSettings((IndexSpec("demo", str(tmp_path / "demo")),), Limits(threads=1, seconds=120), record_clicks=True)
    )
    assert client.get("/v1/demo/search?query=tap&rerank=rbm25").status_code == 400
    assert client.get("/v1/demo/suggest?prefix=t").json()["suggestions"] == []
    assert client.get("/v1/indexes").json()["indexes"][0]["clicks"] is None
    docids = shown(client, "tap")
    assert click(client, docids[3], docids, "tap").json()["recorded"]
    assert shown(client, "tap", rerank="rbm25", hits=1) == [docids[3]]
    assert client.get("/v1/indexes").json()["indexes"][0]["clicks"] == {"queries": 1, "impressions": 1, "clicks": 1}


def test_nothing_about_people_is_kept(recording, tmp_path):
    docids = shown(recording, "dripping tap")
    body = {"impression": "secret-showing-77", "query": "dripping tap", "docids": docids, "clicked": docids[0]}
    headers = {"user-agent": "someone's browser", "cookie": "who=me", "x-forwarded-for": "10.1.2.3"}
    assert recording.post("/v1/demo/click", json=body, headers=headers).status_code == 200
    with sqlite3.connect(tmp_path / "clicks.db") as connection:
        dump = "\n".join(connection.iterdump())
    for word in ("secret-showing", "browser", "who=me", "10.1.2.3", "testclient"):
        assert word not in dump


#: What is changed in a well-formed click, and what is said about it.
MALFORMED: tuple[tuple[dict, str], ...] = (
    ({"impression": "short"}, "impression: "),
    ({"query": ""}, "query: "),
    ({"query": "   "}, "query: between 1 and 1000"),
    ({"query": "a" * 1001}, "query: "),
    ({"docids": []}, "docids: "),
    ({"docids": ["hr230", "hr230"]}, "docids: a document is listed twice"),
    ({"docids": ["hr230", "none"]}, "docids: 'none' is not in demo"),
    ({"docids": [f"hr{n:03}" for n in range(1, 102)]}, "docids: "),
    ({"clicked": "hr001"}, "clicked: not among the docids"),
    ({"clicked": 5}, "clicked: "),
    ({"user": "me"}, "user: "),
)


def test_malformed_clicks_are_refused_and_leave_no_trace(recording, tmp_path):
    before = ClickLog(tmp_path / "clicks.db").generation
    for change, said in MALFORMED:
        body = {"impression": "showing-1", "query": "tap", "docids": ["hr230", "hr040"], "clicked": "hr230"} | change
        answer = recording.post("/v1/demo/click", json=body)
        assert answer.status_code == 400 and said in answer.json()["error"], change
    assert ClickLog(tmp_path / "clicks.db").generation == before


def test_other_sites_forms_cannot_click(recording):
    body = '{"impression": "showing-1", "query": "tap", "docids": ["hr230"], "clicked": "hr230"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert recording.post("/v1/demo/click", content=body, headers={"content-type": kind}).status_code == 415
    answer = recording.options(
        "/v1/demo/click", headers={"origin": "http://evil.example", "access-control-request-method": "POST"}
    )
    assert "access-control-allow-origin" not in answer.headers
    assert recording.post("/v1/demo/click", content=b"\xff{", headers={"content-type": "application/json"}).status_code == 400


def test_without_consent_to_record_nothing_is_recorded(client):
    answer = client.post("/v1/demo/click", json={})
    assert answer.status_code == 403 and "--record-clicks" in answer.json()["error"]


def test_reading_and_clicking_at_once(recording, tmp_path):
    """New documents and queries in the log while methods read it: no request fails, no click is lost."""
    before = ClickLog(tmp_path / "clicks.db").totals()
    docids, statuses = shown(recording, "tap", hits=100), []

    def read(number: int) -> None:
        for turn in range(6):
            answer = recording.get("/v1/demo/search", params={"query": f"tap {number} {turn}", "rerank": "rbm25"})
            statuses.append(answer.status_code)

    def write(number: int) -> None:
        for turn in range(3):
            answer = click(recording, docids[number], docids, f"new {number} {turn}", f"showing-{number}-{turn}")
            statuses.append(answer.status_code)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2) for work in (read, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}
    assert ClickLog(tmp_path / "clicks.db").totals().clicks == before.clicks + 6
