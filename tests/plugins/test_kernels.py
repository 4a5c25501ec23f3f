"""A kernel of another package's is known by name: in expressions, klsa, fusion's recipes and similar; imported on use."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelsearch import train
from kernelsearch.core.plugins import PluginError
from kernelsearch.kernels import registry
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.fusion.features import Features, known_features
from kernelsearch.rerankers.registry import method
from kernelsearch.similarity.pair_kernels import PairKernels
from tests.conftest import run_verb


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
    wanted = r"plugin broken of \S+ 1.0 \(binary_kernel:Missing\): kernel 'broken' cannot be made \(AttributeError"
    with pytest.raises(PluginError, match=wanted):
        registry.kernel("broken")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pass", r"no method document_features\(collection, docs, dtype\)"),
        ("has_map = False", r"no method document_features\(collection, docs, dtype\)"),
        ("def document_features(self, collection, docs, dtype): ...", r"no method query_features\(collection, query\)"),
        (
            "has_query = False\n def document_features(self, docs): ...",
            r"features\(docs\) must take \(collection, docs, dtype\)",
        ),
        ("def __init__(self, needed): ...", "cannot be made .*needed"),
        ("def __new__(cls): return 3", "makes a int, not a Kernel"),
    ],
)
def test_the_interface_of_a_plugins_kernel_is_checked_when_it_is_loaded(plugin, body, message):
    plugin("kernelsearch.kernels", f"from kernelsearch.kernels.algebra import Kernel\nclass Thing(Kernel):\n {body}\n")
    with pytest.raises(PluginError, match=rf"^plugin faulty of faulty-package 1\.0 \(faulty_module:Thing\): .*{message}"):
        registry.kernel("2*faulty")


def test_an_exception_of_a_plugins_kernel_is_reported_as_its_own(plugin, tiny_path, tmp_path, capsys):
    body = "has_query = False\n def document_features(self, collection, docs, dtype): return {}['key']"
    plugin("kernelsearch.kernels", f"from kernelsearch.kernels.algebra import Kernel\nclass Thing(Kernel):\n {body}\n")
    status, _, error = run_verb(
        capsys,
        train.main,
        "--index",
        tiny_path,
        "--rerank",
        "klsa",
        "--klsa.kernel",
        "faulty",
        "--output",
        tiny_path.parent / "no",
    )
    assert status == 2 and "plugin faulty of faulty-package 1.0: KeyError: 'key'" in error
    assert "internal error" not in error and not (tmp_path / "no").exists()


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
