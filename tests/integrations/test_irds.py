"""irds: names, without a network: a stand-in for ir_datasets' data, and what is said where nothing can be fetched."""

import os
import subprocess
import sys
from collections import namedtuple

import pytest

from kernelsearch.cli.inputs import load_documents, load_qrels, load_topics
from kernelsearch.core.errors import InputError
from tests.conftest import ROOT

ir_datasets = pytest.importorskip("ir_datasets")

Document = namedtuple("Document", "doc_id title text vector")
Document.default_text = lambda self: f"{self.title} {self.text}"
Topic = namedtuple("Topic", "query_id text")
Topic.default_text = lambda self: self.text
Judgement = namedtuple("Judgement", "query_id doc_id relevance iteration")


class Dataset:
    """What ir_datasets.load gives, as far as we use it."""

    def docs_iter(self):
        yield Document("d1", "Tap", "drips", (0.1, 0.2))

    def queries_iter(self):
        yield Topic(7, "dripping tap")

    def qrels_iter(self):
        yield Judgement(7, "d1", 2, "0")
        yield Judgement(7, "d2", 0, "0")


@pytest.fixture
def dataset(monkeypatch):
    result = Dataset()
    monkeypatch.setattr(ir_datasets, "load", lambda name: {"some/set": result}[name])
    return result


def test_documents_topics_and_judgements(dataset):
    assert list(load_documents("irds:some/set")) == [
        ("irds:some/set: document 1", {"id": "d1", "contents": "Tap drips", "title": "Tap", "text": "drips"})
    ]
    assert load_topics("irds:some/set") == {"7": "dripping tap"}
    assert load_qrels("irds:some/set") == {"7": {"d1": 2, "d2": 0}}


def test_what_a_dataset_lacks_is_named(dataset, monkeypatch):
    monkeypatch.delattr(Dataset, "qrels_iter")
    with pytest.raises(InputError, match="irds:some/set: this dataset has no judgements"):
        load_qrels("irds:some/set")
    with pytest.raises(InputError, match="irds:other: ir_datasets has no dataset of that name"):
        load_topics("irds:other")


def test_without_a_network_one_line_says_what_to_do(tmp_path):
    (tmp_path / "run.txt").write_text("1 Q0 a 1 1.0 t\n")
    nowhere = "http://127.0.0.1:9"  # a proxy that nobody answers for
    env = {**os.environ, "PYTHONPATH": str(ROOT), "IR_DATASETS_HOME": str(tmp_path / "home"), "IR_DATASETS_DL_TRIES": "1"}
    env |= {name: nowhere for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")} | {
        "no_proxy": "",
        "NO_PROXY": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "kernelsearch.evaluate", "--qrels", "irds:vaswani", str(tmp_path / "run.txt")],
        capture_output=True, text=True, env=env, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("kernelsearch: irds:vaswani: judgements could not be downloaded (All download sources failed)")
    assert "IR_DATASETS_HOME" in last
