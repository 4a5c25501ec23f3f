"""The path of a query through the code stays short: few files, and one package above calls each package."""

from __future__ import annotations

import gc

import pytest

from kernelsearch import search
from kernelsearch.lucene import jvm
from tools.trace import Trace, packages


@pytest.fixture(autouse=True)
def collected() -> None:
    """What other tests have left is closed now, and not while calls are counted."""
    gc.collect()


def test_one_query(tiny):
    pipeline = tiny.pipeline("klsa", klsa_retrieve=0)
    pipeline.answer("water washer", 5)  # opens what is opened on first use
    trace = Trace()
    trace.run(lambda texts: pipeline.answer(texts[0], 5), ["water washer"])
    files = [file for file in trace.files() if not file.startswith("core/")]
    assert files[0] == "api/pipeline.py" and "rerankers/klsa/reranker.py" in files and len(files) <= 9
    assert packages(trace) == {"lucene": ["api"], "rerankers": ["api"], "kernels": ["rerankers"], "forward": ["api"]}


def test_one_query_with_neighbours(tiny):
    """klsa as it is by default: documents that the first stage did not list are scored from the forward index."""
    pipeline = tiny.pipeline("klsa")
    pipeline.answer("water washer", 5)
    trace = Trace()
    trace.run(lambda texts: pipeline.answer(texts[0], 5), ["water washer"])
    files = [file for file in trace.files() if not file.startswith("core/")]
    assert "neighbours/faiss_index.py" in files and len(files) <= 10 and trace.changes() <= 37
    above = {"lucene": ["api"], "rerankers": ["api"], "kernels": ["rerankers"], "neighbours": ["rerankers"]}
    assert packages(trace) == {**above, "forward": ["kernels", "api"]}


def test_one_command(tiny, monkeypatch, capsys):
    monkeypatch.setattr(jvm, "_few_calls", False)  # restored afterwards: the command sets it for the whole process
    tiny.pipeline("klsa")  # fits the basis and starts Java
    trace = Trace()
    trace.run(search.main, ["--index", str(tiny.path), "--query", "water washer", "--rerank", "klsa"])
    files = [file for file in trace.files() if not file.startswith("core/")]
    assert "docid" in capsys.readouterr().out
    assert files[:2] == ["search.py", "cli/flags.py"] and len(files) <= 16 and trace.changes() <= 141
    above = {"api": ["cli"], "lucene": ["api"], "rerankers": ["api"], "kernels": ["rerankers"], "neighbours": ["rerankers"]}
    assert packages(trace) == {**above, "forward": ["api", "kernels"]}
    # Reading the state of the index reads its folder: once for the basis, before and after a part or the pipeline is opened.
    assert sum(count for (_, _, function), count in trace.calls.items() if function == "present_state") <= 7


def test_calls_are_counted_between_files_only(tiny):
    trace = Trace()
    trace.run(lambda docids: [tiny.row(docid) for docid in docids], tiny.forward.docids.take([0, 1, 2]))
    changes = {(calling, called, function): count for (calling, called, function), count in trace.calls.items()}
    assert changes["", "api/index_files.py", "row"] == 3
    assert changes["api/index_files.py", "forward/index.py", "require_rows"] == 3
    assert not any(calling == called for calling, called, _ in changes)
