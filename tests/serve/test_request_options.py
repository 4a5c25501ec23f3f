"""What requests may set: no option of a method, a plugin's included, makes the service open a file outside the index."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from kernelsearch.core.options import Option, Settings, option
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Reranker
from kernelsearch.serve.settings import IndexSpec, RequestLimits, ServiceSettings

pytest.importorskip("mcp")

#: Part of the names of the files that requests must not open.
MARK = "outside-the-index"
opened: list[str] = []


def note(event: str, arguments: tuple) -> None:
    if event in ("open", "os.listdir", "os.scandir", "sqlite3.connect") and MARK in str(arguments[0]):
        opened.append(str(arguments[0]))


sys.addaudithook(note)


@dataclass(frozen=True, kw_only=True)
class OpenerSettings(Settings):
    owner: ClassVar[str] = "opener"

    vectors: str | None = option(None, "a file, under the name of an option that requests may set")
    documents: str = option("body", "another one")
    clicks: str | None = option(None, "a third")
    runs: tuple[str, ...] | None = option(None, "several")
    declared: str | None = option(None, "one that says so", names="file")
    stored: str | None = option(None, "vectors of the index", names="vectors")
    word: str | None = option(None, "a text that is no path", requests=True)
    docs: int = option(10, "number of documents", low=1)
    many: int = option(10, "number of cheap things", low=1, request_high=5000)


class Opener(Reranker[OpenerSettings]):
    """Opens every path that it gets, as a method with files of its own does."""

    def __init__(self, index, **options):
        super().__init__(index, **options)
        s = self.settings
        for value in (s.vectors, s.documents, s.clicks, *(s.runs or ()), s.declared, s.stored):
            if value is not None and Path(value).is_file():
                Path(value).read_bytes()

    def score(self, query, candidates, context):
        return candidates.scores


METHOD = registry.Method("opener", "opens files", OpenerSettings, f"{__name__}:Opener")
Opener.method = METHOD


@pytest.fixture(scope="module")
def client(fitted, start):
    with pytest.MonkeyPatch.context() as patch:
        known = {**registry.methods(), "opener": METHOD}
        patch.setattr(registry, "methods", lambda: known)
        spec = IndexSpec("demo", str(fitted / "demo"), {}, {}, None)
        yield start(ServiceSettings((spec,), RequestLimits(threads=2, seconds=60), mcp=True), warm=False)


def answers(client, method: str, name: str, value: object) -> dict[str, tuple[int, str]]:
    """{endpoint: (status, text)} of a request with one option of one method; an error of a tool is 400."""
    flags = {"query": "tap", "rerank": method, f"{method}.{name}": value}
    batch = {key: item for key, item in flags.items() if key != "query"}
    arguments = {"index": "demo", "query": "tap", "rerank": method, "options": {f"{method}.{name}": value}}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    sent = {path: client.get(f"/v1/demo/{path}", params=flags) for path in ("search", "compare", "explain", "explain/plot.svg")}
    sent["POST"] = client.post("/v1/demo/search", json=flags)
    sent["batch"] = client.post("/v1/demo/batch", json={"queries": ["tap"], **batch})
    found = {path: (response.status_code, response.text) for path, response in sent.items()}
    for tool in ("search", "explain"):
        response = client.post("/mcp", json={**call, "params": {"name": tool, "arguments": arguments}}, headers=headers)
        result = response.json()["result"]
        found[f"mcp {tool}"] = (400 if result.get("isError") else 200, result["content"][0]["text"])
    return found


def every_option() -> list[tuple[str, Option]]:
    declared = {**registry.methods(), "opener": METHOD}
    return [(name, option) for name, method in declared.items() for option in method.options if option.name != "word"]


@pytest.mark.parametrize(("method", "option"), [pytest.param(*pair, id=f"{pair[0]}.{pair[1].name}") for pair in every_option()])
def test_no_option_of_a_request_opens_a_file_outside_the_index(client, fitted, tmp_path, method, option):
    """The answer tells nothing of a file either: it is the same whether the file exists or not."""
    there, missing = tmp_path / f"{MARK}-1", tmp_path / f"{MARK}-2"
    there.write_text("1\t1 1\n")
    climbing = "/".join([".."] * 12) + str(there)
    opened.clear()
    for pattern in ("{}", "vectors:{}", "minilm={}"):
        first, second = (answers(client, method, option.name, pattern.format(path)) for path in (there, missing))
        for endpoint, (status, text) in first.items():
            assert status == 400, (endpoint, text)
            assert second[endpoint] == (status, text.replace(str(there), str(missing)).replace(there.name, missing.name))
    assert {status for status, _ in answers(client, method, option.name, climbing).values()} == {400}
    assert not opened


def test_bounds_of_requests_belong_to_the_declaration(client):
    """A plugin's `docs` has the bound of every whole number, not that of another method's option of that name."""
    listed = {method["name"]: method for method in client.get("/v1/methods").json()["methods"]}
    high = {name: {one["name"]: one["high"] for one in listed[name]["options"]} for name in ("opener", "pert", "mslm")}
    assert set(high["opener"]) == {"stored", "word", "docs", "many"}
    assert (high["opener"]["docs"], high["opener"]["many"]) == (1000, 5000)
    assert (high["pert"]["docs"], high["mslm"]["semantic"], high["mslm"]["scales"]) == (100, 100, None)
    for name, value, status in (("docs", 1000, 200), ("docs", 1001, 400), ("many", 5000, 200), ("word", "/etc", 200)):
        assert client.get(f"/v1/demo/search?query=tap&rerank=opener&opener.{name}={value}").status_code == status
    for value, status in (("inf", 200), ("101", 400)):
        assert client.get(f"/v1/demo/search?query=tap&rerank=mslm&mslm.scales={value}").status_code == status


@pytest.mark.parametrize("names", [{"names": "file", "requests": True}, {"names": "path"}])
def test_declarations_that_contradict_themselves_are_refused(names):
    with pytest.raises(ValueError, match="option x: "):
        Option("x", str, None, "help", **names)


def test_a_name_that_the_index_lacks_is_refused_with_those_that_it_has(client):
    answer = client.get("/v1/demo/search?query=tap&rerank=opener&opener.stored=meta.json")
    assert json.loads(answer.text) == {"error": "opener.stored: 'meta.json' is not one of none: the index has no vectors"}
