"""Messages name options as their reader knows them, and never change what they quote."""

import logging
import pickle
from pathlib import Path

import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch import search as search_verb
from kernelsearch.cli import console
from kernelsearch.core.errors import ArtefactError, EncodingError, Flag, InputError, KernelSearchError, OptionError
from kernelsearch.trec import read_topics
from tests.conftest import run_verb, write_jsonl


@pytest.mark.parametrize(
    ("flag", "command_line", "python", "request_"),
    [
        (Flag("k1"), "--k1", "k1", "k1"),
        (Flag("fold-in", "klsa"), "--klsa.fold-in", "klsa_fold_in", "klsa.fold-in"),
        (Flag("rerank", value="klsa"), "--rerank klsa", "rerank='klsa'", "rerank=klsa"),
        (Flag("complete", value=False), "--no-complete", "complete=False", "complete=false"),
        (Flag("fold-in", "klsa", True), "--klsa.fold-in", "klsa_fold_in=True", "klsa.fold-in=true"),
    ],
)
def test_each_border_writes_options_in_its_form(flag, command_line, python, request_):
    problem = OptionError("'--k1': see ", flag, ", '--hits'", option=flag, path="/z--w/a.txt", line=3)
    forms = (Flag.on_command_line, command_line), (Flag.in_python, python), (Flag.in_request, request_)
    for write, written in forms:
        assert problem.message(write) == f"{written}: /z--w/a.txt: line 3: '--k1': see {written}, '--hits'"
        around = InputError("not usable (", problem, ")")
        assert around.message(write) == f"not usable ({written}: /z--w/a.txt: line 3: '--k1': see {written}, '--hits')"
    assert str(problem) == problem.message(Flag.in_python)
    copy = pickle.loads(pickle.dumps(problem))  # as from a worker
    assert str(copy) == str(problem) and (copy.option, copy.path, copy.line) == (flag, "/z--w/a.txt", 3)


def test_another_place_keeps_type_cause_and_data():
    problem = EncodingError("not UTF-8; '/tmp/x' stays, ", Path("/tmp/x/a"), " moves", path=Path("/tmp/x/b.txt"), line=2)
    problem.__cause__, problem.extra = ValueError("byte"), 7
    around = InputError(problem, path="/tmp/xy")
    around.relocate(Path("/tmp/x"), "indexes/new")
    assert str(problem) == "indexes/new/b.txt: line 2: not UTF-8; '/tmp/x' stays, indexes/new/a moves"
    assert str(around) == f"/tmp/xy: {problem}"
    assert isinstance(problem.__cause__, ValueError) and problem.extra == 7


def test_a_python_program_reads_no_flags(tiny):
    calls = [
        (lambda: tiny.search("tap", rerank="klsa", klsa_z=0), "klsa_z: 0 is below 1"),
        (lambda: tiny.search("tap", rerank="kls"), "rerank: 'kls' is not one of auto"),
        (lambda: tiny.train("fusion"), "rerank='fusion': learns from topics and qrels, or from clicks"),
        (lambda: tiny.similar("d1", kernels=["x"]), "kernels: unknown kernel 'x'"),
        (lambda: kernelsearch.evaluate(tiny.path, {"1": "tap"}, {"1": {"d1": 1}}, measures=["x"]), "measures: 'x' is not"),
        (lambda: tiny.row("--no-fee"), f"docid: '--no-fee' is not in {tiny.path}"),
        (lambda: kernelsearch.build(tiny.path, []), f"{tiny.path}: exists already; force=True replaces it"),
    ]
    for call, begin in calls:
        with pytest.raises(KernelSearchError) as caught:
            call()
        assert str(caught.value).startswith(begin)


def test_the_command_line_and_config_files(tiny_path, tmp_path, capsys):
    flags = ["--index", tiny_path, "--query", "tap", "--rerank", "klsa"]
    assert run_verb(capsys, search_verb.main, *flags, "--klsa.z", "0")[2] == "kernelsearch: --klsa.z: 0 is below 1\n"
    (tmp_path / "c.toml").write_text('[[rerank]]\nname = "klsa"\nz = 0\n')
    error = run_verb(capsys, search_verb.main, *flags[:4], "--config", tmp_path / "c.toml")[2]
    assert error == f"kernelsearch: {tmp_path / 'c.toml'}: --klsa.z: 0 is below 1\n"


def test_data_in_messages_stays_as_it_is(tmp_path, capsys):
    folder = tmp_path / "a --hits b"
    folder.mkdir()
    source = write_jsonl(folder / "--no-fee.jsonl", [{"id": "--no-fee", "contents": "--k1 1"}] * 2)
    with pytest.raises(InputError) as caught:
        index_verb.main(["--input", str(source), "--index", str(folder / "--k1")])
    assert str(source) in str(caught.value) and "'--no-fee'" in str(caught.value)
    with pytest.raises(InputError, match="no such file") as caught:
        read_topics(folder / "--rerank klsa.tsv")
    assert str(caught.value).startswith(f"{folder / '--rerank klsa.tsv'}: ")


def test_logged_options_and_errors_are_flags_on_the_command_line():
    parts = Flag("z", "klsa"), ArtefactError("see ", Flag("rerank", value="klsa"), path="b"), "--klsa_z"
    record = logging.LogRecord("kernelsearch", logging.INFO, "", 0, "%s: %s (%s)", parts, None)
    assert record.getMessage() == "klsa_z: b: see rerank='klsa' (--klsa_z)"
    assert console.with_flags(record) == "--klsa.z: b: see --rerank klsa (--klsa_z)"
