"""Saving a picture: format by suffix, the same file twice, dollar signs as they are, nothing half-written."""

import sys

import matplotlib
import pytest
from matplotlib.figure import Figure

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.plots.figures import new_figure, picture_format, save_figure


def drawing(title: str = "title") -> Figure:
    figure = new_figure(3, 2)
    axes = figure.add_subplot()
    axes.barh(["$a$", "b"], [1, 2])  # labels of categories are made when the figure is saved
    axes.plot([1, 2], [0, 1], clip_on=True)
    axes.set_title(title)
    return figure


def test_suffix_decides_the_format(tmp_path):
    save_figure(drawing(), tmp_path / "a.PNG")
    save_figure(drawing(), tmp_path / "new" / "a.svg")
    assert (tmp_path / "a.PNG").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "new" / "a.svg").read_bytes()
    assert (picture_format("x.Svg"), picture_format("x.png")) == ("svg", "png")


def test_resolution_is_of_the_png(tmp_path):
    save_figure(drawing(), tmp_path / "a.png", dpi=50)
    width, height = (int.from_bytes((tmp_path / "a.png").read_bytes()[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (150, 100)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_same_figure_gives_the_same_file(tmp_path, suffix):
    for name in ("one", "two"):
        save_figure(drawing(), tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_svg_has_no_date(tmp_path):
    save_figure(drawing(), tmp_path / "a.svg")
    assert "<dc:date>" not in (tmp_path / "a.svg").read_text()


def test_dollar_signs_are_not_formulas(tmp_path):
    # As a formula, the unclosed brace would be an error of matplotlib's.
    save_figure(drawing("$x_{$ costs $5"), tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    assert "$x_{$ costs $5" in drawn and "<!-- $a$ -->" in drawn


def test_settings_of_the_process_are_left_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    save_figure(drawing(), tmp_path / "a.svg")
    assert dict(matplotlib.rcParams) == before


def test_other_suffixes_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match=r"a\.pdf: only \.png and \.svg can be drawn"):
        save_figure(drawing(), tmp_path / "a.pdf")
    assert not list(tmp_path.iterdir())


def test_failure_keeps_the_previous_picture(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(b"previous")

    def fail(*arguments, **keywords):
        raise RuntimeError("drawing failed")

    figure = drawing()
    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(RuntimeError):
        save_figure(figure, path)
    assert path.read_bytes() == b"previous" and list(tmp_path.iterdir()) == [path]


def test_missing_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(OptionError, match=r"pictures need matplotlib; pip install .*\[plots\]"):
        new_figure(3, 2)
