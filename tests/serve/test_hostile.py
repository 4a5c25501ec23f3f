"""Bad and hostile requests: each is answered with 4xx and one line, and nothing happens."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.core.errors import OptionError
from kernelsearch.serve.settings import IndexSpec, RequestLimits, ServeSettings, ServiceSettings
from tests.conftest import write_jsonl


def refused(client, path: str, status: int, message: str):
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert message in error and "\n" not in error and len(error) < 2000
    return error


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/v1/other/search?query=tap", 404, "index: 'other' is not one of demo"),
        ("/v1/demo/search", 400, "query: no text"),
        ("/v1/demo/search?query=%20%20", 400, "query: no text"),
        ("/v1/demo/search?query=tap&hits=0", 400, "hits: 0 is below 1"),
        ("/v1/demo/search?query=tap&hits=1001", 400, "hits: 1001 is above 1000"),
        ("/v1/demo/search?query=tap&hits=ten", 400, "hits: 'ten' is not a whole number"),
        ("/v1/demo/search?query=tap&hits=" + "9" * 5000, 400, "hits: too long"),
        ("/v1/demo/search?query=tap&candidates=100000", 400, "candidates: 100000 is above 1000"),
        ("/v1/demo/search?query=tap&rerank=nope", 400, "rerank: 'nope' is not one of auto, "),
        ("/v1/demo/search?query=tap&rerank=ksla", 400, "did you mean klsa?"),
        ("/v1/demo/search?query=tap&rerank=klsa,klsa", 400, "names a method twice"),
        ("/v1/demo/search?query=tap&klsa.z=5", 400, "klsa.z: has no effect without rerank=klsa"),
        ("/v1/demo/search?query=tap&rerank=klsa&klsa.z=0", 400, "klsa.z: 0 is below 1"),
        ("/v1/demo/search?query=tap&rerank=klsa&klsa.q=0", 400, "klsa.q: unknown parameter; those of klsa are z, lambda"),
        ("/v1/demo/search?query=tap&k1=nan", 400, "k1: not a number"),
        ("/v1/demo/search?query=tap&k1=inf", 400, "k1: inf is not a finite number"),
        ("/v1/demo/search?query=tap&qld=maybe", 400, "qld: 'maybe' is not true or false"),
        ("/v1/demo/search?query=tap&qld=true&qljm=true", 400, "exclude each other"),
        ("/v1/demo/search?query=tap&what=1", 400, "what: unknown parameter"),
        ("/v1/demo/search?query=%ff%fe", 400, "not valid UTF-8"),
        ("/v1/demo/search?query=tap&topic=none", 404, "topic: 'none' is not a judged topic"),
        ("/v1/demo/search?query=tap&rerank=fusion", 409, "demo: no fusion is trained"),
        ("/v1/demo/compare?query=tap&rerank=klsa&rerank=mslm&rerank=pert&rerank=auto", 400, "at most 3"),
        ("/v1/demo/explain?query=dripping&docid=hr001", 404, "not among this query's"),
        ("/v1/demo/explain/plot.svg?query=tap", 400, "exactly one method"),
        ("/v1/demo/explain/plot.svg?query=tap&rerank=klsa,pert", 400, "exactly one method"),
        ("/v1/demo/explain?query=tap&rerank=klsa&docid=none", 404, "docid: 'none' is not in demo"),
        ("/v1/demo/explain?query=dripping&rerank=mslm&docid=hr001", 404, "not among this query's"),
        ("/v1/demo/explain?query=zzzzzz&rerank=klsa", 404, "no document matches"),
        ("/v1/demo/explain/plot.svg?query=tap&rerank=rbm25", 400, "no picture"),
        ("/v1/demo/search?query=tap&rerank=rbm25&rbm25.documents=../x", 400, "rbm25.documents: '../x' is not one of body"),
        ("/v1/demo/similar/none", 404, "docid: 'none' is not in demo"),
        ("/v1/demo/doc/none", 404, "docid: 'none' is not in demo"),
        ("/v1/demo/suggest?prefix=a&limit=0", 400, "limit: 0 is below 1"),
        ("/v1/demo/nothing", 404, "not found"),
        ("/nothing", 404, "not found"),
        ("/page/none.js", 404, "not found"),
    ],
)
def test_errors_name_what_is_wrong(client, path, status, message):
    refused(client, path, status, message)


@pytest.mark.parametrize("name", ["rbm25.clicks", "klsa.basis", "mslm.model", "fusion.model"])
def test_no_request_names_a_file(client, name, tmp_path):
    target = tmp_path / "made"
    refused(client, f"/v1/demo/search?query=tap&rerank={name.partition('.')[0]}&{name}={target}", 400, "names a file")
    assert not target.exists()


TRICKS = ("../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "%00", "hr001%00", "%ff", "a" * 5000)
STRANGE = (
    "<script>alert(1)</script>",
    "' OR 1=1 --",
    "tap\x00drip",
    "\u202etap",
    "🚰" * 50,
    "a" * 1000,
    "tap " * 249,
    '+-&&||!(){}[]^"~*?:\\/',
    "$x_{$",
)


@pytest.mark.parametrize("docid", TRICKS)
def test_path_tricks_find_nothing(client, docid):
    for verb in ("doc", "similar"):
        answer = client.get(f"/v1/demo/{verb}/{docid}")
        assert answer.status_code == 404, (answer.status_code, answer.text)
        assert "root:" not in answer.text


@pytest.mark.parametrize("path", ["/page/../app.py", "/page/..%2fapp.py", "/page/%2e%2e/app.py", "/page//etc/passwd", "/page/"])
def test_the_pages_folder_holds_nothing_else(client, path):
    answer = client.get(path)
    assert answer.status_code == 404 and "def " not in answer.text


@pytest.mark.parametrize("text", STRANGE)
def test_strange_queries_are_words_like_others(client, text):
    for rerank in ("", "&rerank=klsa", "&rerank=mslm,pert", "&rerank=rbm25"):
        answer = client.get(f"/v1/demo/search?highlight=true&query={quote(text)}{rerank}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["query"]["text"] == text
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_strange_queries_that_meet_others_change_nothing(client):
    """Searches that come in at once share calls to Lucene; each gets the list that it gets alone."""
    paths = [f"/v1/demo/search?hits=5&query={quote(text)}" for text in (*STRANGE, "dripping tap", "blown fuse", "zzzzzz")]
    alone = [client.get(path).json() for path in paths]
    assert [answer["candidates"] for answer in alone] == [
        client.get(f"{path}&highlight=true").json()["candidates"] for path in paths
    ]
    with ThreadPoolExecutor(8) as pool:
        for result, expected in zip(pool.map(client.get, paths * 10), alone * 10, strict=True):
            assert result.status_code == 200 and result.json() == expected


def test_a_huge_query_is_refused(client):
    refused(client, f"/v1/demo/search?query={'a' * 1001}", 400, "query: 1001 characters, the maximum is 1000")
    refused(client, "/v1/demo/search?" + "&".join(f"x{n}=1" for n in range(300)), 400, "more than 200 parameters")


def test_documents_with_markup_are_data(start, tmp_path):
    evil = {
        "id": "<img/src=x>/../?#",
        "title": "</script><script>alert(1)</script>",
        "contents": 'tap " onload="x \u2028 </title>',
    }
    broken = {"id": "plain", "contents": "tap {not json"}
    index_verb.main(["--input", str(write_jsonl(tmp_path / "c.jsonl", [evil, broken])), "--index", str(tmp_path / "evil")])
    client = start(ServiceSettings((IndexSpec("evil", str(tmp_path / "evil")),), RequestLimits(threads=1, seconds=120)))
    answer = client.get("/v1/evil/search?query=tap&highlight=true")
    result = {entry["docid"]: entry["doc"] for entry in answer.json()["candidates"]}
    evil["contents"] = f"{evil['title']}\n{evil['contents']}"  # as it is indexed
    assert result[evil["id"]] == evil
    assert answer.headers["content-type"] == "application/json"
    again = client.get(f"/v1/evil/doc/{quote(evil['id'], safe='')}")
    assert again.status_code == 200 and again.json()["doc"] == evil
    assert kernelsearch.open(tmp_path / "evil").search("tap").docids == [
        entry["docid"] for entry in answer.json()["candidates"]
    ]
    picture = client.get("/v1/evil/explain/plot.svg?query=%3Cscript%3Ealert(1)%3C/script%3E+tap&rerank=pert")
    assert picture.status_code in (200, 400) and b"<script" not in picture.content


def test_every_answer_forbids_foreign_scripts(client):
    for path in ("/", "/v1/methods", "/v1/demo/doc/none", "/openapi.json"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy


def test_requests_with_another_host_header_are_refused(start, settings):
    from dataclasses import replace

    client = start(replace(settings, hosts=frozenset({"127.0.0.1", "localhost", "[::1]"})))
    assert client.get("/health", headers={"host": "evil.example:8080"}).status_code == 421
    for host in ("127.0.0.1:8080", "localhost", "[::1]:8080", "LOCALHOST"):
        assert client.get("/health", headers={"host": host}).status_code == 200
    for host in (
        "[::1]evil",
        "127.0.0.1:evil.com",
        "[::1]:8080.evil",
        "127.0.0.1:",
        "localhost:80:80",
        "localhost ",
        "[::1",
        "",
    ):
        assert client.get("/health", headers={"host": host}).status_code == 421, host
    for hosts in (["127.0.0.1", "evil.example"], ["evil.example", "127.0.0.1"]):
        answer = client.get("/health", headers=[("host", host) for host in hosts])
        assert answer.status_code == 400 and answer.json() == {"error": "Host: sent more than once"}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_json_does_not_have_are_refused_in_a_body(client, number):
    body = '{"query": "tap", "queries": ["tap"], "k1": ' + number + "}"
    for path in ("search", "batch"):
        answer = client.post(f"/v1/demo/{path}", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert answer.json() == {"error": f"body: not valid JSON ({number} is not a finite number)"}


def test_host_names_of_a_proxy_are_accepted(start, settings):
    served = ServeSettings(host_names="Search.example.org, intern").for_service(settings.indexes, {})
    client = start(served)
    for host, status in (("search.example.org", 200), ("intern:8080", 200), ("127.0.0.1", 200), ("evil.example", 421)):
        assert client.get("/health", headers={"host": host}).status_code == status
    assert ServeSettings(host="0.0.0.0", no_api_key=True).for_service(settings.indexes, {}).hosts is None
    for wrong in ("https://search.example.org", "search.example.org:80", "a,,b"):
        with pytest.raises(OptionError, match=r"--host-names: .* is not a host name"):
            ServeSettings(host_names=wrong).for_service(settings.indexes, {})


def test_other_methods_are_not_allowed(client):
    assert client.put("/v1/demo/search", json={}).status_code == 405
    assert client.post("/v1/demo/compare", json={}).status_code == 405
    assert client.get("/v1/demo/click").status_code == 405
    assert client.delete("/v1/demo/doc/hr001").status_code == 405


def test_large_bodies_are_refused_declared_or_not(start, settings):
    from dataclasses import replace

    client = start(replace(settings, limits=RequestLimits(threads=1, body=1000, seconds=120), record_clicks=True))
    kind = {"content-type": "application/json"}
    assert client.post("/v1/demo/click", content=b"x" * 1001, headers=kind).status_code == 413
    assert client.post("/v1/demo/click", content=(b"x" * 100 for _ in range(11)), headers=kind).status_code == 413
    assert client.post("/v1/demo/click", content=json.dumps({}), headers=kind).status_code == 400
