"""Clicks on the page reach the click log, and Robust BM25 learns from them."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest

import kernelsearch
from kernelsearch.clicks import store
from kernelsearch.clicks.importing import import_records
from kernelsearch.clicks.records import Impression
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.errors import ClickLogError, InputError
from kernelsearch.serve import impressions
from kernelsearch.serve import recording as recorder
from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.impressions import LIFETIME, ClickedLists
from kernelsearch.serve.settings import IndexSpec, RequestLimits, ServiceSettings
from tests.conftest import build_texts


@pytest.fixture
def recording(start, settings, fitted, tmp_path):
    """A server that records into a log of its own."""
    shutil.copy(fitted / "clicks.db", tmp_path / "clicks.db")
    source = replace(settings.indexes[0], clicks=str(tmp_path / "clicks.db"))
    limits = replace(settings.limits, clicks_per_minute=1000)
    return start(replace(settings, indexes=(source,), limits=limits, record_clicks=True), warm=False)


class ServedList(list):
    """The docids of a list that the server has sent, with its query and token."""

    query: str
    impression: str


def click(client, clicked: str | None, served: ServedList, changes: dict | None = None):
    body = {"impression": served.impression, "query": served.query, "docids": served[:100], "clicked": clicked}
    return client.post("/v1/demo/click", json=body | (changes or {}))


def shown(client, query: str, **more) -> ServedList:
    answer = client.get("/v1/demo/search", params={"query": query, **more})
    assert answer.status_code == 200, answer.text
    served = ServedList(entry["docid"] for entry in answer.json()["candidates"])
    served.query, served.impression = query, answer.json().get("impression")
    return served


def test_a_click_is_one_impression_and_its_list(recording, tmp_path):
    before = ClickLog(tmp_path / "clicks.db").totals()
    docids = shown(recording, "Dripping  TAP")
    answer = click(recording, docids[2], docids)
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
    for _ in range(8):
        assert click(recording, wanted, shown(recording, query, hits=50)).status_code == 200
    assert shown(recording, query, rerank="rbm25", hits=1) == [wanted]
    assert wanted in shown(recording, "polish brass knobs", rerank="rbm25", hits=5)
    assert shown(recording, query, hits=50) == first
    assert {"query": query, "clicks": 8, "impressions": 8} in recording.get("/v1/demo/suggest?prefix=brass").json()[
        "suggestions"
    ]


@pytest.mark.parametrize("explicit", [False, True])
def test_a_log_begins_with_the_first_click(start, fitted, tmp_path, explicit):
    shutil.copytree(fitted / "demo", tmp_path / "demo")
    spec = IndexSpec("demo", str(tmp_path / "demo"), clicks=str(tmp_path / "new.db") if explicit else None)
    client = start(ServiceSettings((spec,), RequestLimits(threads=1, seconds=120), record_clicks=True))
    answer = client.get("/v1/demo/search?query=tap&rerank=rbm25").json()
    assert answer["fallback"] == "the click log has no clicks yet"
    assert [entry["docid"] for entry in answer["candidates"]] == shown(client, "tap")
    assert client.get("/v1/demo/suggest?prefix=t").json()["suggestions"] == []
    assert client.get("/v1/indexes").json()["indexes"][0]["clicks"] == {"queries": 0, "impressions": 0, "clicks": 0}
    docids = shown(client, "tap")
    assert click(client, docids[1], docids).json()["recorded"]
    assert shown(client, "tap", rerank="rbm25", hits=1) == [docids[1]]
    assert client.get("/v1/indexes").json()["indexes"][0]["clicks"] == {"queries": 1, "impressions": 1, "clicks": 1}


def test_a_log_file_is_served_and_not_recorded_into(fitted, tmp_path, caplog):
    index = kernelsearch.open(fitted / "demo")
    log = tmp_path / "log.jsonl"
    log.write_text('{"query": "tap", "items": [{"docid": "hr230", "clicked": true}, {"docid": "hr040", "clicked": false}]}\n')
    assert recorder.ClickRecorder(index, str(log), False, ClickedLists()).totals() == {
        "queries": 1,
        "impressions": 1,
        "clicks": 1,
    }
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    with pytest.raises(InputError, match=r"^record_clicks: .*clicks import --input .*log\.jsonl --output .*log\.db$"):
        recorder.ClickRecorder(index, str(log), True, ClickedLists())
    log.write_text('{"query": "tap", "items": [{"docid": "nosuch", "clicked": true}, {"docid": "hr", "clicked": false}]}\n')
    recorder.ClickRecorder(index, str(log), False, ClickedLists())
    assert "none of its 2 documents is in" in caplog.text


def test_a_named_log_that_is_missing_is_refused_where_nothing_is_recorded(fitted, tmp_path):
    index = kernelsearch.open(fitted / "demo")
    with pytest.raises(InputError, match=r"^clicks: .*none\.db: no such file; .* --record-clicks makes one of clicks"):
        recorder.ClickRecorder(index, str(tmp_path / "none.db"), False, ClickedLists())
    with pytest.raises(InputError, match=r"clicks: .*no such file"):
        recorder.ClickRecorder(index, str(tmp_path / "nofolder" / "none.db"), True, ClickedLists())


@pytest.mark.parametrize("place", ["/proc/clicks.db", "read-only"])
def test_recording_into_a_log_that_cannot_be_written_fails_at_the_start(start, fitted, tmp_path, monkeypatch, place):
    if place == "read-only":
        place = str(shutil.copy(fitted / "clicks.db", tmp_path / "clicks.db"))
        connect = sqlite3.connect  # the tests' user may write everywhere

        def read_only(path, **more):
            return connect(path if more.get("uri") else f"file:{path}?mode=ro", **{**more, "uri": True})

        monkeypatch.setattr(sqlite3, "connect", read_only)
    spec = IndexSpec("demo", str(fitted / "demo"), clicks=place)
    with pytest.raises(ClickLogError, match=rf"^{place}: cannot be written"):
        start(ServiceSettings((spec,), RequestLimits(threads=1), record_clicks=True))


def test_starting_to_record_changes_nothing_in_a_log(fitted, tmp_path):
    path = shutil.copy(fitted / "clicks.db", tmp_path / "clicks.db")
    before = path.read_bytes(), path.stat().st_mtime_ns
    recorder.ClickRecorder(kernelsearch.open(fitted / "demo"), str(path), True, ClickedLists())
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_nothing_about_people_is_stored(recording, tmp_path):
    docids = shown(recording, "dripping tap")
    body = {"impression": docids.impression, "query": "dripping tap", "docids": docids, "clicked": docids[0]}
    headers = {"user-agent": "someone's browser", "cookie": "who=me", "x-forwarded-for": "10.1.2.3"}
    assert recording.post("/v1/demo/click", json=body, headers=headers).status_code == 200
    with sqlite3.connect(tmp_path / "clicks.db") as connection:
        dump = "\n".join(connection.iterdump())
    for word in (docids.impression, "browser", "who=me", "10.1.2.3", "testclient"):
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
    ({"impression": "A" * 40}, "impression: this server has not sent this list"),
    ({"query": "taps"}, "impression: this server has not sent this list"),
    ({"docids": ["hr040", "hr230"]}, "impression: this server has not sent this list"),
    ({"docids": ["hr230"]}, "impression: this server has not sent this list"),
)


def test_malformed_clicks_are_refused_and_leave_no_trace(recording, tmp_path):
    before = ClickLog(tmp_path / "clicks.db").generation
    docids = shown(recording, "dripping tap", hits=2)
    assert docids == ["hr230", "hr040"]
    for change, message in MALFORMED:
        answer = click(recording, "hr230", docids, change)
        assert answer.status_code == 400 and message in answer.json()["error"], change
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
    lists = {(number, turn): shown(recording, f"tap {number} {turn}") for number in range(2) for turn in range(3)}
    statuses = []

    def read(number: int) -> None:
        for turn in range(6):
            answer = recording.get("/v1/demo/search", params={"query": f"tap {number} {turn}", "rerank": "rbm25"})
            statuses.append(answer.status_code)

    def write(number: int) -> None:
        for turn in range(3):
            answer = click(recording, lists[number, turn][number], lists[number, turn])
            statuses.append(answer.status_code)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2) for work in (read, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}
    assert ClickLog(tmp_path / "clicks.db").totals().clicks == before.clicks + 6


def test_a_click_waits_for_a_batch_from_the_start_of_its_method(recording, monkeypatch):
    """What rbm25 derives from the log and what it reads from it afterwards belong to one state of the log."""
    docids, make, waited = shown(recording, "dripping tap"), ServedIndex.pipeline, []

    def make_and_click(served, methods, *args):
        made = make(served, methods, *args)
        writer = threading.Thread(target=served.clicks.record, args=(docids.impression, docids.query, docids, docids[1]))
        writer.start()
        writer.join(0.3)
        waited.append(writer.is_alive())
        return made

    with monkeypatch.context() as patch:
        patch.setattr(ServedIndex, "pipeline", make_and_click)
        answer = recording.post("/v1/demo/batch", json={"queries": ["dripping tap"], "rerank": "rbm25"})
    assert answer.status_code == 200 and waited == [True]


def test_a_click_counts_once_though_the_index_is_replaced_meanwhile(start, tmp_path):
    path = build_texts(tmp_path, {"a": "a tap", "b": "a dripping tap", "c": "a blown fuse and a tap"})
    spec = IndexSpec("demo", str(path), clicks=str(tmp_path / "new.db"))
    client = start(
        ServiceSettings((spec,), RequestLimits(threads=1, seconds=120), record_clicks=True, allow_updates=True), warm=False
    )
    docids = shown(client, "tap")
    one = {"queries": 1, "impressions": 1, "clicks": 1}
    assert click(client, docids[1], docids).json() == {"recorded": True, "clicks": one}
    added = client.post("/v1/demo/documents", json={"add": [{"id": "new", "contents": "an okapi"}]})
    assert added.status_code == 200 and shown(client, "okapi") == ["new"]
    assert click(client, docids[1], docids).json() == {"recorded": False, "clicks": one}
    # Another document of the list is a click on the same impression.
    assert click(client, docids[2], docids).json() == {"recorded": True, "clicks": {**one, "clicks": 2}}


def test_queries_of_any_length_that_the_server_takes_can_be_clicked(start, settings, fitted, tmp_path):
    source = replace(settings.indexes[0], clicks=str(tmp_path / "new.db"))
    limits = replace(settings.limits, query=3000)
    client = start(replace(settings, indexes=(source,), limits=limits, record_clicks=True), warm=False)
    docids = shown(client, "dripping tap " * 200)
    assert click(client, docids[0], docids).json()["recorded"] is True
    schema = client.get("/openapi.json").json()["paths"]["/v1/{index}/click"]["post"]["requestBody"]
    assert schema["content"]["application/json"]["schema"]["properties"]["query"]["maxLength"] == 3000


def test_a_damaged_log_is_named_without_its_folder_and_leaves_the_rest_usable(recording, tmp_path):
    assert recording.get("/v1/demo/suggest?prefix=t").status_code == 200
    (tmp_path / "clicks.db").unlink()
    (tmp_path / "clicks.db").write_text("not a database " * 100, encoding="utf-8")
    deadline = time.monotonic() + 60
    while recording.get("/v1/demo/suggest?prefix=t").status_code == 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    for path in ("/v1/demo/suggest?prefix=t", "/v1/demo/search?query=tap&rerank=rbm25"):
        answer = recording.get(path)
        assert answer.status_code == 500 and "clicks.db" in answer.json()["error"]
        assert str(tmp_path) not in answer.text and "/" not in answer.json()["error"]
    docids = shown(recording, "tap")
    answer = click(recording, docids[0], docids)
    assert answer.status_code == 500 and "clicks.db: not a click database" in answer.json()["error"]
    described = recording.get("/v1/indexes")
    assert described.status_code == 200 and described.json()["indexes"][0]["clicks"] is None
    assert str(tmp_path) not in described.text
    assert shown(recording, "tap")


def test_a_list_of_another_index_or_server_or_day_is_not_clicked(recording, start, settings, monkeypatch):
    docids = shown(recording, "tap")
    other = start(replace(settings, record_clicks=True))
    assert "has not sent" in click(other, docids[0], docids).json()["error"]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LIFETIME + 1)
    assert "too old" in click(recording, docids[0], docids).json()["error"]
    monkeypatch.setattr(time, "time", lambda: now)
    assert click(recording, docids[0], docids).status_code == 200


def test_lists_of_compare_can_be_clicked(recording):
    columns = recording.get("/v1/demo/compare?query=tap&rerank=klsa&hits=5").json()["columns"]
    tokens = {column["impression"] for column in columns}
    assert len(tokens) == 2
    for column in columns:
        docids = [entry["docid"] for entry in column["candidates"]]
        body = {"impression": column["impression"], "query": "tap", "docids": docids, "clicked": docids[1]}
        assert recording.post("/v1/demo/click", json=body).json()["recorded"] is True


def test_clicks_per_client_and_minute_are_limited(start, settings, fitted, tmp_path, monkeypatch):
    shutil.copy(fitted / "clicks.db", tmp_path / "clicks.db")
    source = replace(settings.indexes[0], clicks=str(tmp_path / "clicks.db"))
    limits = replace(settings.limits, clicks_per_minute=3)
    client = start(replace(settings, indexes=(source,), limits=limits, record_clicks=True))
    now = time.monotonic()
    monkeypatch.setattr(impressions.time, "monotonic", lambda: now)
    before = ClickLog(tmp_path / "clicks.db").counts()["clicks"]
    docids = shown(client, "tap")
    answers = [click(client, docid, docids) for docid in docids[:5]]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert "more than 3 clicks per minute" in answers[4].json()["error"] and answers[4].headers["retry-after"] == "1"
    now += 20
    assert click(client, docids[5], docids).status_code == 200
    assert ClickLog(tmp_path / "clicks.db").counts()["clicks"] == before + 4


def test_every_client_has_a_rate_of_its_own():
    rates = impressions.ClientRates(2)
    assert [rates.take("a"), rates.take("a"), rates.take("a"), rates.take("b")] == [True, True, False, True]


def test_a_locked_log_is_reported_as_busy(recording, tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(store, "READER_TIMEOUT", 0.1)
    docids = shown(recording, "tap")
    with closing(sqlite3.connect(tmp_path / "clicks.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        answers = [
            click(recording, docids[0], docids),
            recording.get("/v1/demo/search?query=tap&rerank=rbm25"),
            recording.get("/v1/demo/suggest?prefix=t"),
        ]
        for answer in answers:
            assert answer.status_code == 503 and "locked" in answer.json()["error"] and answer.headers["retry-after"] == "1"
        assert shown(recording, "tap") == docids
        other.execute("ROLLBACK")
    assert click(recording, docids[0], docids).json()["recorded"] is True
    assert recording.get("/v1/demo/search?query=tap&rerank=rbm25").status_code == 200


def test_what_another_process_adds_to_the_log_is_noticed(recording, tmp_path):
    query = "brass knob polish"
    docids = shown(recording, query, hits=50)
    assert shown(recording, query, rerank="rbm25", hits=1) != [docids[-1]]
    clicked = [False] * 9 + [True]
    lists = [Impression(query, (*docids[:9], docids[-1]), tuple(range(1, 11)), tuple(clicked))] * 8
    import_records(lists, tmp_path / "clicks.db", append=True)
    deadline = time.monotonic() + 60
    while shown(recording, query, rerank="rbm25", hits=1) != [docids[-1]] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert shown(recording, query, rerank="rbm25", hits=1) == [docids[-1]]
