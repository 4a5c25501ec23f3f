"""Shards, parts of topics and merged runs through the command line: the same bytes as one index, one process, one run."""

import contextlib
import io
import itertools
import re
import shutil
import tomllib

import pytest

from kernelsearch import explain, merge, search, similar, train, tune
from kernelsearch import index as index_verb
from kernelsearch.core.errors import InputError, KernelSearchError, OptionError
from kernelsearch.trec.topics import parse_part, topics_part
from tests.conftest import DEMO, TINY, run_verb, write_jsonl
from tests.verbs.test_search_and_evaluate import command

FIRST_STAGES = [
    [],
    ["--qld"],
    ["--rm3"],
    ["--rocchio"],
    ["--rocchio", "--rocchio-use-negative"],
]


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """The bundled collection in four shards, by the command line."""
    path = tmp_path_factory.mktemp("four") / "index"
    with contextlib.redirect_stderr(io.StringIO()) as error:
        index_verb.main(["--input", str(DEMO / "corpus.jsonl"), "--index", str(path), "--shards", "4"])
    assert error.getvalue().startswith(f"{path}: 364 documents in 4 shards; queries")
    return path


@pytest.fixture(scope="module")
def whole_index(demo_index, tmp_path_factory):
    """The same collection in one index."""
    return shutil.copytree(demo_index.path, tmp_path_factory.mktemp("one") / "index")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A dozen topics, where what is tested doesn't depend on how many there are."""
    file = tmp_path_factory.mktemp("few") / "topics.tsv"
    file.write_text("".join((DEMO / "topics.tsv").read_text().splitlines(keepends=True)[:12]))
    return file


def run(indexes, output, *flags, topics=DEMO / "topics.tsv"):
    index_flags = [word for index in indexes for word in ("--index", str(index))]
    search.main([*index_flags, "--topics", str(topics), "--output", str(output), *map(str, flags)])
    return output.read_bytes()


@pytest.mark.parametrize("flags", FIRST_STAGES, ids=lambda flags: "".join(flags) or "bm25")
def test_four_shards_give_the_bytes_of_one_index(four, whole_index, few, tmp_path, flags):
    topics = few if "--rm3" in flags or "--rocchio" in flags else DEMO / "topics.tsv"
    alone = run([whole_index], tmp_path / "one.txt", *flags, topics=topics)
    assert run([four], tmp_path / "four.txt", *flags, "--threads", 2, topics=topics) == alone
    assert len(alone.splitlines()) > 1000


@pytest.mark.parametrize("method", ["klsa", "pert", "mslm", "auto"])
def test_rerankers_give_the_bytes_of_one_index(four, whole_index, few, tmp_path, method):
    """The basis and the graph are fitted over the shards, and are those of the one index."""
    flags = ["--rerank", method, "--hits", "50", *(["--klsa.retrieve", "20"] if method == "klsa" else [])]
    if method in ("klsa", "mslm"):
        for index in (four, whole_index):
            train.main(["--index", str(index), "--rerank", method])
    topics = DEMO / "topics.tsv" if method == "klsa" else few
    assert run([four], tmp_path / "four.txt", *flags, topics=topics) == run(
        [whole_index], tmp_path / "one.txt", *flags, topics=topics
    )


def test_shards_named_one_by_one_in_a_process_of_its_own(four, whole_index, tmp_path):
    shards = sorted(four.glob("shard-*"))
    flags = [word for shard in shards for word in ("--index", shard)]
    done = command("search", *flags, "--topics", DEMO / "topics.tsv", "--output", tmp_path / "s.txt", "--rerank", "klsa")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "s.txt").read_bytes() == run([whole_index], tmp_path / "one.txt", "--rerank", "klsa")
    assert tomllib.loads((tmp_path / "s.txt.toml").read_text())["index"] == [str(shard) for shard in shards]
    before = (tmp_path / "s.txt").read_bytes()
    search.main(["--config", str(tmp_path / "s.txt.toml"), "--output", str(tmp_path / "again.txt")])
    assert (tmp_path / "again.txt").read_bytes() == before


