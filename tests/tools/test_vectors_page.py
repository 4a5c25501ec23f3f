"""The page of vectors: settings are chosen without the collection that they are measured on, and figures are kept."""

from __future__ import annotations

import numpy as np
import pytest

from kernelsearch.rerankers.fusion.recipes import wanted_weights
from tools.reproduce.vectors import Measured, leave_one_out, page_text
from tools.reproduce.vectors_learned import Tables, training_rows


def test_a_setting_is_chosen_on_the_other_collections():
    tables = {"a": {(1.0,): 0.9, (2.0,): 0.1}, "b": {(1.0,): 0.2, (2.0,): 0.4}, "c": {(1.0,): 0.3, (2.0,): 0.5}}
    assert leave_one_out(tables) == {"a": (2.0,), "b": (1.0,), "c": (1.0,)}


def test_figures_are_read_as_they_were_written(tmp_path):
    label = "`auto` with vectors"
    measured = Measured({"BM25": 0.25, label: 0.5}, {(0.5, 10, 0.3): 0.375}, {(3.0, 1.0, 1.0): 0.625}, 0.75)
    measured.save(tmp_path / "figures" / "a.json")
    again = Measured.load(tmp_path / "figures" / "a.json")
    assert again == measured
    text = page_text({"a": again, "b": again})
    assert "| BM25 | .2500 | .2500 |" in text and "weights chosen on the others | .6250 | .6250 |" in text and "0.75 ms" in text


def test_rows_to_learn_from_have_all_relevant_documents_and_a_draw_of_others():
    features = np.arange(600.0)[:, None]
    relevant = np.zeros(600, dtype=bool)
    relevant[[3, 500]] = True
    docs = np.arange(600, dtype=np.int32)
    tables = Tables(("first",), [docs, docs], [features, features], [relevant, ~relevant & relevant], [2, 0])
    (X, y, places), *others = training_rows(tables, [0, 1])
    assert not others  # the second query has no relevant candidate
    assert len(X) == 202 and set(X[y > 0, 0]) == {3.0, 500.0} and (places == 0).all()


@pytest.mark.parametrize("name", ["minilm", "NAME"])
def test_the_weights_of_auto_name_the_vectors(name):
    assert wanted_weights(name)[f"dense:{name}"] == 3 and f"hybrid:{name}/klsa:lambda=1" in wanted_weights(name)
