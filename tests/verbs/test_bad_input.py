"""Command lines that gave tracebacks: each is one line that names the file or option, and status 2; the rest is status 70."""

import gzip
import json
import os
import re
import subprocess
import sys

import pytest

import kernelsearch
from kernelsearch import evaluate, merge, search, similar, train, tune
from kernelsearch import index as index_verb
from kernelsearch.clicks import __main__ as clicks
from tests.conftest import DEMO, ROOT, build_texts, run_verb


def refused(capsys, main, *arguments):
    """The one line of a verb that ends with status 2."""
    status, _, err = run_verb(capsys, main, *arguments)
    lines = err.splitlines()
    assert status == 2, err
    assert len(lines) == 1 and lines[0].startswith(("kernelsearch: ", "python -m kernelsearch.")), err
    assert len(lines[0]) < 1000 and lines[0].isprintable()
    return lines[0]


@pytest.fixture
def index(demo_index):
    return demo_index.name


def test_an_internal_error_is_one_line_with_status_70(capsys):
    def broken(_):
        raise KeyError("cause\x1b[31m")

    status, out, err = run_verb(capsys, broken)
    assert status == 70 and out == ""
    assert err == "kernelsearch: internal error, please report it: KeyError: 'cause\\x1b[31m' (--debug prints where)\n"
    status, _, err = run_verb(capsys, broken, "--debug")
    assert status == 70
    assert err.startswith("Traceback (most recent call last)") and 'raise KeyError("cause' in err


def test_debug_is_an_option_of_every_verb(capsys):
    qrels = DEMO / "qrels.txt"
    status, _, err = run_verb(capsys, evaluate.main, "--qrels", qrels, "--debug", "no-such-run")
    assert status == 2 and "Traceback" in err and err.endswith("kernelsearch: no-such-run: no such file\n")


def test_errors_of_the_machine_are_one_line_too(capsys):
    def full(_):
        raise OSError(28, "No space left on device", "some/file")

    assert refused(capsys, full) == "kernelsearch: some/file: No space left on device"

    def out_of_memory(_):
        raise MemoryError

    assert refused(capsys, out_of_memory) == "kernelsearch: out of memory"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_under_stdout_is_one_line(tmp_path):
    (tmp_path / "run").write_text("1 Q0 a 1 1.0 t\n")
    (tmp_path / "qrels").write_text("1 0 a 1\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kernelsearch.evaluate", "--qrels", tmp_path / "qrels", tmp_path / "run"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    assert (done.returncode, done.stderr) == (2, "kernelsearch: No space left on device\n")


def test_judgements_from_a_pipe_are_whole(tmp_path):
    topics = [f"{number:03}" for number in range(2000)]
    (tmp_path / "run").write_text("".join(f"{qid} Q0 a 1 1.0 t\n" for qid in topics))
    qrels = "".join(f"{qid} 0 a 1\n" for qid in topics)
    command = [sys.executable, "-m", "kernelsearch.evaluate", "--qrels", "/dev/stdin", "--measures", "AP", tmp_path / "run"]
    done = subprocess.run(command, input=qrels, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and done.stderr == ""
    assert "1.0000" in done.stdout and "2000" in done.stdout


def test_an_argument_of_invalid_utf8_is_refused(capsys):
    assert "is not valid UTF-8" in refused(capsys, evaluate.main, "--qrels", "caf\udce9", "run")


@pytest.mark.parametrize("name", ["n" * 300, "x" * 5000])
def test_names_that_no_file_has(capsys, name):
    assert "cannot be read (File name too long)" in refused(capsys, evaluate.main, "--qrels", name, name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[first-stage]\nhits = inf\n", "hits: inf is not a whole number"),
        ("[first-stage]\nhits = 1" + "0" * 400 + "\n", "hits: .* is beyond 2147483647"),
        ("[first-stage]\nk1 = nan\n", "k1: not a number"),
        ("x = " + "[" * 100_000, "not a TOML file"),
        ("x." * 100_000 + "y = 1", "not a TOML file"),
        ("x" * 100_000 + " = 1", "xxx: unknown option; known: index"),
        ('[[rerank]]\nname = "' + "x" * 500_000 + '"\n', "is not one of"),
    ],
)
def test_config_files(capsys, tmp_path, text, message):
    file = tmp_path / "c.toml"
    file.write_text(text)
    pattern = refused(capsys, search.main, "--config", file, "--query", "tap")
    assert pattern.startswith(f"kernelsearch: {file}: ")
    assert re.search(message, pattern)


def test_a_damaged_gzip_config_is_named(capsys, tmp_path):
    file = tmp_path / "c.toml"
    file.write_bytes(gzip.compress(b"hits = 3\n" * 100)[:-12])
    assert "c.toml: damaged gzip file" in refused(capsys, search.main, "--config", file, "--query", "tap")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--hits", "2147483648"], "--hits: 2147483648 is beyond 2147483647"),
        (["--hits", "9" * 5000], "--hits: '9999"),
        (["--k1", "inf"], "--k1: inf is not a finite number"),
        (["--java-heap", "1k"], "Java heap: '1k' is not a size"),
        (["--java-heap", "99999999g"], "is not a size"),
    ],
)
def test_flags_of_search(capsys, index, flags, message):
    assert message in refused(capsys, search.main, "--index", index, "--query", "tap", *flags)