def test_a_part_of_the_shards_scores_otherwise(four, whole_index, tmp_path):
    two_shards = sorted(four.glob("shard-*"))[:2]
    assert run(two_shards, tmp_path / "some.txt") != run([whole_index], tmp_path / "one.txt")


def test_explain_and_similar_say_the_same_of_shards(four, whole_index, demo_index, capsys):
    outputs = []
    for index in (four, whole_index):
        explain.main(["--index", str(index), "--query", "dripping tap", "--rerank", "klsa", "--json"])
        similar.main(["--index", str(index), "--docid", demo_index.forward.docids[3], "--json"])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] and '"explanation"' in outputs[0]


def test_tune_takes_shards(four, tmp_path, capsys):
    shards = [word for shard in sorted(four.glob("shard-*")) for word in ("--index", str(shard))]
    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--processes", "1"]
    tune.main([*shards, *judged, "--try", "k1=0.9,1.2", "--output", str(tmp_path / "tuned.toml")])
    assert "tuned, held out" in capsys.readouterr().out
    search.main(["--config", str(tmp_path / "tuned.toml"), "--query", "dripping tap"])


def test_a_folder_of_shards_is_served(four):
    from kernelsearch.serve.catalogue import ServedIndex
    from kernelsearch.serve.impressions import Impressions
    from kernelsearch.serve.settings import IndexSpec, ServiceSettings

    served = ServedIndex(IndexSpec("four", str(four)), ServiceSettings((IndexSpec("four", str(four)),)), Impressions())
    assert len(served.index.forward) == 364


@pytest.mark.parametrize("flags", [[], ["--rerank", "klsa", "--klsa.retrieve", "10"]])
def test_parts_of_the_topics_merge_to_the_whole_run(whole_index, few, tmp_path, flags):
    whole = run([whole_index], tmp_path / "whole.txt", *flags, topics=few)
    parts = [tmp_path / f"part-{number}.txt" for number in range(1, 5)]
    for number, part in enumerate(parts, 1):
        run([whole_index], part, *flags, "--shard", f"{number}/4", "--batch-size", number, topics=few)
    for order in (parts, parts[::-1]):  # recipes tell the order
        merge.main([*map(str, order), "--output", str(tmp_path / "merged.txt")])
        assert (tmp_path / "merged.txt").read_bytes() == whole
    search.main(["--config", str(tmp_path / "merged.txt.toml")])
    assert (tmp_path / "merged.txt").read_bytes() == whole and "\nshard =" not in (tmp_path / "merged.txt.toml").read_text()


def test_parts_of_a_reranked_run(whole_index, few, tmp_path):
    run([whole_index], tmp_path / "bm25.txt", "--hits", 30, topics=few)
    flags = ["--run", tmp_path / "bm25.txt", "--rerank", "pert"]
    whole = run([whole_index], tmp_path / "whole.txt", *flags, topics=few)
    parts = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for number, part in enumerate(parts, 1):
        run([whole_index], part, *flags, "--shard", f"{number}/2", topics=few)
    merge.main([*map(str, parts), "--output", str(tmp_path / "merged.txt")])
    assert (tmp_path / "merged.txt").read_bytes() == whole


def test_parts_by_hand():
    topics = {name: name.upper() for name in "abcdefg"}
    assert ["".join(topics_part(topics, (number, 3))) for number in (1, 2, 3)] == ["ab", "cd", "efg"]
    for count in range(1, 12):
        parts = [topics_part(topics, (number, count)) for number in range(1, count + 1)]
        assert list(itertools.chain(*parts)) == list(topics)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parse_part("3/8") == (3, 8)


