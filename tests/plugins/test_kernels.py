"""A kernel of another package's is known by name: in expressions, klsa, fusion's recipes and similar; imported on use."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.kernels import registry
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.fusion.features import Features, known_features
from kernelsearch.rerankers.registry import method
from kernelsearch.similarity.pair_kernels import PairKernels


@pytest.fixture
def installed(monkeypatch):
    """Puts a folder with an installed package on the path, as pip would."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "kernels")
    registry.plugins.cache_clear()
    yield
    monkeypatch.undo()
    sys.modules.pop("binary_kernel", None)
    registry.plugins.cache_clear()


def terms_of(index, doc):
    return set(index.forward.indices[index.forward.indptr[doc] : index.forward.indptr[doc + 1]].tolist())


def test_names_are_known_without_importing_the_package(installed, caplog):
    with caplog.at_level(logging.WARNING):
        assert registry.names()[-2:] == ["binary", "broken"]
    assert "bm25 (binary_kernel:Binary)" in caplog.text  # ours is not replaced
    assert "binary_kernel" not in sys.modules


def test_expressions(installed, tiny):
    rows = np.arange(len(tiny.forward))
    result = registry.kernel("2*binary+bm25").documents(tiny.forward, rows, rows)
    own = registry.kernel("bm25").documents(tiny.forward, rows, rows)
    shared = [[len(terms_of(tiny, a) & terms_of(tiny, b)) for b in rows] for a in rows]
    np.testing.assert_allclose(result - own, 2.0 * np.array(shared))


def test_a_plugin_that_cannot_be_loaded_is_one_line(installed):
    with pytest.raises(OptionError, match=r"kernel 'broken': plugin binary_kernel:Missing cannot be loaded \(AttributeError"):
        registry.kernel("broken")


def test_klsa(installed, tiny, tmp_path):
    data = TrainingData(output=tmp_path / "basis")
    method("klsa").fit(tiny, data, kernel="binary", dims=2)
    query = tiny.query("water washer")
    first = tiny.lucene.search([query], 10)[0]
    reranked = method("klsa").make(tiny, basis=str(tmp_path / "basis"), retrieve=0).apply(query, first)
    assert sorted(reranked.docs.tolist()) == sorted(first.docs.tolist())


def test_fusion_recipes(installed, tiny):
    assert "binary" in known_features()
    query = tiny.query("water washer tap")
    first = tiny.lucene.search([query], 10)[0]
    table = Features(tiny, ["binary"]).tables([query], [first])[0]
    wanted = set(tiny.forward.term_ids(query.terms).tolist())
    assert table[:, 0].tolist() == [len(wanted & terms_of(tiny, doc)) for doc in first.docs.tolist()]


def test_similar(installed, tiny):
    others = np.array([1, 2, 4], dtype=np.int32)
    result = PairKernels(tiny, ["binary"]).table(0, others)
    assert result[:, 0].tolist() == [len(terms_of(tiny, 0) & terms_of(tiny, other)) for other in others.tolist()]
