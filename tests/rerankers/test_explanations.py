"""Explanations as text and as plain data, and the order of lists: what all methods share."""

from __future__ import annotations

import json
import pickle

import numpy as np
import orjson
import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.core.types import Candidates
from kernelsearch.rerankers.base import CannotAct, Context, Reranker, position
from kernelsearch.rerankers.explanations import Contribution, Document, Explanation, Feature, Symbol, Term, Text, feedback_note
from kernelsearch.rerankers.registry import method

INNER = (Contribution("c", 0.25), Contribution("d", -0.125, "", (Contribution("e", -0.125, "deep"),)))
PARTS = (Contribution("a", 0.125, "why", INNER), Contribution("b", -1.0))


def test_lines_are_indented_by_depth():
    assert Explanation("m", "x", -0.875, PARTS).lines() == [
        "m: x scores -0.8750",
        "  +0.1250  a  (why)",
        "    +0.2500  c",
        "    -0.1250  d",
        "      -0.1250  e  (deep)",
        "  -1.0000  b",
    ]


def test_decision_evidence_and_nearest_feedback_documents_follow():
    """Five feedback documents, those first that count most: weight times the larger of both cosines."""
    documents = [
        {"docid": f"n{number}", "weight": weight, "words": words, "vectors": vectors}
        for number, (weight, words, vectors) in enumerate(
            [(0.1, 0.9, 0.1), (0.2, 0.1, 0.8), (0.3, 0.1, 0.1), (0.1, 0.2, 0.2), (0.25, 0.6, 0.5), (0.05, 1.0, 1.0)]
        )
    ]
    notes = {
        "decision": {"parts": {"match": 0.5, "feedback": -0.25}, "reasons": ["one", "two"]},
        "evidence": {"words": 0.75, "vectors": -0.5},
        "feedback": {"documents": documents},
    }
    lines = Explanation("m", "x", 0.25, (), notes).lines()
    assert lines[1:5] == [
        "of the score: +0.5000 from match, -0.2500 from feedback",
        "one",
        "two",
        "of the score: +0.7500 from words, -0.5000 from vectors",
    ]
    assert lines[5] == "feedback documents that it is near, by weight and cosine:"
    order = sorted(documents, key=lambda near: -near["weight"] * max(near["words"], near["vectors"]))[:5]
    assert [line.split()[0] for line in lines[6:]] == [near["docid"] for near in order] == [
        "n1",
        "n4",
        "n0",
        "n5",
        "n2",
    ] or order
    assert lines[6] == "  n1  weight 0.20, words 0.10, vectors 0.80" or lines[6].startswith(f"  {order[0]['docid']}  weight ")
    assert len(lines) == 11


def test_plain_data_holds_everything():
    data = Explanation("m", "x", 1.5, PARTS, {"k": 1}).to_dict()
    assert data["contributions"][0]["parts"][1]["parts"][0] == {
        "label": "e",
        "detail": "deep",
        "value": -0.125,
        "label_pieces": ["e"],
        "detail_pieces": ["deep"],
        "parts": [],
    }
    assert (data["method"], data["docid"], data["score"], data["notes"]) == ("m", "x", 1.5, {"k": 1})


def test_references_are_texts_for_readers_and_typed_in_plain_data():
    label = Text("through ", Document("d<1"), " by ", Feature("rm", "typical words"), Symbol("λ"))
    made = Explanation("m", "x", 1.0, (Contribution(label, 1.0, Term("tap")),), {"near": [Document("d2")]})
    assert made.lines()[1] == "  +1.0000  through d<1 by rmλ  (tap)"
    assert "through d&lt;1 by rmλ <small>tap</small>" in made._repr_html_()
    data = json.loads(orjson.dumps(made.to_dict()))
    assert data == json.loads(json.dumps(made.to_dict()))
    (part,) = data["contributions"]
    assert (part["label"], part["detail"], part["detail_pieces"]) == ("through d<1 by rmλ", "tap", [{"term": "tap"}])
    assert part["label_pieces"] == [
        "through ",
        {"document": "d<1"},
        " by ",
        {"feature": "rm", "meaning": "typical words"},
        {"symbol": "λ"},
    ]
    assert data["notes"] == {"near": ["d2"]}
    again = pickle.loads(pickle.dumps(made))
    assert again == made and again.contributions[0].label.pieces[3].meaning == "typical words"


def test_feedback_documents_amount_to_fewer_equal_ones(tiny):
    weights = np.array([0.625, 0.25, 0.125])
    note = feedback_note(tiny.forward, np.array([2, 0, 4]), weights)
    assert note["documents"] == [
        {"docid": docid, "weight": weight} for docid, weight in zip(tiny.forward.docids.take([2, 0, 4]), weights, strict=True)
    ]
    assert note["effective"] == round(float(np.exp(-(weights * np.log(weights)).sum())), 2)  # the exponential of the entropy
    third = feedback_note(tiny.forward, np.array([2, 0, 4]), np.full(3, 1 / 3))
    assert [entry["weight"] for entry in third["documents"]] == [0.3333] * 3 and third["effective"] == 3.0


class Given(Reranker):
    """Scores that the test gives."""

    method = method("klsa")
    given: np.ndarray | None = None

    def score(self, query, candidates, context=None):
        if self.given is None:
            raise CannotAct("no scores")
        return self.given


def test_lists_are_ordered_by_score_then_docid_and_checked(tiny):
    reranker = Given(tiny)
    docs = np.array([3, 0, 5, 1], dtype=np.int32)
    candidates = Candidates(docs, np.array([4.0, 3.0, 2.0, 1.0]))
    for scores, expected in (
        ([1.0, 2.0, 3.0, 4.0], [1, 5, 0, 3]),
        ([1.0, 1.0, 1.0, 1.0], [0, 1, 3, 5]),
        ([2.0, 1.0, 1.0, 2.0], [1, 3, 0, 5]),
        ([-1.0, 0.0, -1.0, 5.0], [1, 0, 3, 5]),
    ):
        reranker.given = np.array(scores)
        ranked = reranker.rescore(tiny.query("water"), candidates, Context())
        by_rank = {int(doc): int(tiny.forward.docid_rank[doc]) for doc in docs}
        assert ranked.docs.tolist() == expected and list(by_rank.values()) == docs.tolist()
        assert ranked.scores.tolist() == sorted(scores, reverse=True)
    for scores in ([1.0, 2.0], [[1.0, 2.0, 3.0, 4.0]], [1.0, np.nan, 2.0, 3.0], [np.inf, 1.0, 2.0, 3.0]):
        reranker.given = np.array(scores)
        with pytest.raises(InputError, match="scores that are not one finite number per document"):
            reranker.rescore(tiny.query("water"), candidates, Context())
    for score in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match=f"klsa: a document got the score {score}"):
            reranker.ordered(docs, np.array([1.0, score, 2.0, 3.0]))
    reranker.given = None
    kept = reranker.rescore(tiny.query("water"), candidates, Context())
    assert kept.docs.tolist() == docs.tolist() and kept.fallbacks == (("klsa", "no scores"),)


def test_places_of_documents_in_a_list(tiny):
    candidates = Candidates(np.array([3, 0, 5], dtype=np.int32), np.ones(3))
    assert [position(candidates, doc) for doc in (3, 0, 5, 1)] == [0, 1, 2, None]
    with pytest.raises(InputError, match=r"docid: d2 is not among the 3 candidates that klsa ranks"):
        Given(tiny).place_of(candidates, 1)
