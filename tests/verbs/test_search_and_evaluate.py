import os
import signal
import subprocess
import sys

import pytest

import kernelsearch
from kernelsearch import evaluate, explain, search, similar
from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.serve.__main__ import main as serve_verb
from kernelsearch.trec import read_run
from tests.conftest import ROOT, run_verb


def command(verb, *flags, **kwargs):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", f"kernelsearch.{verb}", *map(str, flags)],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        **kwargs,
    )


@pytest.fixture
def topics(tmp_path):
    file = tmp_path / "topics.tsv"
    file.write_text("1\twater tap\n2\tfuse\n03\tzebra\nd5\tbreaker panel\n")
    return file


def run_search(tiny_path, topics, tmp_path, *flags):
    output = tmp_path / "run.txt"
    search.main(["--index", str(tiny_path), "--topics", str(topics), "--output", str(output), *flags])
    return output.read_text()


def test_one_query_is_a_table(tiny_path, capsys):
    search.main(["--index", str(tiny_path), "--query", "tap water"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["rank", "docid", "score", "text"]
    assert lines[2].split()[:2] == ["1", "d1"] and "A dripping tap wastes water." in lines[2]
    assert lines[3].split()[1] == "d5" and len(lines) == 4


def test_a_query_that_matches_nothing_says_so(tiny_path, capsys):
    search.main(["--index", str(tiny_path), "--query", "zebra"])
    assert capsys.readouterr() == (
        "",
        "no document matches 'zebra'; check the spelling, or use other words for the same thing\n",
    )


def test_run_file(tiny_path, topics, tmp_path):
    lines = run_search(tiny_path, topics, tmp_path).splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["1", "Q0", "d1", "1"], ["1", "Q0", "d5", "2"], ["2", "Q0", "d3", "1"], ["d5", "Q0", "d5", "1"],
    ]  # fmt: skip
    assert all(line.split()[5] == "kernelsearch" for line in lines)


def test_a_run_on_standard_output_is_that_of_the_file(tiny_path, topics, tmp_path, monkeypatch, capfd):
    expected = run_search(tiny_path, topics, tmp_path)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    capfd.readouterr()
    result = run_verb(capfd, search.main, "--index", tiny_path, "--topics", topics, "--output", "-")
    assert result == (0, expected, "-: 4 queries\n")
    (tmp_path / "docids").write_text("d1\n")
    flags = ("--index", tiny_path, "--docids", tmp_path / "docids", "--run")
    status, printed, _ = run_verb(capfd, similar.main, *flags, "-")
    assert run_verb(capfd, similar.main, *flags, tmp_path / "similar")[0] == status == 0
    assert printed == (tmp_path / "similar").read_text() != ""
    assert not list((tmp_path / "empty").iterdir())


def test_hits_tag_format_and_remove_query(tiny_path, topics, tmp_path):
    assert len(run_search(tiny_path, topics, tmp_path, "--hits", "1").splitlines()) == 3
    assert run_search(tiny_path, topics, tmp_path, "--output-format", "msmarco").startswith("1\td1\t1\n")
    assert "d5 Q0 d5" not in run_search(tiny_path, topics, tmp_path, "--remove-query")
    assert run_search(tiny_path, topics, tmp_path, "--tag", "mine").splitlines()[0].endswith(" mine")


@pytest.mark.parametrize(
    "flags", [["--qld"], ["--qljm"], ["--qld", "--mu", "10"], ["--k1", "2", "--b", ".75"], ["--rm3"], ["--rocchio"]]
)
def test_every_model_changes_the_scores(tiny_path, topics, tmp_path, flags):
    assert run_search(tiny_path, topics, tmp_path, *flags) != run_search(tiny_path, topics, tmp_path)


def test_a_run_is_taken_over_unchanged_without_rerankers(tiny_path, topics, tmp_path):
    run = tmp_path / "other.txt"
    run.write_text("2 Q0 d3 1 7.5 x\n2 Q0 d1 2 7.5 x\n1 Q0 d6 1 0.25 x\n")
    text = run_search(tiny_path, topics, tmp_path, "--run", str(run))
    assert read_run(tmp_path / "run.txt") == {"1": [("d6", 0.25)], "2": [("d3", 7.5), ("d1", 7.499999)]}, text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 Q0 d1 1 2.0 x\n1 Q0 ghost 2 1.0 x\n", "topic 1: 1 of 2 documents are not in .*, such as ghost"),
        ("99 Q0 d1 1 2.0 x\n", "topic 99 is not in"),
    ],
)
def test_a_run_that_does_not_fit_is_named_and_the_old_output_stays(tiny_path, topics, tmp_path, content, message):
    run = tmp_path / "other.txt"
    run.write_text(content)
    (tmp_path / "run.txt").write_text("precious")
    with pytest.raises(InputError, match=message):
        run_search(tiny_path, topics, tmp_path, "--run", str(run))
    assert (tmp_path / "run.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--query", "x"], "--index is not given"),
        (["--index", "i"], "one of --query and --topics is needed"),
        (["--index", "i", "--topics", "t"], "--output: the run file to write is not given"),
        (["--index", "nowhere", "--query", "x"], "nowhere: no such index"),
        (["--index", "i", "--query", "x", "--rerank", "magic"], "--rerank: 'magic' is not one of"),
        (["--index", "i", "--query", "x", "--rerank", "ksla"], "; did you mean klsa?"),
        (["--index", "i", "--query", "x", "--run", "r"], "--run: has no effect without --topics"),
        (["--index", "i", "--query", "x", "--output", "o"], "--output: has no effect without --topics"),
        (["--index", "i", "--query", "x", "--max-passage"], "--max-passage: has no effect without --topics"),
        (["--index", "i", "--query", "x", "--b", "1.5"], "--b: 1.5 is above 1"),
        (["--index", "i", "--query", "x", "--qld", "--qljm"], "--qld and --qljm exclude each other"),
        (["--index", "i", "--query", "x", "--no-bm25"], "--no-bm25: documents are ranked by BM25, --qld or --qljm"),
        (["--index", "i", "--query", "x", "--java-heap", "lots"], "Java heap: 'lots' is not a size"),
    ],
)
def test_bad_calls_are_one_line_and_status_2(tmp_path, monkeypatch, capfd, flags, message):
    monkeypatch.chdir(tmp_path)
    status, _, error = run_verb(capfd, search.main, *flags)
    assert status == 2 and message in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_empty_query_and_missing_topics(tiny_path, tmp_path):
    with pytest.raises(InputError, match="query: no text"):
        search.main(["--index", str(tiny_path), "--query", " "])
    with pytest.raises(InputError, match="gone: no such file"):
        search.main(["--index", str(tiny_path), "--topics", str(tmp_path / "gone"), "--output", str(tmp_path / "o")])
    with pytest.raises(OptionError, match="tag: 'a b' contains white space"):
        (tmp_path / "t").write_text("1\tx\n")
        search.main(
            ["--index", str(tiny_path), "--topics", str(tmp_path / "t"), "--output", str(tmp_path / "o"), "--tag", "a b"]
        )


