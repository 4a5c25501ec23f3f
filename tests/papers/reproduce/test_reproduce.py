"""Conditions against expected figures, on the bundled collection."""

import json
import shutil
import sys

import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.papers.reproduce.__main__ import main
from kernelsearch.papers.reproduce.conditions import Script, read_conditions
from kernelsearch.papers.reproduce.scripts import page_figures, run_script
from tests.conftest import DEMO, ROOT

FILE = """
okish = 0.001
baseline = "bm25"
[collections.demo]
documents = "corpus.jsonl"
topics = "topics.tsv"
qrels = "qrels.txt"
[collections.absent]
documents = "no/corpus.jsonl"
topics = "no/topics.tsv"
qrels = "no/qrels.txt"
[[condition]]
name = "bm25"
title = "BM25"
flags = ""
expected.demo = { AP = %s, "nDCG@10" = %s }
[[condition]]
name = "rm3"
title = "BM25 + RM3"
flags = "--rm3"
source = "us"
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder with index and runs, and the bundled collection's BM25 figures from evaluate."""
    import contextlib
    import io

    from kernelsearch import evaluate

    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "c.toml").write_text(FILE % (0, 0))
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setenv("KERNELSEARCH_COLLECTIONS", str(DEMO))
        with pytest.raises(SystemExit):  # figures of zero: FAIL
            main(["--conditions", str(folder / "c.toml"), *places(folder)])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        run = folder / "runs" / "demo" / "bm25.txt"
        evaluate.main(["--qrels", str(DEMO / "qrels.txt"), str(run), "--measures", "AP,nDCG@10", "--format", "json"])
    return folder, json.loads(printed.getvalue())["runs"]["bm25"]["means"]


def places(folder):
    return ["--indexes", str(folder / "indexes"), "--runs", str(folder / "runs")]


@pytest.fixture
def reproduce(measured, monkeypatch, tmp_path, capsys):
    """Runs the verb with expected figures that are off by some amounts; run files are taken from before."""
    folder, means = measured
    monkeypatch.setenv("KERNELSEARCH_COLLECTIONS", str(DEMO))

    def run(*flags, off=(0.0, 0.0)):
        figures = tuple(f"{round(mean, 4) + gap:.4f}" for mean, gap in zip(means.values(), off, strict=True))
        (tmp_path / "c.toml").write_text(FILE % figures)
        main(["--conditions", str(tmp_path / "c.toml"), *places(folder), "--reuse", *flags])
        return capsys.readouterr().out.splitlines()

    return run