@pytest.mark.parametrize("part", ["0/4", "5/4", "1/0", "4", "1/", "a/b", "1/2/3", ""])
def test_impossible_parts_are_one_line(tiny_path, tmp_path, part):
    with pytest.raises(OptionError, match=r"shard: (.* is not I/N with I from 1 to N, such as 2/8|an empty text)"):
        run([tiny_path], tmp_path / "run.txt", "--shard", part)
    assert not list(tmp_path.iterdir())


def test_a_part_without_topics_is_an_empty_run_that_merges(tiny_path, tmp_path):
    topics = tmp_path / "topics.tsv"
    topics.write_text("1\twater tap\n2\tfuse\n")
    whole = run([tiny_path], tmp_path / "whole.txt", topics=topics)
    parts = [tmp_path / f"{number}.txt" for number in range(1, 4)]
    sizes = [len(run([tiny_path], part, "--shard", f"{number}/3", topics=topics)) for number, part in enumerate(parts, 1)]
    assert 0 in sizes
    merge.main([*map(str, parts), "--output", str(tmp_path / "merged.txt")])
    assert (tmp_path / "merged.txt").read_bytes() == whole


@pytest.fixture
def parts(tiny_path, tmp_path):
    """Three parts of three topics, with their recipes."""
    topics = tmp_path / "topics.tsv"
    topics.write_text("b\twater tap\na\tfuse\nc\tbreaker panel\n")
    made = [tmp_path / f"part-{number}.txt" for number in (1, 2, 3)]
    for number, part in enumerate(made, 1):
        run([tiny_path], part, "--shard", f"{number}/3", topics=topics)
    return made


def refused(capsys, tmp_path, *words):
    """The complaint; an output that stands there already survives it."""
    output = tmp_path / "out" / "merged.txt"
    output.parent.mkdir()
    output.write_text("precious")
    with pytest.raises(KernelSearchError) as caught:
        merge.main([*map(str, words), "--output", str(output)])
    assert output.read_text() == "precious" and list(output.parent.iterdir()) == [output]
    return str(caught.value)


def complaint(capsys, verb, *words):
    """What the command line says before it ends with status 2."""
    status, _, error = run_verb(capsys, verb.main, *words)
    assert status == 2
    return error


def test_a_merged_run_on_standard_output(parts, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    status, printed, _ = run_verb(capfd, merge.main, *parts, "--output", "-")
    assert status == 0 and sorted(tmp_path.iterdir()) == before
    merge.main([*map(str, parts), "--output", str(tmp_path / "file")])
    assert printed == (tmp_path / "file").read_text() != ""


def test_a_missing_part_is_named(parts, tmp_path, capsys):
    assert refused(capsys, tmp_path, parts[0], parts[2]) == "1 of 3 parts is missing: 2/3"
    merge.main([str(parts[0]), str(parts[2]), "--output", str(tmp_path / "some.txt"), "--incomplete"])
    assert (tmp_path / "some.txt").read_bytes() == parts[0].read_bytes() + parts[2].read_bytes()


def test_the_same_part_twice_is_refused(parts, tmp_path, capsys):
    copied = tmp_path / "copy.txt"
    for end in ("", ".toml"):
        shutil.copy(f"{parts[1]}{end}", f"{copied}{end}")
    assert f"{copied}: part 2/3, as {parts[1]} is" in refused(capsys, tmp_path, *parts, copied)


def test_parts_of_different_splits_are_refused(parts, tiny_path, tmp_path, capsys):
    run([tiny_path], tmp_path / "other.txt", "--shard", "1/2", topics=tmp_path / "topics.tsv")
    assert "other.txt: part 1/2, where" in refused(capsys, tmp_path, *parts, tmp_path / "other.txt")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--k1", "1.2"], "made with k1 1.2, where .* has 0.9; --any-settings merges"),
        (["--hits", "5"], "made with hits 5, where .* has 1000"),
        (["--rerank", "pert"], r"made with rerank \['pert'\], where .* has \[\]"),
        (["--tag", "mine"], "made with tag 'mine', where .* has unset"),
    ],
)
def test_different_settings_are_refused(parts, tiny_path, tmp_path, capsys, flags, message):
    run([tiny_path], parts[1], "--shard", "2/3", *flags, topics=tmp_path / "topics.tsv")
    error = refused(capsys, tmp_path, *parts)
    assert re.search(f"part-2.txt: {message}", error), error
    merge.main([*map(str, parts), "--output", str(tmp_path / "any.txt"), "--any-settings"])
    assert (tmp_path / "any.txt").read_bytes() == b"".join(part.read_bytes() for part in parts)
    assert not (tmp_path / "any.txt.toml").exists()