def shown_help(capsys, main, *flags, status=0):
    """What a verb prints on both streams before it exits with this status."""
    with pytest.raises(SystemExit) as exited:
        main(list(flags))
    assert (exited.value.code or 0) == status
    return "".join(capsys.readouterr())


def test_a_field_that_does_not_exist_is_named(tiny_path):
    with pytest.raises(InputError, match=r"fields: .* has no field 'headline'"):
        search.main(["--index", str(tiny_path), "--query", "fuse", "--fields", "headline=1"])


def test_fusion_without_training_names_the_command(tiny_path):
    with pytest.raises(ArtefactError, match=r"kernelsearch\.train --index .* --rerank fusion .* or use --rerank auto"):
        search.main(["--index", str(tiny_path), "--query", "fuse", "--rerank", "fusion"])


def test_words_are_coloured_on_a_terminal_only(tiny_path, capsys, monkeypatch):
    search.main(["--index", str(tiny_path), "--query", "fuses"])
    plain = capsys.readouterr().out
    assert "When a fuse blows" in plain and "\x1b" not in plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    search.main(["--index", str(tiny_path), "--query", "fuses"])
    coloured = capsys.readouterr().out
    assert "When a \x1b[1;33mfuse\x1b[0m blows" in coloured
    assert coloured.replace("\x1b[1;33m", "").replace("\x1b[0m", "") == plain


def test_explain_without_a_method(tiny_path, capsys):
    explain.main(["--index", str(tiny_path), "--query", "replaced fuses"])
    shown = capsys.readouterr().out
    assert "BM25: d3 “Blown fuse” scores" in shown and "fuses  (2 times here, in 1 of 5 documents, idf" in shown