def test_without_ir_datasets_its_collections_are_skipped(measured, monkeypatch, tmp_path, capsys):
    """The others are measured all the same."""
    folder, means = measured
    monkeypatch.setenv("KERNELSEARCH_COLLECTIONS", str(DEMO))
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    text = FILE % tuple(f"{mean:.4f}" for mean in means.values())
    first = text.index("[collections.demo]")
    absent = '[collections.vaswani]\ndocuments = "no"\ntopics = "no"\nqrels = "no"\nirds = "vaswani"\n'
    (tmp_path / "c.toml").write_text(text[:first] + absent + text[first:])
    main(["--conditions", str(tmp_path / "c.toml"), *places(folder), "--reuse"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("vaswani   skipped: ") and "ir_datasets is not installed" in lines[0]
    assert lines[1].split()[:2] == ["demo", "bm25"]


def test_figures_that_agree_and_a_collection_that_is_not_there(reproduce, measured):
    lines = reproduce()
    ap, ndcg = (f"{mean:.4f}" for mean in measured[1].values())
    assert lines[0].split() == ["demo", "bm25", "AP", ap, "OK", "nDCG@10", ndcg, "OK"]
    assert lines[1].split()[:2] == ["demo", "rm3"] and lines[1].count("new") == 2
    assert lines[2].startswith("absent    skipped: not found in") and lines[3] == "2 OK, 2 new"


def test_a_small_difference_is_okish_and_a_large_one_fails_with_status_1(reproduce, measured, tmp_path, capsys):
    lines = reproduce("bm25", off=(0.0005, -0.001))
    assert lines[0].count("OKish (expected") == 2 and lines[-1] == "2 OKish"
    with pytest.raises(SystemExit) as ended:
        reproduce("bm25", off=(0.0, 0.0011))
    assert ended.value.code == 1
    assert "FAIL (expected" in capsys.readouterr().out


def test_the_page_the_picture_and_the_readme(reproduce, measured, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- begin figures -->\nold\n<!-- end figures -->\nafter\n")
    reproduce("--docs", str(tmp_path / "docs"), "--readme", str(readme))
    page = (tmp_path / "docs" / "baselines-and-methods.md").read_text()
    ap, ndcg = (f"{mean:.4f}" for mean in measured[1].values())
    assert f"| BM25 | {ap} | {ap} OK | {ndcg} | {ndcg} OK | - | - | - | - |" in page
    assert "| BM25 + RM3 | `python -m kernelsearch.search --index INDEX --topics TOPICS --output RUN --rm3` | us |" in page
    assert (tmp_path / "docs" / "baselines-and-methods.svg").read_text().count("<svg") == 1
    text = readme.read_text()
    assert text.startswith("before\n<!-- begin figures -->\n| AP / nDCG@10 | demo |") and text.endswith(
        "<!-- end figures -->\nafter\n"
    )
    assert f"| BM25 | {ap[1:]} / {ndcg[1:]} | - | - |" in text and "old" not in text
    first = (tmp_path / "docs" / "baselines-and-methods.svg").read_bytes()
    reproduce("--docs", str(tmp_path / "docs"))
    assert (tmp_path / "docs" / "baselines-and-methods.svg").read_bytes() == first
    readme.write_text("no marks")
    with pytest.raises(InputError, match=r"README.md: has no <!-- begin figures -->"):
        reproduce("--docs", str(tmp_path / "docs"), "--readme", str(readme))


def test_tables_count_topics_hurt_and_helped_and_the_loss(measured, monkeypatch, tmp_path):
    """Summed over collections in the headline table (here the same one twice); counted by ir_measures."""
    import ir_measures

    folder, means = measured
    qrels = list(ir_measures.read_trec_qrels(str(DEMO / "qrels.txt")))
    values = {}
    for name in ("bm25", "rm3"):
        run = ir_measures.read_trec_run(str(folder / "runs" / "demo" / f"{name}.txt"))
        values[name] = {result.query_id: result.value for result in ir_measures.iter_calc([ir_measures.AP], qrels, run)}
    changes = [after - values["bm25"][qid] for qid, after in values["rm3"].items()]
    hurt, helped = sum(change < -1e-9 for change in changes), sum(change > 1e-9 for change in changes)
    lost = -sum(change for change in changes if change < 0)
    assert 0 < hurt < helped
    for part in ("indexes", "runs"):
        for name in ("demo", "absent"):
            shutil.copytree(folder / part / "demo", tmp_path / part / name)
    text = (FILE % tuple(f"{mean:.4f}" for mean in means.values())).replace("no/", "")
    (tmp_path / "c.toml").write_text(text)
    readme = tmp_path / "README.md"
    readme.write_text("<!-- begin figures --><!-- end figures -->")
    monkeypatch.setenv("KERNELSEARCH_COLLECTIONS", str(DEMO))
    flags = ["--conditions", str(tmp_path / "c.toml"), *places(tmp_path), "--reuse", "--docs", str(tmp_path)]
    main([*flags, "--readme", str(readme)])
    row = next(line for line in readme.read_text().splitlines() if line.startswith("| BM25 + RM3"))
    assert row.endswith(f" | {2 * hurt} / {2 * helped} | {2 * lost:.1f} |")
    page = (tmp_path / "baselines-and-methods.md").read_text()
    assert f" | {hurt} / {len(changes) - hurt - helped} / {helped} | {lost:.2f} | " in page


def test_unknown_names_are_refused(reproduce):
    with pytest.raises(InputError, match="magic: no such condition; known: bm25, rm3"):
        reproduce("magic")
    with pytest.raises(InputError, match="on: moon: no such collection; known: demo, absent"):
        reproduce("--on", "moon")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"bm25"\n[coll', '"none"\n[coll'), "the baseline 'none' is not one of the conditions"),
        (lambda text: text.replace('"rm3"', '"bm25"'), "condition 'bm25' is listed twice"),
        (
            lambda text: text.replace("expected.demo", "expected.moon"),
            "'bm25' expects figures of 'moon', which is no collection",
        ),
        (
            lambda text: text.replace("expected.demo", f"expected.{'m' * 500}"),
            "'bm25' expects figures of 'm{1,120}[^m]*, which is no collection",
        ),
        (lambda text: text.replace("flags = ", "flag = "), "not a file of conditions"),
        (lambda text: text + "[[", "not a TOML file"),
    ],
)
def test_bad_files_are_refused(tmp_path, change, message):
    (tmp_path / "c.toml").write_text(change(FILE % (0.1, 0.1)))
    with pytest.raises(InputError, match=message):
        read_conditions(tmp_path / "c.toml")


def test_the_shipped_conditions_are_whole():
    result = read_conditions()
    assert {"bm25", "rm3", "klsa", "mslm", "pert"} <= {condition.name for condition in result.conditions}
    bm25 = next(condition for condition in result.conditions if condition.name == "bm25")
    assert bm25.expected["cacm"]["AP"] == 0.3123
    for condition in result.conditions:
        possible = {name for name, collection in result.collections.items() if condition.runs_on(collection)}
        assert set(condition.expected) == possible, condition.name
    for script in result.scripts:
        assert all((ROOT / command[0]).is_file() for command in script.commands), script.name


def test_the_committed_page_and_readme_hold_the_expected_figures():
    result = read_conditions()
    page = (ROOT / "docs" / "reproductions" / "baselines-and-methods.md").read_text()
    readme = (ROOT / "README.md").read_text()
    for condition in result.conditions:
        for name, figures in condition.expected.items():
            assert f"| {condition.title} | {figures['AP']:.4f} | " in page, (condition.name, name)
            for measure, figure in figures.items():
                if result.collections[name].headline:
                    assert f"{figure:.4f}".removeprefix("0") in readme, (condition.name, name, measure)


LEARNING = """
[[condition]]
name = "taught"
title = "taught"
on = ["demo"]
train = "--rerank fusion --fusion.features 'first votes' --fusion.sources none --fusion.depth 20 --fusion.learner net %s"
flags = "--rerank fusion --fusion.model {model} --hits 20"
"""
TAUGHT = "--topics {topics} --qrels {qrels} --output {model}"


def test_a_condition_that_learns_ranks_no_topic_with_a_model_that_saw_it(measured, monkeypatch, tmp_path, capsys):
    from kernelsearch.papers.reproduce import running
    from kernelsearch.trec import read_run, read_topics

    monkeypatch.setenv("KERNELSEARCH_COLLECTIONS", str(DEMO))
    (tmp_path / "c.toml").write_text(FILE % (0, 0) + LEARNING % TAUGHT)
    seen, train, search = [], running.train_from_flags, running.run_topics

    def trained(flags):
        seen.append([set(read_topics(flags[flags.index("--topics") + 1]))])
        return train(flags)

    def searched(pipeline, topics, **options):
        seen[-1].append({topic.qid for topic in topics})
        return search(pipeline, topics, **options)

    monkeypatch.setattr(running, "train_from_flags", trained)
    monkeypatch.setattr(running, "run_topics", searched)
    where = ["--indexes", str(measured[0] / "indexes"), "--runs", str(tmp_path / "runs")]
    main(["taught", "--conditions", str(tmp_path / "c.toml"), "--on", "demo", *where])
    topics = set(read_topics(DEMO / "topics.tsv"))
    assert len(seen) == 5
    assert all(not learned & ranked and learned | ranked == topics for learned, ranked in seen)
    # Topics that match nothing are in no run.
    assert set(read_run(tmp_path / "runs" / "demo" / "taught.txt")) == set(read_run(measured[0] / "runs" / "demo" / "bm25.txt"))
    assert "taught" in capsys.readouterr().out


def test_commands_name_what_is_learned_from(tmp_path):
    (tmp_path / "c.toml").write_text(FILE % (0, 0) + LEARNING % TAUGHT)
    taught = read_conditions(tmp_path / "c.toml").conditions[-1]
    first, second = taught.commands()
    assert first.startswith("python -m kernelsearch.train --index INDEX --rerank fusion")
    assert first.endswith("--topics TRAINING_TOPICS --qrels TRAINING_QRELS --output MODEL")
    assert second.endswith("--rerank fusion --fusion.model MODEL --hits 20")


PAGE = """# A page

## cran

|  | MAP | ms |
| --- | --- | --- |
| BM25 | .2791 | 3.1 |
| ours | **0.3000** (.2900) | 9.9 |

|  | MAP |
| --- | --- |
| BM25 | .3862 |
"""


def test_figures_of_a_page_are_those_with_four_decimals():
    assert page_figures(PAGE) == {
        ("cran", 1, "BM25", 0, "MAP", 0): 0.2791,
        ("cran", 1, "ours", 0, "MAP", 0): 0.3000,
        ("cran", 1, "ours", 0, "MAP", 1): 0.2900,
        ("cran", 2, "BM25", 0, "MAP", 0): 0.3862,
    }
    twice = page_figures("| a | b |\n| --- | --- |\n| x | .1000 |\n| x | .2000 |")
    assert list(twice.values()) == [0.1, 0.2]


def test_scripts_compare_their_page_with_the_page_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reported = []
    conditions = read_conditions()
    pages = {
        "same": PAGE.replace("3.1", "4.2"),
        "near": PAGE.replace(".3862", ".3863"),
        "far": PAGE.replace(".3862", ".4862"),
        "less": PAGE.partition("| ours")[0],
        "more": PAGE + "| new | .5000 |\n",
        "none": "no table",
    }
    for name, text in pages.items():
        (tmp_path / f"{name}.py").write_text(f"open('page.md', 'w').write({text!r})")
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")

    def verdicts(*scripts):
        (tmp_path / "page.md").write_text(PAGE)
        commands = tuple((f"{script}.py",) for script in scripts)
        outcome = run_script(conditions, Script("s", commands, "page.md"), tmp_path, reported.append)
        return {verdict: outcome.count(verdict) for verdict in outcome}

    assert verdicts("same") == {"OK": 4}
    assert verdicts("near") == {"OK": 3, "OKish": 1}
    assert verdicts("far") == {"OK": 3, "FAIL": 1}
    assert any("cran · BM25 · MAP: 0.4862 (expected 0.3862) FAIL" in line for line in reported)
    assert verdicts("less") == {"OK": 1, "FAIL": 3}
    assert verdicts("more") == {"OK": 4, "new": 1}
    assert verdicts("none") == {"FAIL": 4}
    assert verdicts("same", "bad") == {"FAIL": 1}
    assert "bad.py failed with status 3" in reported[-1]
    with pytest.raises(InputError, match=r"s: gone.py is not here"):
        verdicts("gone")


def test_list(capsys):
    main(["--list"])
    out = capsys.readouterr().out
    assert "python -m kernelsearch.search --index INDEX --topics TOPICS --output RUN --rm3" in out and "nfcorpus" in out
