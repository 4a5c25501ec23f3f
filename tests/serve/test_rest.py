"""Searches with JSON bodies, batches, HEAD, CORS, and the page that describes the API."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.serve import __main__ as serve


def test_a_json_body_has_the_parameters_of_a_query_string(client):
    cases = [
        ({"query": "dripping tap"}, "query=dripping+tap"),
        (
            {"query": "dripping tap", "hits": 3, "rerank": "klsa", "klsa.z": 5, "klsa.lambda": 0.5, "parse": False},
            "query=dripping+tap&hits=3&rerank=klsa&klsa.z=5&klsa.lambda=0.5&parse=false",
        ),
        (
            {"query": "tap", "rerank": ["pert", "klsa"], "highlight": True, "k1": None},
            "query=tap&rerank=pert&rerank=klsa&highlight=true",
        ),
        ({"query": "tap", "rerank": ["mslm"], "mslm.scales": [1, 2.5]}, "query=tap&rerank=mslm&mslm.scales=1,2.5"),
        ({"topic": "d02"}, "topic=d02"),
    ]
    for body, query_string in cases:
        answer = client.post("/v1/demo/search", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json() == client.get(f"/v1/demo/search?{query_string}").json()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "body: not JSON"),
        (b"[1]", "body: a JSON object"),
        (b'{"query": {"text": "tap"}}', "query: a string, a number"),
        (b'{"query": "tap", "hits": 0}', "hits: 0 is below 1"),
        (b'{"query": "tap", "hits": 2.5}', "hits: '2.5' is not a whole number"),
        (b'{"query": "tap", "what": 1}', "what: unknown parameter"),
        (b'{"query": "tap", "rerank": "klsa", "klsa.basis": "x"}', "klsa.basis: names a file"),
        (b"{}", "query: no text"),
    ],
)
def test_bad_bodies_are_refused(client, body, said):
    answer = client.post("/v1/demo/search", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and said in answer.json()["error"]
    assert client.post("/v1/demo/search", content=body).status_code == 415


def test_a_batch_gives_the_lists_of_its_queries(client):
    queries = ["dripping tap", {"qid": "b", "text": "blown fuse"}, {"text": "zzzzzz"}]
    for parameters in ({}, {"rerank": ["klsa"], "klsa.z": 5}, {"rm3": True}):
        answer = client.post("/v1/demo/batch", json={"queries": queries, "hits": 4, **parameters})
        assert answer.status_code == 200, answer.text
        results = answer.json()["results"]
        assert [result["qid"] for result in results] == ["1", "b", "3"]
        for result in results:
            alone = client.post("/v1/demo/search", json={"query": result["query"]["text"], "hits": 4, **parameters}).json()
            fields = ("docid", "score", "rank", "doc")
            assert result["candidates"] == [{name: entry[name] for name in fields} for entry in alone["candidates"]]
        assert results[2]["candidates"] == []


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        (None, "a list of 1 to 100 queries"),
        ([], "a list of 1 to 100 queries"),
        (["tap"] * 101, "a list of 1 to 100 queries"),
        (["tap", 5], "number 2 is not a text"),
        ([{"text": "tap", "user": 1}], "number 1 is not a text"),
        ([{"qid": 5, "text": "tap"}], "the qid of number 1"),
        ([" "], "number 1: between 1 and 1000 characters"),
        (["a" * 1001], "number 1: between 1 and 1000 characters"),
    ],
)
def test_bad_batches_are_refused(client, queries, said):
    answer = client.post("/v1/demo/batch", json={"queries": queries})
    assert answer.status_code == 400 and said in answer.json()["error"]


def test_a_batch_has_no_parameters_of_single_queries(client):
    for name in ("topic", "highlight", "query"):
        answer = client.post("/v1/demo/batch", json={"queries": ["tap"], name: "true"})
        assert answer.status_code == 400 and f"{name}: unknown parameter" in answer.json()["error"]


@pytest.mark.parametrize(
    "path", ["/", "/health", "/v1/demo/search?query=tap", "/v1/demo/doc/hr001", "/v1/demo/doc/none", "/docs"]
)
def test_head_is_get_without_the_body(client, path):
    answer, whole = client.head(path), client.get(path)
    assert answer.status_code == whole.status_code and answer.content == b""
    for name in ("content-type", "content-length", "content-security-policy"):
        assert answer.headers[name] == whole.headers[name]


def preflight(client, origin: str):
    headers = {"origin": origin, "access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}
    return client.options("/v1/demo/search", headers=headers)


def test_other_origins_may_call_only_where_they_are_named(start, settings):
    origin = "https://example.org"
    closed = start(settings)
    assert "access-control-allow-origin" not in preflight(closed, origin).headers
    assert "access-control-allow-origin" not in closed.get("/health", headers={"origin": origin}).headers
    client = start(replace(settings, cors=(origin,), api_key="key"))
    assert preflight(client, origin).headers["access-control-allow-origin"] == origin
    assert preflight(client, "https://evil.example").status_code == 400
    answer = client.get("/v1/demo/search?query=tap", headers={"origin": origin, "x-api-key": "key"})
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == origin
    assert client.get("/v1/demo/search?query=tap", headers={"origin": origin}).status_code == 401
    assert "access-control-allow-origin" not in client.get("/health", headers={"origin": "https://evil.example"}).headers


def test_origins_are_checked_when_the_server_starts():
    def origins(value: str) -> tuple[str, ...]:
        return serve.read_settings(["--index", "x", "--cors", value])[1].cors

    assert origins("https://example.org, http://localhost:3000") == ("https://example.org", "http://localhost:3000")
    assert origins("*") == ("*",)
    for value in ("example.org", "https://example.org/", "https://a b", ""):
        with pytest.raises(OptionError, match=r"--cors: .* is not an origin"):
            origins(value)


def test_the_description_of_the_api_is_served_whole(client):
    page = client.get("/docs")
    assert page.status_code == 200 and "http" not in re.sub("http-equiv", "", page.text)
    paths = re.findall(r'(?:src|href)="(page/[^"]+)"', page.text)
    assert {"page/swagger/swagger-ui.css", "page/swagger/swagger-ui-bundle.js"} <= set(paths)
    for path in paths:
        assert client.get(f"/{path}").status_code == 200
    assert "SwaggerUIBundle" in client.get("/page/swagger/swagger-ui-bundle.js").text[:1000]