def test_help_of_a_part_and_of_everything(capsys):
    part, everything = (shown_help(capsys, search.main, *flags) for flags in (["--help", "klsa"], ["--help-all"]))
    assert "--klsa.retrieve" in part and "--pert.alpha" not in part and "--query" not in part
    assert "--klsa.retrieve" in everything and "--pert.alpha" in everything and "--rocchio-beta" in everything
    assert "--rocchio-beta" in shown_help(capsys, search.main, "--help", "first stage")
    refused = shown_help(capsys, search.main, "--help", "nothing", status=2)
    assert "--help: no part 'nothing'; there are errors, first stage, auto" in refused


def test_help_of_the_parts_of_serve(capsys):
    defaults, limits = (shown_help(capsys, serve_verb, "--help", part) for part in ("klsa", "server"))
    assert "--klsa.retrieve" in defaults and "--max-hits" not in defaults
    assert "--max-hits" in limits and "--klsa.retrieve" not in limits


def run_package(*arguments):
    """`python -m kernelsearch` with these arguments."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    flags = [sys.executable, "-m", "kernelsearch", *arguments]
    return subprocess.run(flags, capture_output=True, text=True, env=env, timeout=60)


def test_one_command_lists_the_verbs():
    listed = run_package().stdout
    modules = [path.stem for path in (ROOT / "kernelsearch").glob("[a-z]*.py")]
    packages = [path.parent.name for path in (ROOT / "kernelsearch").glob("*/__main__.py")]
    assert [name for name in modules + packages if f"\n  {name} " not in listed] == []
    assert run_package("--version").stdout == f"kernelsearch {kernelsearch.__version__}\n"
    wrong = run_package("serch")
    assert wrong.returncode == 2 and wrong.stderr.startswith("kernelsearch: no verb 'serch'; the verbs are index, search")
    assert wrong.stderr.endswith("; did you mean search?\n")


def test_one_command_runs_a_verb(tiny_path):
    assert run_package("search", "--index", str(tiny_path), "--query", "fuse").stdout.splitlines()[2].split()[:2] == ["1", "d3"]
    assert run_package("clicks", "--help").returncode == 0
    failed = run_package("search", "--index", "nowhere", "--query", "x")
    assert failed.returncode == 2 and failed.stderr == "kernelsearch: nowhere: no such index\n"


def test_output_to_a_closed_pipe_is_quiet(tiny_path):
    shell = f"{sys.executable} -m kernelsearch.search --index {tiny_path} --query water | true"
    done = subprocess.run(
        shell, shell=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60
    )
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_a_run_into_a_closed_pipe_is_quiet(tiny_path, topics, capfd):
    reader, writer = os.pipe()
    os.close(reader)
    result = run_verb(capfd, search.main, "--index", tiny_path, "--topics", topics, "--output", f"/dev/fd/{writer}")
    os.close(writer)
    assert result == (128 + signal.SIGPIPE, "", "")


def test_evaluate_by_hand(tmp_path, capsys):
    qrels, run = tmp_path / "qrels", tmp_path / "run.txt"
    qrels.write_text("1 0 a 1\n1 0 b 0\n1 0 c 1\n2 0 x 1\n3 0 y 1\n")
    run.write_text("1 Q0 a 1 3 t\n1 Q0 b 2 2 t\n1 Q0 c 3 1 t\n2 Q0 y 1 1 t\n2 Q0 x 2 0.5 t\n9 Q0 x 1 1 t\n")
    evaluate.main(["--qrels", str(qrels), str(run), "--measures", "AP,P@2,map", "--per-query", "--no-complete"])
    out, err = capsys.readouterr()
    # AP of topic 1: (1 + 2/3) / 2; of topic 2: 1/2
    assert [line.split() for line in out.splitlines() if line.startswith("run  1")] == [["run", "1", "0.8333", "0.5000"]]
    assert out.splitlines()[-1].split() == ["run", "2", "0.6667", "0.5000"]
    assert "1 judged topics are not in the run" in err and "1 topics of the run have no judgements" in err
    evaluate.main(["--qrels", str(qrels), str(run), "--measures", "AP"])
    assert capsys.readouterr().out.splitlines()[-1].split() == ["run", "3", "0.4444"]


def test_evaluate_bad_calls(tmp_path, capfd):
    (tmp_path / "q").write_text("1 0 a 1\n")
    (tmp_path / "r").write_text("2 Q0 a 1 1 t\n")
    status, _, error = run_verb(capfd, evaluate.main, "--qrels", tmp_path / "q", tmp_path / "r")
    assert status == 2 and "none of its topics is judged" in error
    status, _, error = run_verb(capfd, evaluate.main, "--qrels", tmp_path / "q", tmp_path / "r", "--measures", "Magic@3")
    assert status == 2 and "--measures: 'Magic@3' is not a measure" in error
