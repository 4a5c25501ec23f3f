"""Explanations for people: titles, words and meanings, the largest contributions, and the sum that they keep."""

import pickle
import re

import pytest

from kernelsearch.api import readable
from kernelsearch.api.readable import SHOWN, Reading
from kernelsearch.rerankers.explanations import Contribution, Document, Explanation, Feature, Symbol, Term, Text


def total(parts):
    return sum(part.value for part in parts)


@pytest.mark.parametrize("method", [None, "klsa", "mslm", "pert", "auto"])
def test_explanations_are_short_and_still_sum_to_the_score(demo_index, method):
    explanation = demo_index.explain("fireplace fills room with smoke", method, "hr129")
    shown = repr(explanation)
    assert "hr129 “Smoke pours back into the living room”" in shown
    assert len(shown.splitlines()) <= 40 and len(shown.splitlines()) <= len(explanation.lines())
    short = explanation._readable()

    def check(parts, value):
        if parts:
            assert total(parts) == pytest.approx(value, abs=1e-4 if method == "mslm" else 1e-9)
        for part in parts:
            check(part.parts, part.value)

    check(short.contributions, explanation.score)
    assert "smoke" in shown or method in ("auto", "klsa")
    assert shown == repr(pickle.loads(pickle.dumps(explanation))) and "hr129 “Smoke" in explanation._repr_html_()


def test_words_of_the_query_that_no_document_has(demo_index):
    labels = [part.label for part in demo_index.explain("fireplace fills room", docid="hr129")._readable().contributions]
    assert sorted(labels) == ["fills", "fireplace", "room"]


def test_the_largest_contributions_keep_their_order():
    values = [0.5, -9, 1, 2, 3, 4, 5, 6, 7, 8]
    parts = tuple(Contribution(str(value), value) for value in values)
    short = Reading().rewrite(Explanation("m", "d", sum(values), parts)).contributions
    assert [part.label for part in short] == ["-9", "2", "3", "4", "5", "6", "7", "8", "2 others"]
    assert short[-1].value == pytest.approx(1.5) and len(short) == SHOWN[0] + 1
    assert Reading().rewrite(Explanation("m", "d", sum(values), parts), full=True).contributions == parts
    nine = Explanation("m", "d", 9.0, parts[:9])
    assert Reading().rewrite(nine).contributions == parts[:9]


def test_every_feature_of_auto_has_a_meaning(demo_index):
    labels = [part.label for part in demo_index.explain("dripping tap", "auto").contributions]
    assert labels and all(isinstance(label, Feature) and label.meaning for label in labels)


def test_references_are_read_and_texts_are_left_alone():
    """A text that happens to be a docid or a term stays; so does a docid that is also a term."""
    reading = Reading({"d1": "A title", "tap": "Taps"}, {"d1": "word", "tap": "tapping", "through": "x"})
    texts = [
        ("through d1", "through d1"),
        (Text("through ", Document("d1")), "through d1 “A title”"),
        (Document("tap"), "tap “Taps”"),
        (Term("tap"), "tapping"),
        (Text("-", Term("tap"), Text(", ", Term("other"))), "-tapping, other"),
        ("tap", "tap"),
        (Symbol("k_q 1"), "k_q 1"),
        (Symbol("k_q 1", "score 1"), "score 1"),
    ]
    parts = tuple(Contribution(text, 1.0, text) for text, _ in texts)
    read = reading.rewrite(Explanation("m", "d2", 8.0, parts), full=True).contributions
    assert [(part.label, part.detail) for part in read] == [(shown, shown) for _, shown in texts]
    assert reading.rewrite(Explanation("m", "d2", 8.0, parts), full=True).docid == "d2"
    (feature,) = reading.rewrite(
        Explanation("m", "d2", 1.0, (Contribution(Feature("rm", "typical words"), 1.0, "rank 2"),))
    ).contributions
    assert (feature.label, feature.detail) == ("typical words", "rm; rank 2")


def test_only_references_are_looked_up(demo_index):
    """`hr129` is a docid and `smoke` a term of the collection; as plain texts they stay out of titles and words."""
    asked = []

    def read(rows):
        asked.extend(demo_index.forward.docids.take(rows))
        return [(docid, {"title": "T", "contents": "smoking"}) for docid in demo_index.forward.docids.take(rows)]

    parts = (Contribution("hr129 smoke", 1.0, Text("from ", Document("hr001")), (Contribution(Term("smoke"), 1.0),)),)
    explanation = Explanation("m", "hr002", 1.0, parts, {"a": [{"b": Document("hr003")}, "hr004"], "c": "boil"})
    reading = readable.read_explanation(demo_index, explanation, "smoking boiled", read)
    assert asked == ["hr002", "hr001", "hr003"] and set(reading.titles) == set(asked)
    assert reading.words == {"smoke": "smoking"}


def test_symbols_of_klsa_are_explained(demo_index):
    explanation = demo_index.explain("dripping tap", "klsa")
    like, own = Reading().rewrite(explanation).contributions[:2]
    assert like.detail == "share of the latent score (λ) 0.5, neighbours (z) auto"
    assert re.fullmatch(r"the rest of the score; [\d.]+ in the first stage", own.detail)
    assert re.fullmatch(r"rank \d+, score [\d.]+ in the first stage", like.parts[0].detail)
    assert explanation.contributions[0].detail == "λ 0.5, z auto"
