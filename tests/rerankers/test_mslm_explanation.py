"""`mslm`'s reasons add up at every level, name lenders, and its pictures are files that repeat."""

from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pytest

import kernelsearch
from kernelsearch import explain as explain_verb
from kernelsearch.kernels.pyramid.matching import MODES
from kernelsearch.kernels.pyramid.text_pyramid import gaussian_pyramid
from kernelsearch.kernels.semantic.graph import SemanticGraph
from kernelsearch.plots.pyramid import plot_pyramid
from kernelsearch.rerankers.mslm.reranker import MultiScaleLM
from tests.conftest import build_texts, drawn_texts

TEXTS = {
    "near": "the pump leaks because its rubber seal is worn and a seal that is worn lets a pump leak",
    "far": "the pump was painted green and stands in the garden beside a wall; a long way off lies a seal",
    "lent": "gaskets fail and a pump with such gaskets is repaired slowly",
    "short": "pump",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return kernelsearch.open(build_texts(tmp_path_factory.mktemp("reasons"), TEXTS))


def first_stage(index, text="pump seal"):
    query = index.query(text)
    return query, index.lucene.search([query], 10)[0]


def linked(index, reranker):
    """The same reranker with one edge: seal - gasket."""
    seal, gasket = index.forward.term_ids(["seal", "gasket"])
    words = len(index.forward.terms)
    reranker.graph = SemanticGraph.from_edges(words, np.array([seal]), np.array([gasket]), np.array([0.5]))
    return reranker


@pytest.mark.parametrize("divergence", ["js", "kl"])
@pytest.mark.parametrize("mode", MODES)
def test_contributions_sum_to_the_score_and_words_to_their_level(index, mode, divergence):
    query, before = first_stage(index)
    reranker = linked(index, MultiScaleLM(index, mode=mode, divergence=divergence, scales=(1, 3), semantic=(2, 2)))
    scores = reranker.score(query, before)
    for place, doc in enumerate(before.docs):
        candidates = reranker.explain(query, before, int(doc))
        assert candidates.score == pytest.approx(scores[place], abs=1e-9)
        assert sum(part.value for part in candidates.contributions) == pytest.approx(candidates.score, abs=1e-4)
        for level in candidates.contributions[1:]:
            assert sum(part.value for part in level.parts) == pytest.approx(level.value, abs=1e-9)
        raw = reranker.level_scores(query, before)[place]
        assert [level["similarity"] for level in candidates.notes["levels"]] == pytest.approx(raw, abs=1e-5)


def test_best_window_and_lender_are_named(index):
    query, before = first_stage(index)
    reranker = linked(index, MultiScaleLM(index, scales=(1,), semantic=(2,), mix=1.0))
    rows = {name: int(index.forward.rows_of([name])[0]) for name in TEXTS}
    near = reranker.explain(query, before, rows["near"]).notes["levels"][0]
    assert {"pump", "seal"} & set(near["window"])
    short = reranker.explain(query, before, rows["short"]).contributions[1]
    assert short.detail.startswith("positions 1-1 of 1: pump")
    lent = {word["word"]: word for word in reranker.explain(query, before, rows["lent"]).notes["levels"][0]["words"]}
    assert lent["seal"]["own"] and lent["seal"]["from"] == {"gasket": pytest.approx(1.0)}
    assert lent["gasket"]["for"] == "seal" and not lent["gasket"]["own"]
    assert lent["pump"]["from"] == {"pump": pytest.approx(1.0)}


def test_heat_stands_where_the_words_stand(index):
    query, before = first_stage(index)
    reranker = linked(index, MultiScaleLM(index, scales=(1,), semantic=(2,), mix=1.0))
    explanation = reranker.explain(query, before, int(index.forward.rows_of(["lent"])[0])).notes
    level = explanation["levels"][0]
    assert len(explanation["text"]) == len(level["attention"]) and explanation["text"][0] == "gasket"
    seal = next(word for word in level["words"] if word["word"] == "seal")
    filled = {explanation["text"][place] for place, value in enumerate(seal["lent"]) if value > 0}
    assert filled == {"gasket"}


def test_verb_prints_json_and_draws(index, tmp_path, capsys):
    arguments = ["--index", str(index.path), "--rerank", "mslm", "--query", "pump seal", "--json"]
    explain_verb.main([*arguments, "--plot", str(tmp_path / "one.svg")])
    record = json.loads(capsys.readouterr().out)
    assert record["explanation"]["method"] == "mslm"
    explain_verb.main([*arguments, "--plot", str(tmp_path / "two.svg"), "--docid", record["list"][0]["docid"]])
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    drawn = drawn_texts(tmp_path / "one.svg")
    assert {
        "pump seal",
        "near",
        "leak",
        "rubber",
        "worn",
    } <= drawn  # query, document, its terms
    assert {f"σ = {scale}" for scale in ("0 (the code)", 1, 2, 4, 8, "∞")} <= drawn


@pytest.fixture(scope="module")
def long_index(tmp_path_factory):
    """A document of 30,000 words that the index keeps; 7 GB as a matrix of positions by positions."""
    folder = tmp_path_factory.mktemp("long")
    words = np.array(["pump", "seal", *(f"filler{number}" for number in range(300))])
    text = " ".join(words[np.random.default_rng(0).integers(0, len(words), 30_000)])
    return kernelsearch.open(build_texts(folder, {"long": text, "short": "pump seal"}))


@pytest.mark.parametrize("options", [{"scales": (0, 1, 4, math.inf), "semantic": 0}, {"mode": "mean", "semantic": 0}])
def test_a_long_document_is_explained_and_drawn_in_bounded_memory(long_index, tmp_path, options):
    query, before = first_stage(long_index)
    reranker = MultiScaleLM(long_index, **options)
    row = int(long_index.forward.rows_of(["long"])[0])
    tracemalloc.start()
    explanation = reranker.explain(query, before, row)
    reranker.plot(query, before, row, tmp_path / "long.svg")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400e6
    assert explanation.score == pytest.approx(reranker.score(query, before)[before.docs.tolist().index(row)], abs=1e-6)
    assert sum(part.value for part in explanation.contributions) == pytest.approx(explanation.score, abs=1e-4)
    assert len(explanation.notes["levels"][0]["window"]) <= 1000
    assert (tmp_path / "long.svg").stat().st_size < 5e6


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
