"""A method of another package's is found without a line of ours: command line, service, fusion, PyTerrier; broken ones warn."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelsearch
from kernelsearch import search
from kernelsearch.api.checking import check_index
from kernelsearch.cli.verbs import declared_verb
from kernelsearch.core import artefacts
from kernelsearch.core.errors import OptionError
from kernelsearch.core.plugins import source_of
from kernelsearch.core.types import Candidates
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.fusion.features import Features, known_features
from tests.conftest import run_verb

HERE = Path(__file__).parent


@pytest.fixture
def install(monkeypatch):
    """Puts a folder of installed packages on the path, as pip would; the registry is read again before and after."""

    def put(name: str) -> None:
        monkeypatch.syspath_prepend(HERE / name)
        registry.methods.cache_clear()

    yield put
    monkeypatch.undo()
    registry.methods.cache_clear()


def expected(index, text, reward):
    """Docids and scores by the plugin's definition, from the stored term frequencies."""
    query = index.query(text)
    first = index.lucene.search([query], 10)[0]
    scores = {}
    for doc, score in zip(first.docs.tolist(), first.scores.tolist(), strict=True):
        row = slice(index.forward.indptr[doc], index.forward.indptr[doc + 1])
        terms = set(index.forward.terms.take(index.forward.indices[row]))
        scores[index.forward.docids[doc]] = score + reward * len(terms & set(query.terms))
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def test_the_command_line(tiny, tiny_path, tmp_path):
    """In a process of its own: --help-all lists the method and its option, --rerank applies it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE / "site"), *filter(None, sys.path)])}
    verb = [sys.executable, "-m", "kernelsearch.search"]
    shown = subprocess.run([*verb, "--help-all"], env=environment, capture_output=True, text=True, check=True).stdout
    assert "--coverage.reward" in shown and "first-stage score plus a reward per query term that occurs" in shown
    topics, run = tmp_path / "topics.tsv", tmp_path / "run.txt"
    topics.write_text("1\twater panel washer\n")
    flags = ["--index", str(tiny_path), "--topics", str(topics), "--output", str(run), "--hits", "10"]
    subprocess.run([*verb, *flags, "--rerank", "coverage", "--coverage.reward", "5"], env=environment, check=True)
    lines = [line.split() for line in run.read_text().splitlines()]
    wanted = expected(tiny, "water panel washer", 5.0)
    assert [line[2] for line in lines] == [docid for docid, _ in wanted] and len(lines) == 3
    assert [float(line[4]) for line in lines] == pytest.approx([score for _, score in wanted], abs=1e-4)


def test_the_python_api_checks_its_options(install, tiny):
    install("site")
    result = tiny.search("water panel washer", rerank="coverage", coverage_reward=5.0)
    assert [hit.docid for hit in result] == [docid for docid, _ in expected(tiny, "water panel washer", 5.0)]
    with pytest.raises(OptionError, match=r"coverage_reward: -1\.0 is below 0"):
        tiny.search("water panel washer", rerank="coverage", coverage_reward=-1)


def test_recipes_of_fusion(install, tiny):
    install("site")
    assert "coverage" in known_features()
    query = tiny.query("water panel washer")
    first = tiny.lucene.search([query], 10)[0]
    table = Features(tiny, ["first", "coverage:reward=5"]).tables([query], [first])[0]
    by_docid = dict(expected(tiny, "water panel washer", 5.0))
    assert table[:, 1] == pytest.approx([by_docid[docid] for docid in tiny.forward.docids.take(first.docs)])


def test_the_service(install, tiny, tiny_path):
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from kernelsearch.serve.app import make_app
    from kernelsearch.serve.settings import IndexSpec, RequestLimits, ServiceSettings

    install("site")
    settings = ServiceSettings((IndexSpec("tiny", str(tiny_path), {}, {}, None),), RequestLimits(threads=1, seconds=60))
    with TestClient(make_app(settings), base_url="http://127.0.0.1") as client:
        methods = {method["name"]: method for method in client.get("/v1/methods").json()["methods"]}
        assert [option["name"] for option in methods["coverage"]["options"]] == ["reward"]
        flags = {"query": "water panel washer", "rerank": "coverage", "coverage.reward": 5}
        answer = client.get("/v1/tiny/search", params=flags)
    assert answer.status_code == 200, answer.text
    result = [(hit["docid"], hit["score"]) for hit in json.loads(answer.text)["candidates"]]
    wanted = expected(tiny, "water panel washer", 5.0)
    assert [docid for docid, _ in result] == [docid for docid, _ in wanted]
    assert [score for _, score in result] == pytest.approx([score for _, score in wanted], rel=1e-5)


def test_broken_plugins_warn_in_one_line_each_and_stop_nothing(install, capsys):
    install("broken")
    install("site")
    names = registry.names()
    assert "coverage" in names and "absent" not in names and registry.method("klsa").summary != "not ours"
    assert sorted(capsys.readouterr().err.splitlines()) == [
        "plugin absent of broken-plugin 1.0 (package_that_does_not_exist:METHOD): cannot be loaded "
        "(ModuleNotFoundError: No module named 'package_that_does_not_exist')",
        "plugin number of broken-plugin 1.0 (math:pi): a Method was expected, not float",
        "plugin taken of broken-plugin 1.0 (broken_plugin:METHOD): the method 'klsa' exists already and is not replaced",
    ]


DECLARED = """
from kernelsearch.core.options import Settings
from kernelsearch.rerankers.base import Reranker
from kernelsearch.rerankers.registry import Method
class FaultySettings(Settings):
    owner = "faulty"