def test_another_index_or_other_topics_are_refused(parts, tiny_path, tmp_path, capsys):
    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "again")])
    run([tmp_path / "again"], parts[1], "--shard", "2/3", topics=tmp_path / "topics.tsv")
    assert "made with index-fingerprint" in refused(capsys, tmp_path, *parts)
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "other.tsv").write_text("b\twater tap\na\tfuses\nc\tbreaker panel\n")
    run([tiny_path], parts[1], "--shard", "2/3", topics=tmp_path / "other.tsv")
    assert "made with topics-sha256" in refused(capsys, tmp_path, *parts)


def test_a_run_that_was_cut_short_is_noticed(parts, tmp_path, capsys):
    parts[0].write_bytes(parts[0].read_bytes()[:-40])
    assert "part-1.txt: changed, or cut short, since" in refused(capsys, tmp_path, *parts)


def test_runs_of_other_systems_merge_in_the_topics_order(tmp_path, capsys):
    first, second, topics = tmp_path / "one.txt", tmp_path / "two.txt", tmp_path / "topics.tsv"
    first.write_text("b Q0 d1 1 2.0 x\nb Q0 d2 2 1.0 x\n")
    second.write_text("a Q0 d1 1 2.5 y\nc Q0 d9 1 1.0 y\n")
    topics.write_text("a\tx\nb\tx\nnone\tx\nc\tx\n")
    merge.main([str(first), str(second), "--output", str(tmp_path / "m.txt")])
    assert (tmp_path / "m.txt").read_text() == first.read_text() + second.read_text()
    merge.main([str(first), str(second), "--output", str(tmp_path / "m.txt"), "--topics", str(topics)])
    assert [line.split()[0] for line in (tmp_path / "m.txt").read_text().splitlines()] == ["a", "b", "b", "c"]
    assert capsys.readouterr().err.splitlines()[-1] == f"{tmp_path / 'm.txt'}: 3 queries from 2 runs"
    topics.write_text("a\tx\nb\tx\n")
    with pytest.raises(InputError, match=r"two\.txt: topic c is not in .*topics\.tsv"):
        merge.main([str(first), str(second), "--output", str(tmp_path / "m.txt"), "--topics", str(topics)])


def test_overlapping_topics_are_refused_unless_asked_for(tmp_path, capsys):
    first, second = tmp_path / "one.txt", tmp_path / "two.txt"
    first.write_text("a Q0 d1 1 2.0 x\n")
    second.write_text("b Q0 d1 1 2.5 y\na Q0 d7 1 9.0 y\n")
    assert (
        refused(capsys, tmp_path, first, second) == f"{second}: topic a is in {first} too; --overlap first keeps the first list"
    )
    merge.main([str(first), str(second), "--output", str(tmp_path / "m.txt"), "--overlap", "first"])
    assert (tmp_path / "m.txt").read_text() == "a Q0 d1 1 2.0 x\nb Q0 d1 1 2.5 y\n"


