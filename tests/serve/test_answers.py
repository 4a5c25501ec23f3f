"""Answers of the endpoints, through the application in this process."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest

import kernelsearch
from tests.conftest import DEMO

pytest.importorskip("fastapi")


@pytest.fixture(scope="module")
def index(fitted):
    return kernelsearch.open(fitted / "demo")


def get(client, path: str, status: int = 200, **parameters):
    answer = client.get(path, params=parameters or None)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_search_has_pyserinis_shape_and_the_indexs_own_list(client, index):
    result = get(client, "/v1/demo/search", query="dripping tap", hits=5)
    assert (result["api"], result["index"], result["query"]) == ("v1", "demo", {"text": "dripping tap"})
    expected = index.search("dripping tap", k=5)
    assert [entry["docid"] for entry in result["candidates"]] == expected.docids
    assert [entry["score"] for entry in result["candidates"]] == pytest.approx(expected.scores, abs=1e-6)
    assert [entry["rank"] for entry in result["candidates"]] == [1, 2, 3, 4, 5]
    assert all(entry["doc"]["id"] == entry["docid"] for entry in result["candidates"])
    assert set(result["candidates"][0]) == {"docid", "score", "rank", "doc"}


def test_documents_come_as_text_where_asked(client):
    result = get(client, "/v1/demo/search", query="dripping tap", hits=1, parse="false")
    assert isinstance(result["candidates"][0]["doc"], str)
    assert result["candidates"][0]["doc"].startswith("{")


def test_options_reach_the_first_stage_and_the_method(client, index):
    result = get(
        client, "/v1/demo/search", **{"query": "dripping tap", "rerank": "klsa", "klsa.z": 5, "klsa.lambda": 0.5, "k1": 2}
    )
    expected = index.search("dripping tap", rerank="klsa", klsa_z=5, klsa_lambda=0.5, k1=2)
    assert [entry["docid"] for entry in result["candidates"]] == expected.docids
    assert [entry["moved"] for entry in result["candidates"]] == expected.moved()
    assert [entry["before"] - entry["rank"] for entry in result["candidates"]] == expected.moved()


def test_methods_are_applied_one_after_the_other(client, index):
    expected = index.search("dripping tap", rerank=["pert", "klsa"]).docids
    for path in ("rerank=pert,klsa", "rerank=pert&rerank=klsa"):
        result = get(client, f"/v1/demo/search?query=dripping+tap&{path}")
        assert result["methods"] == ["pert", "klsa"]
        assert [entry["docid"] for entry in result["candidates"]] == expected


def test_a_topic_adds_measures_and_grades(client, index):
    from kernelsearch.cli.inputs import load_qrels
    from kernelsearch.evaluation.measures import DEFAULT, evaluate, parse_measures

    result = get(client, "/v1/demo/search", topic="d01", rerank="klsa")
    assert result["query"]["text"] == "dripping tap"
    qrels = load_qrels(str(DEMO / "qrels.txt"))["d01"]
    whole = index.search("dripping tap", rerank="klsa", k=1000)
    expected = evaluate({"d01": qrels}, {"d01": list(zip(whole.docids, whole.scores, strict=True))}, parse_measures(DEFAULT))
    assert result["measures"] == pytest.approx({name: values["d01"] for name, values in expected.values.items()}, abs=1e-6)
    assert [entry["grade"] for entry in result["candidates"]] == [qrels.get(entry["docid"]) for entry in result["candidates"]]


def test_highlights_are_words_as_they_occur_in_the_documents(client):
    result = get(client, "/v1/demo/search", query="dripping tap", highlight="true")
    assert {"drips", "dripping", "tap"} <= set(result["highlight"])
    text = " ".join(str(entry["doc"]) for entry in result["candidates"]).lower()
    assert all(word in text for word in result["highlight"])
    assert "valve" not in result["highlight"]


def test_compare_gives_the_same_lists_side_by_side(client):
    result = get(client, "/v1/demo/compare?query=dripping+tap&rerank=klsa&rerank=mslm&rerank=pert,klsa&hits=7")
    assert [column["methods"] for column in result["columns"]] == [[], ["klsa"], ["mslm"], ["pert", "klsa"]]
    for column in result["columns"]:
        alone = get(client, "/v1/demo/search", query="dripping tap", hits=7, rerank=column["methods"])
        assert [entry["docid"] for entry in column["candidates"]] == [entry["docid"] for entry in alone["candidates"]]
        assert {entry["docid"] for entry in column["candidates"]} <= set(result["docs"])


def test_explain_sums_to_the_score(client):
    for method in ("klsa", "mslm", "pert", "rbm25"):
        result = get(client, "/v1/demo/explain", query="dripping tap", rerank=method)
        parts = sum(part["value"] for part in result["explanation"]["contributions"])
        assert parts == pytest.approx(result["explanation"]["score"], rel=1e-4), method
        assert result["rank"] == 1


def test_requests_choose_among_the_usual_texts_of_rbm25s_document_kernel(client):
    request = {"query": "my tap drips", "rerank": "rbm25", "hits": 10}
    lists = [get(client, "/v1/demo/search", **request, **{"rbm25.documents": texts}) for texts in ("body", "title", "both")]
    scores = [[(entry["docid"], entry["score"]) for entry in result["candidates"]] for result in lists]
    assert scores[0] != scores[1] != scores[2] != scores[0]


def bm25_by_hand(index, query: str, docid: str, k1: float, b: float) -> dict[str, float]:
    """BM25 by term from the collection's texts; Lucene's rounded length comes from the forward index."""
    records = [json.loads(line) for line in (DEMO / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = [
        record["contents"] if record["contents"].startswith(record["title"]) else f"{record['title']} {record['contents']}"
        for record in records
    ]
    counts = [Counter(terms) for terms in index.lucene.analyze(texts)]
    place = [record["id"] for record in records].index(docid)
    average = sum(sum(count.values()) for count in counts) / len(counts)
    norm = k1 * (1 - b + b * float(index.forward.norm_lengths[index.row(docid)]) / average)
    scores = {}
    for term in index.lucene.analyze([query])[0]:
        df = sum(term in count for count in counts)
        idf = math.log(1 + (len(counts) - df + 0.5) / (df + 0.5))
        scores[term] = idf * counts[place][term] / (counts[place][term] + norm)
    return scores


@pytest.mark.parametrize("options", [{}, {"k1": 2.0, "b": 0.8}])
def test_bm25_is_explained_by_term(client, index, options):
    query = "dripping kitchen tap"
    listed = get(client, "/v1/demo/search", query=query, hits=20, **options)["candidates"]
    for entry in (listed[0], listed[15]):
        result = get(client, "/v1/demo/explain", query=query, docid=entry["docid"], **options)
        assert (result["method"], result["rank"], result["before"]) == ("first stage", entry["rank"], entry["rank"])
        parts = {part["label"]: part["value"] for part in result["explanation"]["contributions"]}
        expected = bm25_by_hand(index, query, entry["docid"], **{"k1": 0.9, "b": 0.4, **options})
        assert parts == pytest.approx(expected, abs=1e-6)
        assert sum(parts.values()) == pytest.approx(entry["score"], abs=1e-5)
        assert result["score"] == entry["score"]
        assert result["titles"][entry["docid"]] == entry["doc"]["title"]
    best = get(client, "/v1/demo/explain", query=query)
    assert best["docid"] == get(client, "/v1/demo/search", query=query)["candidates"][0]["docid"]


def test_an_expanded_query_is_explained_with_its_added_terms(client):
    listed = get(client, "/v1/demo/search", query="dripping tap", rm3="true")["candidates"][0]
    explanation = get(client, "/v1/demo/explain", query="dripping tap", rm3="true")["explanation"]
    assert explanation["method"] == "BM25 + RM3" and len(explanation["contributions"]) > 2
    assert sum(part["value"] for part in explanation["contributions"]) == pytest.approx(listed["score"], abs=1e-5)


def test_of_several_methods_the_last_that_acted_is_explained(client):
    """By the score in the list, over the list of those before it; without any, the reasons are given."""
    chain = {"rerank": "pert,klsa"}
    listed = get(client, "/v1/demo/search", query="dripping tap", **chain)["candidates"][3]
    result = get(client, "/v1/demo/explain", query="dripping tap", docid=listed["docid"], **chain)
    assert (result["method"], result["score"]) == ("pert,klsa", listed["score"])
    assert result["explanation"]["method"] == "klsa" and result["explanation"]["notes"]["reranked"] == ["pert"]
    assert result["explanation"]["score"] == pytest.approx(listed["score"], abs=1e-6)
    idle = get(client, "/v1/demo/explain", query="tap", rerank="klsa,pert", **{"pert.alpha": 0})
    assert (idle["explanation"]["method"], idle["fallback"]) == ("klsa", "alpha is 0")
    nothing = get(client, "/v1/demo/explain", query="tap", rerank="pert", **{"pert.alpha": 0})
    assert (nothing["explanation"], nothing["fallback"]) == (None, "alpha is 0")


def test_references_of_an_explanation_have_titles_words_and_meanings(client):
    result = get(client, "/v1/demo/explain", query="dripping tap", rerank="klsa", docid="hr230")
    through = [part["label_pieces"] for part in result["explanation"]["contributions"][0]["parts"]]
    documents = [piece["document"] for pieces in through for piece in pieces if isinstance(piece, dict)]
    assert documents and set(documents) <= set(result["titles"])
    feature = get(client, "/v1/demo/explain", query="dripping tap", rerank="auto")["explanation"]["contributions"][0]
    (piece,) = feature["label_pieces"]
    assert piece["feature"] == feature["label"] and piece["meaning"]
    clicks = get(client, "/v1/demo/explain", query="dripping tap", rerank="rbm25")["explanation"]
    own = [part for query in clicks["contributions"] for part in query["parts"]]
    assert own and set(clicks["notes"]["clicked"]) >= {part["label"] for part in own if part["detail"].startswith("clicked")}


def test_a_query_that_a_method_leaves_alone_says_why(client):
    result = get(client, "/v1/demo/search", query="zzzz tap", rerank="rbm25", **{"rbm25.min-similarity": 100})
    assert "click log" in result["fallback"]
    assert get(client, "/v1/demo/explain", query="tap", rerank="rbm25", **{"rbm25.min-similarity": 100})["explanation"] is None
    assert get(client, "/v1/demo/search", query="dripping tap", rerank="rbm25")["fallback"] is None


@pytest.mark.parametrize("method", ["klsa", "mslm", "pert"])
def test_pictures_are_drawn(client, method):
    answer = client.get(f"/v1/demo/explain/plot.svg?query=dripping+tap+$x_{{$&rerank={method}&docid=hr230")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/svg+xml"
    assert b"<svg" in answer.content and b"<script" not in answer.content
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_similar_documents_and_their_explanation(client, index):
    result = get(client, "/v1/demo/similar/hr001", hits=3, other="hr220")
    assert [entry["docid"] for entry in result["candidates"]] == [hit.docid for hit in index.similar("hr001", k=3)]
    assert result["explanation"]["docid"] == "hr220"


def test_a_document_by_its_id(client):
    result = get(client, "/v1/demo/doc/hr001")
    assert result["doc"]["title"] == "Metal case tingles when touched"


def test_topics_are_the_judged_ones(client):
    result = get(client, "/v1/demo/topics")["topics"]
    assert len(result) == 98 and result[0] == {"topic": "d01", "text": "dripping tap", "relevant": 9}


def test_suggestions_begin_with_what_was_typed(client):
    result = get(client, "/v1/demo/suggest", prefix="FRO", limit=3)["suggestions"]
    assert len(result) == 3 and all(entry["query"].startswith("fro") for entry in result)
    assert [entry["clicks"] for entry in result] == sorted((entry["clicks"] for entry in result), reverse=True)
    assert all(
        entry["query"].startswith("frozen ") for entry in get(client, "/v1/demo/suggest", prefix="frozen ")["suggestions"]
    )
    assert get(client, "/v1/demo/suggest", prefix="no such beginning")["suggestions"] == []


def test_indexes_and_methods_are_described(client):
    about = get(client, "/v1/indexes")["indexes"][0]
    ready = {entry["name"]: entry for entry in about["methods"]}
    assert ready["klsa"]["ready"] and not ready["fusion"]["ready"]
    assert ready["fusion"]["why"].startswith("demo: no fusion is trained")
    assert about["recording"] is False and about["clicks"]["impressions"] == 2990
    methods = {entry["name"]: entry for entry in get(client, "/v1/methods")["methods"]}
    options = {entry["name"]: entry for entry in methods["klsa"]["options"]}
    assert options["lambda"] | {"help": ""} == {
        "name": "lambda", "parameter": "klsa.lambda", "type": "number", "many": False, "default": None, "low": 0, "high": 1,
        "choices": None, "help": "",
    }  # fmt: skip
    assert "basis" not in options
    assert methods["klsa"]["draws"] and not methods["rbm25"]["draws"]
    assert get(client, "/health")["indexes"] == ["demo"]


def test_explanations_come_with_titles_and_words(client):
    corpus = {
        record["id"]: record for record in map(json.loads, (DEMO / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    }
    answer = get(client, "/v1/demo/explain", query="outdoor faucet leaking", rerank="pert")
    mentioned = {docid for word in answer["explanation"]["notes"]["words"] for docid in word["documents"]}
    assert mentioned <= answer["titles"].keys()
    assert all(title == corpus[docid]["title"] for docid, title in answer["titles"].items())
    words = answer["words"]
    assert words["singl"] == "single" and "faucet" not in words
    text = " ".join(json.dumps(record) for record in corpus.values()).lower()
    assert all(word in text and word != term for term, word in words.items())
