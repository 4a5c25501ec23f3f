import json
import os
import signal
import subprocess
import sys
import time

import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.core.errors import IndexProblem, InputError, KernelSearchError, OptionError
from tests.conftest import ROOT, TINY, heeding_interrupts, run_verb, write_jsonl


def command(*flags, **kwargs):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "kernelsearch.index", *map(str, flags)],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        **kwargs,
    )


def test_from_the_command_line(tmp_path):
    source = write_jsonl(tmp_path / "corpus.jsonl", [*TINY, {"id": "empty", "contents": "  "}])
    done = command("--input", source, "--index", tmp_path / "index")
    assert done.returncode == 0 and done.stdout == ""
    expected = "6 documents; queries search contents with titles; further fields: title; 1 without text left out"
    assert done.stderr == f"{tmp_path / 'index'}: {expected}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "index"]


def test_other_fields_are_kept(tmp_path):
    record = {"id": "1", "contents": "words", "tags": ["a", "b"], "year": 1999, "nested": {"x": None}}
    index_verb.main(["--input", str(write_jsonl(tmp_path / "c.jsonl", [record])), "--index", str(tmp_path / "i")])
    assert json.loads(kernelsearch.open(tmp_path / "i").lucene.stored([0], "raw")[0]) == record


def test_chosen_fields_are_indexed_lists_as_words(tmp_path):
    records = [
        {"id": "1", "contents": "words", "url": "example.org/taps", "tags": ["red", "taps"]},
        {"id": "2", "contents": "more"},
    ]
    source = write_jsonl(tmp_path / "c.jsonl", records)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--fields", "tags,url"])
    tags = kernelsearch.open(tmp_path / "i").field("tags")
    assert [tags.terms[t] for t in tags.indices] == ["red", "tap"] and tags.lengths.tolist() == [2, 0]


@pytest.mark.parametrize("shards", [None, 2])
def test_titles_without_a_term_make_no_field(tmp_path, shards):
    records = [{"id": "1", "title": "The", "contents": "a tap"}, {"id": "2", "title": "?!", "contents": "a fuse"}]
    index = kernelsearch.build(tmp_path / "i", records, shards=shards)
    assert index.search("fuse", rerank="auto").docids == ["2"]
    assert not (tmp_path / "i" / "kernelsearch" / "forward" / "title").exists()
    with pytest.raises(IndexProblem, match="no document has a field 'title'"):
        kernelsearch.build(tmp_path / "named", records, shards=shards, fields=("title",))
    # With a title that has one, the field is there again.
    if shards is None:
        index = index.add([{"id": "3", "title": "Washer", "contents": "a tap"}])
        assert index.field("title").lengths.tolist() == [0, 0, 1]


def test_a_shard_of_documents_without_text_is_left_out(tmp_path):
    texts = ["", " ", "a tap", "a fuse", "", "\n"]
    index = kernelsearch.build(tmp_path / "i", [{"id": str(n), "contents": text} for n, text in enumerate(texts)], shards=3)
    assert [path.name for path in index.shards.paths] == ["shard-1"]
    assert index.search("fuse").docids == ["3"] and index.lucene.documents() == 2
    with pytest.raises(InputError, match=r"i: none of the 2 documents has text"):
        kernelsearch.build(tmp_path / "i", [{"id": "1", "contents": ""}, {"id": "2", "contents": ""}], shards=2, force=True)


