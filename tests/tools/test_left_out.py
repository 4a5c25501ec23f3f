"""docs/which-method.md's gains on collections left out, by settings chosen again from the saved figures."""

import json
import tomllib
from statistics import mean

import pytest

from tests.conftest import ROOT

FIGURES = json.loads((ROOT / "tools" / "reproduce" / "left_out.json").read_text(encoding="utf-8"))
PART = (ROOT / "docs" / "which-method.md").read_text(encoding="utf-8").partition("<!-- begin left-out -->")[2]
ROWS = [[cell.strip() for cell in line[1:-1].split("|")] for line in PART.partition("<!-- end")[0].splitlines() if "|" in line]
METHODS = [cell.strip("`") for cell in ROWS[0][1:]]
LANGUAGES = [name for name in FIGURES if name.startswith("xquadr_")]


def mean_of(gains):
    """Over collections, of which the languages of xquadr are one."""
    gains = dict(gains)
    languages = [gains.pop(name) for name in LANGUAGES if name in gains]
    return mean([*gains.values(), *([mean(languages)] if languages else [])])


def chosen_without(method, name):
    """The gain on a collection under the setting that is best on the others."""
    others = [other for other in FIGURES if other != name and not (name in LANGUAGES and other in LANGUAGES)]
    means = {
        setting: mean_of({other: FIGURES[other][method][setting] for other in others})
        for setting in FIGURES[name][method]
        if setting != "default"
    }
    return FIGURES[name][method][max(means, key=means.get)]


@pytest.mark.parametrize("method", METHODS)
def test_the_table_has_the_gains_on_the_collections_left_out(method):
    column = {row[0]: row[1 + METHODS.index(method)] for row in ROWS if len(row) == 1 + len(METHODS)}
    held_out = {name: chosen_without(method, name) for name in FIGURES}
    default = {name: FIGURES[name][method]["default"] for name in FIGURES}
    for name in FIGURES:
        assert column[name] == f"{held_out[name]:+z.1f} ({default[name]:+z.1f})"
    for label, gains in (("chosen on the others", held_out), ("default", default)):
        assert column[f"{label}: lowest to highest"] == f"{min(gains.values()):+z.0f} to {max(gains.values()):+z.0f}"
        assert float(column[f"{label}: mean"]) == pytest.approx(mean_of(gains), abs=0.051)


@pytest.mark.skipif(not (ROOT / "kernelsearch" / "papers").is_dir(), reason="the expected figures are in papers/")
def test_saved_gains_of_the_defaults_are_those_of_the_expected_figures():
    conditions = tomllib.loads((ROOT / "kernelsearch" / "papers" / "reproduce" / "conditions.toml").read_text(encoding="utf-8"))
    expected = {condition["name"]: condition.get("expected", {}) for condition in conditions["condition"]}
    assert len(FIGURES) == 11 and len(LANGUAGES) == 4
    for name in ("cran", "cacm", "cisi", "npl", "nfcorpus", "scifact"):
        for method in METHODS:
            gain = 100 * (expected[method.lower()][name]["AP"] / expected["bm25"][name]["AP"] - 1)
            assert FIGURES[name][method]["default"] == pytest.approx(gain, abs=0.1), (name, method)