def test_an_endless_range_to_tune_is_refused(capsys, index, tmp_path):
    files = ["--topics", DEMO / "topics.tsv", "--qrels", DEMO / "qrels.txt", "--output", tmp_path / "best.toml"]
    assert "--try k1: inf is not a finite number" in refused(capsys, tune.main, "--index", index, *files, "--try", "k1=0..inf")


def test_a_negative_seed_is_refused(capsys, tmp_path):
    arguments = ["--run", "r", "--topics", "t", "--qrels", "q", "--output", tmp_path / "o", "--seed", "-1"]
    assert "--seed: -1 is below 0" in refused(capsys, clicks.main, "simulate", *arguments)


@pytest.mark.parametrize(
    "content", [gzip.compress(b"query\tdocid\tclicks\nq\ta\t1\n" * 50)[:-9], b"\x1f\x8b"], ids=["cut", "two bytes"]
)
def test_a_damaged_click_log_is_named_and_nothing_is_written(capsys, tmp_path, content):
    (tmp_path / "log.gz").write_bytes(content)
    assert "log.gz: damaged gzip file" in refused(
        capsys, clicks.main, "import", "--input", tmp_path / "log.gz", "--output", tmp_path / "c.db"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["log.gz"]


def test_runs_to_merge_may_come_from_pipes(capsys, tmp_path):
    parts = []
    for number in (1, 2):
        read_end, write_end = os.pipe()
        with open(write_end, "w") as stream:
            stream.writelines(f"{number}{topic:03} Q0 a 1 1.0 t\n" for topic in range(500))
        parts.append(f"/dev/fd/{read_end}")
    merge.main([*parts, "--output", str(tmp_path / "merged")])
    assert len((tmp_path / "merged").read_text().splitlines()) == 1000


def test_what_documents_hold_does_not_reach_the_terminal(capsys, tmp_path):
    from kernelsearch import index as index_verb

    (tmp_path / "c.jsonl").write_text('{"id": "d", "contents": "tap \\u001b[2J\\u001b]0;title\\u0007 \\u202eabc"}\n')
    index_verb.main(["--input", str(tmp_path / "c.jsonl"), "--index", str(tmp_path / "index")])
    search.main(["--index", str(tmp_path / "index"), "--query", "tap"])
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out
    assert "tap \\x1b[2J" in out


def test_control_characters_leave_json_what_it_is(capsys, tmp_path):
    texts = ["it\u0092s a tap", "a tap \x7f\u009b2J water \u202e \x1b"]
    index = kernelsearch.build(tmp_path / "index", [{"id": str(n), "contents": text} for n, text in enumerate(texts)])
    for number, other in ((0, 1), (1, 0)):
        similar.main(["--index", str(index.path), "--docid", str(number), "--json"])
        out = capsys.readouterr().out
        assert [entry["text"] for entry in json.loads(out)["similar"]] == [texts[other]]
        assert not re.search("[\x7f-\x9f\u202e\x1b]", out)


def test_an_empty_output_is_not_the_default_place(capsys, index):
    assert "--output: an empty text" in refused(capsys, train.main, "--index", index, "--rerank", "klsa", "--output", "")


@pytest.mark.parametrize("method", ["klsa", "mslm", "fusion"])
def test_training_does_not_replace_a_folder_of_something_else(capsys, index, tmp_path, method):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text").write_text("kept")
    flags = ["--index", index, "--rerank", method, "--output", tmp_path / "thesis"]
    flags += ["--topics", DEMO / "topics.tsv", "--qrels", DEMO / "qrels.txt"] if method == "fusion" else []
    assert "thesis: holds text, which kernelsearch did not write" in refused(capsys, train.main, *flags)
    assert (tmp_path / "thesis" / "text").read_text() == "kept"


def test_training_that_fails_keeps_what_was_trained(capsys, tmp_path):
    index = build_texts(tmp_path, {"a": "red fox", "b": "red hen"})
    flags = ["--index", index, "--rerank", "mslm", "--output", tmp_path / "graph"]
    train.main([str(flag) for flag in flags])
    before = (tmp_path / "graph" / "meta.json").read_bytes()
    (tmp_path / "topics").write_text("1\tred\n")
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 1\n")  # every candidate is relevant: there is nothing to learn from
    capsys.readouterr()
    status, _, err = run_verb(
        capsys, train.main, *flags, "--topics", tmp_path / "topics", "--qrels", tmp_path / "qrels", "--mslm.min-count", "1"
    )
    assert status == 2, err
    assert (tmp_path / "graph" / "meta.json").read_bytes() == before


def test_an_output_that_is_an_input(capsys, index, tmp_path):
    files = {name: tmp_path / name for name in ("topics", "qrels", "run")}
    files["topics"].write_text("1\ttap\n")
    files["qrels"].write_text("1 0 hr001 1\n")
    files["run"].write_text("1 Q0 hr001 1 1.0 t\n")
    before = {name: file.read_text() for name, file in files.items()}
    flags = ["--topics", files["topics"], "--qrels", files["qrels"]]
    for main, *arguments in (
        (search.main, "--index", index, "--topics", files["topics"], "--output", files["topics"]),
        (search.main, "--index", index, "--topics", files["topics"], "--run", files["run"], "--output", files["run"]),
        (evaluate.main, "--qrels", files["qrels"], files["run"], "--output", files["run"]),
        (evaluate.main, "--qrels", files["qrels"], files["run"], "--html", files["qrels"]),
        (tune.main, "--index", index, *flags, "--try", "k1=1", "--output", files["qrels"]),
        (clicks.main, "simulate", "--run", files["run"], *flags, "--output", files["qrels"]),
        (clicks.main, "import", "--input", files["run"], "--output", files["run"]),
    ):
        assert "is an input of this command" in refused(capsys, main, *arguments)
    assert {name: file.read_text() for name, file in files.items()} == before


def test_a_run_to_a_pipe_has_no_file_beside_it(capsys, index, tmp_path):
    (tmp_path / "topics").write_text("1\tdripping tap\n")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    search.main(
        ["--index", str(index), "--topics", str(tmp_path / "topics"), "--hits", "3", "--output", str(tmp_path / "pipe")]
    )
    assert os.read(reader, 10_000).decode().count("\n") == 3
    os.close(reader)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pipe", "topics"]


def test_stop_words_that_are_no_text(capsys, index, tmp_path):
    (tmp_path / "stop").write_bytes(b"the\nof\xff\n")
    flags = ["--index", index, "--query", "tap"]
    assert "stop: line 2, column 3: not valid UTF-8" in refused(capsys, search.main, *flags, "--stopwords", tmp_path / "stop")
    assert "--stopwords: an empty text" in refused(capsys, search.main, *flags, "--stopwords", "")


def test_tune_refuses_a_folder_before_the_work(capsys, index, tmp_path):
    files = ["--topics", DEMO / "topics.tsv", "--qrels", DEMO / "qrels.txt", "--try", "k1=1"]
    assert "is a directory" in refused(capsys, tune.main, "--index", index, *files, "--output", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_messages_name_the_option_that_was_used(capsys, index):
    files = ["--topics", DEMO / "topics.tsv", "--qrels", DEMO / "qrels.txt", "--try", "k1=1"]
    assert "--measure: 'AB' is not a measure" in refused(capsys, tune.main, "--index", index, *files, "--measure", "AB")
    vectors = ["--index", index, "--query", "tap", "--rerank", "auto", "--auto.vectors", "no.such"]
    assert "kernelsearch: name of vectors: 'no.such': letters, digits" in refused(capsys, search.main, *vectors)
    unused = ["--index", index, "--rerank", "klsa", "--mslm.min-count", "1"]
    assert "--mslm.min-count: has no effect without --rerank mslm" in refused(capsys, train.main, *unused)


@pytest.mark.parametrize(
    ("method", "names", "message"),
    [
        ("klsa", ("topics", "qrels"), "--topics: has no effect on --rerank klsa"),
        ("klsa", ("clicks",), "--clicks: has no effect on --rerank klsa"),
        ("mslm", ("clicks",), "--clicks: has no effect on --rerank mslm"),
        ("rbm25", ("clicks", "qrels"), "--qrels: has no effect on --rerank rbm25"),
    ],
)
def test_what_a_method_does_not_learn_from_is_refused(capsys, index, tmp_path, method, names, message):
    files = {"topics": DEMO / "topics.tsv", "qrels": DEMO / "qrels.txt", "clicks": DEMO / "clicks.jsonl"}
    given = [word for name in names for word in (f"--{name.replace('_', '-')}", files.get(name, tmp_path / "letor.txt"))]
    assert message in refused(capsys, train.main, "--index", index, "--rerank", method, "--output", tmp_path / "m", *given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flags", [("--language", "pt"), ("--columns", "id=x"), ("--no-positions",), ("--encoding", "cp1252")])
def test_options_of_documents_are_refused_where_none_are_read(capsys, index, flags):
    assert f"{flags[0]}: has no effect without --input" in refused(capsys, index_verb.main, "--index", index, *flags)
