"""The explanation of a first-stage score, against Lucene's own score and a computation by hand."""

import math

import pytest

from kernelsearch.core.errors import InputError


@pytest.mark.parametrize(
    "options", [{}, {"k1": 1.2, "b": 0.75}, {"qld": True}, {"qljm": True}, {"rm3": True}, {"rocchio": True}]
)
def test_the_terms_sum_to_lucenes_score(demo_index, options):
    results = demo_index.search("dripping tap kitchen zzz", k=5, **options)
    for docid, score in zip(results.docids, results.scores, strict=True):
        explanation = demo_index.explain("dripping tap kitchen zzz", docid=docid, **options)
        assert sum(part.value for part in explanation.contributions) == pytest.approx(score, abs=1e-6)
        assert explanation.score == pytest.approx(score, abs=1e-6)


def test_bm25_by_hand(tiny):
    explanation = tiny.explain("fuse")
    (part,) = explanation.contributions
    # Only d3 has the term; d4, which has stop words only, is not a document of the field.
    documents, average, length = 5, tiny.forward.statistics.average_length, tiny.forward.lengths[2]
    idf = math.log(1 + (documents - 1 + 0.5) / (1 + 0.5))
    assert part.value == pytest.approx(idf * 2 / (2 + 0.9 * (0.6 + 0.4 * length / average)), abs=1e-6)
    assert (
        part.label == "fuse"
        and part.detail == f"tf 2, in 1 of {documents} documents, idf {idf:.4f}, length {length} (average {average:.1f})"
    )
    assert explanation.method == "BM25" and explanation.docid == "d3"


def test_a_document_outside_the_list_is_refused(tiny):
    with pytest.raises(InputError, match="docid: 'd2' is not among the 1 documents"):
        tiny.explain("fuse", docid="d2")
