"""A wrong option is refused for the same reason wherever it is named: keyword, flag, config file, request and tool."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tomli_w

import kernelsearch
from kernelsearch import search, train
from kernelsearch.api import config
from kernelsearch.cli import console
from kernelsearch.cli.search_settings import IN_CONFIG
from kernelsearch.core.errors import Flag, KernelSearchError
from kernelsearch.rerankers import registry
from kernelsearch.serve.settings import IndexSpec, RequestLimits, ServiceSettings

pytest.importorskip("mcp")

MOVED = "said in the kernel, such as bm25(k1=2)"
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
#: The owner, name and value of a wrong option, and the message in Python.
WRONG = [
    ("klsa", "lamda", 0.5, "klsa_lamda: unknown option; did you mean klsa_lambda?"),
    ("", "kk1", 0.9, "kk1: unknown option; did you mean k1?"),
    ("klsa", "z", "many", "klsa_z: 'many' is not a whole number"),
    ("klsa", "z", 0, "klsa_z: 0 is below 1"),
    ("", "b", 1.5, "b: 1.5 is above 1"),
    ("", "rm3", "maybe", "rm3: 'maybe' is not true or false"),
    ("mslm", "mix", 0.5, "mslm_mix: has no effect without rerank='mslm'"),
    ("klsa", "dims", True, "klsa_dims: True is not a whole number"),
    ("klsa", "former", 2, f"klsa_former: {MOVED}"),
]


@pytest.fixture(scope="module")
def client(demo_index, start):
    spec = IndexSpec("demo", str(demo_index.path))
    return start(ServiceSettings((spec,), RequestLimits(threads=2, seconds=60), mcp=True), warm=False)


@pytest.fixture(autouse=True)
def with_moved_option(monkeypatch):
    known = {**registry.methods(), "klsa": replace(registry.method("klsa"), moved={"former": MOVED})}
    monkeypatch.setattr(registry, "methods", lambda: known)


def refused(call) -> KernelSearchError:
    with pytest.raises(KernelSearchError) as caught:
        call()
    return caught.value


def printed(capsys, main, *flags) -> str:
    with pytest.raises(SystemExit) as ended:
        console.run(main, [*flags])
    assert ended.value.code == 2
    return capsys.readouterr().err.rstrip()


@pytest.mark.parametrize(("owner", "name", "value", "message"), WRONG)
def test_the_reason_is_the_same_everywhere(demo_index, client, capsys, tmp_path, owner, name, value, message):
    by_keyword = refused(lambda: demo_index.search("tap", "klsa", **{"_".join(filter(None, (owner, name))): value}))
    assert str(by_keyword) == message

    own = [] if value is True else [str(value)]
    if name not in ("dims", "rm3"):  # a flag has no value True, and a switch none at all
        flag = f"--{owner}.{name}" if owner else f"--{name}"
        line = printed(capsys, search.main, "--index", str(demo_index.path), "--query", "tap", "--rerank", "klsa", flag, *own)
        assert line == f"kernelsearch: {by_keyword.message(Flag.on_command_line)}"

    path = tmp_path / "c.toml"
    methods = [{"name": method, **({name: value} if owner == method else {})} for method in ("klsa",)]
    if owner != "mslm":  # a table of a method is the method's use
        path.write_text(tomli_w.dumps({"first-stage": {} if owner else {name: value}, "rerank": methods}))
        by_file = refused(lambda: config.read(path, IN_CONFIG))
        (reason,) = by_file.args
        assert by_file.path == path and (reason.option, reason.args) == (by_keyword.option, by_keyword.args)

    parameter = f"{owner}.{name}" if owner else name
    asked = {"query": "tap", "rerank": "klsa", parameter: value}
    answers = [client.post("/v1/demo/search", json=asked)]
    if value is not True:
        answers.append(client.get("/v1/demo/search", params=asked))
    expected = {"error": by_keyword.message(Flag.in_request)}
    assert [(answer.status_code, answer.json()) for answer in answers] == [(400, expected)] * len(answers)

    arguments = {"index": "demo", "query": "tap", "rerank": "klsa", "options": {parameter: value}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": arguments}}
    result = client.post("/mcp", json=call, headers=HEADERS).json()["result"]
    assert result["isError"] and result["content"][0]["text"].endswith(expected["error"])


def test_a_request_has_bounds_of_its_own(client):
    """More feedback documents than a request may ask for are no mistake elsewhere; a file is never named by a request."""
    for parameter, reason in (
        ("rm3-docs=101", "rm3-docs: 101 is above 100"),
        ("klsa.basis=/etc", "klsa.basis: names a file, which requests cannot set"),
    ):
        answer = client.get(f"/v1/demo/search?query=tap&rerank=klsa&{parameter}")
        assert (answer.status_code, answer.json()) == (400, {"error": reason})
    assert kernelsearch.api.keywords.read_keywords(None, {"rm3_docs": 101}).first.rm3_docs == 101


@pytest.mark.parametrize(("name", "reason"), [("former", MOVED), ("z", "an option of search"), ("fied", "unknown option; ")])
def test_options_of_train_are_refused_for_the_same_reason(demo_index, capsys, name, reason):
    line = printed(capsys, train.main, "--index", str(demo_index.path), "--rerank", "klsa", f"--klsa.{name}", "2")
    assert line.startswith(f"kernelsearch: --klsa.{name}: {reason}")
    for keyword in (name, f"klsa_{name}"):
        problem = refused(lambda keyword=keyword: demo_index.train("klsa", **{keyword: 2}))
        assert problem.message(Flag.on_command_line) == line.removeprefix("kernelsearch: ")


def test_a_pipeline_is_kept_by_its_description(demo_index):
    """Text and number are the same value, wherever they come from; another value is another pipeline."""
    first = demo_index.pipeline("pert", pert_docs=7, k1=1)
    assert demo_index.pipeline({"pert": {"docs": "7"}}, k1="1.0") is first
    assert demo_index.pipeline("pert", pert_docs=8, k1=1) is not first
    assert demo_index.pipeline("pert", pert_docs=7) is not first