@pytest.mark.parametrize("name", ["a/b", "..", "/etc"])
def test_a_path_is_no_field(tmp_path, name):
    with pytest.raises(OptionError, match="is not the name of a field"):
        kernelsearch.build(tmp_path / "i", [{"id": "1", name: "words", "contents": "a tap"}], fields=(name,))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "content"), [
    ("c.csv", "id,title,text\n1,Tap,water drips\n2,Fuse,blown\n"),
    ("c.tsv", "1\twater drips\n2\tblown\n"),
    ("c.trec", "<DOC>\n<DOCNO>1</DOCNO>\n<TEXT>water drips</TEXT>\n</DOC>\n<DOC>\n<DOCNO>2</DOCNO>\nblown\n</DOC>\n"),
])  # fmt: skip
def test_other_formats(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    index_verb.main(["--input", str(tmp_path / name), "--index", str(tmp_path / "i")])
    index = kernelsearch.open(tmp_path / "i")
    assert index.forward.docids.take(index.lucene.search([index.query("drip")])[0].docs) == ["1"]


def hits(index, word):
    """The docids that a query finds."""
    return index.forward.docids.take(index.lucene.search([index.query(word)])[0].docs)


@pytest.mark.parametrize(("name", "content"), [
    ("c.csv", "id,title,contents\n1,Zebra crossing,Replace the washer\n"),
    ("c.csv", "number;headline;body\n1;Zebra crossing;Replace the washer\n"),
    ("c.jsonl", '{"id": "1", "title": "Zebra crossing", "contents": "Replace the washer", "number": "1"}\n'),
    ("c.json", '[{"id": "1", "title": "Zebra crossing", "text": "Replace the washer"}]'),
    ("c.trec", "<DOC>\n<DOCNO>1</DOCNO>\n<TITLE>Zebra crossing</TITLE>\n<TEXT>Replace the washer</TEXT>\n</DOC>\n"),
    ("c/1", "<DOC>\n<DOCNO>1</DOCNO>\n<TITLE>Zebra crossing</TITLE>\n<TEXT>Replace the washer</TEXT>\n</DOC>\n"),
    ("c/1", "<html><title>Zebra crossing</title><body>Replace the washer</body></html>"),
])  # fmt: skip
def test_titles_are_searched_whatever_the_format(tmp_path, name, content, capsys):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    source = name.partition("/")[0]
    flags = ["--columns", "id=number,contents=body,title=headline"] if "headline" in content else []
    index_verb.main(["--input", str(tmp_path / source), "--index", str(tmp_path / "i"), *flags])
    index = kernelsearch.open(tmp_path / "i")
    assert hits(index, "zebra") == hits(index, "washer") == ["1"]
    assert "queries search contents with titles; further fields: title" in capsys.readouterr().err


def test_titles_apart(tmp_path, capsys):
    source = write_jsonl(tmp_path / "c.jsonl", [{"id": "1", "title": "Zebra", "contents": "washer", "url": "x", "day": 5}])
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--no-join-titles"])
    assert hits(kernelsearch.open(tmp_path / "i"), "zebra") == []
    expected = "queries search contents, without the titles of 1; further fields: title; stored only: url, day\n"
    assert capsys.readouterr().err.endswith(expected)


def test_same_collection_same_forward_index(tmp_path, tiny):
    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--no-join-titles"])
    again = kernelsearch.open(tmp_path / "i").forward
    assert again.indices.tolist() == tiny.forward.indices.tolist()
    assert again.docids.take(range(len(again))) == tiny.forward.docids.take(range(len(again)))


def test_several_threads_index_every_document(tmp_path):
    source = write_jsonl(tmp_path / "c.jsonl", [{"id": str(n), "contents": f"word{n}"} for n in range(2500)])
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--threads", "2"])
    forward = kernelsearch.open(tmp_path / "i").forward
    assert sorted(forward.docids.take(range(len(forward))), key=int) == [str(n) for n in range(2500)]


def test_existing_index_is_kept_unless_forced(tmp_path):
    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "i")])
    with pytest.raises(InputError, match=r"exists already; force=True replaces it"):
        index_verb.main(["--input", str(source), "--index", str(tmp_path / "i")])
    write_jsonl(source, TINY[:2])
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--force"])
    assert kernelsearch.open(tmp_path / "i").lucene.documents() == 2