METHOD = Method("faulty", "fails", FaultySettings, "faulty_module:Thing")
"""


REST = "class Thing(Reranker):\n method = METHOD\n"


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (REST, r"Thing has no method score\(query, candidates, context\)"),
        (REST + " def score(self, query): ...", r"Thing\.score\(query\) must take \(query, candidates, context\)"),
        (REST.replace("method =", "other ="), "Thing has no attribute method"),
        ("class Thing: pass", "is not a subclass of"),
        (REST + " def score(self, query, candidates, context): 1 / 0", "ZeroDivisionError: division"),
        (REST + " def score(self, query, candidates, context): open('/no/such')", "FileNotFoundError: .*/no/such"),
    ],
)
def test_mistakes_of_a_plugin_are_reported_as_its_own(plugin, tiny_path, capsys, thing, message):
    """By the command line in one line, with status 2; a client of the service learns the plugin's name."""
    plugin("kernelsearch.rerankers", DECLARED + thing + "\n", "METHOD")
    status, _, error = run_verb(capsys, search.main, "--index", tiny_path, "--query", "water", "--rerank", "faulty")
    assert status == 2 and len(error.splitlines()) == 1
    assert re.search(rf"plugin faulty of faulty-package 1\.0: .*{message}", error), error
    pytest.importorskip("fastapi")
    from kernelsearch.serve.errors import describe_error

    with pytest.raises(Exception) as raised:
        kernelsearch.open(tiny_path).search("water", rerank="faulty")
    assert describe_error(raised.value)[:2] == (500, "plugin faulty of faulty-package 1.0 failed; see the server's log")


def test_an_exception_of_a_plugins_verb_is_reported_as_its_own(plugin, capsys):
    plugin("kernelsearch.verbs", "def Thing(argv): 1 / 0\n")
    status, _, error = run_verb(capsys, declared_verb("faulty"))
    assert status == 2 and "plugin faulty of faulty-package 1.0: ZeroDivisionError" in error


def test_exceptions_of_our_own_entry_points_stay_internal_errors(capsys, monkeypatch):
    """The methods of papers/ are found through the same group."""
    registry.methods()
    assert source_of("kernelsearch.papers") is None
    monkeypatch.setattr(registry, "nearest", lambda *_: 1 / 0)
    status, _, error = run_verb(capsys, lambda argv: registry.method("nothing"))
    assert status == 70 and "internal error" in error


def test_the_list_stays_where_the_method_cannot_act(install, tiny):
    install("site")
    query = tiny.query("fuse")
    first = tiny.lucene.search([query], 10)[0]
    after: Candidates = registry.method("coverage").make(tiny).apply(query, first)
    assert after.docs.tolist() == first.docs.tolist() and after.fallbacks == (("coverage", "a query of one term"),)


def test_fitted_state_is_checked_and_follows_a_change_of_documents(install, tmp_path, capsys):
    """`kernelsearch.check` and `index --append` know a plugin's artefacts from its declaration."""
    install("fitted")
    texts = ("water tap", "water washer tap", "panel")
    index = kernelsearch.build(tmp_path / "i", [{"id": f"d{number}", "contents": text} for number, text in enumerate(texts)])
    index.train("lengthprior")
    assert {finding.problem for finding in check_index(tmp_path / "i")} == {None}
    capsys.readouterr()
    after = index.add([{"id": "d1", "contents": "water"}, {"id": "d3", "contents": "water water fuse"}])
    message = "lengthprior has priors for 3 documents; python -m kernelsearch.train --index"
    assert message in capsys.readouterr().err
    priors = after.pipeline("lengthprior").rerankers[0].priors
    saved = dict(zip(after.forward.docids.take(range(len(priors))), priors.tolist(), strict=True))
    assert saved == pytest.approx({"d0": np.log(3), "d1": np.log(4), "d2": np.log(2), "d3": 1.0})
    folder = tmp_path / "i" / "kernelsearch" / "lengthprior"
    artefacts.save(folder, "length priors", 1, arrays={"priors": np.zeros(4)}, fingerprint=after.fingerprint)
    (result,) = (finding for finding in check_index(tmp_path / "i") if finding.problem)
    assert "priors: not positive" in str(result) and "kernelsearch.train --index" in str(result)
    (folder / "meta.json").write_text("{")
    (result,) = (finding for finding in check_index(tmp_path / "i") if finding.problem)
    assert str(result).endswith(f"kernelsearch.train --index {tmp_path / 'i'} --rerank lengthprior")
