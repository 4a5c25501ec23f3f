"""Every picture is made by `new_figure` and written by `save_figure`: one format check, one way to get the same file twice."""

from __future__ import annotations

import threading
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.files import write_bytes
from kernelsearch.core.installed import install_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Formats by file name suffix.
FORMATS = {".png": "png", ".svg": "svg"}
#: matplotlib's settings are one dictionary per process; this lock covers the moment in which saving changes them.
_settings = threading.Lock()


def picture_format(path: str | Path) -> str:
    """The format that the file name `path` asks for, "png" or "svg"; anything else is an `InputError`. Needs no matplotlib."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"only {' and '.join(FORMATS)} can be drawn", path=path)
    return FORMATS[suffix]


def new_figure(width: float, height: float, *, dpi: float | None = None) -> Figure:
    """An empty figure that needs no display.

    `width` and `height` are in inches; `dpi` matters to code that measures texts in pixels before the figure is saved.
    Raises `OptionError` if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError(f"pictures need matplotlib; {install_command('plots')}") from None
    return Figure(figsize=(width, height), dpi=dpi, layout="constrained")


def literal_text(figure: Figure) -> None:
    """Shows dollar signs in the figure's texts as they are: queries and terms may contain them, formulas are not used here.

    `save_figure` does it; code that measures texts before has to call it first.
    """
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if isinstance(text, Text):
            text.set_parse_math(False)


def save_figure(figure: Figure, path: str | Path, *, dpi: int = 140) -> None:
    """Writes a figure as PNG or SVG, by the suffix of `path`; `dpi` is the resolution of a PNG.

    The same figure gives the same file: no date and no random ids. The file appears only when it is complete.
    """
    from matplotlib import rc_context

    kind = picture_format(path)
    literal_text(figure)
    content = BytesIO()
    # Tick labels are created while saving and read the setting then; ids have no other way to be fixed than the setting.
    with _settings, rc_context({"svg.hashsalt": "kernelsearch", "text.parse_math": False}):
        if kind == "svg":
            figure.savefig(content, format="svg", metadata={"Date": None})
        else:
            figure.savefig(content, format="png", dpi=dpi)
    write_bytes(path, content.getvalue())