def test_force_never_destroys_what_is_no_index(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    with pytest.raises(InputError, match="contains something that is not an index"):
        index_verb.main(["--input", str(source), "--index", str(tmp_path / "thesis"), "--force"])
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            [{"id": "a", "contents": "x"}, {"id": "b", "contents": "y"}, {"id": "a", "contents": "z"}],
            "line 3: document id 'a' appears twice",
        ),
        ([{"id": "a", "contents": " "}], "none of the 1 documents has text"),
    ],
)
def test_bad_collections_leave_the_old_index_alone(tmp_path, records, message):
    good = write_jsonl(tmp_path / "good.jsonl", TINY)
    index_verb.main(["--input", str(good), "--index", str(tmp_path / "i")])
    bad = write_jsonl(tmp_path / "bad.jsonl", records)
    with pytest.raises(KernelSearchError, match=message):
        index_verb.main(["--input", str(bad), "--index", str(tmp_path / "i"), "--force"])
    assert kernelsearch.open(tmp_path / "i").lucene.documents() == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "good.jsonl", "i"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--input", "nowhere.jsonl", "--index", "i"], "kernelsearch: nowhere.jsonl: no such file or folder"),
        (["--input", "nowhere.jsonl"], "--index: the folder to make is not given"),
        (["--index", "i", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["--index", "i", "--threads", "many"], "--threads: 'many' is not a whole number"),
        (["--index", "nowhere"], "kernelsearch: nowhere: no such index"),
        (["--input", "irds:no/such/thing", "--index", "i"], "irds:no/such/thing: ir_datasets has no dataset of that name"),
    ],
)
def test_bad_calls_are_one_line_and_status_2(tmp_path, monkeypatch, capfd, flags, message):
    monkeypatch.chdir(tmp_path)
    status, output, error = run_verb(capfd, index_verb.main, *flags)
    assert status == 2 and output == ""
    assert message in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_forward_index_for_an_index_of_somebody_else(tmp_path):
    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "i"), "--no-forward"])
    assert not (tmp_path / "i" / "kernelsearch" / "forward").exists()
    index_verb.main(["--index", str(tmp_path / "i"), "--fields", "title"])
    made = sorted(path.name for path in (tmp_path / "i" / "kernelsearch" / "forward").iterdir())
    assert made == ["contents", "title"]


@pytest.mark.parametrize(("stop", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_indexing_leaves_nothing(tmp_path, stop, status):
    """The collection comes from a pipe whose end is not written, so that the signal surely finds documents being staged."""
    source = tmp_path / "c.jsonl"
    os.mkfifo(source)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    flags = ["--input", str(source), "--index", str(tmp_path / "i"), "--force"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelsearch.index", *flags],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeding_interrupts,
    )
    with open(source, "w", encoding="utf-8") as pipe:  # waits for the reader
        for number in range(5000):
            pipe.write(f'{{"id": "{number}", "contents": "word{number % 997} word{number % 31}"}}\n')
        pipe.flush()
        while not list(tmp_path.glob(".*.partial/*.staged/*.jsonl")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(stop)
        error = process.communicate()[1]
    assert process.returncode == status, error
    assert [path.name for path in tmp_path.iterdir()] == ["c.jsonl"]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a given size in megabytes."""
    mounted = []

    def mount(megabytes):
        folder = tmp_path / f"disk{megabytes}"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], capture_output=True)
        if done.returncode:
            pytest.skip("needs the right to mount a small file system")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("megabytes", [1, 3, 4])
def test_a_disk_that_fills_is_one_line_and_leaves_nothing(tmp_path, small_disk, megabytes, capfd):
    """Full while staging, while Lucene writes, and while the forward index is written."""
    words = [f"word{n:05d}" for n in range(6000)]
    records = [{"id": str(n), "contents": " ".join(words[n * 7 % 5000 :][:100])} for n in range(2500)]
    source = write_jsonl(tmp_path / "c.jsonl", records)
    disk = small_disk(megabytes)
    status, _, error = run_verb(capfd, index_verb.main, "--input", source, "--index", disk / "i")  # what Java prints included
    assert status == 2 and error.count("\n") == 1, error
    assert "i" in error and "cannot be written (No space left on device)" in error
    assert list(disk.iterdir()) == []
