"""Explanations of the paper's ways of matching add up, too; a text's pyramid is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelsearch.kernels.semantic.graph import SemanticGraph
from kernelsearch.papers.mslm.text_levels import gaussian_pyramid
from kernelsearch.plots.pyramid import plot_pyramid
from tests.conftest import drawn_texts
from tests.papers.mslm.forms import paper
from tests.papers.mslm.test_matching import FORMS
from tests.rerankers.test_mslm_explanation import (  # fixtures included
    PARTS,
    assert_bounded,
    assert_parts,
    assert_sums,
    explained,
    index,
    long_index,
    parts_index,
)

__all__ = ["index", "long_index", "parts_index"]


@pytest.mark.parametrize(("mode", "divergence"), FORMS)
def test_contributions_sum_to_the_score_and_words_to_their_level(index, mode, divergence):
    assert_sums(index, paper(index, mode=mode, divergence=divergence, scales=(1, 3), semantic=(2, 2)))


def test_a_long_document_is_explained_and_drawn_in_bounded_memory(long_index, tmp_path):
    assert_bounded(long_index, tmp_path, paper(long_index, mode="mean", semantic=0))


@pytest.mark.parametrize(("mode", "normalise"), [("max", "none"), ("global", "z"), ("global", "none")])
def test_words_and_levels_have_their_parts(parts_index, mode, normalise):
    def make(index, **options):
        return paper(index, mode=mode, normalise=normalise, **options)

    assert_parts(parts_index, make, normalise, mode)


def test_the_compared_positions_are_named_from_one_on(parts_index):
    """The window of nine around the only place of the words; of a window at most 14 words are in the text."""
    _, _, _, explanation = explained(parts_index, "sealed", make=paper, scales=(2.0,), width=9, step=1)
    note, part = explanation.notes["levels"][0], explanation.contributions[1]
    words = PARTS["sealed"].split()
    start, end = note["positions"]
    assert start <= 31 < 32 <= end and end - start <= 10
    assert note["window"] == words[start - 1 : end]
    assert part.detail == f"positions {start}-{end} of 42: {' '.join(words[start - 1 : end])}"
    assert explanation.notes["text"] == words
    windows = set()
    for width in range(11, 31):
        _, _, _, explanation = explained(parts_index, "sealed", make=paper, scales=(9.0,), width=width, step=1)
        note, part = explanation.notes["levels"][0], explanation.contributions[1]
        start, end = note["positions"]
        window = words[start - 1 : end]
        more = " ..." if len(window) > 14 else ""
        assert part.detail == f"positions {start}-{end} of 42: {' '.join(window[:14])}{more}"
        assert note["window"] == window and sum(note["attention"]) == pytest.approx(1, rel=1e-3)
        windows.add(len(window))
    assert {14, 15} <= windows
    _, _, _, explanation = explained(parts_index, "sealed", make=paper, scales=(math.inf,), mode="global")
    assert explanation.contributions[1].label == "scale ∞, words 0"


EDGES = [("seal", "gasket"), ("seal", "ring"), ("seal", "pack"), ("seal", "washer")]


def test_the_words_that_fill_a_row_are_listed_by_share(parts_index):
    """At scale ∞ every token counts the same: of four words equally near to "seal" the three that are there most often."""
    options = {"make": paper, "scales": (math.inf,), "semantic": 2.0, "mode": "global", "weighting": "none"}
    _, _, _, explanation = explained(parts_index, "lent", edges=EDGES, **options)
    words = {word["word"]: word for word in explanation.notes["levels"][0]["words"]}
    assert list(words["seal"]["from"]) == ["gasket", "ring", "pack"]
    assert list(words["seal"]["from"].values()) == pytest.approx([0.4, 0.3, 0.2])
    assert words["seal"]["own"] and words["seal"]["for"] == "seal" and words["pump"]["own"]
    assert not words["gasket"]["own"] and words["gasket"]["for"] == "seal"
    details = {part.label: part.detail for part in explanation.contributions[1].parts}
    assert details["seal"] == "a query word; in the text from gasket 40%, ring 30%, pack 20%"
    assert details["gasket"].startswith("related to seal; in the text from gasket ")
    text = PARTS["lent"].replace("packing", "pack").split()
    heat = [1.0 * (word in ("gasket", "ring", "pack", "washer")) for word in text]
    lent = words["seal"]["lent"]
    assert [value / max(lent) for value in lent] == pytest.approx(heat, rel=1e-3)


def test_pyramid_of_a_text_from_python(tmp_path):
    words = ["new", "york", "time", "gift"]
    graph = SemanticGraph.from_edges(4, np.array([0]), np.array([1]), np.array([0.5]))
    levels = gaussian_pyramid([0, 1, 2, 3, 0, 1], graph)
    text = ["t0", "t1", "t2", "t3", "t4", "t5"]
    path = tmp_path / "pyramid.svg"
    plot_pyramid([level.dense() for level in levels], [level.scale for level in levels], words, path, text)
    assert {*words, *text} <= drawn_texts(path)
    drawn = path.read_text(encoding="utf-8")
    plot_pyramid([0 * level.dense() for level in levels], [level.scale for level in levels], words, path, text)
    assert path.read_text(encoding="utf-8") != drawn  # the values are drawn, not only their labels
