"""Searches with JSON bodies, batches, HEAD, CORS, and the page that describes the API."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

import kernelsearch
from kernelsearch.core.errors import OptionError
from kernelsearch.serve import __main__ as serve
from kernelsearch.serve import endpoints
from kernelsearch.serve.filters import Filter
from kernelsearch.serve.texts import StoredDocuments


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
    ("body", "message"),
    [
        (b"{", "body, column 2: not valid JSON"),
        (b'{"query": "tap", "hits": 3, "hits": 5}', "body: not valid JSON (the key 'hits' occurs twice in one object)"),
        (b"[1]", "body: a JSON object"),
        (b'{"query": {"text": "tap"}}', "query: {'text': 'tap'} is not text"),
        (b'{"query": ["dripping", "tap"]}', "query: ['dripping', 'tap'] is not text"),
        (b'{"query": "tap", "hits": [3]}', "hits: [3] is not a whole number"),
        (b'{"query": "tap", "rerank": ["klsa", "pert", "klsa"]}', "rerank: 'klsa,pert,klsa' names a method twice"),
        (b'{"query": "tap", "hits": 0}', "hits: 0 is below 1"),
        (b'{"query": "tap", "hits": 2.5}', "hits: 2.5 is not a whole number"),
        (b'{"query": "tap", "filter": ["minutes"]}', "filter: 'minutes' is not FIELD=VALUE"),
        (b'{"query": "tap", "filter": "minutes<<5"}', "filter: 'minutes<<5' is not FIELD=VALUE"),
        (b'{"query": "tap", "filter": "minutes==5"}', "filter: 'minutes==5' is not FIELD=VALUE"),
        (b'{"query": "tap", "filter": "=5"}', "filter: '=5' is not FIELD=VALUE"),
        (b'{"query": "tap", "filter": ' + json.dumps(["a=1"] * 9).encode() + b"}", "filter: more than 8 conditions"),
        (b'{"query": "tap", "fields": ' + json.dumps(["a"] * 51).encode() + b"}", "fields: more than 50 values"),
        (b'{"query": "tap", "fields": "title", "parse": false}', "fields: has no effect with parse=false"),
        (b'{"query": "tap", "offset": 995}', "offset: with hits it is 1005, the maximum is 1000"),
        (b'{"query": "tap", "what": 1}', "what: unknown option"),
        (b'{"query": "tap", "rerank": "klsa", "klsa.basis": "x"}', "klsa.basis: names a file"),
        (b"{}", "query: no text"),
    ],
)
def test_bad_bodies_are_refused(client, body, message):
    answer = client.post("/v1/demo/search", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and message in answer.json()["error"]
    assert client.post("/v1/demo/search", content=body).status_code == 415


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("hits=1&hits=2", "hits: given twice"),
        ("query=fuse", "query: given twice"),
        ("k1=1&k1=2", "k1: given twice"),
        ("rerank=klsa&klsa.z=5&klsa.z=6", "klsa.z: given twice"),
        ("rerank=klsa&rerank=klsa", "rerank: 'klsa,klsa' names a method twice"),
    ],
)
def test_a_parameter_that_would_replace_another_is_refused(client, parameters, message):
    answer = client.get(f"/v1/demo/search?query=tap&{parameters}")
    assert answer.status_code == 400 and answer.json()["error"] == message


def test_the_description_counts_the_methods_that_a_request_may_name(client):
    paths = client.get("/openapi.json").json()["paths"]
    methods = len(client.get("/v1/methods").json()["methods"])

    def most(path: str) -> int:
        declared = {entry["name"]: entry["schema"] for entry in paths[path]["get"]["parameters"]}
        return declared["rerank"]["maxItems"]

    assert [most(f"/v1/{{index}}/{name}") for name in ("search", "compare", "explain")] == [methods, 3, 1]
    body = paths["/v1/{index}/search"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["rerank"]["maxItems"] == methods


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ("id=9007199254740992", 9007199254740993, False),  # the same number as floats
        ("id>9007199254740992", 9007199254740993, True),
        ("id=9007199254740993", "9007199254740993", True),
        ("id=123456789012345678901234567890", orjson.loads("123456789012345678901234567890"), True),  # a float
        ("year=2020.0", 2020, True),
        ("size=2e3", 2000, True),
        ("code=11", "1_1", False),  # the same number in Python's syntax
        ("code=3", "\N{ARABIC-INDIC DIGIT THREE}", False),
        ("price<=1e999", 5, False),
        ("price=" + "9" * 400, int("9" * 400), True),  # as text: beyond floats
    ],
)
def test_filters_compare_whole_numbers_exactly(condition, value, holds):
    parsed = Filter.parse(condition)
    assert parsed.matches({parsed.field: value}) is holds


def test_answers_are_not_stored_and_the_pages_files_are_compared_with_the_servers(client):
    for path in ("/v1/demo/search?query=tap", "/v1/indexes", "/v1/none/search?query=tap", "/openapi.json"):
        assert client.get(path).headers["cache-control"] == "no-store"
    for path in ("/", "/docs", "/page/js/main.js"):
        answer = client.get(path)
        assert answer.headers["cache-control"] == "no-cache"
        assert client.get(path, headers={"if-none-match": answer.headers["etag"]}).status_code in (200, 304)


def post(client, path: str = "/v1/demo/search", **body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("method", [{}, {"rerank": "klsa"}])
def test_pages_of_a_list_are_the_whole_list(client, method):
    whole = post(client, query="dripping kitchen tap", hits=25, **method)["candidates"]
    pages = [post(client, query="dripping kitchen tap", hits=10, offset=start, **method) for start in (0, 10, 20)]
    assert [entry for page in pages for entry in page["candidates"]][:25] == whole
    assert whole[10]["rank"] == 11
    assert post(client, query="dripping kitchen tap", offset=900, **method)["candidates"] == []


def test_only_the_fields_that_are_asked_for_come_back(client):
    whole = post(client, query="dripping tap")["candidates"]
    answer = client.get("/v1/demo/search?query=dripping+tap&fields=title,minutes").json()
    assert [entry["doc"] for entry in answer["candidates"]] == [
        {"title": entry["doc"]["title"], "minutes": entry["doc"]["minutes"]} for entry in whole
    ]
    assert post(client, query="dripping tap", fields=["title", "minutes"]) == answer
    assert {str(entry["doc"]) for entry in post(client, query="dripping tap", fields=[])["candidates"]} == {"{}"}


def test_a_field_that_no_document_has_is_refused(client):
    for path in (
        "query=dripping+tap&fields=title,nosuch",
        "query=nowhereinthisindex&fields=nosuch",
        "query=tap&rerank=klsa&fields=nosuch",
    ):
        answer = client.get(f"/v1/demo/search?{path}")
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("fields: no document has 'nosuch'; known: ") and "minutes" in answer.text
    assert client.post("/v1/demo/batch", json={"queries": ["tap"], "fields": ["nosuch"]}).status_code == 400


def test_a_field_that_one_document_has_is_accepted(tmp_path):
    documents = [{"id": str(number), "contents": "word"} for number in range(2500)] + [
        {"id": "x", "contents": "word", "rare": 1}
    ]
    texts = StoredDocuments(kernelsearch.build(tmp_path / "index", documents))
    assert texts.missing_fields(["id", "contents"]) == [] and texts.known_fields() == {"id", "contents"}
    assert texts.missing_fields(["rare", "id"]) == [] and texts.known_fields() == {"id", "contents", "rare"}
    assert texts.missing_fields(["rare", "other", "id"]) == ["other"]


@pytest.mark.parametrize(
    ("filters", "holds"),
    [
        (["category=plumbing"], lambda doc: doc["category"] == "plumbing"),
        (["category!=plumbing", "minutes <= 30"], lambda doc: doc["category"] != "plumbing" and doc["minutes"] <= 30),
        (["minutes>9"], lambda doc: doc["minutes"] > 9),
        (["minutes<100"], lambda doc: doc["minutes"] < 100),
        (["tools=bucket"], lambda doc: "bucket" in doc["tools"]),
        (["tools!=bucket"], lambda doc: "bucket" not in doc["tools"]),
        (["category>=p", "cost=0.0"], lambda doc: doc["category"] >= "p" and doc["cost"] == 0),
    ],
)
@pytest.mark.parametrize("method", [{}, {"rerank": "klsa", "klsa.retrieve": 0}])
def test_filters_leave_the_documents_that_fulfil_them(client, filters, holds, method):
    query = "dripping kitchen tap"
    whole = post(client, query=query, hits=1000, candidates=1000, **method)["candidates"]
    answer = post(client, query=query, hits=1000, filter=filters, **method)
    wanted = [entry for entry in whole if holds(entry["doc"])]
    assert 0 < len(wanted) < len(whole)
    assert [(entry["docid"], entry["score"]) for entry in answer["candidates"]] == [
        (entry["docid"], entry["score"]) for entry in wanted
    ]
    assert [entry["rank"] for entry in answer["candidates"]] == list(range(1, len(wanted) + 1))
    assert answer["filtered"] == {"candidates": len(whole), "matching": len(wanted), "unknown": []}
    if method:
        first = [entry["docid"] for entry in sorted(wanted, key=lambda entry: entry["before"])]
        assert [entry["before"] for entry in answer["candidates"]] == [first.index(entry["docid"]) + 1 for entry in wanted]
        assert all(entry["moved"] == entry["before"] - entry["rank"] for entry in answer["candidates"])
    page = client.get("/v1/demo/search", params={"query": query, "filter": filters, "hits": 2, "offset": 1, **method}).json()
    assert page["candidates"] == answer["candidates"][1:3]


def test_a_field_that_no_document_has_is_named(client):
    answer = post(client, query="tap", filter="categry=plumbing")
    assert answer["candidates"] == [] and answer["filtered"]["unknown"] == ["categry"]
    assert post(client, query="zzzzzz", filter="categry=plumbing")["filtered"]["unknown"] == []


def test_batches_take_fields_offsets_and_filters(client):
    chosen = {"hits": 3, "offset": 1, "filter": ["minutes<=60"], "fields": ["title"], "rerank": "klsa"}
    for result in post(client, "/v1/demo/batch", queries=["dripping tap", "blown fuse"], **chosen)["results"]:
        alone = post(client, query=result["query"]["text"], **chosen)
        assert result["filtered"] == alone["filtered"]
        assert [(entry["docid"], entry["rank"], entry["doc"]) for entry in result["candidates"]] == [
            (entry["docid"], entry["rank"], entry["doc"]) for entry in alone["candidates"]
        ]


def test_clicks_belong_to_the_beginning_of_a_list(start, settings, fitted, tmp_path):
    shutil.copy(fitted / "clicks.db", tmp_path / "clicks.db")
    own = replace(settings.indexes[0], clicks=str(tmp_path / "clicks.db"))
    client = start(replace(settings, indexes=(own,), record_clicks=True))
    assert "impression" in post(client, query="tap") and "impression" not in post(client, query="tap", offset=1)


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
    ("queries", "message"),
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
def test_bad_batches_are_refused(client, queries, message):
    answer = client.post("/v1/demo/batch", json={"queries": queries})
    assert answer.status_code == 400 and message in answer.json()["error"]


def test_a_batch_has_no_parameters_of_single_queries(client):
    for name in ("topic", "highlight", "query"):
        answer = client.post("/v1/demo/batch", json={"queries": ["tap"], name: "true"})
        assert answer.status_code == 400 and f"{name}: unknown option" in answer.json()["error"]


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
        with pytest.raises(OptionError, match=r"cors: (.* is not an origin|an empty text)"):
            origins(value)


def test_the_description_of_the_api_is_served_whole(client):
    page = client.get("/docs")
    assert page.status_code == 200 and "http" not in re.sub("http-equiv", "", page.text)
    paths = re.findall(r'(?:src|href)="(page/[^"]+)"', page.text)
    assert {"page/swagger/swagger-ui.css", "page/swagger/swagger-ui-bundle.js"} <= set(paths)
    for path in paths:
        assert client.get(f"/{path}").status_code == 200
    assert "SwaggerUIBundle" in client.get("/page/swagger/swagger-ui-bundle.js").text[:1000]


def test_every_module_of_endpoints_is_served(client):
    modules = {file.stem for file in Path(endpoints.__file__).parent.glob("*.py")} - {"__init__"}
    assert modules == {module.__name__.rpartition(".")[2] for module in endpoints.ENDPOINTS}
    paths = client.get("/openapi.json").json()["paths"]
    handled = [(path, method) for path, methods in paths.items() for method in methods]
    assert len(handled) == len(modules) + 3  # search by POST, the plot, metrics
