"""Explanations for people: titles, words and meanings, the largest contributions, and the sum that they keep."""

import pickle
import re
from pathlib import Path

import pytest

from kernelsearch.api import readable
from kernelsearch.api.readable import SHOWN, Reading, feature_meaning
from kernelsearch.rerankers.explanations import Contribution, Explanation


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
    names = [part.label for part in demo_index.explain("dripping tap", "auto").contributions]
    assert names and [name for name in names if feature_meaning(name) is None] == []
    assert feature_meaning("hybrid:minilm/rm") == "words typical of the best documents, by words and vectors"
    assert feature_meaning("mine:x") is None


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("λ 0.5, z auto", "share of the latent score (λ) 0.5, neighbours (z) auto"),
        ("(1 - λ) × k_q 4.7158", "the rest of the score; 4.7158 in the first stage"),
        ("(1 - λ) × k_q 4.7158 of the fitted kernel", "the rest of the score; 4.7158 by the fitted kernel"),
        ("rank 2, k_q 4.2134 of the fitted kernel", "rank 2, score 4.2134 by the fitted kernel"),
        ("rank 2, k_q 4.2134", "rank 2, score 4.2134 in the first stage"),
    ],
)
def test_symbols_are_explained(detail, expected):
    explained = Reading().rewrite(Explanation("klsa", "d1", 1.0, (Contribution("own score", 1.0, detail),)))
    assert explained.contributions[0].detail == expected
    other = Reading().rewrite(Explanation("mine", "d1", 1.0, (Contribution("own score", 1.0, detail),)))
    assert other.contributions[0].detail == detail


def test_the_page_reads_symbols_as_python_does():
    """The page's own table of symbols (reading.js) says the same about details; it tells λ and z in other words."""
    script = (Path(readable.__file__).parents[1] / "serve" / "page" / "js" / "reading.js").read_text(encoding="utf-8")
    table = re.search(r"const DETAILS = \[\n(.*?)\n\];", script, re.DOTALL)
    assert table is not None
    pairs = re.findall(r'^  \[/(.*)/, "(.*)"\],$', table[1], re.MULTILINE)
    page = [(pattern, re.sub(r"\$(\d)", r"\\\1", words)) for pattern, words in pairs if "z " not in pattern]
    assert page == [(pattern.pattern, words) for pattern, words in readable.SYMBOLS if "z " not in pattern.pattern]
    assert len(page) == 5 and len(pairs) == 7
