"""The endpoint for language models gives what the REST API gives, with the same checks."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kernelsearch.core.errors import BusyError, JavaError

pytest.importorskip("mcp")


@pytest.fixture(scope="module")
def tools(start, settings) -> Any:
    client = start(replace(settings, mcp=True))

    def call(method: str, **parameters: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        answer = client.post("/mcp", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    return call


def used(tools, name: str, **arguments: Any) -> tuple[bool, str]:
    result = tools("tools/call", name=name, arguments=arguments)
    return bool(result.get("isError")), result["content"][0]["text"]


def test_the_tools_are_listed_with_their_parameters(tools):
    result = {tool["name"]: tool for tool in tools("tools/list")["tools"]}
    assert set(result) == {"search", "doc", "explain", "similar", "list_indexes", "list_methods"}
    assert result["search"]["inputSchema"]["required"] == ["index", "query"]
    assert "rerank" in result["search"]["description"]


def rounded(text):
    """JSON with numbers to four digits after the point."""
    return json.loads(text, parse_float=lambda number: round(float(number), 4))


def test_tools_give_the_rest_apis_answers(tools, client):
    failed, text = used(tools, "search", index="demo", query="dripping tap", hits=3, rerank="klsa", options={"klsa.z": "5"})
    assert not failed
    assert json.loads(text) == client.get("/v1/demo/search?query=dripping+tap&hits=3&rerank=klsa&klsa.z=5").json()
    for name, arguments, path in (
        ("doc", {"docid": "hr001"}, "/v1/demo/doc/hr001"),
        ("similar", {"docid": "hr001", "hits": 2}, "/v1/demo/similar/hr001?hits=2"),
        ("similar", {"docid": "hr001", "hits": 1, "other": "hr220"}, "/v1/demo/similar/hr001?hits=1&other=hr220"),
        ("explain", {"query": "tap", "rerank": "klsa"}, "/v1/demo/explain?query=tap&rerank=klsa"),
        ("explain", {"query": "tap"}, "/v1/demo/explain?query=tap"),
    ):
        failed, text = used(tools, name, index="demo", **arguments)
        # Sums in single precision may differ in the last digit from call to call.
        assert not failed and rounded(text) == rounded(client.get(path).text)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("search", {"index": "none", "query": "tap"}, "index: 'none' is not one of demo"),
        ("search", {"index": "demo", "query": " "}, "query: no text"),
        ("search", {"index": "demo", "query": "tap", "hits": 5000}, "hits: 5000 is above 1000"),
        ("search", {"index": "demo", "query": "tap", "rerank": "klsa", "options": {"klsa.basis": "/etc"}}, "names a file"),
        ("search", {"index": "demo", "query": "tap", "k1": 1.2}, "k1: unknown; known: index, query, hits, rerank, options"),
        ("search", {"index": "demo", "query": "tap", "hits": "x"}, "hits: Input should be a valid integer, unable to parse"),
        ("search", {"query": "tap"}, "index: Field required"),
        ("search", {"index": "demo", "query": "tap", "rerank": "klsa", "options": {"klsa.z": 0}}, "klsa.z: 0 is below 1"),
        ("search", {"index": "demo", "query": "tap", "options": {"hits": 3}}, "options: hits is an argument of the tool"),
        ("search", {"index": "demo", "query": "tap", "options": {"k1": [1.2]}}, "k1: [1.2] is not a number"),
        ("doc", {"index": "demo", "docid": "../etc/passwd"}, "is not in demo"),
    ],
)
def test_errors_are_one_line(tools, name, arguments, message):
    failed, text = used(tools, name, **arguments)
    assert failed and message in text and "\n" not in text and "pydantic" not in text and "--" not in text


def test_options_may_be_numbers(tools, client):
    failed, text = used(
        tools, "search", index="demo", query="tap", hits=3, options={"k1": 1.2, "rm3": True, "fields": ["title"]}
    )
    assert not failed and json.loads(text) == client.get("/v1/demo/search?query=tap&hits=3&k1=1.2&rm3=true&fields=title").json()


@pytest.mark.parametrize(
    "problem", [JavaError("/srv/private: failed"), BusyError("/srv/private: locked"), ValueError("/srv/private")]
)
def test_tools_tell_no_more_about_errors_than_the_rest_api(tools, client, monkeypatch, problem):
    def fail(*_: Any) -> None:
        raise problem

    for name, arguments in (("search", {"index": "demo", "query": "tap", "rerank": "klsa"}), ("list_indexes", {})):
        monkeypatch.setattr("kernelsearch.serve.endpoints.search.search", fail)
        monkeypatch.setattr("kernelsearch.serve.catalogue.ServedIndex.methods", fail)
        failed, text = used(tools, name, **arguments)
        assert failed and "private" not in text
        rest = client.get("/v1/demo/search?query=tap&rerank=klsa" if name == "search" else "/v1/indexes").json()["error"]
        assert text == f"Error executing tool {name}: {rest}"


def test_the_endpoint_is_there_only_where_asked_for(client):
    assert client.post("/mcp", json={}).status_code == 404


def test_indexes_and_methods_are_listed(tools, client):
    failed, text = used(tools, "list_indexes")
    assert not failed and json.loads(text) == client.get("/v1/indexes").json()
    failed, text = used(tools, "list_methods")
    assert not failed and json.loads(text)["methods"] == client.get("/v1/methods").json()["methods"]
