"""`mslm`'s reasons add up at every level, name lenders, and its pictures are files that repeat."""

from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pytest

import kernelsearch
from kernelsearch import explain as explain_verb
from kernelsearch.core.types import Candidates
from kernelsearch.kernels.semantic.graph import SemanticGraph
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


def test_contributions_sum_to_the_score_and_words_to_their_level(index):
    assert_sums(index, MultiScaleLM(index, scales=(1, 3), semantic=(2, 2)))


def assert_sums(index, reranker):
    query, before = first_stage(index)
    reranker = linked(index, reranker)
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


def test_a_long_document_is_explained_and_drawn_in_bounded_memory(long_index, tmp_path):
    assert_bounded(long_index, tmp_path, MultiScaleLM(long_index, scales=(0, 1, 4, math.inf), semantic=0))


def assert_bounded(long_index, tmp_path, reranker):
    query, before = first_stage(long_index)
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


FILLERS = [f"filler{number}" for number in range(40)]
PARTS = {
    "sealed": " ".join([*FILLERS[:30], "pump", "seal", *FILLERS[30:]]),
    "lent": "pump gasket gasket gasket gasket ring ring ring packing packing washer",
    "long": " ".join(["pump", *FILLERS[:12], "seal"]),
    "none": " ".join(FILLERS[:9]),
    "many": "pump seal valve hose pipe bolt nut screw gauge filter tank",
}


@pytest.fixture(scope="module")
def parts_index(tmp_path_factory):
    return kernelsearch.open(build_texts(tmp_path_factory.mktemp("parts"), PARTS))


def explained(index, docid, text="pump seal", edges=(), make=MultiScaleLM, **options):
    """(reranker, query, candidates with all documents, explanation of one of them); edges of words at one distance."""
    reranker = make(index, **{"semantic": 0, **options})
    if edges:
        first, second = (index.forward.term_ids([edge[side] for edge in edges]) for side in (0, 1))
        reranker.graph = SemanticGraph.from_edges(len(index.forward.terms), first, second, np.full(len(edges), 0.5))
    query = index.query(text)
    scores = np.linspace(3, 1, len(PARTS))
    candidates = Candidates(index.forward.rows_of(list(PARTS)), scores)
    return reranker, query, candidates, reranker.explain(query, candidates, int(index.forward.rows_of([docid])[0]))


def test_words_and_levels_have_the_parts_of_the_z_scores(parts_index):
    assert_parts(parts_index)


def assert_parts(parts_index, make=MultiScaleLM, normalise="z", mode="max"):
    """A level's similarities are z-scored, weighted, summed and z-scored again: each word's part is scaled by both deviations.
    What a text without a word of the query would get is compared with the average candidate's similarity."""
    options = {"scales": (2.0, 5.0), "mix": 0.7, "make": make}
    for docid in ("sealed", "many"):
        reranker, query, candidates, explanation = explained(parts_index, docid, **options)
        reranker.level_weights = np.array([0.8, 0.6])
        explanation = reranker.explain(query, candidates, int(parts_index.forward.rows_of([docid])[0]))
        raw = reranker.level_scores(query, candidates)
        deviation = raw.std(axis=0) if normalise == "z" else np.ones(2)
        scaled = (raw - raw.mean(axis=0)) / deviation if normalise == "z" else raw
        combined = scaled @ [0.8, 0.6]
        place, nothing = list(PARTS).index(docid), list(PARTS).index("none")
        first = 0.3 * (candidates.scores[place] - candidates.scores.mean()) / candidates.scores.std()
        expected = first + 0.7 * (combined[place] - combined.mean()) / combined.std()
        assert reranker.score(query, candidates)[place] == pytest.approx(expected, abs=1e-5)
        assert explanation.score == pytest.approx(expected, abs=1e-5)
        assert explanation.contributions[0].value == pytest.approx(first)
        assert [part.label for part in explanation.contributions[1:]] == ["scale 2, words 0", "scale 5, words 0"]
        for level, weight in enumerate((0.8, 0.6)):
            factor = 0.7 * weight / (deviation[level] * combined.std())
            part, note = explanation.contributions[level + 1], explanation.notes["levels"][level]
            assert note["similarity"] == pytest.approx(raw[place, level], abs=1e-5)
            assert part.value == pytest.approx(factor * (raw[place, level] - raw[:, level].mean()), abs=1e-4)
            words = [(word.label, word.value) for word in part.parts[:-2]]
            assert [label for label, _ in words] == [word["word"] for word in note["words"]]
            assert [value for _, value in words] == pytest.approx([factor * word["part"] for word in note["words"]], rel=1e-4)
            assert {word["word"] for word in note["words"]} == {"pump", "seal"}
            sizes = [abs(word["part"]) for word in note["words"]]
            assert sizes == sorted(sizes, reverse=True)
            listed, rest, against = sum(value for _, value in words), part.parts[-2], part.parts[-1]
            assert (rest.label, against.label) == ("all other words", "against the average candidate")
            background = raw[nothing, level] if mode == "global" else note["similarity"] - (listed + rest.value) / factor
            assert listed + rest.value == pytest.approx(factor * (raw[place, level] - background), abs=2e-4)
            assert against.value == pytest.approx(factor * (background - raw[:, level].mean()), abs=2e-4)


def test_levels_of_equal_similarities_have_no_parts(parts_index):
    """Candidates that are all the same document: there is no deviation to divide by."""
    reranker, query, _, _ = explained(parts_index, "sealed")
    row = parts_index.forward.rows_of(["sealed"])
    explanation = reranker.explain(query, Candidates(row, np.ones(1)), int(row[0]))
    assert [part.value for part in explanation.contributions] == [0.0, 0.0] and explanation.score == 0
    assert all(part.value == 0 for part in explanation.contributions[1].parts)


def test_at_most_eight_words_are_listed(parts_index):
    _, _, _, explanation = explained(parts_index, "many", text=PARTS["many"], scales=(4.0,))
    part, note = explanation.contributions[1], explanation.notes["levels"][0]
    assert len(note["words"]) == 8 and len(part.parts) == 10
    _, _, _, explanation = explained(parts_index, "none", scales=(4.0,))
    assert explanation.notes["levels"][0]["words"] == [] and len(explanation.contributions[1].parts) == 2
