"""The short help of every verb: what it does, examples, then the options that most calls need."""

import importlib
import re

import pytest

from kernelsearch.__main__ import VERBS
from kernelsearch.cli.console import Parser


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
    assert rest[-1].startswith("more options: ") and "--max-line" not in rest[0]


@pytest.mark.parametrize("verb", VERBS)
def test_all_options_and_examples_are_one_flag_away(verb, capsys):
    everything = shown_help(capsys, verb, "--help-all")
    assert "--max-line" in everything and "examples:" in everything


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
