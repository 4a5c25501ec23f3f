"""The short help of every verb: what it does, examples, then the options that most calls need."""

import importlib
import json
import re

import pytest

from kernelsearch.__main__ import VERBS as ALL_VERBS
from kernelsearch.__main__ import main
from kernelsearch.cli.console import Parser
from tests.conftest import run_verb

#: Those that are installed: some are declared by kernelsearch.papers.
VERBS = [
    verb
    for verb in ALL_VERBS
    if verb not in ("classify", "ltr", "reproduce") or importlib.util.find_spec("kernelsearch.papers") is not None
]


def shown_help(capsys, verb, *flags):
    package = importlib.util.find_spec(f"kernelsearch.{verb}").submodule_search_locations is not None
    main = importlib.import_module(f"kernelsearch.{verb}.__main__" if package else f"kernelsearch.{verb}").main
    with pytest.raises(SystemExit) as exited:
        main([*flags])
    assert not exited.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_screen_and_begins_with_the_purpose_and_examples(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    usage, description, examples, *rest = shown_help(capsys, verb, "--help").split("\n\n")
    if verb == "demo":  # its description has two paragraphs
        examples = rest.pop(0)
    assert re.fullmatch(rf"usage: python -m kernelsearch\.{verb} \[options\].*", usage)
    assert description.endswith(".") and "python -m" not in description
    assert examples.startswith("examples:\n  python -m kernelsearch.") and not examples.endswith("\\")
    assert len("\n\n".join([usage, description, examples, *rest]).splitlines()) <= 48
    assert rest[-1].startswith("more options: ") and "--debug" not in rest[0]


@pytest.mark.parametrize("verb", VERBS)
def test_help_is_no_wider_than_the_terminal(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    parts = shown_help(capsys, verb, "--help").split("\n\n")
    # Examples are commands, which stay in one line, as the usage does.
    lines = [line for part in parts if not part.startswith(("examples:", "usage:")) for line in part.splitlines()]
    assert [line for line in lines if len(line) > 80] == []


def test_sentences_below_the_options_fill_their_lines(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown_help(capsys, "merge", "--help").partition("Parts are runs")[2].partition("\n\n")[0].splitlines()
    assert len(lines) > 2 and all(len(line) > 60 for line in lines[1:-1])


def test_help_names_the_command_as_it_was_called(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/kernelsearch", "search", "--help"])
    for flag in ("--help", "--help-all"):
        shown = shown_help(capsys, "search", flag)
        assert "python -m" not in shown and "  kernelsearch search --index indexes/cacm --query" in shown
    with pytest.raises(SystemExit):
        importlib.import_module("kernelsearch.search").main(["--ftzk", "x"])
    assert capsys.readouterr().err.startswith("kernelsearch search: unrecognized arguments: --ftzk")


def test_a_query_without_its_flag_names_the_flag(capsys):
    with pytest.raises(SystemExit) as exited:
        importlib.import_module("kernelsearch.search").main(["--index", "x", "dripping", "tap"])
    assert exited.value.code == 2
    assert "unrecognized arguments: dripping tap; a query is named by --query, in quotes" in capsys.readouterr().err


def test_the_explanation_of_a_similar_document_has_its_title(demo_index, capsys):
    importlib.import_module("kernelsearch.similar").main(
        ["--index", str(demo_index.path), "--docid", "hr129", "--explain", "hr036"]
    )
    explanation = capsys.readouterr().out.split("\n\n")[1]
    assert explanation.startswith("similar: hr036 “When to have the chimney swept” scores ") and "  cosine\n" in explanation


@pytest.mark.parametrize("verb", VERBS)
def test_all_options_and_examples_are_one_flag_away(verb, capsys):
    everything = shown_help(capsys, verb, "--help-all")
    assert "--debug" in everything and "examples:" in everything


def test_help_takes_the_name_of_a_verb(capsys):
    with pytest.raises(SystemExit):
        main(["help", "merge"])
    assert "Merges the run files" in capsys.readouterr().out


def test_help_of_a_verb_of_clicks(capsys):
    shown = shown_help(capsys, "clicks", "import", "--help")
    assert "Read logs into a database." in shown and "kernelsearch.clicks import --input monday.tsv" in shown
    assert "kernelsearch.clicks stats" not in shown


def test_examples_keep_the_lines_that_continue_them():
    parser = Parser(prog="x", epilog="examples:\n  x a \\\n    b\n  x c\n  x d\n  x e\n\nA remark.")
    text = parser.format_common()
    assert "  x a \\\n    b\n  x c\n  x d\n" in text and "x e" not in text and "A remark." in text


def test_an_empty_default_is_not_shown(capsys):
    assert "[]" not in shown_help(capsys, "index", "--help-all")


def test_reranked_lists_show_how_far_documents_moved(demo_index, capsys):
    importlib.import_module("kernelsearch.search").main(
        ["--index", str(demo_index.path), "--query", "fireplace fills room with smoke", "--rerank", "mslm", "--hits", "50"]
    )
    header, _, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["rank", "docid", "score", "moved", "text"]
    before = demo_index.search("fireplace fills room with smoke", k=50).docids
    for rank, line in enumerate(lines, 1):
        docid, moved = line.split()[1], line.split()[3]
        assert moved == ("=" if before[rank - 1] == docid else f"{before.index(docid) + 1 - rank:+d}")


def test_search_prints_json(demo_index, capsys):
    text = "fireplace fills room with smoke"
    verb = importlib.import_module("kernelsearch.search")
    verb.main(["--index", str(demo_index.path), "--query", text, "--rerank", "pert", "--hits", "5", "--json"])
    record = json.loads(capsys.readouterr().out)
    expected = demo_index.search(text, rerank="pert", k=5, hits=5)
    assert (record["query"], record["methods"]) == (text, ["pert"])
    assert [hit["docid"] for hit in record["hits"]] == expected.docids
    assert [(hit["rank"], hit["moved"]) for hit in record["hits"]] == list(enumerate(expected.moved(), 1))
    assert record["hits"][0]["text"] == expected[0].contents and record["hits"][0]["score"] == pytest.approx(expected[0].score)
    verb.main(["--index", str(demo_index.path), "--query", "zzyzx", "--json"])
    assert json.loads(capsys.readouterr().out)["hits"] == []
    with pytest.raises(SystemExit):
        verb.main(["--index", str(demo_index.path), "--topics", "t.tsv", "--output", "r.txt", "--json"])
    assert "--json: has no effect without --query" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", [("search", "--query", "fireplace smoke"), ("explain", "--query", "fireplace smoke"),
    ("explain", "--query", "fireplace smoke", "--rerank", "pert"), ("similar", "--docid", "hr129")])  # fmt: skip
def test_tables_fit_the_terminal(demo_index, capsys, monkeypatch, columns, command):
    monkeypatch.setenv("COLUMNS", str(columns))
    verb, *flags = command
    importlib.import_module(f"kernelsearch.{verb}").main(["--index", str(demo_index.path), *flags])
    table = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert table[0].endswith("text") and len(table) > 5 and max(map(len, table)) <= columns


def test_an_empty_result_says_what_to_try(demo_index, capsys):
    importlib.import_module("kernelsearch.search").main(["--index", str(demo_index.path), "--query", "zzyzx"])
    assert "no document matches 'zzyzx'; check the spelling, or use other words" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "flag", "message"),
    [
        ("search", "--max-line=3", "--max-line: gone; lines"),
        ("search", "--workers=2", "--workers: said in the engine: --engine dask:N"),
        ("train", "--ltr=f", "--ltr: python -m kernelsearch.ltr"),
    ],
)
def test_a_flag_that_a_verb_had_says_what_takes_its_place(verb, flag, message, capsys):
    status, _, error = run_verb(capsys, importlib.import_module(f"kernelsearch.{verb}").main, "--rerank", "klsa", flag)
    assert status == 2 and error.startswith(f"kernelsearch: {message}") and error.count("\n") == 1
