"""Pipelines as TOML: reading, overriding, and making a run again from the file beside it."""

import tomllib

import pytest

from kernelsearch import search
from kernelsearch.api import config
from kernelsearch.cli.flags import make_parser, parse, read_pipeline
from kernelsearch.cli.search_settings import IN_CONFIG, SearchSettings
from kernelsearch.core.errors import InputError
from tests.conftest import DEMO


def read(tmp_path, text):
    (tmp_path / "c.toml").write_text(text)
    return config.read(tmp_path / "c.toml", IN_CONFIG)


def test_a_file_is_read_with_checked_values(tmp_path):
    result = read(
        tmp_path,
        'index = "i"\nbatch-size = 7\n[first-stage]\nk1 = 1\nrm3 = true\n'
        '[[rerank]]\nname = "pert"\nalpha = 0.3\n[made-with]\nx = 1\n',
    )
    assert result.verb == {"index": "i", "batch_size": 7} and result.made == {"x": 1}
    assert result.methods == ["pert"] and result.values == {"": {"k1": 1.0, "rm3": True}, "pert": {"alpha": 0.3}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("index = ", "c.toml: not a TOML file"),
        ("indx = 'i'", r"c.toml: indx: unknown option; did you mean index\?"),
        ("[first-stage]\nk1 = -1", "c.toml: k1: -1.0 is below 0"),
        ("[first-stage]\nk1 = true", "c.toml: k1: True is not a number"),
        ("[[rerank]]\nname = 'magic'", "c.toml: rerank: 'magic' is not one of"),
        ("[[rerank]]\nname = 'pert'\n[[rerank]]\nname = 'pert'", "c.toml: rerank='pert': given 2 times"),
        ("[[rerank]]\nname = 'pert'\nalhpa = 1", r"c.toml: pert_alhpa: unknown option; did you mean pert_alpha\?"),
        (
            "[[rerank]]\nname = 'klsa'\nscores = 'sum'\ncosine = true",
            r"c.toml: klsa_scores: an option of klsa-paper; remove or move also klsa\.cosine",
        ),
        ("rerank = 'pert'", "c.toml: rerank must be a list of tables"),
        ("first-stage = 3", "first-stage and made-with must be tables"),
    ],
)
def test_bad_files_are_refused_by_name_and_place(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_flags_override_the_file(tmp_path):
    text = 'index = "i"\n[first-stage]\nk1 = 1.2\nb = 0.1\n[[rerank]]\nname = "pert"\nalpha = 0.3\ndocs = 5\n'
    (tmp_path / "c.toml").write_text(text)
    parser = make_parser("search", "", "", SearchSettings.flags)
    arguments, _ = parse(parser, ["--config", str(tmp_path / "c.toml"), "--k1", "0.5", "--pert.alpha", "0.9"])
    spec = read_pipeline(arguments)
    assert arguments.index == "i" and (spec.first.k1, spec.first.b) == (0.5, 0.1) and spec.names == ["pert"]
    assert (spec.options()[0][1]["alpha"], spec.options()[0][1]["docs"]) == (0.9, 5)
    arguments, _ = parse(parser, ["--config", str(tmp_path / "c.toml"), "--rerank", "klsa"])
    assert read_pipeline(arguments).names == ["klsa"]


def test_what_is_written_can_be_read(tmp_path):
    verb = {"index": 'a "quoted" \\ päth\n', "threads": 3, "tag": None}
    config.write(
        tmp_path / "w.toml", verb, {"k1": 1e-7, "rm3": True}, [("pert", {"max_df": 0.25})], {"x": "y", "t": {"z": 1}}, "why"
    )
    result = config.read(tmp_path / "w.toml", IN_CONFIG)
    assert result.verb == {"index": verb["index"], "threads": 3} and result.made == {"x": "y", "t": {"z": 1}}
    assert result.methods == ["pert"] and result.values == {"": {"k1": 1e-7, "rm3": True}, "pert": {"max_df": 0.25}}


@pytest.fixture(scope="module")
def first_run(demo_index, tmp_path_factory):
    """A reranked run of the bundled collection and the folder that it stands in."""
    folder = tmp_path_factory.mktemp("runs")
    flags = ["--index", str(demo_index.path), "--topics", str(DEMO / "topics.tsv"), "--k1", "1.2", "--rm3-docs", "7"]
    search.main([*flags, "--rerank", "klsa", "--klsa.z", "3", "--rerank", "pert", "--output", str(folder / "a.txt")])
    return folder


def test_the_same_command_gives_the_same_bytes_with_any_threads_and_batches(first_run, demo_index):
    expected = (first_run / "a.txt").read_bytes()
    assert expected.count(b"\n") > 1000
    for number, flags in enumerate((["--threads", "1"], ["--threads", "4"], ["--threads", "2", "--batch-size", "5"])):
        output = first_run / f"again{number}.txt"
        search.main(["--config", str(first_run / "a.txt.toml"), "--output", str(output), *flags])
        assert output.read_bytes() == expected


def test_the_recipe_names_everything_the_run_depends_on(first_run, demo_index):
    recipe = tomllib.loads((first_run / "a.txt.toml").read_text())
    assert (
        recipe["first-stage"]["k1"] == 1.2 and recipe["first-stage"]["rm3"] is False and recipe["first-stage"]["rm3-docs"] == 7
    )
    assert recipe["rerank"][0]["name"] == "klsa" and recipe["rerank"][0]["z"] == 3
    made = recipe["made-with"]
    assert made["index-fingerprint"] == demo_index.fingerprint and len(made["topics-sha256"]) == 64
    assert {"kernelsearch", "numpy", "jar", "python"} <= set(made) and made["fitted-klsa"]["kernel"] == "bm25(k1=2,b=.75)"


def test_a_table_is_as_long_as_hits_says_where_it_was_given(first_run, demo_index, capsys):
    def printed(*flags):
        capsys.readouterr()
        search.main([*flags, "--query", "how to fix a wall or a door"])
        return len(capsys.readouterr().out.splitlines()) - 2

    index, matches = ["--index", str(demo_index.path)], demo_index.search("how to fix a wall or a door", k=1000)
    assert len(matches) > 20
    assert printed(*index) == printed("--config", str(first_run / "a.txt.toml")) == 10
    assert printed(*index, "--hits", "1000") == printed(*index, "--hits=1000") == len(matches)
    assert printed("--config", str(first_run / "a.txt.toml"), "--hits", "1000") >= len(matches)
    assert printed(*index, "--hits", "15") == 15


def test_a_changed_index_or_version_is_reported(first_run, demo_index, tmp_path, capsys):
    text = (first_run / "a.txt.toml").read_text()
    changed = text.replace(demo_index.fingerprint, "0" * 32).replace('kernelsearch = "', 'kernelsearch = "9.')
    (tmp_path / "old.toml").write_text(changed)
    search.main(["--config", str(tmp_path / "old.toml"), "--query", "dripping tap", "--hits", "3"])
    err = capsys.readouterr().err
    assert "not the index (or not its state) that this config was written for" in err and "kernelsearch: " in err
