"""Every method explains every document that it ranks, and the contributions of each level sum to what they are part of."""

from __future__ import annotations

import math

import pytest

from kernelsearch.api.explaining import explain_reranked
from kernelsearch.rerankers import registry

FEW = {"r": 2, "n": 5}  # for lists shorter than Pyserini's
PERT_FORMS = ({"alpha": 0.9, "kernel": "jaccard"}, {"method": "rm1", "rescore": True})
#: Methods with options, each list reranked by one after the other.
FORMS = [
    *([(name, FEW if name == "prcl" else {})] for name in registry.names()),
    [("auto", {"vectors": "none"})],
    [("auto", {"vectors": "none", "depth": 5})],
    [("dense", {"retrieve": 20})],
    [("fusion", {"depth": 7})],
    [("klsa", {"z": 5, "lambda": 0.3, "retrieve": 20})],
    [("klsa", {"lambda": 0.0})],
    [("mslm", {"mix": 1.0})],
    [("mslm", {"scales": (2.0, math.inf)})],
    [("pert", {"alpha": 0.9})],
    *([("pert-paper", options)] for options in PERT_FORMS if "pert-paper" in registry.names()),
    [("prcl", {**FEW, "classifiers": ("lr", "svm"), "vectorizer": "BM25Vectorizer", "alpha": 0.9})],
    [("rbm25", {"pairs": "rate"})],
    [("pert", {}), ("klsa", {})],
    [("klsa", {}), ("mslm", {}), ("auto", {"vectors": "none"})],
    [("rbm25", {}), ("prcl", FEW)],
]
#: `auto` explains documents after those with features, which are 100; explaining one takes the others longer.
DEEP = ("auto", "fusion")


def size(value, parts):
    """What rounding errors are measured by: numbers of the size of the largest one are added up."""
    return max(abs(value), *(abs(part.value) for part in parts))


def check_level(parts, value):
    assert math.fsum(part.value for part in parts) == pytest.approx(value, rel=0, abs=1e-6 * size(value, parts))
    for part in parts:
        if part.parts:
            check_level(part.parts, part.value)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: " ".join(f"{name}{options or ''}" for name, options in form))
def test_contributions_sum_to_the_score_of_every_document(ready, topics, form):
    for name, _ in form:
        index = ready(name)
    pipeline = index.pipeline(dict(form), hits=150 if form[0][0] in DEEP else 15)
    explained = 0
    for qid, text in list(topics.items())[:2]:
        query, before, after = pipeline.run(text, qid)
        for row, score in zip(after.docs.tolist(), after.scores.tolist(), strict=True):
            found, fallbacks = explain_reranked(pipeline.rerankers, query, before, after, row, pipeline.context())
            assert fallbacks == after.fallbacks and (found is not None or len(fallbacks) == len(form))
            if found is not None:
                assert found.docid == index.forward.docids[row] and found.method == pipeline.rerankers[-1].name
                assert found.score == pytest.approx(score, rel=0, abs=1e-6 * size(score, found.contributions))
                check_level(found.contributions, found.score)
                explained += 1
    assert explained >= 12
