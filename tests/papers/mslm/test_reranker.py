"""`mslm-paper` on real indexes: its ways of matching, its scales, weights and sources of the graph."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kernelsearch
from kernelsearch.core.errors import ArtefactError, OptionError
from kernelsearch.kernels.pyramid.query_rows import Scale
from kernelsearch.papers.mslm.reranker import PaperMultiScaleLM
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.mslm.reranker import MultiScaleLM
from tests.conftest import build_texts
from tests.papers.mslm.forms import fit, paper
from tests.papers.mslm.test_matching import FORMS, MODES
from tests.rerankers.test_mslm import TEXTS, assert_equal_scores, assert_equation_13, assert_permutes, first_stage, zscored

DATA = TrainingData(topics={"1": "pump seal"}, qrels={"1": {"near": 1, "far": 0}})
POINTS = (1, 2, 4, 8)


@pytest.fixture
def index(tmp_path):
    return kernelsearch.open(build_texts(tmp_path, TEXTS))


@pytest.mark.parametrize(("mode", "divergence"), FORMS)
def test_keeps_documents_and_gives_finite_scores(index, mode, divergence):
    assert_permutes(index, paper(index, mode=mode, divergence=divergence, scales=POINTS))


@pytest.mark.parametrize("mode", MODES)
def test_the_printed_form_acts_in_every_mode(index, mode):
    assert_permutes(index, PaperMultiScaleLM(index, mode=mode))


def test_the_printed_scales_are_those_of_words_too(index):
    scales = (0.0, 1.0, 2.0, 4.0, math.inf)
    assert PaperMultiScaleLM(index).scales == tuple(Scale(scale, scale, 5) for scale in scales)
    assert PaperMultiScaleLM(index, mode="points").scales == tuple(Scale(scale, scale, 5) for scale in scales[:-1])
    assert PaperMultiScaleLM(index, scales=(1, 3), semantic=0.5, width=0).scales == (Scale(1.0, 0.5), Scale(3.0, 0.5))


def test_the_form_of_mslm_gives_its_scores(index):
    query, before = first_stage(index, "pump seal worn")
    assert paper(index).score(query, before).tolist() == MultiScaleLM(index).score(query, before).tolist()


def test_a_graph_of_its_own_comes_before_that_of_mslm(index):
    MultiScaleLM.method.fit(index, TrainingData(), min_count=1, window=2)
    product = MultiScaleLM(index).graph.edges
    assert paper(index).graph.edges == product > 0
    fit(index, TrainingData(), min_count=1, window=8)
    assert paper(index).graph.edges > product == MultiScaleLM(index).graph.edges


@pytest.mark.parametrize("normalise", ["z", "none"])
def test_level_weights_are_equation_13_by_hand(index, normalise):
    options = {"scales": (1.0, 8.0, math.inf), "weighting": "none", "normalise": normalise}
    assert_equation_13(
        index, lambda data: fit(index, data, min_count=1, **options), zscored if normalise == "z" else np.asarray,
        lambda: paper(index, weights="learned", mix=0.7, **options),
    )  # fmt: skip


def test_level_weights_may_be_chosen(index):
    with pytest.raises(ArtefactError, match="not learned"):
        paper(index, weights="learned")
    fit(index, DATA, scales=(1.0, 4.0), min_count=1)
    weights = paper(index, scales=(1, 4), weights="learned").level_weights
    assert paper(index, scales=(1, 4)).level_weights.tolist() == weights.tolist() and weights[0] != weights[1]
    assert paper(index, scales=(1, 4), weights="uniform").level_weights == pytest.approx([0.5**0.5] * 2)
    with pytest.raises(ArtefactError, match="learned for other matching options"):
        paper(index, scales=(1, 4), mode="mean", weights="learned")


def test_columns_are_used(index):
    query, before = first_stage(index, "pump seal worn garden")
    few, many = (paper(index, mode="global", columns=columns).level_scores(query, before) for columns in (2, 16))
    assert not np.allclose(few, many, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"mode": "points", "scales": scales}, "interest points need") for scales in [(1,), (1, math.inf), (2, 1), (2, 2)]),
        ({"mode": "best"}, "mslm_paper_mode"),
        ({"scales": (1, 2, 3), "semantic": (1, 2)}, "mslm_paper_semantic: 2 values for 3 scales"),
        ({"width": 1_000_000}, "mslm_paper_width: 1000000 is above 4001"),
        ({"rows": 10**6}, "mslm_paper_rows: 1000000 is above 4096"),
    ],
)
def test_option_errors_name_the_option(index, options, message):
    with pytest.raises(OptionError, match=message):
        paper(index, **options)


def test_vectors_from_a_file(index, tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("pumps 1 0\nleaking 0.9 0.2\ngarden 0 1\n")
    fit(index, TrainingData(output=tmp_path / "graph"), graph="vectors", source=str(file), neighbours=1)
    pump, leak = index.forward.term_ids(["pump", "leak"])
    for reranker in (paper(index, model=str(tmp_path / "graph")), MultiScaleLM(index, model=str(tmp_path / "graph"))):
        assert reranker.graph.neighbours(pump)[0].tolist() == [leak]


@pytest.mark.parametrize(("graph", "missing"), [("vectors", "a file"), ("wordnet", "a folder")])
def test_other_sources_of_the_graph_need_a_path(index, graph, missing):
    with pytest.raises(OptionError, match=rf"mslm_paper_source: mslm_paper_graph='{graph}' needs {missing}"):
        fit(index, TrainingData(output=index.path / "m"), graph=graph)


@pytest.mark.parametrize(("mode", "divergence"), [("points", "js"), ("points", "kl"), ("global", "js"), ("max", "kl")])
def test_equal_documents_have_equal_scores_beside_any_others(tmp_path, mode, divergence):
    assert_equal_scores(tmp_path, lambda opened: paper(opened, mode=mode, divergence=divergence, scales=POINTS))


def test_levels_that_cancel_up_to_rounding_order_nothing(tmp_path):
    """Two candidates: at every level one is above the other by one deviation, and the sum over the levels is 0."""
    opened = kernelsearch.open(build_texts(tmp_path, {"a": "tap water", "b": "the of", "c": "pipe"}))
    query = opened.query("water pipe water water pipe")
    candidates = opened.lucene.search([query], 10)[0]
    method = paper(opened, mode="points", scales=(1, 2, 4, 8), mix=1.0)
    levels = method.scaled_levels(method.level_scores(query, candidates))
    assert np.abs(levels) == pytest.approx(np.ones((2, 4)))
    assert levels.sum(axis=1) == pytest.approx([0, 0], abs=1e-5) and not method.score(query, candidates).any()
    for doc in candidates.docs.tolist():
        assert sum(part.value for part in method.explain(query, candidates, doc).contributions) == 0