def test_a_run_without_a_recipe_beside_others_is_mentioned(parts, tmp_path, capsys):
    other = tmp_path / "other.txt"
    other.write_text("z Q0 d1 1 2.0 x\n")
    merge.main([*map(str, parts), str(other), "--output", str(tmp_path / "m.txt")])
    assert f"{other}: no other.txt.toml beside it, so its settings are not compared" in capsys.readouterr().err
    assert not (tmp_path / "m.txt.toml").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 Q0 d1 1 x t\n", "line 1: rank or score is not a number"),
        ("1 d1\n", "line 1: 2 columns, a run has 6"),
        ("1 Q0 d1 1 2 t\n1 Q0 d1 2 1 t\n", "line 2: topic 1 lists document d1 twice"),
        ("", "no results in it"),
        ("1\td1\t1\n", r"bad.txt: 3 columns, where .*good.txt has 6"),
    ],
)
def test_bad_runs_are_one_line_and_status_2(tmp_path, monkeypatch, capsys, content, message):
    (tmp_path / "good.txt").write_text("0 Q0 d1 1 2 t\n")
    (tmp_path / "bad.txt").write_text(content)
    monkeypatch.chdir(tmp_path)
    error = complaint(capsys, merge, "good.txt", "bad.txt", "--output", "m.txt")
    assert re.search(message, error) and error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "good.txt"]


def test_bad_calls_are_one_line_and_status_2(tmp_path, monkeypatch, capsys, tiny_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.txt").write_text("0 Q0 d1 1 2 t\n")
    for words, message in (
        ((merge, "r.txt"), "--output: the run file to write is not given"),
        ((merge, "--output", "m.txt"), "the following arguments are required: RUN"),
        ((merge, "r.txt", "gone.txt", "--output", "m.txt"), "gone.txt: no such file"),
        ((merge, "r.txt", "--output", "r.txt"), "--output: r.txt is one of the runs to merge"),
        ((search, "--index", tiny_path, "--query", "x", "--shard", "1/2"), "--shard: has no effect without --topics"),
        ((search, "--index", tiny_path, "--index", "gone", "--query", "x"), "gone: no such index"),
    ):
        error = complaint(capsys, *words)
        assert message in error and error.count("\n") == 1, error
    assert [path.name for path in tmp_path.iterdir()] == ["r.txt"]


@pytest.fixture(scope="module")
def cacm(collections, collection_index, tmp_path_factory):
    """CACM in one index and in four shards, both with a basis of klsa, and a file of its first topics."""
    folder = tmp_path_factory.mktemp("cacm")
    index, four, topics = collection_index("cacm").path, folder / "four", folder / "topics.tsv"
    topics.write_text("".join((collections / "cacm" / "topics.tsv").read_text().splitlines(keepends=True)[:20]))
    index_verb.main(["--input", str(collections / "cacm" / "corpus.jsonl"), "--index", str(four), "--shards", "4"])
    for path in (index, four):
        train.main(["--index", str(path), "--rerank", "klsa", "--klsa.dims", "30"])
    return index, four, topics


@pytest.mark.collections
@pytest.mark.parametrize("flags", ["", "--qld", "--rm3", "--rocchio", "--rerank klsa"])
def test_four_shards_of_a_real_collection(cacm, tmp_path, flags):
    index, four, topics = cacm
    whole = run([index], tmp_path / "one.txt", *flags.split(), topics=topics)
    assert run([four], tmp_path / "four.txt", *flags.split(), topics=topics) == whole and len(whole.splitlines()) > 10_000


@pytest.mark.collections
def test_parts_of_topics_on_shards_of_a_real_collection(cacm, tmp_path):
    index, four, topics = cacm
    parts = [tmp_path / f"{number}.txt" for number in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        run([four], part, "--rerank", "klsa", "--shard", f"{number}/3", topics=topics)
    merge.main([*map(str, parts), "--output", str(tmp_path / "merged.txt")])
    whole = run([index], tmp_path / "one.txt", "--rerank", "klsa", topics=topics)
    assert (tmp_path / "merged.txt").read_bytes() == whole
