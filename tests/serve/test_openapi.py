"""Requests generated from the OpenAPI description, valid and invalid: no server error, and every answer has its schema."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import sampled_from

from kernelsearch.rerankers import registry

schemathesis = pytest.importorskip("schemathesis")
pytest.importorskip("fastapi")

#: Requests to each address; `make test-openapi` asks for more.
EXAMPLES = int(os.environ.get("KERNELSEARCH_EXAMPLES", "4"))


@pytest.fixture(scope="module")
def recorder(start, settings, fitted, tmp_path_factory) -> Any:
    """A server that records into a log of its own."""
    log = tmp_path_factory.mktemp("log") / "clicks.db"
    shutil.copy(fitted / "clicks.db", log)
    return start(replace(settings, indexes=(replace(settings.indexes[0], clicks=str(log)),), record_clicks=True))


@pytest.fixture(scope="module")
def described(recorder) -> Any:
    return schemathesis.openapi.from_dict(recorder.get("/openapi.json").json())


def make_sensible(case: Any, reranker: str | None, query: str | None) -> None:
    """Fills in names that exist: if most requests named unknown things, their 404s and 400s would test little."""
    if "index" in case.path_parameters:
        case.path_parameters["index"] = "demo"
    if "docid" in case.path_parameters and query:
        case.path_parameters["docid"] = "hr001"
    if case.method == "POST":
        make_body_sensible(case, reranker, query)
    elif "search" in case.path or "compare" in case.path or "explain" in case.path:
        own = f"{reranker}."
        case.query = {name: value for name, value in (case.query or {}).items() if "." not in name or name.startswith(own)}
        for name in ("topic", "docid", "qljm", "rocchio", "rerank"):
            case.query.pop(name, None)
        if reranker is not None:
            case.query["rerank"] = reranker
        if query is not None:
            case.query["query"] = query


def make_body_sensible(case: Any, reranker: str | None, query: str | None) -> None:
    if not isinstance(case.body, dict) or "click" in case.path:
        return
    own = f"{reranker}."
    case.body = {name: value for name, value in case.body.items() if "." not in name or name.startswith(own)}
    for name in ("topic", "qljm", "rocchio", "rerank"):
        case.body.pop(name, None)
    if reranker is not None:
        case.body["rerank"] = [reranker]
    if query is not None:
        case.body.update({"query": query} if "search" in case.path else {"queries": [query, {"qid": "a", "text": query}]})


ADDRESSES = (
    ("get", "/v1/{index}/search"),
    ("get", "/v1/{index}/compare"),
    ("get", "/v1/{index}/explain"),
    ("get", "/v1/{index}/explain/plot.svg"),
    ("get", "/v1/{index}/similar/{docid}"),
    ("get", "/v1/{index}/doc/{docid}"),
    ("get", "/v1/{index}/topics"),
    ("get", "/v1/{index}/suggest"),
    ("post", "/v1/{index}/search"),
    ("post", "/v1/{index}/batch"),
    ("post", "/v1/{index}/click"),
    ("post", "/v1/{index}/documents"),
    ("get", "/v1/indexes"),
    ("get", "/v1/methods"),
    ("get", "/health"),
    ("get", "/metrics"),
)


def test_all_addresses_are_described(described):
    result = {(operation.ok().method, operation.ok().path) for operation in described.get_all_operations()}
    assert result == set(ADDRESSES)


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize(("method", "path"), ADDRESSES)
def test_no_server_error_and_every_answer_has_its_schema(described, recorder, method, path, mode):
    from schemathesis import checks

    wanted = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    operation = described[path][method]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)),
        reranker=sampled_from([None, *registry.names()]),
        query=sampled_from(["dripping tap", "outdoor faucet leaking", None]),
    )
    def ask(case: Any, reranker: str | None, query: str | None) -> None:
        if mode == "positive":
            make_sensible(case, reranker, query)
        call = case.as_transport_kwargs("http://127.0.0.1")
        call.pop("cookies", None)
        case.validate_response(recorder.request(**call), checks=wanted)

    try:
        ask()
    except Unsatisfiable:
        assert mode == "negative"  # an address without parameters has no invalid request
