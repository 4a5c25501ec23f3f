"""Vectors over HTTP: the method `dense`, the name of the vectors as a parameter, and query vectors by topic."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import kernelsearch
from kernelsearch.serve.__main__ import read_settings
from kernelsearch.serve.settings import IndexSpec, RequestLimits, ServiceSettings
from kernelsearch.trec import read_qrels, read_topics
from kernelsearch.vectors.__main__ import main as vectors_verb
from kernelsearch.vectors.settings import VectorSettings
from tests.conftest import DEMO


@pytest.fixture(scope="module")
def own_index(fitted, tmp_path_factory):
    """A copy of the served index, whose vectors the services of other tests don't see."""
    folder = tmp_path_factory.mktemp("vectors") / "demo"
    shutil.copytree(fitted / "demo", folder)
    return folder


@pytest.fixture(scope="module")
def served(own_index, start):
    """(a client, the index's docids, {name: their vectors}, the topics' vectors)"""
    folder = own_index.parent
    index, random = kernelsearch.open(own_index), np.random.default_rng(2)
    docids = index.forward.docids.take(index.forward.live_docs)
    tables = {name: random.standard_normal((len(docids), 6)) for name in ("first", "second")}
    for name, table in tables.items():
        np.savez(folder / "v.npz", ids=np.array(docids), vectors=table)
        vectors_verb(["--index", str(own_index), "--name", name, "--input", str(folder / "v.npz"), "--dtype", "float32"])
    topics = read_topics(DEMO / "topics.tsv")
    queries = dict(zip(topics, random.standard_normal((len(topics), 6)), strict=True))
    np.savez(folder / "q.npz", ids=np.array(list(queries)), vectors=np.stack(list(queries.values())))
    vectors = VectorSettings(name="first", queries=str(folder / "q.npz"))
    spec = IndexSpec("demo", str(own_index), topics, read_qrels(DEMO / "qrels.txt"), None, vectors)
    return start(ServiceSettings((spec,), RequestLimits(threads=2, seconds=120))), docids, tables, queries


@pytest.mark.parametrize("name", ["first", "second"])
def test_requests_choose_the_vectors_by_name(served, name):
    client, docids, tables, queries = served
    topic = next(iter(queries))
    parameters = {"topic": topic, "rerank": "dense", "dense.retrieve": 300, "hits": 5}
    if name != "first":  # the server's own choice
        parameters["dense.vectors"] = name
    response = client.get("/v1/demo/search", params=parameters)
    assert response.status_code == 200, response.text
    answer = response.json()
    products = tables[name] @ queries[topic]
    result = [hit["docid"] for hit in answer["candidates"]]
    assert result == [docids[place] for place in np.argsort(-products)[:5]]
    assert [hit["score"] for hit in answer["candidates"]] == pytest.approx(np.sort(products)[::-1][:5].tolist(), rel=1e-4)


def test_the_vector_of_a_query_is_that_of_the_topic_with_its_text(served):
    """Whether or not the request names the topic; another text than the topic's has no vector."""
    client, docids, tables, queries = served
    topics = read_topics(DEMO / "topics.tsv")
    qid = list(queries)[3]
    nearest = [docids[place] for place in np.argsort(-(tables["first"] @ queries[qid]))[:5]]
    options = {"rerank": "dense", "dense.retrieve": 300, "hits": 5}
    for request in ({"query": f" {topics[qid].upper()}  "}, {"query": topics[qid], "topic": qid}, {"topic": qid}):
        answer = client.get("/v1/demo/search", params={**request, **options}).json()
        assert [hit["docid"] for hit in answer["candidates"]] == nearest, request
    edited = client.get("/v1/demo/search", params={"query": f"{topics[qid]} water", "topic": qid, **options}).json()
    assert edited["fallback"] == "the query has no vector"


def test_flags_of_the_server(tmp_path):
    flags = ["--index", "a=x", "--vectors", "minilm", "--query-vectors", "q.npz", "--index", "b=y"]
    _, service = read_settings(flags)
    assert service.indexes[0].vectors == VectorSettings(name="minilm", queries="q.npz")
    assert service.indexes[1].vectors == VectorSettings()


def test_auto_takes_the_name_of_vectors(served):
    client, _, _, queries = served
    parameters = {"topic": next(iter(queries)), "rerank": "auto", "hits": 5}
    lists = [
        [
            hit["docid"]
            for hit in client.get("/v1/demo/search", params={**parameters, "auto.vectors": name}).json()["candidates"]
        ]
        for name in ("none", "first", "second")
    ]
    assert lists[0] != lists[1] != lists[2] != lists[0]
    assert client.get("/v1/demo/search", params={**parameters, "auto.vectors": "../first"}).status_code == 400


def tool(client, name, **arguments):
    """(whether a tool of the Model Context Protocol failed, its text)"""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    answer = client.post("/mcp", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    result = answer.json()["result"]
    return bool(result.get("isError")), result["content"][0]["text"]


def test_language_models_choose_the_vectors_by_name(own_index, start, tmp_path):
    pytest.importorskip("mcp")
    index, random = kernelsearch.open(own_index), np.random.default_rng(3)
    docids = index.forward.docids.take(index.forward.live_docs)
    table, query = random.standard_normal((len(docids), 6)), random.standard_normal(6)
    np.savez(tmp_path / "v.npz", ids=np.array(docids), vectors=table)
    np.savez(tmp_path / "q.npz", ids=np.array(["dripping tap"]), vectors=query[None])
    vectors_verb(["--index", str(own_index), "--name", "tools", "--input", str(tmp_path / "v.npz"), "--dtype", "float32"])
    spec = IndexSpec("demo", str(own_index), {}, {}, None, VectorSettings(queries=str(tmp_path / "q.npz")))
    client = start(ServiceSettings((spec,), RequestLimits(threads=2, seconds=120), mcp=True))
    options = {"dense.vectors": "tools", "dense.retrieve": "300"}
    failed, text = tool(client, "search", index="demo", query="dripping tap", hits=5, rerank="dense", options=options)
    assert not failed, text
    products = table @ query
    result = json.loads(text)["candidates"]
    assert [hit["docid"] for hit in result] == [docids[place] for place in np.argsort(-products)[:5]]
    assert [hit["score"] for hit in result] == pytest.approx(np.sort(products)[::-1][:5].tolist(), rel=1e-4)
    failed, text = tool(client, "explain", index="demo", query="dripping tap", rerank="auto", options={"auto.vectors": "tools"})
    assert not failed and "vectors" in json.loads(text)["explanation"]["notes"]["evidence"], text
    failed, text = tool(client, "search", index="demo", query="tap", rerank="dense", options={"dense.vectors": "nothing"})
    assert failed and "nothing" in text and "Traceback" not in text
