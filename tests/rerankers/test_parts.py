"""The feature `parts`: words inside identifiers, in a table of features, in `auto` and in learned fusion."""

import math

import numpy as np
import pytest

import kernelsearch
from kernelsearch.core.types import Candidates
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.recipes import PARTS, READING_WEIGHTS, reading_weights
from tests.kernels.test_identifiers import PROGRAMS

FUNCTIONS = [{"id": f"f{number}", "contents": f"def write_table{number}(row): return row.join(cell)"} for number in range(8)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return kernelsearch.build(tmp_path_factory.mktemp("programs") / "index", [*PROGRAMS, *FUNCTIONS])


def test_values_are_bm25_with_words_inside_identifiers(programs):
    """By hand, word by word, from the analysed texts; the parts of identifiers are written out here."""
    inside = {"parse_json_fil": ("pars", "json", "file"), "parsefil": ("pars", "file"), "open_fil": ("open", "file")}
    inside["json.load"] = ("json", "load")
    texts = programs.lucene.analyze([document["contents"] for document in PROGRAMS])
    every = [*texts, *programs.lucene.analyze([document["contents"] for document in FUNCTIONS])]
    documents, average = len(every), sum(map(len, every)) / len(every)
    expected = np.zeros(len(texts))
    for word in ("pars", "json"):
        absent = 1.0
        for term in {word, *(term for term, words in inside.items() if word in words)}:
            absent *= 1 - sum(term in text for text in every) / (documents + 1)
        frequency = documents * (1 - absent)
        idf = math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))
        for place, text in enumerate(texts):
            count = sum(token == word or word in inside.get(token, ()) for token in text)
            expected[place] += idf * count / (count + 0.9 * (0.6 + 0.4 * len(text) / average))
    rows = programs.forward.rows_of([document["id"] for document in PROGRAMS])
    query = programs.lucene.queries(["parse json"])[0]
    values = Features(programs, (PARTS,)).tables([query], [Candidates(rows, np.zeros(len(rows)))])[0][:, 0]
    assert values == pytest.approx(expected, rel=1e-5)
    assert values[0] > 0 and values[1] > 0  # neither has a word of the query


def test_auto_finds_a_program_whose_identifiers_have_the_words(programs):
    assert {hit.docid for hit in programs.search("parse json")}.isdisjoint({"1", "2"})
    assert {hit.docid for hit in programs.search("parse json", rerank="auto")} >= {"1", "2"}


def test_only_an_index_of_source_code_has_the_feature(programs, demo_index):
    assert set(reading_weights(programs)) == {*READING_WEIGHTS, PARTS}
    assert reading_weights(demo_index) == READING_WEIGHTS


def test_learned_fusion_has_the_feature_as_a_source(programs, tmp_path):
    topics = {"a": "parse the json", "b": "open a file"}
    folder = programs.train("fusion", topics=topics, qrels={"a": {"1": 1}, "b": {"2": 1}}, output=tmp_path / "model")
    results = programs.search("parse json", rerank={"fusion": {"model": str(folder)}})
    assert "1" in {hit.docid for hit in results}
